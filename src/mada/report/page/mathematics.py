"""TeX in model output as trees of MathML elements, made when debates are packed.

A tree is `[name, {attributes}, child, …]`, without the attributes where there are none; a child is a tree or a text.
The page creates elements from it, so nothing that a model wrote becomes markup. Names and attributes are those of fixed
lists; a formula that is too long, too deep, or cannot be parsed stays text.
"""

import html
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

# The library has no types; `_tree` trusts nothing of what it returns.
from latex2mathml.converter import convert_to_element  # pyright: ignore

from mada.text import sanitize

LONGEST, DEEPEST, MOST_NODES = 1_500, 24, 2_000
"""Limits of a formula: characters, braces within braces, elements."""
MOST_FORMULAS = 1_000
"""Parsed in a text; what follows is shown as it was written."""
_ELEMENTS = """
    math mrow mi mn mo mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover mtable mtr mtd mstyle
    mpadded mphantom mmultiscripts mprescripts none
"""
_ATTRIBUTES = """
    accent columnalign depth display displaystyle fence form height largeop linethickness lspace mathvariant maxsize
    minsize movablelimits rspace scriptlevel separator stretchy symmetric width
"""
ELEMENTS, ATTRIBUTES = frozenset(_ELEMENTS.split()), frozenset(_ATTRIBUTES.split())
# Words, or a length that no page suffers from.
_VALUE = re.compile(r"[a-z -]{1,40}|[+-]?[0-9]{0,2}(?:\.[0-9]{1,6})?(?:em|ex|mu|pt|px|%)?")
_CLOSING = {"$": "$", "$$": "$$", r"\(": r"\)", r"\[": r"\]"}
_TOKEN = re.compile(r"\$+|\\(?:begin|end)\{[a-z]{1,12}\*?\}|\\boxed\{|\\.", re.DOTALL)
_ENVIRONMENT = re.compile(r"\\begin\{(?:align|aligned|equation|gather|gathered|cases|array|[pbvBV]?matrix)\*?\}")

Tree = list[Any]


def formulas_of(text: str) -> Iterator[tuple[int, int, Tree]]:
    """Yield where formulas begin and end in a text, delimiters included, with their trees; one pass over the text."""
    if "$" not in text and "\\" not in text:
        return
    tokens = [(match.start(), match[0]) for match in _TOKEN.finditer(text)]
    closed_by = _closings([token for _, token in tokens])
    end = tried = 0
    for index, (start, token) in enumerate(tokens):
        if start < end or tried == MOST_FORMULAS or (token != r"\boxed{" and closed_by[index] is None):
            continue
        tried += 1
        if token == r"\boxed{":
            stop, tex = _closing_brace(text, start + len(token)), None
        else:
            closing, closing_token = tokens[closed_by[index] or 0]
            stop = closing + len(closing_token)
            tex = None if token.startswith(r"\begin") else text[start + len(token) : closing]
        tex = text[start:stop] if tex is None else tex
        if token == "$" and not _is_inline(tex, after=text[stop : stop + 1]):
            continue
        tree = tree_of(tex, display=token not in ("$", r"\(", r"\boxed{"))
        if tree is not None:
            yield start, stop, tree
            end = stop


@lru_cache(maxsize=50_000)
def tree_of(tex: str, *, display: bool = False) -> Tree | None:
    """Return a formula without its delimiters as a tree; None where it is too large or cannot be parsed."""
    if not tex.strip() or len(tex) > LONGEST or _depth(tex) > DEEPEST:
        return None
    try:
        element = convert_to_element(tex, display="block" if display else "inline")
        return _tree(element, [MOST_NODES])
    # The library was not made for hostile input: besides its own errors it raises many of Python's.
    except Exception:
        return None


def answer_tree(answer: str) -> Tree | None:
    """Return an answer as a tree, where TeX would look different from its text."""
    return tree_of(answer) if re.search(r"[\\^_]", answer) else None


def text_html(text: str) -> str:
    """Return a text as HTML with its formulas set."""
    parts: list[str] = []
    written = 0
    for start, stop, tree in formulas_of(text):
        parts += [_escaped(text[written:start]), _tree_html(tree)]
        written = stop
    return "".join(parts) + _escaped(text[written:])


def answer_html(answer: str) -> str:
    """Return an answer as HTML, set as a formula where it is one."""
    tree = answer_tree(answer)
    return _escaped(answer) if tree is None else _tree_html(tree)


def _tree_html(tree: Tree | str) -> str:
    # Names and attributes passed the lists when the tree was made.
    if isinstance(tree, str):
        return _escaped(tree)
    name, *children = tree
    attributes = children.pop(0) if children and isinstance(children[0], dict) else {}
    written = "".join(f' {key}="{_escaped(value)}"' for key, value in attributes.items())
    return f"<{name}{written}>{''.join(map(_tree_html, children))}</{name}>"


def _escaped(text: str) -> str:
    return html.escape(sanitize(text))


def _tree(element: Any, left: list[int]) -> Tree:
    left[0] -= 1
    name = str(element.tag)
    attributes = {key: value for key, value in element.attrib.items() if key in ATTRIBUTES and _VALUE.fullmatch(value)}
    if name == "menclose":  # which browsers do not draw
        name, attributes = "mrow", {"class": "boxed"}
    if name not in ELEMENTS or left[0] < 0:
        raise ValueError(name)
    children: Tree = [html.unescape(element.text)] if element.text else []
    children += [_tree(child, left) for child in element]
    return [name, *([attributes] if attributes else []), *children]


def _closings(tokens: list[str]) -> list[int | None]:
    """Return for every opening token the index of the next one that closes it."""
    following: dict[str, int] = {}
    closings: list[int | None] = [None] * len(tokens)
    for index in range(len(tokens) - 1, -1, -1):
        token = tokens[index]
        closing = token.replace("begin", "end") if _ENVIRONMENT.fullmatch(token) else _CLOSING.get(token, "")
        closings[index] = following.get(closing)
        following[token] = index
    return closings


def _closing_brace(text: str, start: int) -> int:
    depth = 1
    for index in range(start, min(len(text), start + LONGEST)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return index + 1
    return start


def _is_inline(tex: str, *, after: str) -> bool:
    """Whether what is between two dollars is a formula rather than text between two prices."""
    if len(tex) > LONGEST or not tex.strip() or "\n\n" in tex or after.isdigit():
        return False
    if re.search(r"[\\^_]", tex):
        return True
    has_words = re.search(r"(?<![a-z])(?:[a-z]{3,}|to|or|in|of|is|at|by|if|on|and)(?![a-z])", tex) is not None
    return not has_words and (tex == tex.strip() or re.search("[=<>]", tex) is not None)


def _depth(tex: str) -> int:
    """Return an estimate of how deep a formula is nested."""
    deepest = depth = 0
    for letter in re.sub(r"\\(?:left|begin)\b", "{", re.sub(r"\\(?:right|end)\b", "}", tex)):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        deepest = max(deepest, depth)
    # Commands and scripts without braces nest too: \frac\frac\frac…, x^x^x…
    unbraced = max((len(run) for run in re.findall(r"(?:(?:\\[a-zA-Z]+|[\^_]\s*.?)\s*)+", tex)), default=0)
    return max(deepest, unbraced // 20)
