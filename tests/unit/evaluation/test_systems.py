"""Kinds of systems, each as the table of shapes in `plan` says, and who shares samples with whom."""

import asyncio
from dataclasses import dataclass, field

import pytest

from mada.debate.transcript import Response, Turn
from mada.evaluation.plan import PlannedSystem
from mada.evaluation.queue import run_system
from mada.evaluation.systems import best_of_n, debate_system, llm_judge, majority_vote, single_agents
from mada.seeds import seed_for


@pytest.mark.parametrize(
    ("made", "fields"),
    [
        (single_agents("n", "T", ["a", "b"]), {"generators": ("a", "b")}),
        (majority_vote("n", "T", ["a", "b"]), {"generators": ("a", "b"), "draws": (0, 1)}),
        (
            majority_vote("n", "T", ["a", "b"], samples=5),
            {"generators": ("a", "b", "a", "b", "a"), "draws": (0, 1, 2, 3, 4)},
        ),
        (
            majority_vote("n", "T", ["a", "b"], samples=1, weighted=True),
            {"generators": ("a",), "draws": (0,), "rule": "weigh"},
        ),
        (
            majority_vote("n", "T", ["a", "b"], matched_to="other", match="cost"),
            {"generators": ("a", "b"), "matched_to": "other", "match": "cost"},
        ),
        (
            llm_judge("n", "T", ["a"], judge="j", samples=2),
            {"generators": ("a", "a"), "draws": (0, 1), "critics": ("j",), "rounds": 2, "rule": "pick"},
        ),
        (
            llm_judge("n", "T", ["a"], judge="j", matched_to="other"),
            {"generators": ("a",), "critics": ("j",), "rounds": 2, "rule": "pick", "matched_to": "other"},
        ),
        (
            best_of_n("n", "T", ["a", "b"], critics=["c", "d"], samples=3),
            {
                "generators": ("a", "b", "a"),
                "draws": (0, 1, 2),
                "critics": ("c", "d"),
                "rounds": 2,
                "rule": "pick",
            },
        ),
        (
            debate_system("n", "T", ["a", "b"], critics=["c"], rounds=3),
            {"generators": ("a", "b"), "critics": ("c",), "rounds": 3},
        ),
        (debate_system("n", "T", ["a", "b"], critics=["c"], rounds=1), {"generators": ("a", "b")}),
    ],
)
def test_every_kind_has_its_shape_and_only_debates_of_rounds_are_debates(made, fields):
    assert made == PlannedSystem(name="n", title="T", **fields)
    assert made.is_debate == (made.rounds == 3)


@dataclass
class Speaker:
    name: str
    seeds: list[int] = field(default_factory=list)

    async def answer(self, question, seen, *, seed):
        self.seeds.append(seed)
        return Turn(self.name, question, 1, Response("", None, 1))


def run(system):
    """Debate once; return the names by round and the seeds that each agent was asked with."""
    speakers = {name: Speaker(name) for name in system.agents}
    debate = asyncio.run(run_system(system, "q", agent_named=speakers.__getitem__, seed=4))
    assert debate.verdict is None
    names = [[turn.agent for turn in one.turns] for one in debate.rounds]
    return names, {name: speaker.seeds for name, speaker in speakers.items()}


def test_agents_answer_in_their_seats_and_critics_of_one_round_do_not():
    system = PlannedSystem(
        name="s", title="S", generators=("g2", "g1", "g2"), draws=(4, 0, 1), critics=("c",), rounds=2, rule="pick"
    )
    names, seeds = run(system)
    assert names == [["g2", "g1", "g2"], ["c"]]
    assert seeds == {
        "g2": [seed_for(4, "turn", 1, 4), seed_for(4, "turn", 1, 1)],
        "g1": [seed_for(4, "turn", 1, 0)],
        "c": [seed_for(4, "turn", 2, 0)],
    }
    assert run(system.model_copy(update={"rounds": 1}))[0] == [["g2", "g1", "g2"]]


def test_systems_with_the_same_agents_in_the_same_seats_share_samples():
    _, alone = run(single_agents("n", "T", ["g"]))
    _, three = run(majority_vote("n", "T", ["g"], samples=3))
    _, six = run(majority_vote("n", "T", ["g"], samples=6))
    _, debate = run(debate_system("n", "T", ["g"] * 3, critics=["c"] * 2, rounds=2))
    assert alone["g"] == three["g"][:1]
    assert three["g"] == six["g"][:3] == debate["g"]
    assert len({*debate["g"], *debate["c"]}) == 5
    member = PlannedSystem(name="s", title="S", generators=("g",), draws=(1,))
    assert run(member)[1]["g"] == three["g"][1:2]
