"""Every kind of system, as the table of shapes in `plan` says."""

import pytest

from mada.evaluation.kinds import agents_alone, best_by_critics, debate_of, judged, vote_of
from mada.evaluation.plan import PlannedSystem


@pytest.mark.parametrize(
    ("made", "fields"),
    [
        (agents_alone("n", "T", ["a"]), {"generators": ("a",)}),
        (agents_alone("n", "T", ["a", "b"]), {"generators": ("a", "b")}),
        (
            vote_of("n", "T", ["a", "b"]),
            {"generators": ("a", "b"), "draws": (0, 1)},
        ),
        (
            vote_of("n", "T", ["a", "b"], samples=5),
            {"generators": ("a", "b", "a", "b", "a"), "draws": (0, 1, 2, 3, 4)},
        ),
        (
            vote_of("n", "T", ["a", "b"], samples=1, weighted=True),
            {"generators": ("a",), "draws": (0,), "rule": "weigh"},
        ),
        (
            vote_of("n", "T", ["a", "b"], matched_to="other"),
            {"generators": ("a", "b"), "matched_to": "other"},
        ),
        (
            judged("n", "T", ["a"], judge="j", samples=2),
            {
                "generators": ("a", "a"),
                "draws": (0, 1),
                "critics": ("j",),
                "rounds": 2,
                "rule": "pick",
            },
        ),
        (
            judged("n", "T", ["a"], judge="j", matched_to="other"),
            {
                "generators": ("a",),
                "critics": ("j",),
                "rounds": 2,
                "rule": "pick",
                "matched_to": "other",
            },
        ),
        (
            best_by_critics("n", "T", ["a", "b"], critics=["c", "d"], samples=3),
            {
                "generators": ("a", "b", "a"),
                "draws": (0, 1, 2),
                "critics": ("c", "d"),
                "rounds": 2,
                "rule": "pick",
            },
        ),
        (
            debate_of("n", "T", ["a", "b"], critics=["c"], rounds=3),
            {"generators": ("a", "b"), "critics": ("c",), "rounds": 3},
        ),
        (debate_of("n", "T", ["a", "b"], critics=["c"], rounds=1), {"generators": ("a", "b")}),
    ],
)
def test_kinds(made, fields):
    assert made == PlannedSystem(name="n", title="T", **fields)


def test_only_debates_are_debates():
    rivals = [
        agents_alone("n", "T", ["a"]),
        vote_of("n", "T", ["a"], samples=3),
        judged("n", "T", ["a"], judge="j", samples=3),
        best_by_critics("n", "T", ["a"], critics=["c"], samples=3),
        debate_of("n", "T", ["a"], critics=["c"], rounds=1),
    ]
    assert not any(system.is_debate for system in rivals)
    assert debate_of("n", "T", ["a"], critics=["c"], rounds=2).is_debate


def test_a_larger_vote_holds_the_smaller_one():
    six, three = vote_of("n", "T", ["a", "b"], samples=6), vote_of("n", "T", ["a", "b"], samples=3)
    assert (six.generators[:3], six.draws and six.draws[:3]) == (three.generators, three.draws)
