"""Reports as Markdown, and text that wants to be more than text."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mada.report.document import Figure, Section, paragraph
from mada.report.forms.markdown import code, escaped, fenced, markdown

GOLDENS = Path(__file__).parent / "goldens"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, text-1.5 (b)", "plain, text-1.5 (b)"),
        ("<script>x</script>", r"\<script\>x\</script\>"),
        ("[a](http://b)", r"\[a\](http:\//b)"),
        ("WWW.b.c", r"WWW\.b.c"),
        ("![i](x)", r"\!\[i\](x)"),
        ("a | b", r"a \| b"),
        (r"a \| b", r"a \\\| b"),
        ("**a** _b_ ~c~ `d`", r"\*\*a\*\* \_b\_ \~c\~ \`d\`"),
        ("&lt; $x$", r"\&lt; \$x\$"),
        ("a\n\n# b\r\nc\u2028d", r"a \# b c d"),
        ("a\x1b[31mb\u202ec\ud800", r"a�\[31mb�c�"),
    ],
)
def test_inside_a_line_every_character_stands_for_itself(text, shown):
    assert escaped(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [("4", "`4`"), ("a`b", "``a`b``"), ("`", "`` ` ``"), ("a\n\n<b>", "`a <b>`"), ("", "(empty)"), (" \n", "(empty)")],
)
def test_code_spans(text, shown):
    assert code(text) == shown


@pytest.mark.parametrize(
    ("text", "fence"), [("a", "```"), ("```\n# out\n```", "````"), ("`````", "``````"), ("\r````\rx", "`````")]
)
def test_no_text_ends_its_own_fence(text, fence):
    lines = fenced(text).split("\n")
    assert (lines[0], lines[-1]) == (f"{fence}text", fence)


@given(st.text(alphabet=st.sampled_from("`~\n\r\t a#|\u2028\x0b\x00\ud800")))
def test_nothing_inside_a_fence_is_as_long_as_the_fence(text):
    first, *inner, last = fenced(text).splitlines()
    assert first == f"{last}text"
    assert all(len(run) < len(last) for line in inner for run in re.findall("`+", line))
    fenced(text).encode()


def test_a_section_with_every_kind_of_block(hostile_section):
    assert markdown(hostile_section) + "\n" == (GOLDENS / "section.md").read_text(encoding="utf-8")


def test_only_figures_that_have_a_file_are_linked_to():
    section = Section("s", "S", (Figure("flow", "Votes [x]"), Figure("pairs", "Pairs"), paragraph("End.")))
    assert markdown(section) == "## S\n\nEnd."
    assert markdown(section, figures={"flow", "tokens"}) == (
        "## S\n\n![Votes \\[x\\]](report/figures/flow.png)\n\nEnd."
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("- a", r"\- a"),
        ("12. a", r"12\. a"),
        ("3) a", r"3\) a"),
        ("+ a", r"\+ a"),
        ("---", r"\---"),
        (" \n- a", r"\- a"),
        ("3.5 points", "3.5 points"),
        ("−5 and -5", "−5 and -5"),
    ],
)
def test_a_paragraph_is_never_a_list_or_a_rule(text, shown):
    assert markdown(Section("s", "S", (paragraph(text),))) == f"## S\n\n{shown}"
