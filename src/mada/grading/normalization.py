r"""One spelling for the many ways of writing the same answer, before anything is compared.

`\dfrac 12`, `½` and `\tfrac{1}{2}` become `\frac{1}{2}`; `1\,000` and `1{,}000` become `1000`; `8.7e8` becomes
`8.7 \times 10^{8}`; `np.arcsin(10/13)` becomes `\arcsin(10/13)`. Nothing here decides whether two answers are equal,
and every pattern takes linear time: answers are untrusted.
"""

import re

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")

_CHARACTERS = str.maketrans(
    {
        "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-",
        "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "∙": r"\cdot ", "÷": "/", "∕": "/", "⁄": "/",
        "≤": r"\le ", "⩽": r"\le ", "≥": r"\ge ", "⩾": r"\ge ", "≠": r"\ne ", "≈": r"\approx ",
        "π": r"\pi ", "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta ", "λ": r"\lambda ", "ω": r"\omega ",
        "∞": r"\infty ", "±": r"\pm ", "∓": r"\mp ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ",
        "∅": r"\emptyset ", "∨": r"\lor ", "∧": r"\land ", "⟨": "(", "⟩": ")",
        "°": r"^{\circ}", "º": r"^{\circ}", "′": "'", "’": "'", "‘": "'",
        "½": r"\frac{1}{2}", "⅓": r"\frac{1}{3}", "⅔": r"\frac{2}{3}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}",
        "⅕": r"\frac{1}{5}", "⅖": r"\frac{2}{5}", "⅗": r"\frac{3}{5}", "⅘": r"\frac{4}{5}", "⅛": r"\frac{1}{8}",
        "％": "%", "＄": "$", "€": "", "£": "", "¥": "", "\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u3000": " ",
        "，": ",", "；": ";", "：": ":", "（": "(", "）": ")", "＝": "=", "＋": "+", "－": "-",
    }
    | {chr(ord("０") + digit): str(digit) for digit in range(10)}
)  # fmt: skip

# Control characters, zero-width characters and marks of writing direction: invisible, so they carry no answer.
_INVISIBLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_SUPERSCRIPT_RUN = re.compile(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+")
_SUBSCRIPT_RUN = re.compile(r"[₀₁₂₃₄₅₆₇₈₉]+")
_UNICODE_ROOT = re.compile(r"√\s*(?:\((?P<inside>[^()]*)\)|(?P<atom>\d+(?:\.\d+)?|[a-zA-Z]))")

_DELIMITERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ("**", "**"), ("`", "`"))

_FUNCTION = "(?:arc)?(?:sin|cos|tan|cot|sec|csc)h?|ln|log|exp|lcm|gcd|max|min"
_CHINESE = "\u4e00-\u9fff"
# Behind digits and in words, these are powers of ten; 千 before a unit is a prefix (千米 are kilometres).
_MAGNITUDES = {
    r"hundred\b": 2, r"thousand\b": 3, r"million\b": 6, r"billion\b": 9, r"trillion\b": 12,
    "百": 2, "千(?![米克瓦焦卡伏赫帕])": 3, "万": 4, "亿": 8,
}  # fmt: skip
_THIN_SPACE = r"(?<!\\)\\[,;:> ]|~|\\(?:thinspace|enspace|medspace)(?![a-zA-Z])"

