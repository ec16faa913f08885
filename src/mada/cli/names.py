"""Options that name several things, with commas between them."""


def names_in(text: str) -> list[str]:
    """Return the names in an option's text."""
    return [name.strip() for name in text.split(",") if name.strip()]
