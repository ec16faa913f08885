"""Costs, and the recipe and manifest on the page."""

import html
import json
import re
from dataclasses import replace

import pytest
from pydantic import BaseModel

from mada.evaluation.costs import EvaluationCost, Reuse, Usage, evaluation_cost
from mada.evaluation.grid import Grid
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.summary import summarize
from mada.report.document import Listing
from mada.report.forms.html import html_section
from mada.report.forms.markdown import markdown
from mada.report.paper.costs import base_of, costs_of
from mada.report.paper.shading import PaperSystems
from mada.report.publishing import report_markdown
from mada.report.reading import Source
from mada.report.sections.run import cost_lines, costs_section, recipe_section
from mada.runs import Run

# 10,800 sampled tokens took 120 s of two accelerators: 300 tokens are charged with 3.33 s of the clock.
COSTS = r"""
## Costs

**The complete evaluation**

| what | asked for | computed | saved by sharing |
| --- | ---: | ---: | ---: |
| completions | 72 | 36 | 50 % |
| generated tokens | 21,600 | 10,800 | 50 % |
| prompt tokens | 3,600 | 1,800 | 50 % |

It took 2 min 0 s (engines at work for 1 min 48 s), 4 min 0 s of accelerators, 90 tokens per second, 0.20 in money. """
COSTS += r"""The price is 3 for an hour of an accelerator, or of the machine without one.

**Costs per question**

| system | calls | generated tokens, round 1 | generated tokens, round 2 | generated tokens, all """
COSTS += r"""| generated tokens, per right verdict | prompt tokens | seconds | accelerator seconds | money |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| 1 one agent | 1 | 300 | – | 300 | 800 | 50 | 3.33 | 6.67 | 0.00556 |
| 2 vote \| of 4 | 4 | 1,200 | – | 1,200 | 2,400 | 200 | 13.3 | 26.7 | 0.0222 |
| 3 debate | 4 | 600 | 600 | 1,200 | 1,600 | 200 | 13.3 | 26.7 | 0.0222 |

Calls and tokens are counted; per right verdict: generated tokens by the share of right verdicts. """
COSTS += r"""Times and money of a system are not measured but attributed by its share of generated tokens, """
COSTS += r"""as if it had sampled alone: systems share samples and batches, so no clock can tell them apart."""


@pytest.fixture
def costs_text(source_of):
    def text(grid, efforts=(), price_per_hour=None):
        section = costs_section(source_of(grid, efforts, price_per_hour=price_per_hour))
        assert section is not None
        return markdown(section)

    return text


def test_the_section(costs_text, grid, efforts):
    assert costs_text(grid, efforts, price_per_hour=3) == COSTS.strip()


def test_without_efforts_only_what_is_counted(costs_text, grid):
    text = costs_text(grid, price_per_hour=3)
    assert "seconds" not in text
    assert "money" not in text
    assert "| 3 debate | 4 | 600 | 600 | 1,200 | 1,600 | 200 |\n" in text


def test_one_round_has_no_columns_by_round(costs_text, scores, plan):
    alone = EvaluationPlan(systems=plan.systems[:1], reference="single")
    text = costs_text(Grid.of([one for one in scores if one.system == "single"], alone))
    assert "| system | calls | generated tokens, all | generated tokens, per right verdict | prompt tokens |" in text


def test_on_a_cpu_there_are_no_accelerators(costs_text, grid):
    text = costs_text(grid, [Usage(10, 9, "cpu", 0, 36, 10_800, 1_800)])
    assert "It took 10 s (engines at work for 9.0 s), 1,080 tokens per second." in text
    assert "accelerator" not in text


def test_gain_per_parameter_is_over_the_untrained_system_of_the_same_shape(scores, plan):
    single, vote, debate = plan.systems
    systems = (
        single.model_copy(update={"parameters": 0}),
        vote.model_copy(update={"parameters": 10_000_000_000}),
        debate.model_copy(update={"parameters": 0}),
        debate.model_copy(update={"name": "mada", "title": "MADA", "parameters": 10_000_000_000}),
        single.model_copy(update={"name": "tuned", "title": "tuned", "parameters": 10_000_000_000}),
    )
    trained = {"debate": "mada", "single": "tuned"}
    copies = [replace(one, system=trained[one.system]) for one in scores if one.system in trained]
    grid = Grid.of([*scores, *copies], EvaluationPlan(systems=systems, reference="mada"))
    assert [base_of(grid, one) for one in systems] == [systems[0], systems[0], systems[2], systems[2], systems[0]]
    table = costs_of(grid, PaperSystems.of(summarize(grid)))
    gains = {row[0].text: row[2].text for row in table.rows}
    # Means of 62.5 against 37.5 % for ten thousand million parameters; the others are copies of their bases.
    assert gains == {"one agent": "–", "vote | of 4": "+25", "debate": "–", "MADA": "+0", "tuned": "+0"}


