"""`mada watch`: what it refuses; tests/browser/test_watch_page.py types what works."""

import socket
import sys

import pytest


def test_a_place_that_is_no_folder_is_refused(refused, tmp_path):
    assert "is not a folder" in refused("watch", tmp_path / "nowhere")


def test_a_port_in_use_is_refused(refused, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "--port" in refused("watch", tmp_path, "--port", taken.getsockname()[1])


@pytest.mark.parametrize("package", ["uvicorn", "sse_starlette"])
def test_a_missing_package_is_named_with_the_extra_that_has_it(refused, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    message = refused("watch")
    assert package in message
    assert "pip install 'mada-rl[serve]'" in message
