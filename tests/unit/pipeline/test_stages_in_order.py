"""The list of stages: which a recipe has, which are done again, and what is forgotten for it."""

import gc
import weakref

import pytest

from mada.errors import RunError
from mada.pipeline.running import refuse_gaps, run_recipe
from mada.pipeline.stages import NAMES, STAGES, StageOfMethod, chosen

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
            ran.append(stage.name)
            for name in FILES[stage.name]:
                context.run.write_text(name, stage.name)
            return {"did": stage.name}

        return StageOfMethod(stage.name, function, stage.leaves)

    monkeypatch.setattr("mada.pipeline.stages.STAGES", tuple(pretend(stage) for stage in STAGES))
    return ran


def ages(run):
    return {name: run.path(name).stat().st_mtime_ns for files in FILES.values() for name in files}


def names(stages):
    return [stage.name for stage in stages]


def test_the_method_has_six_stages_and_one_for_those_who_want_it():
    assert NAMES == ("split", "screen", "generators", "critic-data", "critics", "evaluate", "report")


def test_the_command_line_knows_the_same_names_without_loading_anything():
    from mada.pipeline.outline import OUTLINE

    assert tuple(OUTLINE) == NAMES


@pytest.mark.parametrize("team", [("team.critics=0", "team.rounds=1"), ("team.rounds=1",)])
def test_a_team_without_later_rounds_trains_no_critics(tiny, team):
    assert names(chosen(tiny(*team))) == ["split", "generators", "evaluate", "report"]
    with pytest.raises(RunError, match="'critics' is no stage of this recipe; its stages are split, generators, eval"):
        chosen(tiny(*team), last="critics")


def test_stages_from_one_to_another(tiny):
    recipe = tiny(*ALL)
    assert names(chosen(recipe)) == list(NAMES)
    assert names(chosen(recipe, last="split")) == ["split"]
    assert names(chosen(recipe, first="critics", last="evaluate")) == ["critics", "evaluate"]
    assert names(chosen(recipe, first="report")) == ["report"]
    with pytest.raises(RunError, match="split comes before critics; the stages are split, screen, generators"):
        chosen(recipe, first="critics", last="split")


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
        return {}

    stages = tuple(StageOfMethod(stage.name, function, ()) for stage in STAGES)
    monkeypatch.setattr("mada.pipeline.stages.STAGES", stages)
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
    assert pretended == list(NAMES)
    assert context.events.stages[8:14] == [
        "split skipped",
        "screen skipped",
        "generators skipped",
        "critic-data skipped",
        "critics 5/7",
        "critics done",
    ]
    assert [mark.summary for mark in context.run.finished_stages()] == [{"did": name} for name in NAMES]


@pytest.mark.parametrize("first", NAMES)
def test_a_stage_that_is_done_again_forgets_itself_and_all_after_it_and_nothing_before(tiny, opened, pretended, first):
    context = opened(tiny(*ALL))
    run_recipe(context.run, context.recipe, events=context.events)
    context.run.write_text("notes.txt", "mine")
    context.run.write_text("adapters/borrowed/x", "mine")
    before, marks = ages(context.run), {mark.name: mark.ended_at for mark in context.run.finished_stages()}
    run_recipe(context.run, context.recipe, events=context.events, first=first, last=first)
    place = NAMES.index(first)
    assert pretended[7:] == [first]
    assert [mark.name for mark in context.run.finished_stages()] == list(NAMES[: place + 1])
    for name in NAMES[:place]:
        assert [context.run.path(file).stat().st_mtime_ns for file in FILES[name]] == [before[f] for f in FILES[name]]
    assert {m.name: m.ended_at for m in context.run.finished_stages()[:-1]} == {n: marks[n] for n in NAMES[:place]}
    later = [file for name in NAMES[place + 1 :] for file in FILES[name]]
    assert not [file for file in later if context.run.path(file).exists()]
    assert context.run.path("notes.txt").read_text() == "mine"
    assert context.run.path("adapters/borrowed/x").read_text() == "mine"


def test_a_stage_begins_without_its_own_old_files(tiny, opened, pretended):
    context = opened(tiny(*ALL))
    run_recipe(context.run, context.recipe, events=context.events)
    context.run.write_text("critics/checkpoints/old", "of the last time")
    run_recipe(context.run, context.recipe, events=context.events, first="critics")
    assert not context.run.path("critics/checkpoints/old").exists()
    assert pretended[7:] == ["critics", "evaluate", "report"]


def test_what_cannot_be_done_is_refused_before_anything_is_forgotten(tiny, opened, pretended):
    context = opened(tiny(*ALL))
    run_recipe(context.run, context.recipe, events=context.events)
    before = ages(context.run)
    for first, last, complaint in [
        ("critics", "split", "split comes before critics"),
        ("nonsense", None, "'nonsense' is no stage"),
        ("split", "nonsense", "'nonsense' is no stage"),
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


def test_a_stage_that_the_recipe_does_not_have_is_named_as_that(tiny, opened):
    context = opened(tiny("team.rounds=1"))
    with pytest.raises(RunError, match="'critics' is no stage of this recipe"):
        refuse_gaps(context.run, context.recipe, before="critics")


def test_a_stage_that_fails_leaves_no_mark_and_the_next_does_not_begin(tiny, opened, pretended, monkeypatch):
    context = opened(tiny(*ALL))

    async def failing(context):
        context.run.write_text("evaluation.json", "half")
        raise RunError("the disk is full")

    from mada.pipeline import stages

    broken = [
        StageOfMethod(one.name, failing if one.name == "evaluate" else one.function, one.leaves)
        for one in stages.STAGES
    ]
    monkeypatch.setattr("mada.pipeline.stages.STAGES", tuple(broken))
    with pytest.raises(RunError, match="the disk is full"):
        run_recipe(context.run, context.recipe, events=context.events)
    assert pretended == list(NAMES[:5])
    assert [mark.name for mark in context.run.finished_stages()] == list(NAMES[:5])