def shaped(name, **others):
    return PlannedSystem(name=name, title=name, **{"generators": ("g",), "parameters": 0} | others)


@pytest.mark.parametrize(
    ("systems", "base"),
    [
        # The mean of single samples depends neither on their number nor on what is made of them.
        ([shaped("a"), shaped("b", generators=("x", "y", "z"), parameters=9)], "a"),
        (
            [
                shaped("c", parameters=9),
                shaped("a", matched_to="c"),
                shaped("d", generators=("x", "y"), parameters=9),
                shaped("b", generators=("x", "y"), matched_to="c", parameters=9),
            ],
            "a",
        ),
        # Other rounds, or no knowledge of training.
        ([shaped("a"), shaped("b", critics=("x",), rounds=2, parameters=9)], None),
        ([shaped("a", parameters=None), shaped("b", parameters=9)], None),
        # Two base models: neither is the base.
        ([shaped("a"), shaped("c", generators=("h",)), shaped("b", parameters=9)], None),
        ([shaped("a"), shaped("b", generators=(), members=("a",), parameters=9)], None),
    ],
)
def test_bases(systems, base, grid):
    plan = EvaluationPlan(systems=tuple(systems), reference="a")
    found = base_of(replace(grid, plan=plan), plan.systems[-1])
    assert (found.name if found else None) == base


def test_the_cost_in_a_terminal(grid, efforts):
    assert cost_lines(evaluation_cost(grid, efforts)) == [
        "72 completions asked for, 36 sampled: sharing saved 50 %",
        "21,600 tokens asked for, 10,800 sampled: sharing saved 50 %",
        "2 min 0 s (engines at work for 1 min 48 s), 4 min 0 s of accelerators, 90 tokens per second",
    ]
    assert cost_lines(evaluation_cost(grid, efforts, price_per_hour=3))[-1].endswith(", 0.20 in money")


def test_work_done_twice_is_no_saving(costs_text, grid, efforts):
    [line, *_] = cost_lines(evaluation_cost(grid, [*efforts, *efforts, *efforts]))
    assert line == "72 completions asked for, 108 sampled, more than asked for because lost work was done again"
    assert "| completions | 72 | 108 | −50 % |" in costs_text(grid, [*efforts] * 3)


def test_the_cost_of_shared_samples():
    nothing = Reuse(10, 0)
    assert cost_lines(EvaluationCost(nothing, nothing, nothing, 0, 0, None, None, None)) == [
        "10 completions asked for, 0 sampled: sharing saved 100 %",
        "10 tokens asked for, 0 sampled: sharing saved 100 %",
    ]


HOSTILE = "</pre></details><script>alert('é')</script>\n\x1b[2J"


class Recipe(BaseModel):
    seed: int = 17
    name: str = HOSTILE
    rounds: int = 2
    window: int | None = None


def section_of(folder, **fields):
    for _ in range(2):
        with Run.open(folder, Recipe(**fields)):
            pass
    return recipe_section(Source.of(Run.read(folder)))


def test_recipe_and_manifest_are_those_that_are_stored(tmp_path):
    section = section_of(tmp_path / "first")
    assert (section.name, section.title, section.only) == ("recipe", "Recipe and manifest", "page")
    recipe, manifest = section.blocks
    assert isinstance(recipe, Listing)
    assert isinstance(manifest, Listing)
    assert json.loads(recipe.text) == {"seed": 17, "name": HOSTILE, "rounds": 2, "window": None}
    stored = json.loads((tmp_path / "first" / "manifest.json").read_text())
    del stored["recipe"]
    for session in stored["sessions"]:
        del session["host"], session["pid"]
    assert json.loads(manifest.text) == stored
    assert [len(stored["sessions"]), stored["name"], stored["seed"]] == [2, "first", 17]
    # For people: a line per field, letters as they are written.
    assert recipe.text.startswith('{\n  "seed": 17,\n  "name": "')
    assert "é" in recipe.text


def test_on_a_page_they_are_folded_and_escaped_and_the_text_has_neither(tmp_path):
    section = section_of(tmp_path / "first")
    page = html_section(section)
    assert re.findall("<summary>(.*?)</summary>", page) == [
        "The recipe, with every default filled in",
        "The manifest: sessions, commits, versions, machines",
    ]
    assert page.count("<details>") == page.count("</details>") == page.count("<pre ") == page.count("</pre>") == 2
    assert "<script" not in page
    assert "\x1b" not in page
    [first, _] = re.findall('<pre dir="auto">(.*?)</pre>', page, re.DOTALL)
    assert json.loads(html.unescape(first))["name"] == HOSTILE
    assert "rounds" not in report_markdown(Run.read(tmp_path / "first"))
