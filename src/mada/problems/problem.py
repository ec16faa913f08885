"""A problem: what is asked, what counts as right, and a name that stays the same."""

from dataclasses import dataclass, fields

from mada.errors import DataError


@dataclass(frozen=True, slots=True)
class Problem:
    """One question with its reference answer.

    `id` is unique within a source and does not depend on the order of its rows: splits, seeds and records
    refer to it. `source` says where the problem came from, for people who read the records later.
    """

    question: str
    answer: str
    id: str
    source: str

    def __post_init__(self) -> None:
        for field in fields(self):
            value: object = getattr(self, field.name)
            if not isinstance(value, str):
                raise DataError(f"a problem's {field.name} is {type(value).__name__}; wanted text")
            if not value.strip():
                raise DataError(f"a problem's {field.name} is empty; wanted text")
            # JSON can spell half of a two-part character ("\ud800"); such text cannot be written out.
            if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
                raise DataError(f"a problem's {field.name} holds half of a character ({value[:40]!a}); write it anew")
