"""A tiny recipe on problems from a file, runs of it, and replies that a test writes in place of the model's."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from factories import TINY_RECIPE
from mada.events import Events, Progress, StageFinished, StageSkipped, StageStarted
from mada.models.adapters import AdapterStack, Lora
from mada.models.adapters.peft_files import save_adapter
from mada.models.engines import EngineStatistics, ScriptedEngine
from mada.models.loading import load_base
from mada.pipeline.context import Context
from mada.problems import load_problems
from mada.recipe import load_recipe
from mada.runs import Run


@pytest.fixture(autouse=True)
def no_trace(monkeypatch):
    """Leave the process's threads as they are, and stay on the CPU."""
    monkeypatch.setattr("torch.set_num_threads", lambda count: None)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)


@pytest.fixture(scope="session")
def problems_file(tmp_path_factory):
    """43 problems: 40 of their own, two of the benchmark abacus-easy, one there twice."""
    rows = [
        {"problem": one.question, "answer": one.answer, "id": f"p{place:02d}"}
        for place, one in enumerate(load_problems("abacus-hard", limit=40))
    ]
    easy = load_problems("abacus-easy", limit=2)
    rows += [{"problem": f" {one.question} ", "answer": one.answer, "id": f"copy-{one.id[-1]}"} for one in easy]
    rows.append({**rows[0], "id": "p00-again"})
    path = tmp_path_factory.mktemp("problems") / "problems.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def tiny(tmp_path, problems_file):
    """Make the tiny recipe, with fields set as on the command line."""

    def make(*overrides):
        file = tmp_path / "tiny.toml"
        file.write_text(TINY_RECIPE)
        return load_recipe(file, overrides=[f"data.train={problems_file}", *overrides])

    return make


class RecordedEvents(Events):
    """Remembers the progress, and what was done of each stage."""

    def __init__(self):
        super().__init__(self._record)
        self.stages, self.recorded = [], []

    def _record(self, event):
        self.recorded.append(event)
        match event:
            case StageStarted(name, number, of):
                self.stages.append(f"{name} {number}/{of}")
            case StageSkipped(mark):
                self.stages.append(f"{mark.name} skipped")
            case StageFinished(mark):
                self.stages.append(f"{mark.name} done")

    @property
    def progress_seen(self):
        return [(one.done, one.of, one.note) for one in self.recorded if isinstance(one, Progress)]


@pytest.fixture
def opened(tmp_path):
    """Open a run of a recipe, or go on with it, until the test ends."""
    runs = []

    def open_run(recipe, name="run"):
        for run in runs:
            run.close()
        runs.append(Run.open(tmp_path / name, recipe))
        return Context(runs[-1], recipe, RecordedEvents())

    yield open_run
    for run in runs:
        run.close()


@pytest.fixture(scope="session")
def base():
    return load_base("mada-nano", device="cpu")


@pytest.fixture(scope="session")
def adapter_files(tmp_path_factory):
    """Two adapters on the base that differ from each other and from a blank one, as folders."""
    base = load_base("mada-nano", device="cpu")
    stack = AdapterStack.attach(base.model, ("first", "second"), Lora(4, 8.0, dropout=0.0))
    generator = torch.Generator().manual_seed(5)
    folders = {}
    for agent in stack.agents:
        own = stack.tensors(agent)
        stack.assign(agent, {name: torch.randn(one.shape, generator=generator) * 0.01 for name, one in own.items()})
        folders[agent] = tmp_path_factory.mktemp("adapters") / agent
        save_adapter(stack, agent, folders[agent], base_name="mada-nano")
    return folders


@pytest.fixture
def with_adapters(adapter_files):
    """Give every agent of a run an adapter, as if it had been trained."""

    def give(context):
        for agent in (*context.agents("generator"), *context.agents("critic")):
            shutil.copytree(adapter_files["first"], context.adapter(agent))

    return give


class SlottedEngine(ScriptedEngine):
    """Also says how many rows it has, and keeps how long they are and which adapters it was made with."""

    slots = 4

    def __init__(self, script, stack, *, context, alone):
        super().__init__(script)
        self.context = context
        self.alone = alone
        self.statistics = EngineStatistics()
        # Blank adapters have a B of zeros; files of trained ones have none.
        agents = stack.agents if stack else ()
        self.trained = [agent for agent in agents if all(map(torch.any, stack.tensors(agent).values()))]


@pytest.fixture
def scripted(monkeypatch, base):
    """Put a function in the model's place: `reply(agent, prompt, seed)` is what is said. Returns the engines made."""
    engines = []

    def install(reply):
        def script(request):
            prompt = base.tokenizer.decode(list(request.prompt_ids))
            # In an evaluation an agent's adapter goes by its folder, whose name is the seat's.
            agent = request.agent and Path(request.agent).name
            said = reply(agent, prompt, request.sampling.seed)
            return [*base.tokenizer.encode(said, add_special_tokens=False), base.tokenizer.eos_token_id]

        def make(model, stack, *, context, rows, alone):
            engines.append(SlottedEngine(script, stack, context=context, alone=alone))
            return engines[-1]

        monkeypatch.setattr("mada.models.engines.starting.LocalEngine", make)
        return engines

    return install
