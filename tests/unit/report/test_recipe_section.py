"""The recipe and the manifest on the page: everything that is stored, and nothing of it obeyed."""

import html
import json
import re

from pydantic import BaseModel

from mada.report.document import Listing
from mada.report.forms.html import html_section
from mada.report.publishing import report_markdown
from mada.report.reading import Source
from mada.report.sections.run import recipe_section
from mada.run import Run

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
