"""Finding the final answer in a reply: after the thinking, inside the last box (R1).

Everything here is one pass over the text: a reply is untrusted and may be a megabyte of opening braces.
"""

import re

THINKING_OPENS = "<think>"
THINKING_ENDS = "</think>"

_SPACE = re.compile(r"\s*")
# What may stand between the boxes of one list: `$ and $`, `, x = `.
_MARK = r"\s|\\[()\[\]; ]|\$"
_LIST_GAP = re.compile(
    rf"(?:{_MARK})*(?:,|;|(?:\\text\{{\s*)?(?:and|or)\b\s*\}}?)(?:{_MARK}|and\b|or\b|[a-zA-Z](?:_\{{?\d\}}?)?\s*=)*"
)
_LONGEST_GAP = 60  # characters
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
    r"""Return the content of the last balanced, non-empty `\boxed{}`; of nested boxes the outermost.

    Boxes that only `and`, `or` or a comma separate are one answer, a list: `\boxed{-2} and \boxed{1}` is `-2, 1`.
    """
    boxes: list[tuple[int, int, int]] = []  # where a box begins, where its content does, and where that ends
    opened: list[tuple[int, int] | None] = []  # the same for open boxes; None for any other brace
    for match in _BRACES.finditer(text):
        if match["box"]:
            opened.append(match.span())
        elif match["open"]:
            opened.append(None)
        elif match["close"] and opened:
            box = opened.pop()
            if box is not None and _SPACE.match(text, box[1]).end() < match.start():  # type: ignore[union-attr]
                while boxes and boxes[-1][0] > box[0]:
                    boxes.pop()
                boxes.append((*box, match.start()))
    if not boxes:
        return None
    first = len(boxes) - 1
    while first and _are_one_list(text, boxes[first - 1][2] + 1, boxes[first][0]):
        first -= 1
    entries = [text[start:end].strip() for _, start, end in boxes[first:]]
    return entries[0] if len(set(entries)) == 1 else ", ".join(entries)


def _are_one_list(text: str, end: int, start: int) -> bool:
    return start - end <= _LONGEST_GAP and _LIST_GAP.fullmatch(text, end, start) is not None


def extract_answer(text: str, *, thinking_opened: bool = False) -> str | None:
    """Return the final answer of a reply, or `None`: a missing answer is no error, it earns no reward."""
    conclusion = after_thinking(text, thinking_opened=thinking_opened)
    return None if conclusion is None else last_box(conclusion)
