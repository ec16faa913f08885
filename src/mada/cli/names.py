"""Options that name several things, with commas between them."""

import re

_COMMA = re.compile(r",(?![^{]*\})")
"""A comma, unless it stands in the braces behind a source."""


def names_in(text: str) -> list[str]:
    """Return the names in an option's text."""
    return [name.strip() for name in _COMMA.split(text) if name.strip()]
