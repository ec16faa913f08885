"""A problem, and how a row of any source (file, Hub data set, callable) becomes one."""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields

from mada.errors import DataError
from mada.text import has_lone_surrogate

WELL_KNOWN_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "problem": ("problem", "question", "prompt"),
    "answer": ("answer", "final_answer", "final_ans", "expected_answer", "reference_answer", "ground_truth"),
    "id": ("id", "unique_id", "problem_id"),
    "source": ("source",),
}
"""What a column can be, and the names looked for when none is given: in this order, in any case."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One question with its reference answer.

    `id` is unique within a source and does not depend on the order of rows: splits, seeds and records refer to it.
    `source` says where the problem came from.
    """

    question: str
    answer: str
    id: str
    source: str

    def __post_init__(self) -> None:
        for name in (one.name for one in fields(self)):
            value: object = getattr(self, name)
            if not isinstance(value, str):
                raise DataError(f"a problem's {name} is {type(value).__name__}; wanted text")
            if not value.strip():
                raise DataError(f"a problem's {name} is empty; wanted text")
            if has_lone_surrogate(value):
                raise DataError(f"a problem's {name} holds half of a character ({value[:40]!a}); write it anew")


@dataclass(frozen=True, slots=True)
class Row:
    """A record as it was read, and where it stands (`problems.jsonl:17`)."""

    location: str
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Layout:
    """How to read a source's rows. `source` is the name for problems whose row names no source."""

    source: str
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    form: str = "text"
    skipped: list[str] | None = None
    """Collects the locations of rows without an answer, which are left out; with None they are errors."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A problem that may still need an id (`None`: the row had none)."""

    location: str
    question: str
    answer: str
    id: str | None
    source: str


def read_drafts(rows: Iterable[Row], layout: Layout) -> Iterator[Draft]:
    """Read rows as problems. The first row settles which columns hold problem and answer."""
    columns: dict[str, str] = {}
    for row in rows:
        columns = columns or {role: _find_column(row, role, layout=layout) for role in ("problem", "answer")}
        for column in columns.values():
            if column not in row.values:
                both = " and ".join(repr(name) for name in columns.values())
                raise DataError(f"{row.location}: {column!r} is missing; every row needs {both} (see docs/recipe.md)")
        question = _question(row, columns["problem"])
        answer = row.values[columns["answer"]]
        if answer is None or (isinstance(answer, str) and not answer.strip()):
            if layout.skipped is None:
                raise DataError(
                    f"{row.location}: {columns['answer']!r} is {'null' if answer is None else 'empty'}; write the "
                    'answer there, remove the row, or set data.on_missing_answer = "skip" in the recipe '
                    "(see docs/recipe.md)"
                )
            layout.skipped.append(row.location)
            continue
        source = row.values.get(layout.columns.get("source") or _well_known_column(row, "source"))
        yield Draft(
            row.location,
            question=question,
            answer=_answer(row, columns["answer"], form=layout.form),
            id=_id(row, layout.columns.get("id") or _well_known_column(row, "id")),
            source=source.strip() if isinstance(source, str) and source.strip() else layout.source,
        )


def finish_problems(drafts: Iterable[Draft]) -> list[Problem]:
    """Give every draft its final id; an id that occurs twice is an error."""
    locations: dict[str, str] = {}
    copies: Counter[str] = Counter()
    problems: list[Problem] = []
    for draft in drafts:
        name = draft.id
        if name is None:
            content = f"{draft.question}\0{draft.answer}".encode(errors="surrogatepass")
            name = "text-" + hashlib.blake2b(content, digest_size=8).hexdigest()
            copies[name] += 1  # rows with one digest are equal, so their order does not matter
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
    """A value for an error message: short, with control characters escaped."""
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def listed(names: Iterable[object]) -> str:
    """Names for an error message, or `none`."""
    return ", ".join(shown(name) for name in names) or "none"