# Commands that change the look alone, written away or written one way. The order matters.
_LOOKS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|mathstrut|strut|phantom\{[^{}]*\})(?![a-zA-Z])", ""),
        (r"\\(?:text)?color\s*(?:\[[^\]]*\])?\s*\{[^{}]*\}", ""),
        (r"\\(?:bf|rm|it|sf|tt|bfseries|boldmath|(?:L|l)arge|LARGE|(?:H|h)uge|small)(?![a-zA-Z])(?!\s*\{)", ""),
        (r"^\s*\{([^{},]*)\}\s*$", r"\1"),
        (r"\^\s*(?:\{\s*\\prime\s*\}|\\prime(?![a-zA-Z]))", "'"),
        (r"\^\s*\{\s*\\prime\s*\\prime\s*\}", "''"),
        (r"^\s*(?:\\approx|\\simeq|~|=)\s*", ""),
        (r"\\lg(?![a-zA-Z])", r"\\log_{10} "),
        (r"\\langle(?![a-zA-Z])", "("),
        (r"\\rangle(?![a-zA-Z])", ")"),
        (r"(?:\\(?:text|mathbin|mathrel)\s*)?\{\s*:\s*\}|\\colon(?![a-zA-Z])", ":"),
        (r"\\(?:mathrm|rm)\s*\{\s*([ei])\s*\}", r"\1"),
        (r"_\s*\{\s*\\(max|min)\s*\}|_\s*\\(max|min)(?![a-zA-Z])", r"_{\1\2}"),
        (r"^\s*\\(max|min)(?![a-zA-Z])[^=<>]{0,20}=", r"\\text{\1}="),
        (r"\\vee(?![a-zA-Z])", r"\\lor "),
        (r"\\wedge(?![a-zA-Z])", r"\\land "),
        (rf"(?<=[\d}})%])\s*([{_CHINESE}]+)$", r"\\text{\1}"),
        (r"\\[bp]?mod(?![a-zA-Z])\s*(?:\{\s*(\d+)\s*\}|(\d+))?", r" \\pmod{\1\2}"),
        (r"\\angle\s*([A-Z]{3})(?![a-zA-Z])", r"\\text{angle \1}"),
        (r"\\(?:big|Big|bigg|Bigg)[lrm]?(?![a-zA-Z])", ""),
        (r"\\(?:left|right|middle)\s*\.", ""),
        (r"\\(?:left|right|middle)(?![a-zA-Z])", ""),
        (r"\\[dtc]frac(?![a-zA-Z])", r"\\frac"),
        (r"\\[dt]binom(?![a-zA-Z])", r"\\binom"),
        (r"\\(?:varnothing|O)(?![a-zA-Z])", r"\\emptyset"),
        (r"\\(?:leqslant|leq)(?![a-zA-Z])", r"\\le"),
        (r"\\(?:geqslant|geq)(?![a-zA-Z])", r"\\ge"),
        (r"\\neq(?![a-zA-Z])", r"\\ne"),
        (r"\\lbrace(?![a-zA-Z])", r"\\{"),
        (r"\\rbrace(?![a-zA-Z])", r"\\}"),
        (r"\\lbrack(?![a-zA-Z])", "["),
        (r"\\rbrack(?![a-zA-Z])", "]"),
        (r"\\(?:text(?:normal|rm|it|bf|sf|tt|sc)|math(?:rm|it|bf|sf)|mbox|hbox|rm|bf|it)\s*\{", r"\\text{"),
        (r"\\text\s+\{", r"\\text{"),
        *(
            (rf"(?<=[\d}}])\s*(\\text\{{)?\s*{word}", rf" \\times 10^{{{power}}}\1")
            for word, power in _MAGNITUDES.items()
        ),
        (r"\\text\{\s*\}", " "),
        (rf"\\operatorname\*?\s*\{{\s*({_FUNCTION})\s*\}}", r"\\\1 "),
        (r"\^\s*(?:\{\s*\\(?:circ|degree)\s*\}|\\(?:circ|degree)(?![a-zA-Z]))|\\degree(?![a-zA-Z])", "°"),
        (r"\\text\{\s*degrees?\s*\}", "°"),
        (r",\s*\\!\s*(?=\d{3}(?!\d))", "\N{THIN SPACE}"),
        (r"(?<!\\)\\!", ""),
        (r"\{\s*,\s*\}(?=\d{3}(?!\d))", "\N{THIN SPACE}"),
        (r"\{\s*,\s*\}", ","),
        (rf"(?<=\d)(?:{_THIN_SPACE})\s*(?=\d{{3}}(?!\d))", "\N{THIN SPACE}"),
        (rf"{_THIN_SPACE}|\\(?:quad|qquad|hspace\{{[^{{}}]*\}})(?![a-zA-Z])", " "),
        (r"(?<=[A-Z]),?\s+and\s+(?=[A-Z]{1,4}(?![a-zA-Z]))", ", "),
        (r"\\text\{\s*([A-Z]{1,4}(?:\s*,\s*[A-Z]{1,4})+)\s*\}", r"\1"),
        (r"\\text\{(\s*[-+]?\d(?:[^{}a-zA-Z:]|\s(?:and|or)\s)*)\}", r"\1"),
        (r"\\(?:%|text\{\s*(?:percent|%|\\%)\s*\})|\bpercent\b", "%"),
        (r"\\text\{\s*infinity\s*\}", r"\\infty "),
        (r"\\text\{\s*\\?\$\s*\}", r"\\$"),
        ("^(-?)\\\\\\$\\s*(-?[\\d.,\N{THIN SPACE}]+)$", r"\1\2\\text{ dollars}"),
        (r"\\\$", ""),
        (r"\\(?:cdots|ldots|dots)(?![a-zA-Z])", r"\\ldots "),
    )
)  # fmt: skip

