"""The headline table, to the letter, and in terminals of every width."""

import io
from dataclasses import replace
from itertools import pairwise

import pytest
from rich.cells import cell_len
from rich.console import Console

from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.statistics import Comparison, Estimate
from mada.evaluation.summary import Summary, SystemSummary, summarize
from mada.report.tables import Column, HeadlineTable, headline, headline_markdown, print_headline, replies_markdown

# Of the debate by hand: seed averages 0.625 and 1, so 81.25 ± 18.75; votes 0.5 and 1; of eight questions two are
# corrected and one is damaged. Against one agent (0.25 and 0.5): 0.4375 with SE √(0.1875² + 0.125²) = 0.2253.
HEADLINE = r"""
| system | calls | accuracy | verdict | difference | p | tokens | improves | damages | arithmetic | algebra |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| one agent | 1 | 37.5 ± 12.5 | 37.5 ± 12.5 | reference | – | 300 | – | – | 75.0 ± 25.0 | 0.0 ± 0.0 |
| vote \| of 4 | 4 | 50.0 ± 0.0 | 50.0 ± 0.0 | +12.5 | 0.500 | 1,200 | – | – | 50.0 ± 0.0 | 50.0 ± 0.0 |
| debate | 4 | 81.2 ± 18.8 | 75.0 ± 25.0 | +43.8 | 0.210 | 1,200 | 25.0 | 12.5 | 100.0 ± 0.0 | 62.5 ± 37.5 |

Percent, mean over 2 seeds; ± is the standard error over seeds. Problems: arithmetic (2), algebra (2). Averages give """
HEADLINE += r"""each benchmark equal weight.

accuracy: for “vote \| of 4” the system's one answer (a vote, a weighted vote, or what a judge or critics chose), """
HEADLINE += (
    r"""for the others the mean over the last round's answers. verdict: that one answer, of every system; a debate's """
)
HEADLINE += r"""is the vote of its last round.

difference: points of accuracy above “one agent”. p: Welch's two-sided t-test of the seeds' averages; \* below 0.05, """
HEADLINE += r"""\*\* below 0.01, \*\*\* below 0.001.

calls, tokens: model calls and generated tokens per question. improves, damages: share of all questions on which the """
HEADLINE += r"""vote of the first round is wrong and the verdict right, and the other way round."""


def test_the_table_as_markdown(scores, plan):
    assert headline_markdown(headline(summarize(scores, plan))) == HEADLINE.strip()


def test_replies_as_markdown(scores, plan):
    half = [replace(one, truncated=1, tie=one.seed == 0) for one in scores]
    text = replies_markdown(summarize(half, plan))
    assert text.splitlines()[0] == "| system | replies cut off | replies without an answer | tied votes |"
    assert text.splitlines()[-1] == "| debate | 25.0 | 0.0 | 50.0 |"
    unfit = [replace(one, unfit=2 if one.system == "debate" else 0) for one in half]
    text = replies_markdown(summarize(unfit, plan))
    assert text.splitlines()[0].endswith("| tied votes | replies never given: no room for the question |")
    assert text.splitlines()[-2:] == [
        "| vote \\| of 4 | 25.0 | 0.0 | 50.0 | 0.0 |",
        "| debate | 25.0 | 0.0 | 50.0 | 50.0 |",
    ]


def test_with_one_seed_there_is_no_spread_and_no_test(scores, plan):
    summary = summarize([one for one in scores if one.seed == 0], plan)
    text = headline_markdown(headline(summary))
    assert "| debate | 4 | 62.5 | 50.0 | +37.5 | – | 1,200 | 25.0 | 25.0 | 100.0 | 25.0 |" in text
    assert "mean over 1 seed; one seed has no standard error" in text


def test_a_significant_difference_has_stars(scores, plan):
    worse = [replace(one, correct=((False,),)) if one.system == "single" else one for one in scores]
    text = headline_markdown(headline(summarize(worse, plan)))
    assert "| vote \\| of 4 | 4 | 50.0 ± 0.0 | 50.0 ± 0.0 | +50.0 \\*\\*\\* | \\<0.001 |" in text


def test_a_lone_system_differs_from_nothing(scores, plan):
    alone = EvaluationPlan(systems=(plan.systems[2],), reference="debate")
    text = headline_markdown(headline(summarize([one for one in scores if one.system == "debate"], alone)))
    assert "| system | calls | accuracy | verdict | tokens | improves | damages | algebra | arithmetic |" in text
    assert "Welch" not in text
    assert "accuracy: the mean over the last round's answers, not the system's one answer (a vote, " in text


def test_matched_systems_are_explained_with_their_budget(scores, plan):
    single, vote, debate = plan.systems
    rival = vote.model_copy(update={"generators": ("g",), "matched_to": "debate"})
    debate = debate.model_copy(update={"title": "long debate"})
    plan = EvaluationPlan(systems=(single, rival, debate), reference="debate")
    scores = [
        replace(one, answers=(one.answers[0][:3],)) if one.system == "vote" and one.problem == "p" else one
        for one in scores
    ]
    text = headline_markdown(headline(summarize(scores, plan)))
    assert text.endswith("\n\n“vote \\| of 4”: as many samples as the generated tokens of “long debate” allow.")
    assert "| vote \\| of 4 | 3.5 |" in text
    hidden = [single.model_copy(update={"shown": False}), vote, debate, rival.model_copy(update={"name": "rival"})]
    hidden[3] = hidden[3].model_copy(update={"matched_to": "single"})
    scores += [replace(one, system="rival") for one in scores if one.system == "vote"]
    text = headline_markdown(headline(summarize(scores, EvaluationPlan(systems=tuple(hidden), reference="debate"))))
    assert text.endswith("as many samples as the generated tokens of “single” allow.")


