"""The kinds of value a recipe field may hold, and how an error message words each of them.

TOML has no null, so an optional field takes the word "none" instead, in a file and on the command line alike.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationInfo

from mada.errors import DataError
from mada.problems.sources import parse_table, source_of_table

NONE_WORD = "none"
MOST_AGENTS = 1000
"""Seats of one role, and rounds: far more than anybody trains, and few enough to be listed."""

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
    return Path(_without_nul(value)) if isinstance(value, str) and value.strip() else value


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("got text with a NUL character, which no name can hold; remove it")
    return text


def _folder_name(name: str) -> str:
    if name in (".", "..") or any(character in "/\\" or ord(character) < 32 for character in name):
        raise ValueError(f"got {name!r}, wanted the name of one folder, without / and \\: results go to runs/NAME")
    return name


def _address_without_secrets(url: str) -> str:
    """Refuse an address that holds a secret, without repeating it: a recipe is stored and printed."""
    parts = urlsplit(url)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            "got an address with a user, a password, a query or a fragment, which would be stored with every result; "
            "wanted one without, such as http://localhost:8000/v1: put the key into the environment variable "
            "MADA_API_KEY"
        )
    return url


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        raise ValueError(f"got {_quoted(repeated)} more than once, wanted each name once; remove the copies")
    return names


def _source_to_text(value: Any) -> Any:
    """Write a table, `{path = "my.csv", answer = "solution"}`, as the text that names a source."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = _told(parse_table, value)
    return str(_told(source_of_table, value)) if isinstance(value, dict) else value  # pyright: ignore[reportUnknownArgumentType]


def _sum_to_text(value: Any) -> Any:
    """Write a list of sources as a sum."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = _told(parse_table, value)  # an override is text
    if not isinstance(value, list) or not value:
        return _source_to_text(value)
    parts = [_source_to_text(one) for one in cast("list[Any]", value)]
    return " + ".join(parts) if all(isinstance(one, str) for one in parts) else cast("Any", value)


def _told(function: Callable[[Any], Any], value: Any) -> Any:
    try:
        return function(value)
    except DataError as error:
        raise ValueError(f"got {error}") from None


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)


OrNone = Annotated[Kind | None, BeforeValidator(_none_word_to_none)]

Text = Annotated[str, StringConstraints(pattern=r"\S"), AfterValidator(_without_nul), Wanted("text that is not blank")]
FolderName = Annotated[Text, AfterValidator(_folder_name)]
Address = Annotated[Text, AfterValidator(_address_without_secrets)]
Folder = Annotated[Path, BeforeValidator(_text_to_path), Wanted("the path of a folder")]
SomeNames = Annotated[
    tuple[Text, ...],
    BeforeValidator(list_to_tuple),
    Field(min_length=1),
    AfterValidator(_each_once),
    Wanted('a list of at least one name, such as ["one", "two"]'),
]
_A_SOURCE = 'a source, as text or as a table such as {path = "my.csv", answer = "solution"}'
Source = Annotated[Text, BeforeValidator(_source_to_text), Wanted(_A_SOURCE)]
SourceSum = Annotated[Text, BeforeValidator(_sum_to_text), Wanted(_A_SOURCE)]
Sources = Annotated[
    tuple[Source, ...],
    BeforeValidator(list_to_tuple),
    AfterValidator(_each_once),
    Wanted("a list of sources, each a name, a path or a table"),
]
SomeSources = Annotated[Sources, Field(min_length=1), Wanted('a list of at least one name, such as ["one", "two"]')]

Count = Annotated[int, Field(ge=1)]
SomeAgents = Annotated[int, Field(ge=1, le=MOST_AGENTS)]
Agents = Annotated[int, Field(ge=0, le=MOST_AGENTS)]
CountOrZero = Annotated[int, Field(ge=0)]
Seed = Annotated[int, Field(ge=0, lt=2**63), Wanted("an integer from 0 to 2^63 − 1")]
Positive = Annotated[float, Field(gt=0)]
PositiveOrZero = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
FractionBelowOne = Annotated[float, Field(ge=0, lt=1)]
FractionAboveZero = Annotated[float, Field(gt=0, le=1)]
