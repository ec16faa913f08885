"""From a row of some file or data set to a problem, or to an error that says where and what to do.

Every source (file, Hub data set, callable) yields rows with a location; from there on all are treated alike.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from mada.errors import DataError
from mada.problems.answers import ANSWER_FORMS
from mada.problems.problem import Problem

ROLES = ("problem", "answer", "id", "source")
"""What a column can be: the keys of a column mapping."""

WELL_KNOWN_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "problem": ("problem", "question", "prompt"),
    "answer": ("answer", "final_answer", "final_ans", "expected_answer", "reference_answer", "ground_truth"),
    "id": ("id", "unique_id", "problem_id"),
    "source": ("source",),
}
"""The names looked for when no column is given, in this order, whatever their case."""


@dataclass(frozen=True, slots=True)
class Row:
    """A record as it was read, and where it stands (`problems.jsonl:17`)."""

    location: str
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Layout:
    """How to read a source's rows; `source` is the name problems get whose row names no source."""

    source: str
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    answer_form: str = "text"
    skipped: list[str] | None = None
    """Where rows without an answer are noted, which are then left out; None means they are errors."""

    def __post_init__(self) -> None:
        for role in self.columns:
            if role not in ROLES:
                raise DataError(f"there is no column role {role!r}; the roles are {', '.join(ROLES)}")
        if self.answer_form not in ANSWER_FORMS:
            raise DataError(f"there is no answer form {self.answer_form!r}; the forms are {', '.join(ANSWER_FORMS)}")


@dataclass(frozen=True, slots=True)
class Draft:
    """A problem that may still need an id (`None`: the row had none)."""

    location: str
    question: str
    answer: str
    id: str | None
    source: str


class _NoAnswerError(DataError):
    """A row's answer is empty or null."""


def drafts_from_rows(rows: Iterable[Row], layout: Layout) -> Iterator[Draft]:
    """Read rows as problems. The first row settles which columns hold problem and answer."""
    columns: Mapping[str, str] = {}
    for row in rows:
        columns = columns or {role: _find_column(row, role, layout=layout) for role in ("problem", "answer")}
        try:
            yield _draft(row, columns, layout=layout)
        except _NoAnswerError:
            if layout.skipped is None:
                raise
            layout.skipped.append(row.location)


def collect_problems(drafts: Iterable[Draft]) -> list[Problem]:
    """Give every draft its final id and refuse ids that occur twice."""
    locations: dict[str, str] = {}
    copies: Counter[str] = Counter()
    problems: list[Problem] = []
    for draft in drafts:
        name = draft.id
        if name is None:
            name = _digest_id(draft)
            copies[name] += 1
            # Rows with one digest are equal, so it does not matter which of them is numbered first.
            name = name if copies[name] == 1 else f"{name}-{copies[name]}"
        if name in locations:
            raise DataError(
                f"{draft.location}: the id {shown(name)} was already used at {locations[name]}; "
                "give every row its own id, or remove the id column to have ids made from the text"
            )
        locations[name] = draft.location
        try:
            problems.append(Problem(question=draft.question, answer=draft.answer, id=name, source=draft.source))
        except DataError as error:
            raise DataError(f"{draft.location}: {error}") from error
    return problems


def shown(value: object) -> str:
    """A value as an error message shows it: short, and with control characters spelled out."""
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def listed(names: Iterable[object]) -> str:
    """Column names for an error message, `none` when there are none."""
    return ", ".join(shown(name) for name in names) or "none"


def _find_column(row: Row, role: str, *, layout: Layout) -> str:
    wanted = layout.columns.get(role)
    column = wanted if wanted is not None else _well_known_column(row, role)
    if column in row.values:
        return column
    looked_for = shown(wanted) if wanted is not None else " or ".join(WELL_KNOWN_COLUMNS[role][:3])
    raise DataError(
        f"{row.location}: no column for the {role} (looked for {looked_for}); "
        f"the columns are {listed(row.values)}; name it behind the source, "
        f'{layout.source}{{{role} = "NAME"}} (see docs/data.md)'
    )


def _well_known_column(row: Row, role: str) -> str:
    """The row's column that fits best, or the name it should have had."""
    by_lower_case = {str(name).lower(): name for name in reversed(list(row.values))}
    for name in WELL_KNOWN_COLUMNS[role]:
        if name in by_lower_case:
            return by_lower_case[name]
    return WELL_KNOWN_COLUMNS[role][0]


def _draft(row: Row, columns: Mapping[str, str], *, layout: Layout) -> Draft:
    for column in columns.values():
        if column not in row.values:
            both = " and ".join(repr(name) for name in columns.values())
            raise DataError(f"{row.location}: {column!r} is missing; every row needs {both} (see docs/data.md)")
    source = row.values.get(layout.columns.get("source") or _well_known_column(row, "source"))
    return Draft(
        location=row.location,
        question=_question(row, columns["problem"]),
        answer=_answer(row, columns["answer"], form=layout.answer_form),
        id=_id(row, layout.columns.get("id") or _well_known_column(row, "id")),
        source=source.strip() if isinstance(source, str) and source.strip() else layout.source,
    )


def _question(row: Row, column: str) -> str:
    value = row.values[column]
    if not isinstance(value, str):
        raise _wrong_kind(row, column, wanted="the problem as text")
    if not value.strip():
        raise DataError(f"{row.location}: {column!r} is empty; write the problem there or remove the row")
    return value.strip()


def _answer(row: Row, column: str, *, form: str) -> str:
    value = row.values[column]
    if value is None or (isinstance(value, str) and not value.strip()):
        raise _NoAnswerError(
            f"{row.location}: {column!r} is {'null' if value is None else 'empty'}; write the answer there, remove the "
            'row, or set data.on_missing_answer = "skip" in the recipe (see docs/data.md)'
        )
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _wrong_kind(row, column, wanted="the answer as text or a number")
    if not isinstance(value, str):
        return _number_as_text(row, column, value=value)
    if form == "text" and "####" in value:
        raise DataError(
            f"{row.location}: {column!r} holds a worked solution with '####' before the answer; "
            'write {form = "after-hashes"} behind the source (see docs/data.md)'
        )
    answer = ANSWER_FORMS[form](value)
    if answer is None:
        raise DataError(
            f"{row.location}: {column!r} has no answer in the form {form!r}; got {shown(value)}; "
            f"mend the row or choose another form behind the source ({', '.join(ANSWER_FORMS)})"
        )
    return answer


def _number_as_text(row: Row, column: str, *, value: float) -> str:
    """An integer without a decimal point (27.0 is `27`), another number as Python writes it."""
    if not math.isfinite(value):
        raise DataError(f"{row.location}: {column!r} is {value}; wanted the answer as text or a finite number")
    exact_integer = isinstance(value, int) or (value.is_integer() and abs(value) < 2**53)
    return str(int(value)) if exact_integer else repr(value)


def _id(row: Row, column: str) -> str | None:
    value = row.values.get(column)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _wrong_kind(row, column, wanted="the id as text or an integer")
    return str(value).strip()


def _wrong_kind(row: Row, column: str, *, wanted: str) -> DataError:
    value = row.values[column]
    got = "null" if value is None else f"a {type(value).__name__} ({shown(value)})"
    return DataError(f"{row.location}: {column!r} is {got}; wanted {wanted} (see docs/data.md)")


def _digest_id(draft: Draft) -> str:
    content = f"{draft.question}\0{draft.answer}".encode(errors="surrogatepass")
    return "text-" + hashlib.blake2b(content, digest_size=8).hexdigest()