def test_when_all_are_measured_by_their_verdict_the_note_is_short(scores, plan):
    systems = tuple(one.model_copy(update={"measure": "verdict"}) for one in plan.systems)
    text = headline_markdown(headline(summarize(scores, plan.model_copy(update={"systems": systems}))))
    assert (
        "accuracy: the system's one answer (a vote, a weighted vote, or what a judge or critics chose). verdict" in text
    )


def printed(table, width):
    file = io.StringIO()
    print_headline(table, Console(file=file, width=width, force_terminal=False))
    return file.getvalue()


@pytest.fixture
def paper_sized():
    """Ten systems and five benchmarks, with the longest numbers there can be."""
    benchmarks = ("math-500", "aime-2024", "aime-2025", "amc-23", "minerva-math")
    systems = [
        PlannedSystem(name=f"s{place}", title=f"system [b]{place} of ten", generators=("g",)) for place in range(10)
    ]
    full = Estimate(1.0, 0.111, 10)
    summaries = [
        SystemSummary(
            system,
            accuracy=full,
            verdict=full,
            benchmarks=dict.fromkeys(benchmarks, full),
            seed_averages=(),
            improves=0.196,
            damages=0.1,
            calls=6,
            tokens=33818,
            truncated=0,
            unanswered=0,
            unfit=0,
            ties=0,
            against_reference=Comparison(0.02, 0.004, 0.01, 0.03, 0.0001),
            per_benchmark={},
        )
        for system in systems
    ]
    return headline(Summary(tuple(summaries), systems[0], dict.fromkeys(benchmarks, 500), tuple(range(10))))


def test_a_wide_terminal_shows_one_table_with_everything(paper_sized):
    text = printed(paper_sized, 200)
    assert text.count("system [b]3 of ten") == 1
    assert text.count("100.0 ± 11.1") == 7 * 10
    assert "+2.0 ***  <0.001" in text


@pytest.mark.parametrize("width", [60, 80, 100, 120, 140, 160])
def test_narrow_terminals_lose_no_number_but_standard_errors(paper_sized, width):
    text = printed(paper_sized, width)
    assert all(cell_len(line) <= width for line in text.splitlines())
    tables = text[: text.index("Percent, mean")]
    assert "…" not in tables
    rows = [line for line in tables.splitlines() if "system [b]3 of ten" in line]
    assert " ".join(rows).count("100.0") == 7
    for heading in (
        "calls",
        "accuracy",
        "verdict",
        "difference",
        "math-500",
        "minerva-math",
        "improves",
        "damages",
        "tokens",
        "p",
    ):
        assert sum(heading in line.split() for line in tables.splitlines()) == 1


def test_a_single_benchmark_has_no_column_of_its_own(scores, plan):
    plan = plan.model_copy(update={"benchmarks": ()})
    summary = summarize([one for one in scores if one.benchmark == "algebra"], plan)
    text = headline_markdown(headline(summary))
    assert "| system | calls | accuracy | verdict | difference | p | tokens | improves | damages |" in text
    assert "Problems: algebra (2).\n" in text
    assert all(cell_len(line) <= 80 for line in printed(headline(summary), 80).splitlines())


def test_verdicts_lose_their_errors_where_that_brings_p_to_the_differences():
    """Three tables either way, so nothing is saved but the way of the eye."""

    def column(heading, cell, error=""):
        return Column(heading, (cell,), (error,) if error else (), is_benchmark=heading.startswith("abacus"))

    before = [column("system", "x" * 31), column("calls", "6"), column("accuracy", "53.5", " ± 2.0")]
    between = [column("difference", "−26.6 ***"), column("p", "<0.001"), column("tokens", "272")]
    after = [column("improves", "14.6"), column("damages", "4.2")]
    after += [column(f"abacus-{name}", "58.3", " ± 9.4") for name in ("easy", "medium", "hard", "long")]
    table = HeadlineTable((*before, column("verdict", "53.5", " ± 2.0"), *between, *after), ("Percent",))
    heading, _, row, *others = printed(table, 80).splitlines()
    assert heading.split() == ["system", "calls", "accuracy", "verdict", "difference", "p"]
    assert row.count("±") == 1
    assert "\n".join(others).count("±") == 4


def test_numbers_of_tables_shrink_with_width(paper_sized):
    counts = [printed(paper_sized, width).count("system  ") for width in (40, 60, 80, 120, 200)]
    assert all(one >= other for one, other in pairwise(counts))
    assert counts[-1] == 1


def test_a_title_cannot_steer_the_terminal(scores):
    titles = ["\x1b[2Jred\n\n", "[bold]b[/bold]", "x" * 70]
    systems = tuple(
        PlannedSystem(name=name, title=title, generators=("g",))
        for name, title in zip(("single", "vote", "debate"), titles, strict=True)
    )
    text = printed(headline(summarize(scores, EvaluationPlan(systems=systems, reference="vote"))), 80)
    assert "\x1b" not in text
    assert "[bold]b[/bold]" in text
    assert "x" * 32 in text
    assert all(cell_len(line) <= 80 for line in text.splitlines())
