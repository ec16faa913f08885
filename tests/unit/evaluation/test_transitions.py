"""Ledgers of debates, computed by hand, and what must hold for every ledger."""

from dataclasses import astuple, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factories import make_score
from mada.debate.verdict import decide
from mada.evaluation.grid import Grid
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.summary import summarize
from mada.evaluation.transitions import (
    SOURCES,
    DebateTransitions,
    Outcome,
    SourceShare,
    Transitions,
    debate_transitions,
)


def planned(name="debate", *, generators=3, critics=("c1", "c2"), rounds=3, **others):
    seats = tuple(f"g{number}" for number in range(1, generators + 1))
    return PlannedSystem(name=name, title=name, generators=seats, critics=critics, rounds=rounds, **others)


def score(system, place, *rounds):
    """What is recorded when the seats give these answers: 4 is right, and 4 and 4.0 are equal."""
    numbers = {answer: int(float(answer)) for answers in rounds for answer in answers if answer is not None}
    classes = {answer: str(number) for answer, number in numbers.items()}
    seats = [system.generators, *[system.critics] * (len(rounds) - 1)]
    verdict = decide(rounds, classes)
    return make_score(
        system.name,
        place,
        [[numbers.get(answer) == 4 for answer in answers] for answers in rounds],
        agents=tuple(seats),
        answers=tuple(tuple(answers) for answers in rounds),
        groups=tuple(tuple(None if answer is None else numbers[answer] for answer in answers) for answers in rounds),
        verdict_correct=numbers.get(verdict.answer or "") == 4,
        first_vote_correct=numbers.get(decide(rounds[:1], classes).answer or "") == 4,
        tie=verdict.tie,
    )


def grid_of(scores, *systems):
    return Grid.of(scores, EvaluationPlan(systems=systems, reference=systems[0].name))


def kept(system, *scores) -> DebateTransitions:
    ledger = debate_transitions(grid_of(scores, system), system)
    assert ledger is not None
    return ledger


def shares(*values):
    return pytest.approx(values)


# Benchmark `a` has one problem, which weighs one half; `b` has two, which weigh one quarter each.
A, B1, B2 = ("a", 0, "a1"), ("b", 0, "b1"), ("b", 0, "b2")


@pytest.fixture(scope="module")
def three_rounds() -> DebateTransitions:
    """Three generators, two critics, three rounds."""
    debate = planned()
    return kept(
        debate,
        # Wrong, right; then a tie that the second round settles for 4.
        score(debate, A, ["4", "5", "5"], ["4", "4.0"], ["4", "7"]),
        # Right, wrong; then a tie that the second round settles for 5, though the first would have for 4.
        score(debate, B1, ["4", "4", "5"], ["5", None], ["5", "4"]),
        # Nobody answers twice; then a tie that nothing settles but the alphabet.
        score(debate, B2, [None, None, None], [None, None], ["4", "6"]),
    )


def test_votes_from_round_to_round(three_rounds):
    first, second = three_rounds.votes
    assert astuple(first) == shares(0, 1 / 4, 1 / 2, 1 / 4)
    assert astuple(second) == shares(1 / 2, 0, 1 / 4, 1 / 4)
    assert astuple(three_rounds.overall) == shares(0, 1 / 4, 3 / 4, 0)


def test_turns_of_critics(three_rounds):
    assert list(three_rounds.turns) == ["c1", "c2"]
    # The first critic: on a1 wrong → right, right → right; b1 right → wrong, wrong → wrong; b2 wrong → wrong → right.
    assert astuple(three_rounds.turns["c1"]) == shares(1 / 4, 1 / 8, 3 / 8, 1 / 4)
    # The second: on a1 wrong → right, right → wrong; b1 right → wrong, wrong → right; b2 wrong → wrong, twice.
    assert astuple(three_rounds.turns["c2"]) == shares(0, 3 / 8, 3 / 8, 1 / 4)


def test_outcomes_by_how_many_generators_were_right(three_rounds):
    assert three_rounds.by_right == (
        Outcome(1, 1 / 4, 1 / 2, 1),
        Outcome(1, 1 / 2, 1 / 2, 1),
        Outcome(1, 1 / 4, 1 / 2, 0),
        Outcome(0, 0, None, None),
    )


def test_outcomes_by_the_seat_of_the_only_right_generator(three_rounds):
    """Debates in which several were right, or nobody, count in none."""
    assert three_rounds.by_seat == (Outcome(1, 1 / 2, 1 / 2, 1), Outcome(0, 0, None, None), Outcome(0, 0, None, None))
    debate = planned(rounds=2)
    ledger = kept(
        debate,
        score(debate, A, ["5", "5", "4"], ["4", "4"]),
        score(debate, B1, ["5", "6", "4"], ["6", "6"]),
        score(debate, B2, [None, "4", "5"], ["5", "4"]),
    )
    assert ledger.by_seat == (Outcome(0, 0, None, None), Outcome(1, 1 / 4, 1 / 2, 1), Outcome(2, 3 / 4, 2 / 3, 2 / 3))


def test_where_answers_are_from(three_rounds):
    assert {source: astuple(taken) for source, taken in three_rounds.sources.items()} == {
        # a1: c1 in round 3, right; b1: c1 in round 3, wrong.
        "majority": shares(3 / 16, 2 / 3),
        # a1: both in round 2, right; b1: c1 in round 2, wrong.
        "minority": shares(5 / 16, 4 / 5),
        # a1: 7; b1: 4, which was last said in round 1, where its critic did not see it; b2: 4 and 6.
        "new": shares(5 / 16, 2 / 5),
        # b1: c2 in round 2; b2: both in round 2.
        "none": shares(3 / 16, 0),
    }
    assert {source: astuple(taken) for source, taken in three_rounds.sources_by_critic["c1"].items()} == {
        "majority": shares(3 / 8, 2 / 3),
        "minority": shares(3 / 8, 2 / 3),
        "new": shares(1 / 8, 1),
        "none": shares(1 / 8, 0),
    }


