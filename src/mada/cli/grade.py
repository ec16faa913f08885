"""`mada grade`: is each reply right, and why or why not?"""

import json
import sys
from collections import Counter, deque
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mada.errors import DataError
from mada.text import counted, excerpt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mada.grading import Grade
    from mada.problems.problem import Row


def grade(
    file: Annotated[
        str, typer.Argument(help="JSONL with 'response' and 'answer' in every row, or - for standard input.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    time_limit: Annotated[float, typer.Option(min=0.01, help="Seconds of processor time for one comparison.")] = 2.0,
    workers: Annotated[int | None, typer.Option(min=1, help="Grading processes; one per core without it.")] = None,
    thinking_opened: Annotated[
        bool, typer.Option("--thinking-opened", help="The prompt opened the thinking block already.")
    ] = False,
) -> None:
    r"""Grade replies: the last \boxed{} after the thinking, compared with the reference answer.

    Reasons: equal, not equal, no answer, unparsable, timed out.
    """
    from mada.grading import Grader

    rows: deque[Row] = deque()

    def pairs() -> "Iterator[tuple[str, str]]":
        """Yield reply and reference of every row, and leave the row in `rows` for when its grade comes."""
        from mada.problems.files import read_json_lines, read_rows

        for row in read_json_lines(sys.stdin.buffer, name="standard input") if file == "-" else read_rows(Path(file)):
            pair = _text(row, "response"), _text(row, "answer")
            rows.append(row)
            yield pair

    reasons: Counter[str] = Counter()
    with Grader(workers=workers, time_limit=time_limit) as grader:
        for line, graded in enumerate(grader.stream(pairs(), thinking_opened=thinking_opened), start=1):
            reasons[graded.reason] += 1
            _print_grade(line, rows.popleft(), graded=graded, as_json=as_json)
    if not as_json:
        _print_summary(reasons)


def _text(row: "Row", column: str) -> str:
    value = row.values.get(column)
    if column == "answer" and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or (column == "answer" and not value.strip()):
        got = "is missing" if column not in row.values else f"is {json.dumps(value)[:60]}"
        raise DataError(
            f"{row.location}: {column!r} {got}; every row needs 'response' (the reply as text) "
            "and 'answer' (the reference)"
        )
    return value


def _print_grade(line: int, row: "Row", *, graded: "Grade", as_json: bool) -> None:
    if as_json:
        known = {"id": row.values["id"]} if "id" in row.values else {}
        found = {"correct": graded.correct, "reason": graded.reason, "extracted": graded.answer}
        typer.echo(json.dumps({**known, **found}))
        return
    mark = typer.style("right", fg="green") if graded.correct else typer.style("wrong", fg="red")
    found = "" if graded.answer is None else f"  {excerpt(graded.answer, 60)}"
    wanted = "" if graded.correct else f"  (reference {excerpt(_text(row, 'answer'), 60)})"
    typer.echo(f"{line:>6}  {mark}  {graded.reason:<10}{found}{wanted}")


def _print_summary(reasons: Counter[str]) -> None:
    total = reasons.total()
    if not total:
        typer.echo("no rows")
        return
    right = reasons["equal"]
    rest = ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common() if reason != "equal")
    share = f"{right:,} of {counted(total, 'reply', 'replies')} right ({right / total:.1%})"
    typer.echo(f"\n{share}; {rest}" if rest else f"\n{share}")
