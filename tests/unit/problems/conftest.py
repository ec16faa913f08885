from collections.abc import Callable
from pathlib import Path

import pytest

from mada.problems import Problem


@pytest.fixture(autouse=True)
def without_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MADA_DATA", raising=False)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a file into the test's folder, text as UTF-8."""

    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


@pytest.fixture
def problem() -> Callable[..., Problem]:
    """A problem of which only the interesting fields are given."""

    def make(question: str, answer: str = "1", name: str | None = None) -> Problem:
        return Problem(question=question, answer=answer, id=name or question, source="test")

    return make
