"""Finding the final answer in a reply: after the thinking, inside the last box (R1).

Everything here is one pass over the text: a reply is untrusted and may be a megabyte of opening braces.
"""

import re

THINKING_OPENS = "<think>"
THINKING_ENDS = "</think>"

_SPACE = re.compile(r"\s*")
# A box, an escaped brace, a line break (so that its second backslash escapes nothing), or a plain brace.
_BRACES = re.compile(r"(?P<box>\\boxed\s*\{)|\\[{}]|\\\\(?!boxed)|(?P<open>\{)|(?P<close>\})")


def after_thinking(text: str, *, thinking_opened: bool = False) -> str | None:
    """Return what follows the last thinking block, or `None` when the thinking never ended.

    Some chat templates open the block in the prompt, so the reply itself never shows `<think>`; say so with
    `thinking_opened`, or a reply that was cut off while thinking passes for an answer.
    """
    _, ended, tail = text.rpartition(THINKING_ENDS)
    if THINKING_OPENS in tail or (thinking_opened and not ended):
        return None
    return tail


def last_box(text: str) -> str | None:
    r"""Return the content of the last balanced, non-empty `\boxed{}`; of nested boxes the outermost."""
    found: tuple[int, int] | None = None
    opened: list[int | None] = []  # where a box's content starts; None for any other brace
    for match in _BRACES.finditer(text):
        if match["box"]:
            opened.append(match.end())
        elif match["open"]:
            opened.append(None)
        elif match["close"] and opened:
            start = opened.pop()
            if start is not None and _SPACE.match(text, start).end() < match.start():  # type: ignore[union-attr]
                found = start, match.start()
    return None if found is None else text[slice(*found)].strip()


def extract_answer(text: str, *, thinking_opened: bool = False) -> str | None:
    """Return the final answer of a reply, or `None`: a missing answer is no error, it earns no reward."""
    conclusion = after_thinking(text, thinking_opened=thinking_opened)
    return None if conclusion is None else last_box(conclusion)
