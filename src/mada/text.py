"""Text for people: counts, durations, and untrusted text without characters that steer a terminal or an editor."""

import json
import re
import unicodedata

_LINE_ENDS = re.compile(r"\r\n|[\r\v\f\x85\u2028\u2029]")


def counted(count: int, one: str, several: str | None = None) -> str:
    """Return a count with its noun: `1 problem`, `7,500 problems`."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def duration(seconds: float | None) -> str:
    """Return a length of time: `0.04 s`, `8.4 s`, `3 min 5 s`, `12 min`, `4 h 5 min`, `3 d 4 h`; None is `–`."""
    if seconds is None:
        return "–"
    if seconds < 9.95:
        return f"{seconds:.1f} s" if seconds >= 0.095 else f"{seconds:.2f} s"
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 600:
        return f"{seconds // 60} min {seconds % 60} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


def in_bytes(count: float) -> str:
    """Return a number of bytes with three digits that count: `3.55 GB`."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB"


def in_millions(count: float) -> str:
    """Return a large number, from a million on in millions with two digits that count."""
    millions = count / 1_000_000
    return f"{count:,.0f}" if millions < 1 else f"{float(f'{millions:.2g}'):,g} million"


def shortened(text: str, width: int) -> str:
    """Cut a text to a number of characters, and show that it was cut."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def middle_out(text: str, width: int) -> str:
    """Cut the middle out of a text that is longer than a number of characters, and show that it was cut."""
    return text if len(text) <= width else f"{text[: width // 2]}\n[…]\n{text[-(width // 2) :]}"


def json_excerpt(value: object, width: int | None = None) -> str:
    """Return a value as JSON on one line, without characters that steer a terminal, cut to `width` characters."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except ValueError:
        return "a number of thousands of digits"  # Python refuses to write these
    if not text.isprintable():
        text = json.dumps(value, default=str)
    return text if width is None else shortened(text, width)


def printable(text: str) -> str:
    """Return text on one line, without what steers a terminal or an editor."""
    return " ".join(sanitize(text).split())


def has_lone_surrogate(text: str) -> bool:
    """Whether text holds half of a surrogate pair (JSON's `"\\ud800"`, bytes that are not UTF-8): no UTF-8 can."""
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def excerpt(text: str, width: int) -> str:
    """Return the beginning of a text on one line, without characters that steer a terminal."""
    return shortened(printable(text), width)


def sanitize(text: str) -> str:
    """Replace control characters, bidirectional marks and lone surrogates; lines stay lines."""
    return "".join(
        character if character in "\n\t" or not unicodedata.category(character).startswith("C") else "�"
        for character in _LINE_ENDS.sub("\n", text)
    )
