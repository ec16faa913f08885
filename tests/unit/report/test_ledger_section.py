"""The sections on debates and on samples."""

from dataclasses import replace

from mada.evaluation.grid import Grid
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.report.ledger import ledger_section
from mada.report.samples import samples_section

# Of four debates of three rounds, votes go right-right-wrong, wrong-right-right, wrong-wrong-right, right-right-right.
ROUNDS = [
    ([1, 1, 0], [1, 1], [0, 0]),
    ([0, 0, 1], [1, 1], [1, 1]),
    ([0, 0, 0], [0, 0], [1, 1]),
    ([1, 1, 1], [1, 1], [1, 1]),
]
VOTES = r"""
| debate | rounds | right → right | right → wrong | wrong → right | wrong → wrong |
| --- | --- | ---: | ---: | ---: | ---: |
| long\|er | 1 → 3 | 25.0 | 25.0 | 50.0 | 0.0 |
| long\|er | 1 → 2 | 50.0 | 0.0 | 25.0 | 25.0 |
| long\|er | 2 → 3 | 50.0 | 25.0 | 25.0 | 0.0 |
"""
# Each critic has two turns in each debate, from votes right-right, wrong-right, wrong-wrong and right-right.
CRITICS = r"""
| debate | critic | right → right | right → wrong | wrong → right | wrong → wrong |
| --- | --- | ---: | ---: | ---: | ---: |
| long\|er | c-1 | 50.0 | 12.5 | 25.0 | 12.5 |
| long\|er | c\|2 | 50.0 | 12.5 | 25.0 | 12.5 |
"""
BY_RIGHT = r"""
| debate | generators right | debates | share of questions | last round's accuracy | last vote right |
| --- | ---: | ---: | ---: | ---: | ---: |
| long\|er | 0 of 3 | 1 | 25.0 | 100.0 | 100.0 |
| long\|er | 1 of 3 | 1 | 25.0 | 100.0 | 100.0 |
| long\|er | 2 of 3 | 1 | 25.0 | 0.0 | 0.0 |
| long\|er | 3 of 3 | 1 | 25.0 | 100.0 | 100.0 |
"""
# Of eight turns five repeat the vote, one of them wrongly; one takes the minority's; two are new, one of them right.
COPYING = r"""
| debate | critic | the vote | another answer | a new one | no answer |
| --- | --- | ---: | ---: | ---: | ---: |
| long\|er | all | 62.5 (80.0) | 12.5 (100.0) | 25.0 (50.0) | 0.0 |
| long\|er | c-1 | 62.5 (80.0) | 12.5 (100.0) | 25.0 (50.0) | 0.0 |
| long\|er | c\|2 | 62.5 (80.0) | 12.5 (100.0) | 25.0 (50.0) | 0.0 |
"""
SAMPLES = r"""
| system |  | k = 1 | k = 2 | k = 3 | k = 4 |
| --- | --- | ---: | ---: | ---: | ---: |
| vote \| of 4 | pass@k | 62.5 ± 0.0 | 91.7 ± 0.0 | 100.0 ± 0.0 | 100.0 ± 0.0 |
| vote \| of 4 | maj@k | 62.5 ± 0.0 | 62.5 ± 0.0 | 75.0 ± 0.0 | 75.0 ± 0.0 |
"""


def long_debate(like, place, rounds):
    """A debate of these rounds, made of another's score."""
    return replace(
        like,
        system="long",
        benchmark="algebra",
        seed=0,
        problem=str(place),
        agents=(("g",) * 3, ("c-1", "c|2"), ("c-1", "c|2")),
        answers=tuple(tuple("4" if right else "5" for right in verdicts) for verdicts in rounds),
        groups=tuple(tuple(0 if right else 1 for right in verdicts) for verdicts in rounds),
        correct=tuple(tuple(map(bool, verdicts)) for verdicts in rounds),
    )


def test_what_debating_changed(scores):
    system = PlannedSystem(name="long", title="long|er", generators=("g",) * 3, critics=("c-1", "c|2"), rounds=3)
    given = [long_debate(scores[0], place, rounds) for place, rounds in enumerate(ROUNDS)]
    text = ledger_section(Grid.of(given, EvaluationPlan(systems=(system,), reference="long")))
    assert text.startswith("## What debating changed\n\nIn percent of all questions.")
    for part in (VOTES, CRITICS, BY_RIGHT):
        assert f"\n\n{part.strip()}\n\n" in text
    assert text.endswith(f"\n\n{COPYING.strip()}")


def test_two_rounds_are_one_step_and_one_critic_is_all_of_them(scores, plan):
    debate = plan.systems[2]
    own = [replace(one, agents=(one.agents[0], ("c", "c"))) for one in scores if one.system == "debate"]
    text = ledger_section(Grid.of(own, EvaluationPlan(systems=(debate,), reference="debate")))
    assert text.count("| debate | 1 → 2 |") == 1
    assert "| debate | all |" not in text
    assert "| debate | c | 81.2 (84.6) |" in text


def test_only_shown_debates_have_a_ledger(scores, plan):
    single, vote, debate = plan.systems
    hidden = debate.model_copy(update={"shown": False})
    family = PlannedSystem(name="family", title="family", members=("debate",), rounds=2)
    for systems in ([single, vote, hidden], [single, vote, hidden, family]):
        assert ledger_section(Grid.of(scores, EvaluationPlan(systems=tuple(systems), reference="single"))) == ""
    judge = debate.model_copy(update={"rule": "pick", "measure": "verdict"})
    assert ledger_section(Grid.of(scores, EvaluationPlan(systems=(single, vote, judge), reference="single"))) == ""


def test_more_samples(grid):
    text = samples_section(grid)
    assert text.startswith("## More samples\n\nOf k samples of one agent")
    assert text.endswith(f"\n\n{SAMPLES.strip()}")


def test_systems_with_fewer_samples_have_fewer_columns_filled(scores, plan):
    single, vote, debate = plan.systems
    pair = vote.model_copy(update={"name": "pair", "title": "pair", "generators": ("g", "g")})
    two = [
        replace(one, system="pair", groups=(one.groups[0][:2],), correct=(one.correct[0][:2],))
        for one in scores
        if one.system == "vote"
    ]
    grid = Grid.of([*scores, *two], EvaluationPlan(systems=(single, vote, debate, pair), reference="single"))
    assert "| pair | pass@k | 100.0 ± 0.0 | 100.0 ± 0.0 | – | – |" in samples_section(grid)


def test_one_seed_has_no_errors_and_no_samples_no_section(one_seed, scores, plan):
    assert "| vote \\| of 4 | maj@k | 62.5 | 62.5 | 75.0 | 75.0 |" in samples_section(one_seed)
    alone = EvaluationPlan(systems=plan.systems[:1], reference="single")
    assert samples_section(Grid.of([one for one in scores if one.system == "single"], alone)) == ""
