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
from mada.report.tables import (
    differences_markdown,
    headline,
    headline_markdown,
    p_text,
    points_text,
    print_headline,
    replies_markdown,
    share_text,
)

# Of the debate by hand: seed averages 0.625 and 1, so 81.25 ± 18.75; votes 0.5 and 1; of eight questions two are
# corrected and one is damaged. Against one agent (0.25 and 0.5): 0.4375 with SE √(0.1875² + 0.125²) = 0.2253.
HEADLINE = r"""
| system | calls | accuracy | vote | arithmetic | algebra | improves | damages | tokens | p |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| one agent | 1 | 37.5 ± 12.5 | 37.5 ± 12.5 | 75.0 ± 25.0 | 0.0 ± 0.0 | – | – | 300 | reference |
| vote \| of 4 | 4 | 50.0 ± 0.0 | 50.0 ± 0.0 | 50.0 ± 0.0 | 50.0 ± 0.0 | – | – | 1,200 | 0.500 |
| debate | 4 | 81.2 ± 18.8 | 75.0 ± 25.0 | 100.0 ± 0.0 | 62.5 ± 37.5 | 25.0 | 12.5 | 1,200 | 0.210 |

Percent, mean over 2 seeds; ± is the standard error over seeds. Problems: arithmetic (2), algebra (2). Averages give """
HEADLINE += r"""each benchmark equal weight.

accuracy: the vote of the last round for “vote \| of 4”, for the others the mean over the last round's answers. """
HEADLINE += r"""vote: that of the last round.

calls, tokens: model calls and generated tokens per question. improves, damages: share of all questions on which the """
HEADLINE += r"""vote of the first round is wrong and that of the last right, and the other way round.

p: Welch's two-sided t-test of the seeds' averages against “one agent”; \* below 0.05, \*\* below 0.01, """
HEADLINE += r"""\*\*\* below 0.001."""

DIFFERENCES = r"""
| against one agent | difference | SE | 95 % interval | p |
| --- | ---: | ---: | ---: | ---: |
| vote \| of 4 | +12.5 | 12.5 | −146.3 to +171.3 | 0.500 |
| debate | +43.8 | 22.5 | −68.3 to +155.8 | 0.210 |
"""


def test_the_table_as_markdown(scores, plan):
    assert headline_markdown(headline(summarize(scores, plan))) == HEADLINE.strip()


def test_differences_as_markdown(scores, plan):
    assert differences_markdown(summarize(scores, plan)) == DIFFERENCES.strip()


def test_replies_as_markdown(scores, plan):
    scores = [replace(one, truncated=1, unanswered=2, tie=one.seed == 0) for one in scores]
    assert replies_markdown(summarize(scores, plan)).splitlines()[-1] == "| debate | 25.0 | 50.0 | 50.0 |"


def test_with_one_seed_there_is_no_spread_and_no_test(scores, plan):
    summary = summarize([one for one in scores if one.seed == 0], plan)
    text = headline_markdown(headline(summary))
    assert "| debate | 4 | 62.5 | 50.0 | 100.0 | 25.0 | 25.0 | 25.0 | 1,200 | – |" in text
    assert "mean over 1 seed; one seed has no standard error" in text
    assert "| debate | +37.5 | – | – | – |" in differences_markdown(summary)


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (None, "–"),
        (1.0, "1.000"),
        (0.0499, "0.050 *"),
        (0.004, "0.004 **"),
        (0.0009, "<0.001 ***"),
        (0.0, "<0.001 ***"),
    ],
)
def test_p_values(p, text):
    assert p_text(Comparison(0.1, 0.1, 0.0, 0.2, p)) == text


def test_shares():
    assert [share_text(share) for share in (None, 0.0, 0.7204, 1.0)] == ["–", "0.0", "72.0", "100.0"]


def test_differences_have_their_sign_and_zero_has_none_of_minus():
    assert [points_text(share) for share in (-0.0521, 0.02, 0.0, -0.0001)] == ["−5.2", "+2.0", "+0.0", "+0.0"]


def printed(table, width):
    file = io.StringIO()
    print_headline(table, Console(file=file, width=width, force_terminal=False))
    return file.getvalue()


@pytest.fixture
def paper_sized():
    """Ten systems and five benchmarks, with the longest numbers there can be."""
    benchmarks = ("math-500", "aime-2024", "aime-2025", "amc-23", "minerva-math")
    systems = [PlannedSystem(name=f"s{place}", title=f"system [b]{place} of ten", calls=6) for place in range(10)]
    full = Estimate(1.0, 0.111, 10)
    summaries = [
        SystemSummary(
            system,
            accuracy=full,
            vote=full,
            benchmarks=dict.fromkeys(benchmarks, full),
            seed_averages=(),
            improves=0.196,
            damages=0.1,
            tokens=33818,
            truncated=0,
            unanswered=0,
            ties=0,
            against_reference=Comparison(0.02, 0.004, 0.01, 0.03, 0.0001),
        )
        for system in systems
    ]
    return headline(Summary(tuple(summaries), systems[0], dict.fromkeys(benchmarks, 500), tuple(range(10))))


def test_a_wide_terminal_shows_one_table_with_everything(paper_sized):
    text = printed(paper_sized, 200)
    assert text.count("system [b]3 of ten") == 1
    assert text.count("100.0 ± 11.1") == 7 * 10
    assert "<0.001 ***" in text


@pytest.mark.parametrize("width", [60, 80, 100, 120, 140, 160])
def test_narrow_terminals_lose_no_number_but_standard_errors(paper_sized, width):
    text = printed(paper_sized, width)
    assert all(cell_len(line) <= width for line in text.splitlines())
    tables = text[: text.index("Percent, mean")]
    assert "…" not in tables
    rows = [line for line in tables.splitlines() if "system [b]3 of ten" in line]
    assert " ".join(rows).count("100.0") == 7
    for heading in ("calls", "accuracy", "vote", "math-500", "minerva-math", "improves", "damages", "tokens", "p"):
        assert sum(heading in line.split() for line in tables.splitlines()) == 1


def test_a_single_benchmark_has_no_column_of_its_own(scores, plan):
    plan = plan.model_copy(update={"benchmarks": ()})
    summary = summarize([one for one in scores if one.benchmark == "algebra"], plan)
    text = headline_markdown(headline(summary))
    assert "| system | calls | accuracy | vote | improves | damages | tokens | p |" in text
    assert "Problems: algebra (2).\n" in text
    assert all(cell_len(line) <= 80 for line in printed(headline(summary), 80).splitlines())


def test_numbers_of_tables_shrink_with_width(paper_sized):
    counts = [printed(paper_sized, width).count("system  ") for width in (40, 60, 80, 120, 200)]
    assert all(one >= other for one, other in pairwise(counts))
    assert counts[-1] == 1


def test_a_title_cannot_steer_the_terminal(scores):
    titles = ["\x1b[2Jred\n\n", "[bold]b[/bold]", "x" * 70]
    systems = tuple(
        PlannedSystem(name=name, title=title, calls=1)
        for name, title in zip(("single", "vote", "debate"), titles, strict=True)
    )
    text = printed(headline(summarize(scores, EvaluationPlan(systems=systems, reference="vote"))), 80)
    assert "\x1b" not in text
    assert "[bold]b[/bold]" in text
    assert "x" * 32 in text
    assert all(cell_len(line) <= 80 for line in text.splitlines())
