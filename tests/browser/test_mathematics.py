"""The page's mathematics in a real browser: TeX to MathML by hand-checked tables; hostile input stays text."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mada.report.page.page import SCRIPTS as PAGE_SCRIPTS

pytestmark = pytest.mark.browser


ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "src" / "mada" / "report" / "page" / "assets"
SCRIPTS = [name for name in PAGE_SCRIPTS if name.startswith("math")]
ELEMENTS = """
    math semantics annotation mrow mi mn mo mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover
    mtable mtr mtd mstyle mpadded mphantom code
"""
ATTRIBUTES = """
    display encoding class displaystyle scriptlevel mathvariant form stretchy symmetric minsize maxsize movablelimits
    lspace rspace linethickness width height depth accent accentunder
"""

# What the tests ask of a rendered text: its parts in order, its names, and its characters with every formula's source
# in the place of the formula.
PROBE = """
const probe = (text) => {
  const fragment = Mathematics.render(text);
  const parts = [...fragment.childNodes].map((node) => {
    if (node.nodeType === Node.TEXT_NODE) return ["prose", node.data];
    if (node.localName === "code") return [node.className, node.textContent];
    const tex = node.querySelector("annotation").textContent;
    return [node.getAttribute("display") === "block" ? "display" : "inline", tex];
  });
  const elements = [...fragment.querySelectorAll("*")];
  return {
    parts,
    names: [...new Set(elements.map((node) => node.localName))],
    attributes: [...new Set(elements.flatMap((node) => node.getAttributeNames()))],
    spaces: [...new Set(elements.map((node) => node.namespaceURI))],
  };
};
const markup = (tex) => {
  const math = Mathematics.toMathML(tex);
  if (math === null) return null;
  const written = [...math.querySelector("semantics > mrow").childNodes].map((node) => node.outerHTML).join("");
  return written.replaceAll(' xmlns="http://www.w3.org/1998/Math/MathML"', "");
};
"""


@pytest.fixture(scope="module")
def page(browser: Any) -> Iterator[Any]:
    page = browser.new_page()
    page.set_content("<!doctype html><title>Mathematics</title><body></body>")
    page.add_script_tag(content="\n".join((ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS) + PROBE)
    yield page
    page.close()


def parts_of(page: Any, text: str) -> list[list[str]]:
    return page.evaluate("(text) => probe(text).parts", text)


OPEN = '<mo form="prefix" stretchy="false">(</mo>'
CLOSE = '<mo form="postfix" stretchy="false">)</mo>'
TALL_OPEN = '<mo form="prefix" stretchy="true">(</mo>'
TALL_CLOSE = '<mo form="postfix" stretchy="true">)</mo>'
BAR = '<mo stretchy="false" lspace="0" rspace="0">|</mo>'
THIN = '<mspace width="0.1667em"></mspace>'
PRIME = '<mo lspace="0" rspace="0">′</mo>'
NAMED_LIMIT = '<mo form="prefix" movablelimits="true" lspace="0" rspace="0">lim</mo>'

MARKUP = {
    # Numbers and letters.
    "x": "<mi>x</mi>",
    "12.5": "<mn>12.5</mn>",
    "3.": '<mn>3</mn><mo lspace="0" rspace="0">.</mo>',
    "1,000": "<mn>1</mn><mo>,</mo><mn>000</mn>",
    "1{,}000": '<mn>1</mn><mo lspace="0" rspace="0">,</mo><mn>000</mn>',
    r"1,\!000": '<mn>1</mn><mo rspace="0">,</mo><mn>000</mn>',
    r"\Gamma\alpha\infty": '<mi mathvariant="normal">Γ</mi><mi>α</mi><mi mathvariant="normal">∞</mi>',
    "π ≤ 4": "<mi>π</mi><mo>≤</mo><mn>4</mn>",
    # Signs are told from binary operators.
    "a-b": "<mi>a</mi><mo>−</mo><mi>b</mi>",
    "-a": '<mo form="prefix">−</mo><mi>a</mi>',
    "a=-b": '<mi>a</mi><mo>=</mo><mo form="prefix">−</mo><mi>b</mi>',
    "(-1)": f'{OPEN}<mo form="prefix">−</mo><mn>1</mn>{CLOSE}',
    "|-3|-3": f'{BAR}<mo form="prefix">−</mo><mn>3</mn>{BAR}<mo>−</mo><mn>3</mn>',
    r"a\times b\le c\in D": "<mi>a</mi><mo>×</mo><mi>b</mi><mo>≤</mo><mi>c</mi><mo>∈</mo><mi>D</mi>",
    "n!": '<mi>n</mi><mo form="postfix">!</mo>',
    r"\not=": "<mo>≠</mo>",
    r"x \not\in S": "<mi>x</mi><mo>∉</mo><mi>S</mi>",
    # Scripts and primes.
    "x^2": "<msup><mi>x</mi><mn>2</mn></msup>",
    "x^10": "<msup><mi>x</mi><mn>1</mn></msup><mn>0</mn>",
    "x_i^2": "<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>",
    "x_{i+1}": '<msub><mi>x</mi><mrow><mi>i</mi><mo lspace="0" rspace="0">+</mo><mn>1</mn></mrow></msub>',
    "{}^2": "<msup><mrow></mrow><mn>2</mn></msup>",
    "x^2^3": "<msup><mi>x</mi><mrow><mn>2</mn><mn>3</mn></mrow></msup>",
    "x^*": '<msup><mi>x</mi><mo lspace="0" rspace="0">∗</mo></msup>',
    "f'": f"<mrow><mi>f</mi>{PRIME}</mrow>",
    r"f^\prime": f"<mrow><mi>f</mi>{PRIME}</mrow>",
    "f'_n": f"<msub><mrow><mi>f</mi>{PRIME}</mrow><mi>n</mi></msub>",
    r"90^\circ": '<msup><mn>90</mn><mo lspace="0" rspace="0">∘</mo></msup>',
    # Fractions and roots.
    r"\frac{1}{2}": "<mfrac><mn>1</mn><mn>2</mn></mfrac>",
    r"\frac12": "<mfrac><mn>1</mn><mn>2</mn></mfrac>",
    r"\frac\pi2": "<mfrac><mi>π</mi><mn>2</mn></mfrac>",
    r"\dfrac{a}{b}": '<mstyle displaystyle="true" scriptlevel="0"><mfrac><mi>a</mi><mi>b</mi></mfrac></mstyle>',
    r"\tfrac12": '<mstyle displaystyle="false"><mfrac><mn>1</mn><mn>2</mn></mfrac></mstyle>',
    r"\binom{n}{k}": f'<mrow>{TALL_OPEN}<mfrac linethickness="0"><mi>n</mi><mi>k</mi></mfrac>{TALL_CLOSE}</mrow>',
    r"{n \choose k}": f'<mrow>{TALL_OPEN}<mfrac linethickness="0"><mi>n</mi><mi>k</mi></mfrac>{TALL_CLOSE}</mrow>',
    r"{a \over b}": "<mfrac><mi>a</mi><mi>b</mi></mfrac>",
    r"\sqrt2": "<msqrt><mn>2</mn></msqrt>",
    r"\sqrt[3]{x}": "<mroot><mi>x</mi><mn>3</mn></mroot>",
    # Delimiters.
    r"\left(\frac12\right)": f"<mrow>{TALL_OPEN}<mrow><mfrac><mn>1</mn><mn>2</mn></mfrac></mrow>{TALL_CLOSE}</mrow>",
    r"\left\{x\right.": '<mrow><mo form="prefix" stretchy="true">{</mo><mrow><mi>x</mi></mrow></mrow>',
    r"\Big(": '<mo stretchy="true" symmetric="true" minsize="1.8em" maxsize="1.8em" lspace="0" rspace="0">(</mo>',
    r"\{a\}": '<mo form="prefix" stretchy="false">{</mo><mi>a</mi><mo form="postfix" stretchy="false">}</mo>',
    # Words and alphabets.
    r"\text{if } x": "<mtext>if&nbsp;</mtext><mi>x</mi>",
    r"\text{if $x>0$}": "<mrow><mtext>if&nbsp;</mtext><mrow><mi>x</mi><mo>&gt;</mo><mn>0</mn></mrow></mrow>",
    r"\text{a $5 note}": "<mtext>a&nbsp;$5&nbsp;note</mtext>",
    r"\textbf{(A)}": '<mtext class="math-bold">(A)</mtext>',
    r"\mathrm{cm}": "<mi>cm</mi>",
    r"\mathrm{d}x": '<mi mathvariant="normal">d</mi><mi>x</mi>',
    r"\mathbf{v}": '<mi mathvariant="normal">𝐯</mi>',
    r"\mathbb{R}": '<mi mathvariant="normal">ℝ</mi>',
    r"\mathcal{L}": '<mi mathvariant="normal">ℒ</mi>',
    r"\mathfrak{g}": '<mi mathvariant="normal">𝔤</mi>',
    r"\boldsymbol\alpha": "<mi>𝜶</mi>",
    # Functions and large operators.
    r"\sin x": f"<mi>sin</mi>{THIN}<mi>x</mi>",
    r"2\sin(x)": f"<mn>2</mn>{THIN}<mi>sin</mi>{OPEN}<mi>x</mi>{CLOSE}",
    r"\log_2 8": f"<msub><mi>log</mi><mn>2</mn></msub>{THIN}<mn>8</mn>",
    r"\operatorname{lcm}(a,b)": f"<mi>lcm</mi>{OPEN}<mi>a</mi><mo>,</mo><mi>b</mi>{CLOSE}",
    r"\lim_{n}": f"<munder>{NAMED_LIMIT}<mi>n</mi></munder>",
    r"\sum_{k}^n k": "<munderover><mo>∑</mo><mi>k</mi><mi>n</mi></munderover><mi>k</mi>",
    r"\sum\nolimits_k": "<msub><mo>∑</mo><mi>k</mi></msub>",
    r"\int_0^1": "<msubsup><mo>∫</mo><mn>0</mn><mn>1</mn></msubsup>",
    r"\int\limits_0": '<munder><mo movablelimits="false">∫</mo><mn>0</mn></munder>',
    r"a \bmod n": '<mi>a</mi><mo lspace="0.2222em" rspace="0.2222em">mod</mo><mi>n</mi>',
    r"b \pmod 7": f'<mi>b</mi><mspace width="0.6667em"></mspace><mrow>{OPEN}<mi>mod</mi>'
    f'<mspace width="0.3333em"></mspace><mn>7</mn>{CLOSE}</mrow>',
    # Marks, boxes and what is not drawn.
    r"\overline{AB}": '<mrow class="math-overline"><mrow><mi>A</mi><mi>B</mi></mrow></mrow>',
    r"\hat{x}": '<mover accent="true"><mi>x</mi><mo stretchy="false">^</mo></mover>',
    r"\underbrace{a}_{n}": '<munder><munder accentunder="true"><mi>a</mi><mo stretchy="true">⏟</mo></munder>'
    "<mi>n</mi></munder>",
    r"\overset{?}{=}": '<mover><mo>=</mo><mo lspace="0" rspace="0">?</mo></mover>',
    r"\underset{x}{y}": "<munder><mi>y</mi><mi>x</mi></munder>",
    r"\boxed{42}": '<mrow class="math-boxed"><mn>42</mn></mrow>',
    r"\boxed{the first}": '<mrow class="math-boxed"><mtext>the&nbsp;first</mtext></mrow>',
    r"\boxed{$18}": '<mrow class="math-boxed"><mrow><mtext>$</mtext><mn>18</mn></mrow></mrow>',
    r"\boxed{$x$}": '<mrow class="math-boxed"><mi>x</mi></mrow>',
    r"\phantom{x}": "<mphantom><mi>x</mi></mphantom>",
    r"\cancel{x}": "<mi>x</mi>",
    r"x\label{eq}": "<mi>x</mi>",
    r"\color{red}x": "<mi>x</mi>",
    r"\textcolor{red}{x}": "<mi>x</mi>",
    r"a\,b": f"<mi>a</mi>{THIN}<mi>b</mi>",
    r"a~b": '<mi>a</mi><mspace width="0.25em"></mspace><mi>b</mi>',
    r"\hspace{99cm}": '<mspace width="4em"></mspace>',
    r"a \tag{1}": '<mi>a</mi><mspace width="2em"></mspace><mtext>(</mtext><mtext>1</mtext><mtext>)</mtext>',
    r"50\%": '<mn>50</mn><mi mathvariant="normal">%</mi>',
    r"\unknown{x}": r"<mtext>\unknown</mtext><mi>x</mi>",
    r"\constructor": r"<mtext>\constructor</mtext>",
    # Environments.
    r"\begin{pmatrix}1&2\\3&4\end{pmatrix}": f'<mrow>{TALL_OPEN}<mtable class="math-matrix">'
    "<mtr><mtd><mn>1</mn></mtd><mtd><mn>2</mn></mtd></mtr><mtr><mtd><mn>3</mn></mtd><mtd><mn>4</mn></mtd></mtr>"
    f"</mtable>{TALL_CLOSE}</mrow>",
    r"\begin{cases}1&x\\2\\\end{cases}": '<mrow><mo form="prefix" stretchy="true">{</mo><mtable class="math-cases">'
    "<mtr><mtd><mn>1</mn></mtd><mtd><mi>x</mi></mtd></mtr><mtr><mtd><mn>2</mn></mtd></mtr></mtable></mrow>",
    r"\begin{aligned}a&=b\\[2pt]&-c\end{aligned}": '<mtable class="math-aligned" displaystyle="true">'
    "<mtr><mtd><mi>a</mi></mtd><mtd><mo>=</mo><mi>b</mi></mtd></mtr>"
    '<mtr><mtd></mtd><mtd><mo form="infix">−</mo><mi>c</mi></mtd></mtr></mtable>',
    r"\begin{array}{l|r}a&b\\\hline c&d\end{array}": '<mtable class="math-array">'
    '<mtr><mtd class="math-column-l"><mi>a</mi></mtd><mtd class="math-column-r math-rule"><mi>b</mi></mtd></mtr>'
    '<mtr class="math-line"><mtd class="math-column-l"><mi>c</mi></mtd>'
    '<mtd class="math-column-r math-rule"><mi>d</mi></mtd></mtr></mtable>',
    r"a\\b": '<mtable class="math-aligned" displaystyle="true"><mtr><mtd><mi>a</mi></mtd></mtr>'
    "<mtr><mtd><mi>b</mi></mtd></mtr></mtable>",
    # Broken structure has no markup.
    r"\frac{1}{": None,
    r"\left(x": None,
    r"x\right)": None,
    "x^": None,
    "x}": None,
    r"\begin{cases}x\end{array}": None,
    r"\begin{tikzpicture}\end{tikzpicture}": None,
}


@pytest.mark.parametrize(("tex", "expected"), MARKUP.items(), ids=MARKUP.keys())
def test_tex_becomes_the_markup_that_was_checked_by_hand(page: Any, tex: str, expected: str | None) -> None:
    assert page.evaluate("(tex) => markup(tex)", tex) == expected


def test_a_formula_keeps_its_source_and_says_how_it_stands(page: Any) -> None:
    written = page.evaluate("() => Mathematics.toMathML('x<y', {display: true}).outerHTML")
    assert written == (
        '<math display="block"><semantics>'
        "<mrow><mi>x</mi><mo>&lt;</mo><mi>y</mi></mrow>"
        '<annotation encoding="application/x-tex">x&lt;y</annotation></semantics></math>'
    )


def test_only_a_long_inline_formula_may_scroll(page: Any) -> None:
    classes = page.evaluate(
        """() => [["x+".repeat(30), {}], ["x+".repeat(31), {}], ["x+".repeat(31), {display: true}]].map(
            ([tex, options]) => Mathematics.toMathML(tex, options).getAttribute("class"))"""
    )
    assert classes == [None, "math-long", None]


PARTS = {
    "": [],
    "No mathematics,\n\n- **bold**\n": [["prose", "No mathematics,\n\n- **bold**\n"]],
    "so $x=1$.": [["prose", "so "], ["inline", "x=1"], ["prose", "."]],
    r"so \(x\) and \[y\]": [["prose", "so "], ["inline", "x"], ["prose", " and "], ["display", "y"]],
    "$$x$$\n$y$": [["display", "x"], ["prose", "\n"], ["inline", "y"]],
    r"a \begin{align*}x&=1\\y&=2\end{align*} b": [
        ["prose", "a "],
        ["display", r"\begin{align*}x&=1\\y&=2\end{align*}"],
        ["prose", " b"],
    ],
    r"\begin{cases}\begin{cases}x\end{cases}\end{cases}": [
        ["display", r"\begin{cases}\begin{cases}x\end{cases}\end{cases}"]
    ],
    r"Answer: \boxed{\frac{1}{2}}.": [["prose", "Answer: "], ["inline", r"\boxed{\frac{1}{2}}"], ["prose", "."]],
    r"\boxed{the first}": [["inline", r"\boxed{the first}"]],
    r"$\boxed{$18}$": [["inline", r"\boxed{$18}"]],
    r"$\text{if $x$}$ so": [["inline", r"\text{if $x$}"], ["prose", " so"]],
    # Money is prose.
    "costs $5 and $6": [["prose", "costs $5 and $6"]],
    r"costs \$5, not \$6": [["prose", r"costs \$5, not \$6"]],
    "$5-$7": [["prose", "$5-$7"]],
    "$5 to 10$ each": [["prose", "$5 to 10$ each"]],
    "pays $20 x 5 =$ 100": [["prose", "pays $20 x 5 =$ 100"]],
    "10$ + 5$": [["prose", "10$ + 5$"]],
    "has $1,000 and then $x$ more": [["prose", "has $1,000 and then "], ["inline", "x"], ["prose", " more"]],
    r"it is $\$$1500": [["prose", "it is "], ["inline", r"\$"], ["prose", "1500"]],
    # Spaces within the dollars only around what is plainly a formula.
    "if $ x $ and $ y=2$": [["prose", "if "], ["inline", " x "], ["prose", " and "], ["inline", " y=2"]],
    "5 $ and 6 $ more": [["prose", "5 $ and 6 $ more"]],
    # What opens and does not close is prose, and what follows is still read.
    r"\[ x + $y$": [["prose", r"\[ x + "], ["inline", "y"]],
    r"\( x": [["prose", r"\( x"]],
    r"\begin{align} x": [["prose", r"\begin{align} x"]],
    r"\begin{itemize}\end{itemize}": [["prose", r"\begin{itemize}\end{itemize}"]],
    r"\\(x\\)": [["prose", r"\\(x\\)"]],
    "$a\n\nb$": [["prose", "$a\n\nb$"]],
    "$$$$": [["prose", "$$$$"]],
    # What closes and cannot be read is shown as it was written.
    r"so $\frac{1}{$.": [["prose", "so "], ["broken-math", r"$\frac{1}{$"], ["prose", "."]],
    r"\[\left(x\]": [["broken-math", r"\[\left(x\]"]],
}


@pytest.mark.parametrize(("text", "expected"), PARTS.items(), ids=map(repr, PARTS.keys()))
def test_a_text_is_split_into_prose_and_mathematics(page: Any, text: str, expected: list[list[str]]) -> None:
    assert parts_of(page, text) == expected


def check_harmless(probed: dict[str, Any]) -> None:
    assert set(probed["names"]) <= set(ELEMENTS.split())
    assert set(probed["attributes"]) <= set(ATTRIBUTES.split())
    assert set(probed["spaces"]) <= {"http://www.w3.org/1998/Math/MathML", "http://www.w3.org/1999/xhtml"}


HOSTILE = (
    "$<img src=x onerror=alert(1)>$",
    "<script>alert(1)</script> $x$ <b>",
    r"$\href{javascript:alert(1)}{x}$",
    r"$\style{position:fixed}{x}\class{danger}{y}\html{<b>}$",
    r"$\color{red;background:url(x)}x$ $\textcolor{</math>}{y}$",
    r"$\begin{array}{l onclick}x\end{array}$",
    r"$\hspace{1e999em}\hspace{-5cm}\rule{9cm}{9cm}$",
    r"$\__proto__ \constructor \toString \hasOwnProperty$",
    r"$\operatorname{<b>}x \text{</mtext><img src=x>}$",
    "$\x00\u202e\ud83d\ude00$",
    r"$\def\x{\x\x}\x$",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_formulas_become_only_elements_and_attributes_of_the_list(page: Any, text: str) -> None:
    probed = page.evaluate("(text) => probe(text)", text)
    check_harmless(probed)
    assert any(kind in {"inline", "broken-math"} for kind, _ in probed["parts"])


# Written as JavaScript, so that megabytes need not travel; each is all prose or all source when it comes back.
EXCESSIVE = {
    "nested braces": r"'$' + '{'.repeat(1e5) + 'x' + '}'.repeat(1e5) + '$'",
    "nested braces that fit": r"'$' + '{'.repeat(1000) + 'x' + '}'.repeat(1000) + '$'",
    "nested roots": r"'$' + '\\sqrt'.repeat(500) + 'x$'",
    "nested fractions": r"'\\[' + '\\frac{1}{'.repeat(900) + 'x' + '}'.repeat(900) + '\\]'",
    "nested environments": r"'\\begin{cases}'.repeat(300) + '\\end{cases}'.repeat(300)",
    "boxes in boxes": r"'\\boxed{'.repeat(1e5)",
    "dollars": r"'$'.repeat(1e6)",
    "backslashes": r"'\\'.repeat(1e6)",
    "openings": r"'\\('.repeat(4e5) + '\\['.repeat(1e5)",
    "beginnings": r"'\\begin{align}'.repeat(7e4)",
    "spaces": r"'$' + ' '.repeat(1e6) + '$'",
    "too many tokens": r"'$$' + 'x+'.repeat(4000) + '$$'",
}


@pytest.mark.parametrize("expression", EXCESSIVE.values(), ids=EXCESSIVE.keys())
def test_excess_is_shown_as_it_was_written(page: Any, expression: str) -> None:
    shown = page.evaluate(
        f"""() => {{
            const text = {expression};
            const fragment = Mathematics.render(text);
            return {{ whole: fragment.textContent === text, formulas: fragment.querySelectorAll("math").length }};
        }}"""
    )
    assert shown == {"whole": True, "formulas": 0}


def test_formulas_beyond_the_limit_of_one_text_are_prose(page: Any) -> None:
    shown = page.evaluate(
        "() => { const parts = probe('$a$ '.repeat(5002)).parts; return [parts.length, parts.at(-1)]; }"
    )
    assert shown == [10_000, ["prose", " $a$ $a$ "]]


TOKENS = r"""
    \ { } [ ] ( ) ^ _ & $ $$ ' ~ % # | - + = , . ! 1 23 a x Z é ≤ 汉 😀 \\ \( \) \[ \] \{ \} \$ \, \! \| \frac \sqrt
    \left \right \left( \right) \middle| \big( \text \text{ \boxed{ \begin{align} \end{align} \begin{cases} \end{cases}
    \begin{array}{c|c} \end{array} \begin{tabular} \hline \sum \lim \sin \limits \over \choose \displaystyle \rm \mathbb
    \mathrm{ \not \hat \overline \underbrace \tag \label \color{red} \textcolor \hspace \operatorname* \overset \pmod
    \root \of \prime \xrightarrow \cr <b>
"""
ALPHABET = (*TOKENS.split(), " ", "\n", "\n\n", "\t", "\x00", "words ", "costs $5 and ")


@pytest.mark.parametrize("seed", range(20))
def test_no_text_throws_and_every_character_of_it_is_still_there(page: Any, seed: int) -> None:
    rng = random.Random(seed)
    texts = ["".join(rng.choices(ALPHABET, k=rng.randint(1, 40))) for _ in range(150)]
    probes = page.evaluate(
        """(texts) => texts.map((text) => {
            // Straight through the parser: `render` would hide a fault of the parser's by showing the source.
            Mathematics.toMathML(text);
            const segments = MathSegments.split(text);
            for (const segment of segments) if (segment.tex !== undefined) Mathematics.toMathML(segment.tex);
            return { ...probe(text), joined: segments.map((segment) => segment.prose ?? segment.source).join("") };
        })""",
        texts,
    )
    for text, probed in zip(texts, probes, strict=True):
        check_harmless(probed)
        assert probed["joined"] == text
        position = 0
        for _, shown in probed["parts"]:
            position = text.index(shown, position) + len(shown)


# Data whose formulas we have looked at: the largest share of them that may be shown as their source.
CORPORA = {"math500.jsonl": 0.0, "minerva_math.jsonl": 0.001, "aime24.jsonl": 0.0, "amc23.jsonl": 0.0}


@pytest.mark.parametrize(("name", "tolerated"), CORPORA.items(), ids=CORPORA.keys())
def test_formulas_of_known_data_are_read(page: Any, name: str, tolerated: float) -> None:
    path = ROOT.parent / "shared" / "data" / name
    if not path.exists():
        pytest.skip(f"{path} is not there")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").strip().split("\n")]
    texts = [str(row[field]) for row in rows for field in ("problem", "solution") if row.get(field)]
    kinds = [
        kind for parts in page.evaluate("(texts) => texts.map((text) => probe(text).parts)", texts) for kind, _ in parts
    ]
    formulas = len(kinds) - kinds.count("prose")
    assert formulas > 100
    assert kinds.count("broken-math") <= tolerated * formulas
