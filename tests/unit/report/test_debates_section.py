"""The sections on debates and on samples."""

from dataclasses import replace

from mada.evaluation.grid import Grid
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.report.document import Figure, Table
from mada.report.forms.markdown import markdown
from mada.report.sections.debates import ledger_section
from mada.report.sections.results import samples_section

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
| 1 long\|er | 1 → 3 | 25.0 | 25.0 | 50.0 | 0.0 |
| 1 long\|er | 1 → 2 | 50.0 | 0.0 | 25.0 | 25.0 |
| 1 long\|er | 2 → 3 | 50.0 | 25.0 | 25.0 | 0.0 |
"""
# Each critic has two turns in each debate, from votes right-right, wrong-right, wrong-wrong and right-right.
CRITICS = r"""
| debate | critic | right → right | right → wrong | wrong → right | wrong → wrong |
| --- | --- | ---: | ---: | ---: | ---: |
| 1 long\|er | c-1 | 50.0 | 12.5 | 25.0 | 12.5 |
| 1 long\|er | c\|2 | 50.0 | 12.5 | 25.0 | 12.5 |
"""
BY_RIGHT = r"""
| debate | generators right | debates | share of questions | last round's accuracy | last vote right |
| --- | ---: | ---: | ---: | ---: | ---: |
| 1 long\|er | 0 of 3 | 1 | 25.0 | 100.0 | 100.0 |
| 1 long\|er | 1 of 3 | 1 | 25.0 | 100.0 | 100.0 |
| 1 long\|er | 2 of 3 | 1 | 25.0 | 0.0 | 0.0 |
| 1 long\|er | 3 of 3 | 1 | 25.0 | 100.0 | 100.0 |
"""
BY_SEAT = r"""
| debate | seat | debates | share of questions | last round's accuracy | last vote right |
| --- | ---: | ---: | ---: | ---: | ---: |
| 1 long\|er | 1 | 0 | 0.0 | – | – |
| 1 long\|er | 2 | 0 | 0.0 | – | – |
| 1 long\|er | 3 | 1 | 25.0 | 100.0 | 100.0 |
"""
# Of eight turns five repeat the vote, one of them wrongly; one takes the minority's; two are new, one of them right.
SOURCES = r"""
| debate | critic | the vote, share | the vote, right | another answer, share | another answer, right """
SOURCES += r"""| a new one, share | a new one, right | no answer |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| 1 long\|er | all | 62.5 | 80.0 | 12.5 | 100.0 | 25.0 | 50.0 | 0.0 |
| 1 long\|er | c-1 | 62.5 | 80.0 | 12.5 | 100.0 | 25.0 | 50.0 | 0.0 |
| 1 long\|er | c\|2 | 62.5 | 80.0 | 12.5 | 100.0 | 25.0 | 50.0 | 0.0 |
"""
# Both seeds have the same samples, so there is no spread at all.
SAMPLES = r"""
| system | measure | k = 1 | k = 2 | k = 3 | k = 4 |
| --- | --- | ---: | ---: | ---: | ---: |
| 2 vote \| of 4 | pass@k | 62.50 ± 0.00 | 91.67 ± 0.00 | 100.00 ± 0.00 | 100.00 ± 0.00 |
| 2 vote \| of 4 | maj@k | 62.50 ± 0.00 | 62.50 ± 0.00 | 75.00 ± 0.00 | 75.00 ± 0.00 |
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


