"""The public names: lazy, documented, and usable in a notebook, where an event loop is already running."""

import asyncio
import subprocess
import sys

import pytest
from tests.factories import TINY_RECIPE

import mada
from mada import concurrency
from mada.concurrency import run_sync
from mada.events import Events, StageFinished, StageSkipped

EVALUATION = {
    "name": "one-agent",
    "benchmarks": ["abacus-easy"],
    "problems": 2,
    "seeds": 1,
    "inference": {"max_new_tokens": 32},
    "grading": {"workers": 1},
    "agents": {"model": {"model": "mada-nano"}},
    "systems": [{"kind": "single", "agents": ["model"]}],
}


def in_a_notebook(function):
    async def cell():
        return function()

    return asyncio.run(cell())


@pytest.mark.parametrize("name", [name for name in mada.__all__ if name != "__version__"])
def test_every_public_name_is_there_and_documented(name):
    assert getattr(mada, name).__doc__
    assert name in (mada.__doc__ or "")


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing_of_ours"):
        mada.nothing_of_ours  # noqa: B018


def test_importing_mada_loads_nothing_heavy():
    code = "import sys, mada; print(sorted({'torch', 'transformers', 'sympy', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_a_run_in_a_notebook_goes_on_where_it_stopped(tmp_path):
    recipe, folder, seen = tmp_path / "tiny.toml", tmp_path / "run", []
    recipe.write_text(TINY_RECIPE)
    changes = ["data.train=abacus-short", "training.steps=1"]
    first = in_a_notebook(lambda: mada.run(recipe, folder, overrides=changes, last="split"))
    assert [mark.name for mark in first.finished_stages()] == ["split"]
    events = Events(lambda event: seen.append(type(event)))
    again = in_a_notebook(lambda: mada.run(recipe, folder, overrides=changes, last="generators", events=events))
    assert [mark.name for mark in again.finished_stages()] == ["split", "generators"]
    assert [seen[0], seen[-1]] == [StageSkipped, StageFinished]


def test_an_evaluation_in_a_notebook(tmp_path):
    stored = in_a_notebook(lambda: mada.evaluate(EVALUATION, tmp_path / "results"))
    assert [mark.name for mark in stored.finished_stages()] == ["evaluate", "report"]
    assert stored.path("report.html").is_file()


def test_interrupting_a_notebook_cancels_what_runs(monkeypatch):
    cancelled = []

    async def endless():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    def interrupted(self, timeout=None):
        raise KeyboardInterrupt

    def cell():
        with monkeypatch.context() as patch:
            result = concurrency.Future.result
            calls = []

            def once(self, timeout=None):
                calls.append(self)
                return interrupted(self) if len(calls) == 1 else result(self, timeout)

            patch.setattr(concurrency.Future, "result", once)
            run_sync(endless())

    with pytest.raises(KeyboardInterrupt):
        in_a_notebook(cell)
    assert cancelled == [True]
