import json

import pytest

from mada.errors import EvaluationError
from mada.evaluation.plan import EvaluationPlan
from mada.evaluation.systems import System


class Nobody:
    name = "nobody"

    async def answer(self, question, seen, *, seed):
        raise NotImplementedError


SYSTEMS = [
    System("single", "One agent", (Nobody(),)),
    System("vote", "Vote of 3", (Nobody(),) * 3, measure="vote"),
    System("debate", "Debate", (Nobody(),) * 3, (Nobody(),) * 3, rounds=2),
]


def test_a_plan_is_written_and_read():
    plan = EvaluationPlan.of(SYSTEMS, reference="single", benchmarks=["b", "a"])
    text = plan.to_json()
    assert json.loads(text) == {
        "systems": [
            {"name": "single", "title": "One agent", "measure": "mean", "calls": 1},
            {"name": "vote", "title": "Vote of 3", "measure": "vote", "calls": 3},
            {"name": "debate", "title": "Debate", "measure": "mean", "calls": 6},
        ],
        "reference": "single",
        "benchmarks": ["b", "a"],
    }
    assert EvaluationPlan.from_json(text) == plan


@pytest.mark.parametrize(
    ("systems", "reference", "complaint"),
    [
        (SYSTEMS, "other", "'other' is none of the systems single, vote, debate"),
        ([*SYSTEMS, SYSTEMS[1]], "single", "'vote' is given to several systems"),
        ([], "single", "systems"),
    ],
)
def test_plans_that_do_not_hold_together(systems, reference, complaint):
    with pytest.raises(EvaluationError, match=complaint):
        EvaluationPlan.of(systems, reference=reference)


@pytest.mark.parametrize("text", ["", "[]", '{"systems": [{"name": "a"}], "reference": "a"}'])
def test_files_that_are_no_plan(text):
    with pytest.raises(EvaluationError, match="not the plan of an evaluation"):
        EvaluationPlan.from_json(text)
