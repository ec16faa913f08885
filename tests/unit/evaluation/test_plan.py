import json
from dataclasses import replace

import pytest
from pydantic import ValidationError

from mada.errors import EvaluationError
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.problems import Problem

SINGLE = PlannedSystem(name="single", title="One agent", generators=("g1",))
VOTE = PlannedSystem(name="vote", title="Vote of 3", generators=("g1",) * 3)
DEBATE = PlannedSystem(
    name="debate", title="Debate", generators=("g1", "g2"), critics=("c1",), rounds=2, parameters=110
)
MATCHED = PlannedSystem(name="matched", title="Vote", generators=("g1", "g2"), matched_to="debate")
FAMILY = PlannedSystem(name="family", title="Fewer", members=("single", "vote"))
SYSTEMS = [SINGLE, VOTE, DEBATE, MATCHED, FAMILY]


def problem(name):
    return Problem(question=f"What is {name}?", answer="1", id=name, source="here")


def test_a_plan_is_written_and_read():
    plan = EvaluationPlan.of([SINGLE, DEBATE], reference="single", benchmarks=["b", "a"])
    plan = plan.with_problems({"b": [problem("p"), problem("q")], "a": [problem("r")]})
    text = plan.to_json()
    common = {"draws": None, "rule": "vote", "matched_to": None, "match": "tokens", "members": [], "shown": True}
    plain = json.loads(text)
    digests = plain.pop("digests")
    assert {name: list(known) for name, known in digests.items()} == {"b": ["p", "q"], "a": ["r"]}
    assert plain == {
        "systems": [
            {
                "name": "single",
                "title": "One agent",
                "generators": ["g1"],
                "critics": [],
                "rounds": 1,
                "parameters": None,
                **common,
            },
            {
                "name": "debate",
                "title": "Debate",
                "generators": ["g1", "g2"],
                "critics": ["c1"],
                "rounds": 2,
                "parameters": 110,
                **common,
            },
        ],
        "reference": "single",
        "problems": {"b": 2, "a": 1},
        "benchmarks": ["b", "a"],
        "prompt_price": None,
    }
    assert EvaluationPlan.from_json(text) == plan


def test_a_problem_with_another_question_or_answer_is_named():
    plan = EvaluationPlan.of([SINGLE], reference="single", benchmarks=["b"])
    p, q = problem("p"), problem("q")
    first = plan.with_problems({"b": [p, q]})
    assert first.changed_problems(plan) == [], "a plan of an older mada knows no digests"
    assert plan.with_problems({"b": [q, p]}).changed_problems(first) == []
    assert plan.with_problems({"b": [p, replace(q, answer="0")]}).changed_problems(first) == ["b/q"]
    assert plan.with_problems({"b": [replace(p, question="?"), q]}).changed_problems(first) == ["b/p"]
    assert plan.with_problems({"b": [p]}).changed_problems(first) == ["b/q"]
    assert plan.with_problems({"b": [p, q, problem("r")]}).changed_problems(first) == ["b/r"]


def test_families_are_shown_and_not_held():
    plan = EvaluationPlan.of(SYSTEMS, reference="single")
    assert [system.name for system in plan.evaluated_systems] == ["single", "vote", "debate", "matched"]
    assert list(plan.members_of(FAMILY)) == ["single", "vote"]
    assert list(plan.members_of(VOTE)) == ["vote"]


def test_a_debate_is_measured_by_what_is_said_after_seeing_others():
    judge = DEBATE.model_copy(update={"rule": "pick"})
    assert [system.is_debate for system in (SINGLE, VOTE, DEBATE, judge)] == [False, False, True, False]


def test_a_matched_system_lets_its_generators_take_turns():
    longer = MATCHED.with_generators(3)
    assert longer.generators == ("g1", "g2", "g1")
    assert longer.draws == (0, 1, 2)
    # Whoever begins, the first two samples are those that a debate of the two has.
    later = MATCHED.with_generators(5, start=3)
    assert (later.generators, later.draws) == (("g2", "g1", "g2", "g1", "g2"), (1, 0, 3, 2, 5))
    assert longer.with_generators(1) == MATCHED.model_copy(update={"generators": ("g1",), "draws": (0,)})


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({}, "no generators"),
        ({"generators": ("g1",), "rounds": 2}, "2 rounds and no critics"),
        ({"generators": ("g1",), "members": ("single",)}, "no agents of its own"),
        ({"members": ("single",), "matched_to": "debate"}, "no agents of its own"),
    ],
)
def test_systems_that_nobody_can_hold(fields, complaint):
    with pytest.raises(ValidationError, match=complaint):
        PlannedSystem(name="s", title="S", **fields)


@pytest.mark.parametrize(
    ("systems", "reference", "complaint"),
    [
        (SYSTEMS, "other", "'other' is none of the systems single, vote, debate, matched, family"),
        ([*SYSTEMS, VOTE], "single", "'vote' is given to several systems"),
        ([], "single", "systems"),
        ([SINGLE, FAMILY], "single", "'family' needs the system 'vote', which is not in this evaluation"),
        ([SINGLE, MATCHED], "single", "'matched' needs the system 'debate', which is not in this evaluation"),
        (
            [*SYSTEMS, FAMILY.model_copy(update={"name": "more", "members": ("matched",)})],
            "single",
            "'more' needs 'matched' to have agents of its own, and a fixed number",
        ),
        ([SINGLE.model_copy(update={"shown": False})], "single", "'single' is not shown"),
    ],
)
def test_plans_that_do_not_hold_together(systems, reference, complaint):
    with pytest.raises(EvaluationError, match=complaint):
        EvaluationPlan.of(systems, reference=reference)


@pytest.mark.parametrize("text", ["", "[]", '{"systems": [{"name": "a"}], "reference": "a"}'])
def test_files_that_are_no_plan(text):
    with pytest.raises(EvaluationError, match="not the plan of an evaluation"):
        EvaluationPlan.from_json(text)


def test_a_matched_system_needs_to_know_how_long_its_samples_are():
    debate = PlannedSystem(name="debate", title="Debate", generators=("a", "b"), critics=("c",), rounds=2)
    vote = PlannedSystem(name="vote", title="Vote", generators=("a", "d"), matched_to="debate")
    with pytest.raises(EvaluationError, match="add a system of fixed size with d among its generators"):
        EvaluationPlan.of([debate, vote], reference="debate")
    single = PlannedSystem(name="single", title="Single", generators=("d",))
    assert EvaluationPlan.of([debate, vote, single], reference="debate").reference_system == debate
