"""The results of an evaluation: the headline table to the letter, and how replies ended."""

from dataclasses import replace

from mada.evaluation.plan import EvaluationPlan
from mada.evaluation.summary import summarize
from mada.report.document import Cell, Figure
from mada.report.forms.markdown import table_markdown
from mada.report.sections.headline import headline_table, replies_table, results_section

# Of the debate by hand: seed averages 0.625 and 1, so 81.25 with SE 18.75; votes 0.5 and 1; of eight questions two are
# corrected and one is damaged. Against one agent (0.25 and 0.5): 0.4375 with SE √(0.1875² + 0.125²) = 0.2253.
HEADLINE = r"""
**Accuracy and cost of every system**

| system | calls | accuracy | verdict | difference | p | tokens | critics, improve | critics, damage """
HEADLINE += r"""| arithmetic | algebra |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| one agent | 1 | 37.5(12.5) | 37.5(12.5) | reference | – | 300 | – | – | 75.0(25.0) | 0.00(0) |
| vote \| of 4 | 4 | 50.00(0) | 50.00(0) | +12.5 | 0.500 | 1,200 | – | – | 50.00(0) | 50.00(0) |
| debate | 4 | 81.2(18.8) | 75.0(25.0) | +43.8 | 0.210 | 1,200 | 25.0 | 12.5 | 100.00(0) | 62.5(37.5) |

Percent, mean over 2 seeds, in brackets the standard error over seeds; without a point it counts in the last digit. """
HEADLINE += r"""Problems: arithmetic (2), algebra (2). Averages give """
HEADLINE += r"""each benchmark equal weight.

accuracy: for “vote \| of 4” the system's one answer (a vote, a weighted vote, or what a judge or critics chose), """
HEADLINE += (
    r"""for the others the mean over the last round's answers. verdict: that one answer, of every system; a debate's """
)
HEADLINE += r"""is the vote of its last round.

difference: points of accuracy above “one agent”. p: Welch's two-sided t-test of the seeds' averages; \* below 0.05, """
HEADLINE += r"""\*\* below 0.01, \*\*\* below 0.001.

calls, tokens: model calls and generated tokens per question. critics improve, damage: share of all questions on """
HEADLINE += r"""which the vote of the first round is wrong and the verdict right, and the other way round."""


def test_the_table_as_markdown(scores, plan):
    assert table_markdown(headline_table(summarize(scores, plan))) == HEADLINE.strip()


def test_replies_as_markdown(scores, plan):
    half = [replace(one, truncated=1, tie=one.seed == 0) for one in scores]
    lines = table_markdown(replies_table(summarize(half, plan))).splitlines()
    assert lines[0] == "**Replies and votes, in percent**"
    assert lines[2] == "| system | replies cut off | replies without an answer | tied votes |"
    assert lines[-1] == "| debate | 25.0 | 0.0 | 50.0 |"
    unfit = [replace(one, unfit=2 if one.system == "debate" else 0) for one in half]
    lines = table_markdown(replies_table(summarize(unfit, plan))).splitlines()
    assert lines[2].endswith("| tied votes | replies never given: no room for the question |")
    assert lines[-2:] == ["| vote \\| of 4 | 25.0 | 0.0 | 50.0 | 0.0 |", "| debate | 25.0 | 0.0 | 50.0 | 50.0 |"]


def test_replies_that_a_server_failed_to_give_are_said_in_both_tables(scores, plan):
    failed = summarize([replace(one, failed=one.system == "debate") for one in scores], plan)
    assert "failed to give" in table_markdown(replies_table(failed))
    assert "failed to give, counted as wrong: debate 25.00 %" in headline_table(failed).notes[-1]


def test_the_section(grid, scores, plan):
    summary = summarize(scores, plan)
    section = results_section(grid)
    assert (section.name, section.title) == ("results", "Results")
    assert section.blocks == (
        headline_table(summary),
        Figure("tokens", "Accuracy against generated tokens per question"),
        replies_table(summary),
    )


def test_with_one_seed_there_is_no_spread_and_no_test(scores, plan):
    summary = summarize([one for one in scores if one.seed == 0], plan)
    text = table_markdown(headline_table(summary))
    assert "| debate | 4 | 62.5 | 50.0 | +37.5 | – | 1,200 | 25.0 | 25.0 | 100.0 | 25.0 |" in text
    assert "mean over 1 seed; one seed has no standard error" in text


def test_a_significant_difference_has_stars(scores, plan):
    worse = [replace(one, correct=((False,),)) if one.system == "single" else one for one in scores]
    text = table_markdown(headline_table(summarize(worse, plan)))
    assert "| vote \\| of 4 | 4 | 50.00(0) | 50.00(0) | +50.0 \\*\\*\\* | \\<0.001 |" in text
    assert headline_table(summarize(worse, plan)).rows[1][4] == Cell("+50.0", "***")


def test_a_lone_system_differs_from_nothing(scores, plan):
    alone = EvaluationPlan(systems=(plan.systems[2],), reference="debate")
    text = table_markdown(headline_table(summarize([one for one in scores if one.system == "debate"], alone)))
    assert (
        "| system | calls | accuracy | verdict | tokens | critics, improve | critics, damage | algebra | arithmetic |"
        in text
    )
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
    text = table_markdown(headline_table(summarize(scores, plan)))
    assert text.endswith("\n\n“vote \\| of 4”: as many samples as the generated tokens of “long debate” allow.")
    assert "| vote \\| of 4 | 3.5 |" in text
    hidden = [single.model_copy(update={"shown": False}), vote, debate, rival.model_copy(update={"name": "rival"})]
    hidden[3] = hidden[3].model_copy(update={"matched_to": "single"})
    scores += [replace(one, system="rival") for one in scores if one.system == "vote"]
    text = table_markdown(headline_table(summarize(scores, EvaluationPlan(systems=tuple(hidden), reference="debate"))))
    assert text.endswith("as many samples as the generated tokens of “single” allow.")


def test_when_all_are_measured_by_their_verdict_the_note_is_short(scores, plan):
    systems = tuple(one.model_copy(update={"measure": "verdict"}) for one in plan.systems)
    text = table_markdown(headline_table(summarize(scores, plan.model_copy(update={"systems": systems}))))
    assert (
        "accuracy: the system's one answer (a vote, a weighted vote, or what a judge or critics chose). verdict" in text
    )


def test_a_single_benchmark_has_no_column_of_its_own(scores, plan):
    plan = plan.model_copy(update={"benchmarks": ()})
    summary = summarize([one for one in scores if one.benchmark == "algebra"], plan)
    text = table_markdown(headline_table(summary))
    assert (
        "| system | calls | accuracy | verdict | difference | p | tokens | critics, improve | critics, damage |" in text
    )
    assert "Problems: algebra (2).\n" in text
