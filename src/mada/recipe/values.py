"""The types of a recipe's values: text, paths, names, sources, counts and shares, each with its check.

TOML has no null, so an optional field takes the word "none", in a file and on the command line.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from mada.errors import DataError
from mada.problems.sources import parse_table, source_of_table

NONE_WORD = "none"
MAX_AGENTS = 1000
"""Agents of one role, and rounds: far more than anybody trains, and few enough to be listed."""
MAX_SAMPLES = 10_000
"""Evaluation seeds, and samples of a vote: more would fill the memory before anything is sampled."""

Kind = TypeVar("Kind")


class Section(BaseModel):
    """A frozen table of a recipe; unknown keys, text for numbers, NaN and infinities are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


def _none_word_to_none(value: Any) -> Any:
    return None if value == NONE_WORD else value


def _name(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise ValueError(f"got {text!r}, wanted text that is not blank and has no NUL character")
    return text


def _list_to_tuple(value: Any) -> Any:
    # TOML arrays arrive as lists, and a frozen recipe holds tuples.
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def _folder_name(name: str) -> str:
    if name in (".", "..") or any(character in "/\\" or ord(character) < 32 for character in name):
        raise ValueError(f"got {name!r}, wanted the name of one folder, without / and \\: results go to runs/NAME")
    return name


def _address_without_secrets(url: str) -> str:
    # The message does not repeat the address: a recipe is stored and printed.
    parts = urlsplit(url)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            "got an address with a user, a password, a query or a fragment, which would be stored with every result; "
            "wanted one without, such as http://localhost:8000/v1: put the key into the environment variable "
            "MADA_API_KEY"
        )
    return url


def _unique(names: tuple[str, ...]) -> tuple[str, ...]:
    repeated = [repr(name) for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        raise ValueError(f"got {', '.join(repeated)} more than once, wanted each name once; remove the copies")
    return names


def _source_to_text(value: Any) -> Any:
    """Write a table, `{path = "my.csv", answer = "solution"}`, as the text of a source, and a list as a sum of them."""
    try:
        if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
            value = parse_table(value)  # an override is text
        if isinstance(value, dict):
            return str(source_of_table(cast("dict[str, Any]", value)))
    except DataError as error:
        raise ValueError(f"got {error}") from None
    if isinstance(value, list) and value:
        parts = [_source_to_text(one) for one in cast("list[Any]", value)]
        if all(isinstance(one, str) for one in parts):
            return " + ".join(parts)
    return cast("Any", value)


def _with_placeholder(name: str, meaning: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if (count := text.count(name)) != 1:
            raise ValueError(f"got {count} times '{name}', wanted it exactly once: it is replaced by {meaning}")
        return text

    return check


def _none_or_several(count: int) -> int:
    if count == 1:
        raise ValueError("got 1, wanted 0 or at least 2: one answer is always or never right")
    return count


def _with_the_team(names: tuple[str, ...]) -> tuple[str, ...]:
    if "mada" not in _unique(names):
        raise ValueError(f"got {', '.join(names) or 'none'}, wanted 'mada' among the systems")
    untrained = {"vote", "untrained-vote", "weighted-vote", "judge"}
    if not untrained.isdisjoint(names) and not {"debate", "single"} & set(names):
        raise ValueError(
            "got a vote of the untrained model, wanted 'single' too: its answers tell how many the budget allows"
        )
    if "vote" in names and "debate" not in names:
        raise ValueError("got 'vote' without 'debate', wanted both: the vote gets as many tokens as that debate")
    return names


LISTED = BeforeValidator(_list_to_tuple)
OrNone = Annotated[Kind | None, BeforeValidator(_none_word_to_none)]

Text = Annotated[str, AfterValidator(_name)]
FolderName = Annotated[Text, AfterValidator(_folder_name)]
Address = Annotated[Text, AfterValidator(_address_without_secrets)]
Folder = Annotated[
    Path, Field(strict=False), BeforeValidator(lambda value: _name(value) if isinstance(value, str) else value)
]
QuestionPrompt = Annotated[str, AfterValidator(_with_placeholder("{question}", "the problem"))]
ResponsePrompt = Annotated[str, AfterValidator(_with_placeholder("{response}", "an agent's response"))]
AgentNames = Annotated[tuple[Text, ...], LISTED]
Names = Annotated[AgentNames, Field(min_length=1), AfterValidator(_unique)]
Source = Annotated[Text, BeforeValidator(_source_to_text)]
SourcesOrEmpty = Annotated[tuple[Source, ...], LISTED, AfterValidator(_unique)]
Sources = Annotated[SourcesOrEmpty, Field(min_length=1)]
SystemName = Literal[
    "single",
    "debate",
    "vote",
    "weighted-vote",
    "judge",
    "untrained-vote",
    "generators",
    "trained-vote",
    "trained-weighted-vote",
    "trained-vote-at-cost",
    "best-of-n",
    "mada",
]
Systems = Annotated[tuple[SystemName, ...], LISTED, AfterValidator(_with_the_team)]

Count = Annotated[int, Field(ge=1)]
CountOrZero = Annotated[int, Field(ge=0)]
ScreenCount = Annotated[CountOrZero, AfterValidator(_none_or_several)]
AgentCount = Annotated[int, Field(ge=1, le=MAX_AGENTS)]
SampleCount = Annotated[int, Field(ge=1, le=MAX_SAMPLES)]
AgentCountOrZero = Annotated[int, Field(ge=0, le=MAX_AGENTS)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Positive = Annotated[float, Field(gt=0)]
PositiveOrZero = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
FractionBelowOne = Annotated[float, Field(ge=0, lt=1)]
FractionAboveZero = Annotated[float, Field(gt=0, le=1)]