_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)"

# Plain text, calculators and Python: what models and data sets write where LaTeX is expected.
_PLAIN: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\b(?:np|numpy|math|sp|sympy|torch)\.(?=[a-z])", ""),
        (r"\*\*\s*\(([^()]*)\)", r"^{\1}"),
        (r"\*\*", "^"),
        (r"(?<![a-zA-Z\\])(?:a|arc)(sin|cos|tan)\s*\(", r"\\arc\1("),
        (r"(?<![a-zA-Z\\])(sinh|cosh|tanh|sin|cos|tan|cot|sec|csc|ln|log|exp)\s*(?=[({])", r"\\\1"),
        (r"(?<![a-zA-Z\\])sqrt\s*\(([^()]*)\)", r"\\sqrt{\1}"),
        (r"(?<![a-zA-Z\\])sqrt\s*\{", r"\\sqrt{"),
        (r"(?<![a-zA-Z\\])(pi|theta|infty)(?![a-zA-Z])", r"\\\1 "),
        (r"(?<![a-zA-Z\\])(?:infinity|oo)(?![a-zA-Z])", r"\\infty "),
        (rf"(?<![a-zA-Z\\\d.])({_NUMBER})\s*[eE]([+-]?\d{{1,4}})(?![\d.a-zA-Z])", r"\1 \\times 10^{\2}"),
        (r"(\d)\.(?=\s*(?:/|\\times|\\cdot|\*|$|[)}\]]))", r"\1"),
        (r"(?<=[\d)}a-zA-Z])\s*\*\s*(?=[\d({a-zA-Z\\])", r" \\cdot "),
        (r"(?<=\d)\s+x\s+(?=10\s*\^)", r" \\times "),
        (r"(?<=\d)\s*\((?=\s*\\frac)", r" \\cdot ("),
    )
)  # fmt: skip

# What joins inequalities, and what joins the entries of a list.
_INEQUALITY = re.compile(r"[<>]|\\(?:le|ge|ne|lt|gt|in)(?![a-zA-Z])")
_OR = re.compile(r",?\s*(?:\\text\{\s*,?\s*(?i:or)\s*\}|(?<=\s)or(?=\s))\s*")
_AND = re.compile(r",?\s*(?:\\text\{\s*,?\s*(?i:and)\s*\}|(?<=\s)and(?=\s))\s*")
_LIST_WORD = re.compile(
    r",?\s*\\text\{\s*,?\s*(?i:and|or)\s*\}\s*|(?<=[\d})])\s+(?:and|or)\s+(?=[-\d(\\])|\s*\\lor(?![a-zA-Z])\s*"
)

_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_PARENTHESIS = re.compile(r"\\.|[()]", re.DOTALL)
_WRAPPER = re.compile(r"(?<!\\)\\(?P<name>underline|fbox|framebox|boxed|boldsymbol|bm|mathbf|mathit)\s*\{")
_ATOM = r"(\d|[a-zA-Z](?![a-zA-Z])|\\pi(?![a-zA-Z]))"
_BARE_ARGUMENT = re.compile(rf"\\frac\s*(?:{_ATOM}\s*{_ATOM}|{_ATOM}\s*\{{([^{{}}]*)\}}|\{{([^{{}}]*)\}}\s*{_ATOM})")
_BARE_ROOT = re.compile(r"\\sqrt\s*(\d+|[a-zA-Z])(?![a-zA-Z])")
_EXPONENT = re.compile(r"\^\s*(?:\(([+-]?\d+)\)|([+-]?\d+|[a-zA-Z]))")
_SUBSCRIPT = re.compile(r"_\s*(\d+|[a-zA-Z]|\\[a-zA-Z]+(?![a-zA-Z{]))")
_SPACED_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:[ \N{THIN SPACE}]\d{3})+(?!\d)")
_COMMA_THOUSANDS = re.compile(r"(?<![\d.,])[1-9]\d{0,2}(?:,\d{3})+(?!\d|,\S)")
_SPACE = re.compile(r"\s+")