def test_an_answer_is_right_by_its_spelling_not_by_its_group():
    # 5 equals 5 cm and 5 m for the grader, which differ: the vote is for what most of its group wrote.
    debate = planned(rounds=2, critics=("c1",))
    mixed = replace(
        score(debate, A, ["4", "4", "4"], ["4"]),
        answers=(("5 m", "5 cm", "5 m"), ("5 cm",)),
        groups=((0, 0, 0), (0,)),
        correct=((False, True, False), (True,)),
    )
    ledger = kept(debate, mixed)
    assert ledger.overall == Transitions(0, 0, 1, 0)
    assert ledger.sources["majority"] == SourceShare(1, 1)


def test_a_family_of_short_and_long_debates_has_the_steps_of_the_short():
    short = planned("short", generators=1, critics=("c1",), rounds=2)
    long = planned("long", generators=1, critics=("c1",), rounds=3)
    family = PlannedSystem(name="family", title="Family", members=("short", "long"))
    grid = grid_of([score(short, A, ["5"], ["4"]), score(long, A, ["5"], ["5"], ["4"])], short, long, family)
    ledger = debate_transitions(grid, family)
    assert ledger is not None
    assert ledger.votes == (Transitions(0, 0, 1 / 2, 1 / 2),)
    assert ledger.overall == Transitions(0, 0, 1, 0)
    # Both questions weigh the same, so the one turn about the first counts as much as the two about the second.
    assert ledger.sources["majority"] == SourceShare(1 / 4, 0)
    assert ledger.turns == {"c1": Transitions(0, 0, 3 / 4, 1 / 4)}


def test_no_ledger_without_a_second_round_but_one_for_judges():
    single, judge = planned("single", rounds=1), planned("judge", critics=("c1",), rounds=2, rule="pick")
    family = PlannedSystem(name="family", title="Family", members=("single", "judge"))
    first = ["4", "5", "5"]
    grid = grid_of([score(single, A, first), score(judge, A, first, ["4"])], single, judge, family)
    assert debate_transitions(grid, single) is None
    assert debate_transitions(grid, family) is None
    ledger = debate_transitions(grid, judge)
    assert ledger is not None
    assert ledger.sources["minority"] == SourceShare(1, 1)


ANSWERS = st.sampled_from(["4", "4.0", "5", "6", None])
DEBATES = st.tuples(*(st.lists(ANSWERS, min_size=size, max_size=size) for size in (3, 2, 2)))


@settings(deadline=None)
@given(st.lists(DEBATES, min_size=6, max_size=6))
def test_what_holds_for_every_ledger(debates):
    debate = planned()
    places = [(benchmark, seed, problem) for benchmark, _, problem in (A, B1, B2) for seed in (0, 1)]
    scores = [score(debate, place, *rounds) for place, rounds in zip(places, debates, strict=True)]
    grid = grid_of(scores, debate)
    ledger, [summary] = debate_transitions(grid, debate), summarize(grid).systems
    assert ledger is not None
    for transitions in (*ledger.votes, ledger.overall, *ledger.turns.values()):
        assert sum(astuple(transitions)) == pytest.approx(1)
        assert min(astuple(transitions)) >= 0

    # What the ledger reads from the record is what was decided when the debate was held.
    assert ledger.overall.wrong_to_right == pytest.approx(summary.improves)
    assert ledger.overall.right_to_wrong == pytest.approx(summary.damages)
    assert ledger.overall.right_to_right + ledger.overall.wrong_to_right == pytest.approx(summary.verdict.average.mean)
    # A step begins where the one before it ended.
    first, second = ledger.votes
    assert first.right_to_right + first.wrong_to_right == pytest.approx(second.right_to_right + second.right_to_wrong)

    assert sum(one.share for one in ledger.by_right) == pytest.approx(1)
    assert sum(one.count for one in ledger.by_right) == len(scores)
    assert sum(one.share * (one.accuracy or 0) for one in ledger.by_right) == pytest.approx(summary.mean.average.mean)
    assert sum(one.share * (one.vote or 0) for one in ledger.by_right) == pytest.approx(summary.verdict.average.mean)
    alone = ledger.by_right[1]
    assert sum(one.count for one in ledger.by_seat) == alone.count
    assert sum(one.share for one in ledger.by_seat) == pytest.approx(alone.share)
    for value in ("accuracy", "vote"):
        parts = [one.share * (getattr(one, value) or 0) for one in ledger.by_seat]
        assert sum(parts) == pytest.approx(alone.share * (getattr(alone, value) or 0))

    for copying in (ledger.sources, *ledger.sources_by_critic.values()):
        assert tuple(copying) == SOURCES
        assert sum(taken.share for taken in copying.values()) == pytest.approx(1)
        assert not copying["none"].accuracy
    spoken = grid.average(debate, lambda score: (score.accuracy_of_round(1) + score.accuracy_of_round(2)) / 2)
    assert sum(taken.share * (taken.accuracy or 0) for taken in ledger.sources.values()) == pytest.approx(spoken)
    right = [one.right_to_right + one.wrong_to_right for one in ledger.turns.values()]
    assert sum(right) / len(right) == pytest.approx(spoken)
