r"""Where in a row's answer column the final answer stands.

Some data sets store it plainly, GSM8K stores the worked solution and then `#### 72`, MATH stores a solution
that ends in `\boxed{72}`. Each form is a function from the column's text to the answer, or to `None` when the
answer is not there.
"""

from collections.abc import Callable


def _whole_text(text: str) -> str | None:
    return text.strip() or None


def _after_hashes(text: str) -> str | None:
    _, mark, answer = text.rpartition("####")
    # GSM8K writes 1,200 for 1200; every answer there is one number, so a comma never separates two.
    return (answer.replace(",", "").strip() or None) if mark else None


def _last_boxed(text: str) -> str | None:
    r"""The content of the last complete box; `\boxed 7`, which MATH has too, counts up to the next space."""
    start = len(text)
    while (start := max(text.rfind("\\boxed", 0, start), text.rfind("\\fbox", 0, start))) >= 0:
        rest = text[start:].removeprefix("\\boxed").removeprefix("\\fbox").lstrip()
        inside = _inside_braces(rest) if rest.startswith("{") else _up_to_space(rest)
        if inside:
            return inside
    return None


def _inside_braces(text: str) -> str:
    depth = 0
    escaped = False
    for position, character in enumerate(text):
        if escaped or character == "\\":
            escaped = not escaped
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return text[1:position].strip()
    return ""


def _up_to_space(text: str) -> str:
    return text.split(maxsplit=1)[0].rstrip("$.,") if text else ""


ANSWER_FORMS: dict[str, Callable[[str], str | None]] = {
    "text": _whole_text,
    "after-hashes": _after_hashes,
    "last-boxed": _last_boxed,
}
