"""Bytes and large numbers as people read them: with the digits that count, and their unit."""

_BYTES = ("bytes", "KB", "MB", "GB", "TB")


def in_bytes(count: float) -> str:
    """Write a number of bytes with three digits that count."""
    value, unit = float(count), 0
    while value >= 1000 and unit < len(_BYTES) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.3g} {_BYTES[unit]}"


def in_millions(count: float) -> str:
    """Write a large number, in millions from a million on."""
    return f"{count:,.0f}" if count < 1_000_000 else f"{_two_digits(count / 1_000_000)} million"


def _two_digits(value: float) -> str:
    if value < 10:
        return f"{value:.2g}"
    size = 10 ** (len(str(int(value))) - 2)
    return f"{round(value / size) * size:,}"
