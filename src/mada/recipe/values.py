"""The kinds of value a recipe field may hold, and how an error message words each of them.

TOML has no null, so an optional field takes the word "none" instead, in a file and on the command line alike.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationInfo

NONE_WORD = "none"

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Words for a kind of value whose constraint a reader could not guess from its type."""

    words: str


class Section(BaseModel):
    """A frozen table of a recipe that refuses unknown keys, text for numbers, NaN and infinities."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


def _none_word_to_none(value: Any) -> Any:
    return None if value == NONE_WORD else value


def list_to_tuple(value: Any) -> Any:
    """Turn a list into a tuple: TOML arrays arrive as lists, and a frozen recipe holds tuples."""
    return tuple(value) if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _text_to_path(value: Any, info: ValidationInfo) -> Any:
    # A stored recipe is JSON, where pydantic makes the path itself and takes nothing but text.
    if info.mode == "json":
        return value
    # Path("") is the current folder, which nobody means by an empty text.
    return Path(value) if isinstance(value, str) and value.strip() else value


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        raise ValueError(f"got {_quoted(repeated)} more than once, wanted each name once; remove the copies")
    return names


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)


OrNone = Annotated[Kind | None, BeforeValidator(_none_word_to_none)]

Text = Annotated[str, StringConstraints(pattern=r"\S"), Wanted("text that is not blank")]
Folder = Annotated[Path, BeforeValidator(_text_to_path), Wanted("the path of a folder")]
Names = Annotated[
    tuple[Text, ...],
    BeforeValidator(list_to_tuple),
    AfterValidator(_each_once),
    Wanted('a list of names, such as ["one", "two"]'),
]
SomeNames = Annotated[
    tuple[Text, ...],
    BeforeValidator(list_to_tuple),
    Field(min_length=1),
    AfterValidator(_each_once),
    Wanted('a list of at least one name, such as ["one", "two"]'),
]

Count = Annotated[int, Field(ge=1)]
CountOrZero = Annotated[int, Field(ge=0)]
Seed = Annotated[int, Field(ge=0, lt=2**63), Wanted("an integer from 0 to 2^63 − 1")]
Positive = Annotated[float, Field(gt=0)]
PositiveOrZero = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
FractionBelowOne = Annotated[float, Field(ge=0, lt=1)]
FractionAboveZero = Annotated[float, Field(gt=0, le=1)]
