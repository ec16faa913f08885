"""Kinds of systems and the ablations of a team, and who shares samples with whom."""

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mada.debate.transcript import Response, Turn
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.queue import run_system
from mada.evaluation.systems import ablations_of, best_of_n, debate_system, llm_judge, majority_vote, single_agents
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


G = ("g1", "g2", "g3")
C = ("c1", "c2", "c3")


def of(generators, critics, *, rounds=2, **others):
    return {one.name: one for one in ablations_of(generators, critics, rounds=rounds, **others)}


def families(systems):
    return {system.name: (system.title, len(system.members)) for system in systems.values() if system.members}


def test_the_papers_team():
    systems = of(G, C, no_counterfactual=("n1", "n2", "n3"))
    assert [name for name, system in systems.items() if system.shown] == [
        "rounds-1",
        "rounds-3",
        "agents-1+1",
        "agents-2+2",
        "homogeneous",
        "no-counterfactual",
    ]
    assert families(systems) == {
        "agents-1+1": ("1 generator + 1 critic", 9),
        "agents-2+2": ("2 generators + 2 critics", 9),
        "homogeneous": ("homogeneous", 9),
    }
    assert len(systems) == 3 + 3 * (1 + 9)
    first, third = systems["rounds-1"], systems["rounds-3"]
    assert (first.title, first.generators, first.critics, first.rounds) == ("1 round, generators alone", G, (), 1)
    assert (third.title, third.generators, third.critics, third.rounds) == ("3 rounds", G, C, 3)
    other = systems["no-counterfactual"]
    assert (other.generators, other.critics, other.rounds) == (G, ("n1", "n2", "n3"), 2)
    assert "no-counterfactual" not in of(G, C)


def test_members_stand_behind_their_family_and_have_no_row_of_their_own():
    systems = list(ablations_of(G, C, rounds=2))
    for place, family in enumerate(systems):
        members = systems[place + 1 : place + 1 + len(family.members)]
        assert family.members == tuple(member.name for member in members)
        assert not any(member.shown for member in members)
    EvaluationPlan.of(systems, reference="rounds-1")


def test_teams_of_one_generator_and_one_critic():
    systems = of(G, C)
    assert systems["agents-1+1"].members == (
        *("agents-1+1/g1-c1", "agents-1+1/g1-c2", "agents-1+1/g1-c3"),
        *("agents-1+1/g2-c1", "agents-1+1/g2-c2", "agents-1+1/g2-c3"),
        *("agents-1+1/g3-c1", "agents-1+1/g3-c2", "agents-1+1/g3-c3"),
    )
    member = systems["agents-1+1/g2-c3"]
    # Alone, generator 2 still says what it says in its seat of the team.
    assert (member.generators, member.draws, member.critics, member.rounds) == (("g2",), (1,), ("c3",), 2)


@pytest.mark.parametrize(
    ("rounds", "names"),
    [
        (1, ["rounds-2", "rounds-3"]),
        (2, ["rounds-1", "rounds-3"]),
        (3, ["rounds-1", "rounds-2", "rounds-4"]),
        (5, ["rounds-1", "rounds-2", "rounds-3", "rounds-6"]),
    ],
)
def test_fewer_and_more_rounds_than_the_team_has(rounds, names):
    systems = of(G, C, rounds=rounds)
    assert [name for name in systems if name.startswith("rounds")] == names
    assert {systems[name].rounds for name in systems["homogeneous"].members} == {rounds}


def test_an_uneven_team_has_as_many_of_each_as_there_are():
    systems = of(G, C[:1])
    assert [title for title, _ in families(systems).values()] == [
        "1 generator + 1 critic",
        "2 generators + 1 critic",
        "homogeneous",
    ]
    one, two, homogeneous = (systems[name] for name in families(systems))
    assert {systems[name].generators for name in one.members} == {("g1",), ("g2",), ("g3",)}
    assert {systems[name].generators for name in two.members} == {("g1", "g2"), ("g1", "g3"), ("g2", "g3")}
    assert {systems[name].generators for name in homogeneous.members} == {(name,) * 3 for name in G}
    assert {system.critics for system in systems.values() if system.rounds > 1} == {("c1",)}
    assert [len(family.members) for family in (one, two, homogeneous)] == [3, 3, 3]


@given(generators=st.integers(1, 4), critics=st.integers(1, 4), rounds=st.integers(2, 4))
def test_any_team_makes_a_plan_whose_members_draw_from_the_teams_samples(generators, critics, rounds):
    names = [f"g{number}" for number in range(generators)], [f"c{number}" for number in range(critics)]
    team = debate_system("team", "Team", names[0], critics=names[1], rounds=rounds)
    plan = EvaluationPlan.of([team, *ablations_of(*names, rounds=rounds)], reference="team")
    for system in plan.evaluated_systems[1:]:
        if system.shown:
            continue
        assert system.draws is not None
        assert len(system.draws) == len(system.generators) <= generators
        assert len(set(system.draws)) == len(system.draws), "no sample counts twice"
        own = {(names[0][draw], draw) for draw in range(generators)}
        assert {*zip(system.generators, system.draws, strict=True)} & own, "something of the team's is used again"
    several = {system.generators for system in plan.evaluated_systems if len({*system.generators}) > 1}
    assert all(list(seats) == sorted(seats) for seats in several)
