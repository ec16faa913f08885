"""A problem, and how a row of any source (file, Hub data set, callable) becomes one."""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import cast

from mada.errors import DataError
from mada.text import has_lone_surrogate

WELL_KNOWN_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "problem": ("problem", "question", "prompt"),
    "answer": ("answer", "final_answer", "final_ans", "expected_answer", "reference_answer", "ground_truth"),
    "id": ("id", "unique_id", "problem_id"),
    "source": ("source",),
}
"""What a column can be, and the names looked for when none is given: in this order, in any case."""
_MADE_ID = "text-"


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
        for name, value in cast("dict[str, object]", asdict(self)).items():
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


def read_problems(
    rows: Iterable[Row], source: str, options: Mapping[str, str], *, skipped: list[str] | None = None
) -> Iterator[tuple[str, Problem]]:
    """Yield problems and where they stand. The first row settles which columns hold problem and answer.

    `source` is the source of problems whose row names none; `options` name columns and the answer's form. A row without
    an answer is an error, or is left out and its location added to `skipped`.
    """
    columns: dict[str, str] = {}
    for row in rows:
        columns = columns or {role: _find_column(row, role, source, options) for role in ("problem", "answer")}
        for column in columns.values():
            if column not in row.values:
                both = " and ".join(repr(name) for name in columns.values())
                raise DataError(f"{row.location}: {column!r} is missing; every row needs {both} (see docs/recipe.md)")
        question = _text(row, columns["problem"], str, wanted="the problem as text")
        if question is None:
            raise DataError(f"{row.location}: {columns['problem']!r} is empty; write the problem or remove the row")
        answer = _text(row, columns["answer"], (str, int, float), wanted="the answer as text or a finite number")
        if answer is None and skipped is not None:
            skipped.append(row.location)
            continue
        if answer is None:
            raise DataError(
                f"{row.location}: {columns['answer']!r} is empty; write the answer there, remove the row, or set "
                'data.on_missing_answer = "skip" in the recipe (see docs/recipe.md)'
            )
        if isinstance(row.values[columns["answer"]], str):
            answer = _final_answer(answer, options.get("form", "text"), where=f"{row.location}: {columns['answer']!r}")
        name = _text(row, _column(row, "id", options), (str, int), wanted="the id as text or an integer")
        if name is None:
            content = f"{question}\0{answer}".encode(errors="surrogatepass")
            name = _MADE_ID + hashlib.blake2b(content, digest_size=8).hexdigest()
        named = row.values.get(_column(row, "source", options))
        named = named.strip() if isinstance(named, str) else ""
        try:
            yield row.location, Problem(question, answer, name, named or source)
        except DataError as error:
            raise DataError(f"{row.location}: {error}") from error


def with_unique_ids(located: Iterable[tuple[str, Problem]]) -> list[Problem]:
    """Return problems whose ids differ: ids made from the text are numbered, others that occur twice are an error."""
    locations: dict[str, str] = {}
    copies: Counter[str] = Counter()
    problems: list[Problem] = []
    for location, problem in located:
        if problem.id.startswith(_MADE_ID):
            copies[problem.id] += 1  # rows with one digest are equal, so their order does not matter
            if copies[problem.id] > 1:
                problem = replace(problem, id=f"{problem.id}-{copies[problem.id]}")
        if problem.id in locations:
            raise DataError(
                f"{location}: the id {shown(problem.id)} was already used at {locations[problem.id]}; "
                "give every row its own id, or remove the id column to have ids made from the text"
            )
        locations[problem.id] = location
        problems.append(problem)
    return problems


def shown(value: object) -> str:
    """A value for an error message: short, with control characters escaped."""
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def listed(names: Iterable[object]) -> str:
    """Names for an error message, or `none`."""
    return ", ".join(shown(name) for name in names) or "none"


def _find_column(row: Row, role: str, source: str, options: Mapping[str, str]) -> str:
    column = _column(row, role, options)
    if column in row.values:
        return column
    looked_for = shown(column) if role in options else " or ".join(WELL_KNOWN_COLUMNS[role][:3])
    raise DataError(
        f"{row.location}: no column for the {role} (looked for {looked_for}); the columns are {listed(row.values)}; "
        f'name it behind the source, {source}{{{role} = "NAME"}} (see docs/recipe.md)'
    )


def _column(row: Row, role: str, options: Mapping[str, str]) -> str:
    """The column that the options name, else the row's that fits best, or the name it should have had."""
    if role in options:
        return options[role]
    by_lower_case = {str(name).lower(): name for name in reversed(list(row.values))}
    found = (by_lower_case[name] for name in WELL_KNOWN_COLUMNS[role] if name in by_lower_case)
    return next(found, WELL_KNOWN_COLUMNS[role][0])


def _text(row: Row, column: str, kinds: type | tuple[type, ...], *, wanted: str) -> str | None:
    """A value as text; None where there is nothing."""
    value = row.values.get(column)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    is_finite = not isinstance(value, float) or math.isfinite(value)
    if isinstance(value, bool) or not isinstance(value, kinds) or not is_finite:
        raise DataError(f"{row.location}: {column!r} is {shown(value)}; wanted {wanted} (see docs/recipe.md)")
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    return str(value).strip()


def _final_answer(text: str, form: str, *, where: str) -> str:
    if form == "text" and "####" in text:
        raise DataError(
            f"{where} holds a worked solution with '####' before the answer; "
            'write {form = "after-hashes"} behind the source (see docs/recipe.md)'
        )
    answer = ANSWER_FORMS[form](text)
    if answer is None:
        raise DataError(
            f"{where} has no answer in the form {form!r}; got {shown(text)}; "
            f"correct the row or choose another form behind the source ({', '.join(ANSWER_FORMS)})"
        )
    return answer


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