def _find_column(row: Row, role: str, *, layout: Layout) -> str:
    wanted = layout.columns.get(role)
    column = wanted if wanted is not None else _well_known_column(row, role)
    if column in row.values:
        return column
    looked_for = shown(wanted) if wanted is not None else " or ".join(WELL_KNOWN_COLUMNS[role][:3])
    raise DataError(
        f"{row.location}: no column for the {role} (looked for {looked_for}); the columns are {listed(row.values)}; "
        f'name it behind the source, {layout.source}{{{role} = "NAME"}} (see docs/recipe.md)'
    )


def _well_known_column(row: Row, role: str) -> str:
    """The row's column that fits best, or the name it should have had."""
    by_lower_case = {str(name).lower(): name for name in reversed(list(row.values))}
    found = (by_lower_case[name] for name in WELL_KNOWN_COLUMNS[role] if name in by_lower_case)
    return next(found, WELL_KNOWN_COLUMNS[role][0])


def _question(row: Row, column: str) -> str:
    value = row.values[column]
    if not isinstance(value, str):
        raise _wrong_type(row, column, wanted="the problem as text")
    if not value.strip():
        raise DataError(f"{row.location}: {column!r} is empty; write the problem there or remove the row")
    return value.strip()


def _answer(row: Row, column: str, *, form: str) -> str:
    value = row.values[column]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _wrong_type(row, column, wanted="the answer as text or a number")
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise DataError(f"{row.location}: {column!r} is {value}; wanted the answer as text or a finite number")
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    if form == "text" and "####" in value:
        raise DataError(
            f"{row.location}: {column!r} holds a worked solution with '####' before the answer; "
            'write {form = "after-hashes"} behind the source (see docs/recipe.md)'
        )
    answer = ANSWER_FORMS[form](value)
    if answer is None:
        raise DataError(
            f"{row.location}: {column!r} has no answer in the form {form!r}; got {shown(value)}; "
            f"correct the row or choose another form behind the source ({', '.join(ANSWER_FORMS)})"
        )
    return answer


def _id(row: Row, column: str) -> str | None:
    value = row.values.get(column)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _wrong_type(row, column, wanted="the id as text or an integer")
    return str(value).strip()


def _wrong_type(row: Row, column: str, *, wanted: str) -> DataError:
    value = row.values[column]
    got = "null" if value is None else f"a {type(value).__name__} ({shown(value)})"
    return DataError(f"{row.location}: {column!r} is {got}; wanted {wanted} (see docs/recipe.md)")


def _after_hashes(text: str) -> str | None:
    _, mark, answer = text.rpartition("####")
    # GSM8K writes 1,200 for 1200; every answer there is one number, so a comma never separates two.
    return (answer.replace(",", "").strip() or None) if mark else None


def _last_boxed(text: str) -> str | None:
    r"""The content of the last complete box; `\boxed 7`, which MATH has too, counts up to the next space."""
    for box in reversed(list(re.finditer(r"\\(?:boxed|fbox)\s*", text))):
        if text.startswith("{", box.end()):
            inside = _inside_braces(text[box.end() :])
        else:
            inside = "".join(text[box.end() :].split(maxsplit=1)[:1]).rstrip("$.,")
        if inside:
            return inside
    return None


def _inside_braces(text: str) -> str:
    depth = 0
    for brace in re.finditer(r"\\.|[{}]", text, re.DOTALL):
        depth += (brace[0] == "{") - (brace[0] == "}")
        if depth == 0 and brace[0] == "}":
            return text[1 : brace.start()].strip()
    return ""


ANSWER_FORMS: Mapping[str, Callable[[str], str | None]] = {
    "text": lambda text: text.strip() or None,
    "after-hashes": _after_hashes,  # GSM8K: the worked solution, then `#### 72`
    "last-boxed": _last_boxed,  # MATH: a solution that ends in `\boxed{72}`
}
"""Where in its column the final answer stands; each function returns `None` when it is not there."""