def normalize(answer: str) -> str:
    """Rewrite an answer into the one spelling that comparison works on; idempotent on what it returns."""
    text = _INVISIBLE.sub("", answer)
    text = _SUPERSCRIPT_RUN.sub(lambda run: f"^{{{run[0].translate(_SUPERSCRIPTS)}}}", text)
    text = _SUBSCRIPT_RUN.sub(lambda run: f"_{{{run[0].translate(_SUBSCRIPTS)}}}", text)
    text = text.translate(_CHARACTERS)
    text = _UNICODE_ROOT.sub(lambda root: f"\\sqrt{{{root['inside'] or root['atom']}}}", text)
    text = _unwrapped(_without_delimiters(text))
    for pattern, replacement in _LOOKS:
        text = pattern.sub(replacement, text)
    text = text.replace("$", "")
    inequality = _INEQUALITY.search(text)
    text = _AND.sub(r" \\land ", _OR.sub(r" \\lor ", text)) if inequality else _LIST_WORD.sub(", ", text)
    for pattern, replacement in _PLAIN:
        text = pattern.sub(replacement, text)
    text = _without_doubled_parentheses(text)
    text = _BARE_ARGUMENT.sub(_braced_fraction, text)
    text = _BARE_ROOT.sub(r"\\sqrt{\1}", text)
    text = _EXPONENT.sub(lambda match: f"^{{{match[1] or match[2]}}}", text)
    text = _SUBSCRIPT.sub(r"_{\1}", text)
    text = _SPACED_THOUSANDS.sub(lambda number: re.sub(r"\D", "", number[0]), text)
    if not any(bracket in text for bracket in ("(", "[", r"\{")):  # in a set or a point, commas separate
        text = _COMMA_THOUSANDS.sub(lambda number: number[0].replace(",", ""), text)
    return _SPACE.sub(" ", text).strip().rstrip(".,;:\\ ").strip()


def _without_delimiters(text: str) -> str:
    """Take off the marks that only say "here is mathematics", and a full stop behind them."""
    text = text.strip()
    stripped = True
    while stripped:
        stripped = False
        for opening, closing in _DELIMITERS:
            inside = text.rstrip(".,; ")
            if len(inside) > len(opening) + len(closing) and inside.startswith(opening) and inside.endswith(closing):
                inside = inside[len(opening) : -len(closing)]
                if opening not in inside:
                    text, stripped = inside.strip(), True
    return text


def _unwrapped(text: str) -> str:
    """Take off the boxes, lines and bold type around mathematics; bold words stay words."""
    if not _WRAPPER.search(text):
        return text
    closing = _closings(text, _BRACE)
    edits: dict[int, tuple[int, str]] = {}  # where a piece begins: where it ends, and what replaces it
    for wrapper in _WRAPPER.finditer(text):
        end = closing.get(wrapper.end() - 1, len(text))
        word = wrapper["name"].startswith("math") and text[wrapper.end() : end].isalpha()
        edits[wrapper.start()] = wrapper.end(), r"\text{" if word else ""
        if not word:
            edits[end] = end + 1, ""
    pieces: list[str] = []
    index = 0
    for start, (end, replacement) in sorted(edits.items()):
        pieces += text[index:start], replacement
        index = end
    return "".join([*pieces, text[index:]])


def _without_doubled_parentheses(text: str) -> str:
    """Write `((x))` as `(x)`: the grammar's time doubles with every needless level."""
    if "((" not in text:
        return text
    closing = _closings(text, _PARENTHESIS)
    needless = {start for start, end in closing.items() if closing.get(start + 1) == end - 1}
    dropped = needless | {closing[start] for start in needless}
    return "".join(character for index, character in enumerate(text) if index not in dropped)


def _closings(text: str, bracket: re.Pattern[str]) -> dict[int, int]:
    """Return where each open bracket is closed."""
    closing: dict[int, int] = {}
    opened: list[int] = []
    for match in bracket.finditer(text):
        if match[0] in "({":
            opened.append(match.start())
        elif match[0] in ")}" and opened:
            closing[opened.pop()] = match.start()
    return closing


def nesting(text: str) -> int:
    """Return how deep brackets of any kind are nested, closed or not."""
    depth = deepest = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    return deepest


def _braced_fraction(match: re.Match[str]) -> str:
    numerator, denominator = (group for group in match.groups() if group is not None)
    return f"\\frac{{{numerator}}}{{{denominator}}}"
