"""The list of stages: which a recipe has, which are done again, and what is forgotten for it."""

import gc
import weakref
from types import SimpleNamespace

import pytest

from factories import stage_result
from mada.errors import RunError
from mada.pipeline.running import refuse_gaps, run_recipe
from mada.pipeline.stages import STAGE_NAMES, stage_names

FILES = {
    "split": ("split.json", "records/problems.jsonl"),
    "screen": ("records/screenings.jsonl",),
    "generators": ("generators/metrics.jsonl", "generators/checkpoints/step-1/x", "adapters/generator-1/x"),
    "critic-data": ("records/critic-examples.jsonl",),
    "critics": ("critics/metrics.jsonl", "adapters/critic-1/x", "adapters/critic-12/x"),
    "evaluate": ("evaluation.json", "records/scores.jsonl", "records/transcripts.jsonl"),
    "report": ("report.md", "report.html", "report/tables/x.tex"),
}
"""What the stages leave: by it, what `--from` removes is told."""
ALL = ("data.screen=2",)
"""What a recipe must say to have every stage."""


@pytest.fixture
def pretended(monkeypatch):
    """Stages that write the files of the real ones and note that they ran."""
    ran = []

    def pretend(stage):
        async def function(context):
            ran.append(stage)
            for name in FILES[stage]:
                context.run.write_text(name, stage)
            return stage_result({"did": stage})

        return function

    monkeypatch.setattr("mada.pipeline.running.FUNCTIONS", {name: pretend(name) for name in STAGE_NAMES})
    # Collecting all garbage of a test process takes a quarter of a second, for every stage.
    monkeypatch.setattr("mada.pipeline.running.gc", SimpleNamespace(collect=lambda: None))
    return ran


def ages(run):
    return {name: run.path(name).stat().st_mtime_ns for files in FILES.values() for name in files}


@pytest.mark.parametrize("team", [("team.critics=0", "team.rounds=1"), ("team.rounds=1",)])
def test_a_team_without_later_rounds_trains_no_critics(tiny, team):
    assert stage_names(tiny(*team)) == ("split", "generators", "evaluate", "report")
    with pytest.raises(RunError, match="no stage 'critics'; choose from split, generators, eval"):
        stage_names(tiny(*team), last="critics")


def test_stages_from_one_to_another(tiny):
    recipe = tiny(*ALL)
    assert stage_names(recipe) == STAGE_NAMES
    assert stage_names(recipe, last="split") == ("split",)
    assert stage_names(recipe, first="critics", last="evaluate") == ("critics", "evaluate")
    assert stage_names(recipe, first="report") == ("report",)
    with pytest.raises(RunError, match="split comes before critics; the stages are split, screen, generators"):
        stage_names(recipe, first="critics", last="split")


RESULTS = sorted(
    name
    for stage, files in FILES.items()
    if stage != "report"
    for name in files
    if "metrics" not in name
    if "checkpoints" not in name
)


@pytest.mark.parametrize("name", RESULTS)
def test_one_flipped_bit_in_a_finished_stages_result_is_named(tiny, opened, pretended, name):
    context = opened(tiny(*ALL))
    run_recipe(context.run, context.recipe, events=context.events)
    run_recipe(context.run, context.recipe, events=context.events)
    file = context.run.path(name)
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(RunError, match=f"{name} is damaged"):
        run_recipe(context.run, context.recipe, events=context.events)
    [stage] = [stage for stage, files in FILES.items() if name in files]
    run_recipe(context.run, context.recipe, events=context.events, first=stage)


class RefersToItself:
    def __init__(self):
        self.itself = self


def test_what_a_stage_had_in_memory_is_gone_when_the_next_begins(tiny, opened, monkeypatch):
    """Even what refers to itself, as a model does whose activations are recomputed."""
    made, alive = [], []

    async def function(context):
        alive.append(any(reference() is not None for reference in made))
        made.append(weakref.ref(RefersToItself()))
        return stage_result({})

    monkeypatch.setattr("mada.pipeline.running.FUNCTIONS", dict.fromkeys(STAGE_NAMES, function))
    context = opened(tiny())
    gc.disable()
    try:
        run_recipe(context.run, context.recipe, events=context.events, last="critics")
    finally:
        gc.enable()
    assert alive == [False] * 4


