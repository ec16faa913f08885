"""`mada serve`: what it refuses before anything is loaded; tests/integration/test_serve_*.py use what works."""

import socket
import sys

import pytest


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["runs/nowhere"], "runs/nowhere"),
        (["runs/one", "--model", "mada-nano"], "--model"),
        (["--store", "a.sqlite", "--no-store"], "--no-store"),
        (["--host", "no such host"], "--host"),
    ],
)
def test_mistakes_are_named(refused, words, named):
    assert named in refused("serve", *words)


def test_a_port_in_use_is_refused(refused):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "--port" in refused("serve", "--port", taken.getsockname()[1])


def test_a_key_that_no_client_can_send_is_refused(refused, monkeypatch):
    monkeypatch.setenv("MADA_SERVE_KEYS", "fine, not fine")
    assert "MADA_SERVE_KEYS" in refused("serve")


@pytest.mark.parametrize("package", ["fastapi", "prometheus_client"])
def test_a_missing_package_is_named_with_the_extra_that_has_it(refused, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    message = refused("serve")
    assert package in message
    assert "pip install 'mada-rl[serve]'" in message