def test_what_debating_changed(tables_of, scores):
    system = PlannedSystem(name="long", title="long|er", generators=("g",) * 3, critics=("c-1", "c|2"), rounds=3)
    given = [long_debate(scores[0], place, rounds) for place, rounds in enumerate(ROUNDS)]
    section = ledger_section(Grid.of(given, EvaluationPlan(systems=(system,), reference="long")))
    assert section is not None
    wanted = {"votes": VOTES, "critics": CRITICS, "by-right": BY_RIGHT, "by-seat": BY_SEAT, "sources": SOURCES}
    assert tables_of(section) == {name: text.strip() for name, text in wanted.items()}
    assert markdown(section).startswith("## What debating changed\n\nShares are in percent, and no answer is a wrong")
    named = [(type(block), block.name) for block in section.blocks if isinstance(block, Figure | Table)]
    assert named == [
        *((Figure, "flow"), (Table, "votes"), (Table, "critics")),
        *((Figure, "critics"), (Table, "by-right"), (Table, "by-seat"), (Table, "sources")),
    ]


def test_every_debate_has_its_group_of_rows(scores, plan):
    single, vote, debate = plan.systems
    again = debate.model_copy(update={"name": "again", "title": "again"})
    copies = [replace(one, system="again") for one in scores if one.system == "debate"]
    both = EvaluationPlan(systems=(single, vote, debate, again), reference="single")
    section = ledger_section(Grid.of([*scores, *copies], both))
    assert section is not None
    tables = [block for block in section.blocks if isinstance(block, Table)]
    assert [[{row[0].text for row in group} for group in table.groups] for table in tables] == [
        [{"3 debate"}, {"4 again"}]
    ] * 5


def test_two_rounds_are_one_step_and_one_critic_is_all_of_them(scores, plan):
    debate = plan.systems[2]
    own = [replace(one, agents=(one.agents[0], ("c", "c"))) for one in scores if one.system == "debate"]
    section = ledger_section(Grid.of(own, EvaluationPlan(systems=(debate,), reference="debate")))
    assert section is not None
    text = markdown(section)
    assert text.count("| 1 debate | 1 → 2 |") == 1
    assert "| 1 debate | all |" not in text
    assert "| 1 debate | c | 81.2 | 84.6 |" in text


def test_only_shown_debates_have_a_ledger(scores, plan):
    single, vote, debate = plan.systems
    hidden = debate.model_copy(update={"shown": False})
    family = PlannedSystem(name="family", title="family", members=("debate",), rounds=2)
    for systems in ([single, vote, hidden], [single, vote, hidden, family]):
        assert ledger_section(Grid.of(scores, EvaluationPlan(systems=tuple(systems), reference="single"))) is None
    judge = debate.model_copy(update={"rule": "pick"})
    assert ledger_section(Grid.of(scores, EvaluationPlan(systems=(single, vote, judge), reference="single"))) is None


def test_more_samples(tables_of, grid):
    section = samples_section(grid)
    assert section is not None
    assert tables_of(section) == {"samples": SAMPLES.strip()}
    assert markdown(section).startswith("## More samples\n\nOf k samples of one agent")
    assert markdown(section).endswith("\n\n± is the standard error over seeds.")


def test_systems_with_fewer_samples_have_fewer_columns_filled(tables_of, scores, plan):
    single, vote, debate = plan.systems
    pair = vote.model_copy(update={"name": "pair", "title": "pair", "generators": ("g", "g")})
    two = [
        replace(one, system="pair", groups=(one.groups[0][:2],), correct=(one.correct[0][:2],))
        for one in scores
        if one.system == "vote"
    ]
    grid = Grid.of([*scores, *two], EvaluationPlan(systems=(single, vote, debate, pair), reference="single"))
    assert "| 4 pair | pass@k | 100.00 ± 0.00 | 100.00 ± 0.00 | – | – |" in tables_of(samples_section(grid))["samples"]


def test_one_seed_has_no_errors_and_no_samples_no_section(one_seed, scores, plan):
    section = samples_section(one_seed)
    assert section is not None
    assert markdown(section).endswith("| 2 vote \\| of 4 | maj@k | 62.5 | 62.5 | 75.0 | 75.0 |")
    alone = EvaluationPlan(systems=plan.systems[:1], reference="single")
    assert samples_section(Grid.of([one for one in scores if one.system == "single"], alone)) is None