def test_stages_run_in_order_and_finished_ones_are_skipped(tiny, opened, pretended):
    context = opened(tiny(*ALL))
    run_recipe(context.run, context.recipe, events=context.events, last="critic-data")
    assert pretended == ["split", "screen", "generators", "critic-data"]
    assert context.events.stages[:3] == ["split 1/4", "split done", "screen 2/4"]
    run_recipe(context.run, context.recipe, events=context.events)
    assert pretended == list(STAGE_NAMES)
    assert context.events.stages[8:14] == [
        "split skipped",
        "screen skipped",
        "generators skipped",
        "critic-data skipped",
        "critics 5/7",
        "critics done",
    ]
    assert [mark.summary for mark in context.run.finished_stages()] == [{"did": name} for name in STAGE_NAMES]


@pytest.mark.parametrize("first", STAGE_NAMES)
def test_a_stage_that_is_done_again_forgets_itself_and_all_after_it_and_nothing_before(tiny, opened, pretended, first):
    context = opened(tiny(*ALL))
    run_recipe(context.run, context.recipe, events=context.events)
    context.run.write_text("notes.txt", "mine")
    context.run.write_text("adapters/borrowed/x", "mine")
    before, marks = ages(context.run), {mark.name: mark.ended_at for mark in context.run.finished_stages()}
    run_recipe(context.run, context.recipe, events=context.events, first=first, last=first)
    index = STAGE_NAMES.index(first)
    assert pretended[7:] == [first]
    assert [mark.name for mark in context.run.finished_stages()] == list(STAGE_NAMES[: index + 1])
    for name in STAGE_NAMES[:index]:
        assert [context.run.path(file).stat().st_mtime_ns for file in FILES[name]] == [before[f] for f in FILES[name]]
    assert {m.name: m.ended_at for m in context.run.finished_stages()[:-1]} == {
        n: marks[n] for n in STAGE_NAMES[:index]
    }
    later = [file for name in STAGE_NAMES[index + 1 :] for file in FILES[name]]
    assert not [file for file in later if context.run.path(file).exists()]
    assert context.run.path("notes.txt").read_text() == "mine"
    assert context.run.path("adapters/borrowed/x").read_text() == "mine"


def test_what_cannot_be_done_is_refused_before_anything_is_forgotten(tiny, opened, pretended):
    context = opened(tiny(*ALL))
    run_recipe(context.run, context.recipe, events=context.events)
    before = ages(context.run)
    for first, last, complaint in [
        ("critics", "split", "split comes before critics"),
        ("nonsense", None, "no stage 'nonsense'"),
        ("split", "nonsense", "no stage 'nonsense'"),
    ]:
        with pytest.raises(RunError, match=complaint):
            run_recipe(context.run, context.recipe, events=context.events, first=first, last=last)
    assert ages(context.run) == before
    assert len(context.run.finished_stages()) == 7


def test_gaps_are_refused_with_what_to_do_about_them(tiny, opened, pretended):
    context = opened(tiny(*ALL))
    run_recipe(context.run, context.recipe, events=context.events, last="generators")
    before = [context.run.path(file).stat().st_mtime_ns for file in FILES["generators"]]
    with pytest.raises(RunError) as caught:
        run_recipe(context.run, context.recipe, events=context.events, first="evaluate")
    assert str(caught.value) == (
        f"evaluate needs the stage critic-data, which is not finished in {context.run.folder}; "
        f"`mada run --run {context.run.folder} --until critics` does it"
    )
    assert [context.run.path(file).stat().st_mtime_ns for file in FILES["generators"]] == before
    refuse_gaps(context.run, context.recipe, before="critic-data")
    refuse_gaps(context.run, context.recipe, before="split")


def test_a_stage_that_fails_leaves_no_mark_and_the_next_does_not_begin(tiny, opened, pretended, monkeypatch):
    context = opened(tiny(*ALL))

    async def failing(context):
        context.run.write_text("evaluation.json", "half")
        raise RunError("the disk is full")

    from mada.pipeline import running

    monkeypatch.setattr(running, "FUNCTIONS", {**running.FUNCTIONS, "evaluate": failing})
    with pytest.raises(RunError, match="the disk is full"):
        run_recipe(context.run, context.recipe, events=context.events)
    assert pretended == list(STAGE_NAMES[:5])
    assert [mark.name for mark in context.run.finished_stages()] == list(STAGE_NAMES[:5])
