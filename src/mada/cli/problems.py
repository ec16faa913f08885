"""`mada problems`: look at data sets, cut them, and see what they share with the benchmarks."""

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mada.cli.terminal import console, print_json
from mada.errors import DataError
from mada.text import counted, excerpt, sanitize

if TYPE_CHECKING:
    from rich.console import Console

    from mada.problems import Match, Problem

app = typer.Typer(no_args_is_help=True, help="Look at problem sets, cut them, compare them with benchmarks.")

SourceArgument = Annotated[str, typer.Argument(help="A known name, a file, module:function, or hub:owner/name.")]
FolderOption = Annotated[Path | None, typer.Option(help="Folder of the known sets' files; beats MADA_DATA.")]
ColumnOption = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="ROLE=NAME", help="Column of problem, answer, id or source; repeatable."),
]
AnswerFormOption = Annotated[
    str | None, typer.Option(help="Where the answer stands: text, after-hashes or last-boxed.")
]
ConfigOption = Annotated[str | None, typer.Option(help="Config of a Hub data set.")]
SplitOption = Annotated[str | None, typer.Option(help="Split of a Hub data set.")]
RevisionOption = Annotated[str | None, typer.Option(help="Commit, branch or tag of a Hub data set.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


@app.command("list")
def list_known(folder: FolderOption = None, as_json: JsonOption = False) -> None:
    """List the data sets known by name.

    Rows are counted in the local files where there are any; the others are as published.
    """
    from mada.problems.known import KNOWN_SETS, data_folder
    from mada.problems.sources import parse_sources

    chosen = data_folder(folder)
    records: list[dict[str, Any]] = []
    for name, known in KNOWN_SETS.items():
        hub = parse_sources(known.hub)[0] if known.hub else None
        source = {"name": hub.name, **hub.options} if hub else None
        records.append({"name": name, **asdict(known), "local_rows": _local_rows(name, chosen), "hub": source})
    if as_json:
        print_json(records)
        return
    from rich.table import Table

    table = Table("name", "title", box=None, pad_edge=False)
    table.add_column("rows", justify="right")
    table.add_column("from", overflow="fold")
    for kind, group in itertools.groupby(records, key=itemgetter("kind")):
        table.add_row(f"[{kind}]", style="dim")
        for one in group:
            files, rows = one["files"], one["local_rows"]
            if kind == "built-in":
                origin = "made here"
            elif rows is not None:
                origin = "\n".join(files)
            elif chosen is not None:
                origin = f"missing: {', '.join(files)}"
            else:
                origin = f"hub:{one['hub']['name']}" if one["hub"] else "needs MADA_DATA"
            table.add_row(one["name"], one["title"], f"{one['rows'] if rows is None else rows:,}", origin)
    console().print(table)


@app.command()
def show(
    source: SourceArgument,
    sample: Annotated[int, typer.Option(min=0, help="How many problems to show.")] = 3,
    seed: Annotated[int, typer.Option(help="Which problems: the same seed shows the same ones.")] = 0,
    problem_id: Annotated[str | None, typer.Option("--id", help="Show this problem, not a sample.")] = None,
    column: ColumnOption = None,
    answer_form: AnswerFormOption = None,
    config: ConfigOption = None,
    split: SplitOption = None,
    revision: RevisionOption = None,
    folder: FolderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Count a source's problems and show some of them."""
    from mada.problems.contamination import text_key
    from mada.problems.split import seeded_order

    problems = _load(source, folder, column, form=answer_form, config=config, split=split, revision=revision)
    duplicates = len(problems) - len({text_key(problem.question) for problem in problems})
    shown = seeded_order(problems, seed)[:sample]
    if problem_id is not None:
        shown = [problem for problem in problems if problem.id == problem_id]
        if not shown:
            raise DataError(f"no problem has the id {problem_id!r}; ids look like {problems[0].id!r}")
    if as_json:
        sampled = [asdict(problem) for problem in shown]
        print_json({"source": source, "problems": len(problems), "duplicates": duplicates, "sample": sampled})
        return
    out = console()
    out.print(f"{source}: {counted(len(problems), 'problem')}, {counted(duplicates, 'duplicate')}")
    for problem in shown:
        _print_problem(out, problem)


@app.command("split")
def cut(
    source: SourceArgument,
    subsets: Annotated[int, typer.Option(help="How many disjoint subsets.")] = 3,
    size: Annotated[int, typer.Option(help="Problems in each subset.")] = 7500,
    validation: Annotated[int, typer.Option(help="Problems in the validation set.")] = 750,
    seed: Annotated[int, typer.Option(help="The same seed gives the same split on any machine.")] = 0,
    drop_copies_of: Annotated[
        list[str] | None, typer.Option(help="Drop copies of this benchmark first; repeatable.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write the split to this JSON file.")] = None,
    column: ColumnOption = None,
    answer_form: AnswerFormOption = None,
    config: ConfigOption = None,
    split: SplitOption = None,
    revision: RevisionOption = None,
    folder: FolderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cut a source into disjoint subsets and a validation set, without duplicates."""
    from mada.atomic import replace_text
    from mada.problems import remove_copies, split_problems

    problems = _load(source, folder, column, form=answer_form, config=config, split=split, revision=revision)
    clean = remove_copies(problems, {name: _load(name, folder) for name in drop_copies_of or []})
    result = split_problems(clean.kept, subsets=subsets, subset_size=size, validation_size=validation, seed=seed)
    if output is not None:
        replace_text(output, result.to_json())
    if as_json:
        print_json({**json.loads(result.to_json()), "copies_dropped": clean.dropped})
        return
    from rich.table import Table

    table = Table("part", box=None, pad_edge=False)
    table.add_column("problems", justify="right")
    for part in result.parts:
        table.add_row(part.name, f"{len(part.ids):,}")
    table.add_row("unused", f"{result.unused:,}", style="dim")
    out = console()
    out.print(table)
    for name, count in clean.dropped.items():
        out.print(f"{counted(count, 'copy', 'copies')} of {name} dropped")
    conflicts = f"; {counted(result.conflicts, 'problem has', 'problems have')} copies with other answers"
    out.print(f"{counted(result.duplicates, 'duplicate')} dropped{conflicts if result.conflicts else ''}")
    out.print(f"digest {result.digest}")


@app.command()
def overlap(
    source: SourceArgument,
    against: Annotated[
        list[str] | None, typer.Option(help="A benchmark; repeatable. Without it: the five of the paper.")
    ] = None,
    n: Annotated[int, typer.Option(help="Words in an n-gram.")] = 6,
    threshold: Annotated[float, typer.Option(help="Share of n-grams in common that makes a near copy.")] = 0.6,
    list_pairs: Annotated[bool, typer.Option("--list", help="List the pairs.")] = False,
    column: ColumnOption = None,
    answer_form: AnswerFormOption = None,
    config: ConfigOption = None,
    split: SplitOption = None,
    revision: RevisionOption = None,
    folder: FolderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find a source's problems that are also in a benchmark.

    Exact: equal but for typesetting. Near: many n-grams in common and the same answer. Sibling: many n-grams
    in common, another answer.
    """
    from mada.problems import BENCHMARKS, find_overlaps
    from mada.problems.contamination import KINDS

    problems = _load(source, folder, column, form=answer_form, config=config, split=split, revision=revision)
    benchmarks = {name: _load(name, folder) for name in against or BENCHMARKS}
    found = find_overlaps(problems, benchmarks, n=n, threshold=threshold)
    kinds = {name: Counter(match.kind for match in one.matches) for name, one in found.items()}
    counts = {name: {kind: kinds[name][kind] for kind in KINDS} for name in found}
    if as_json:
        print_json({name: {"counts": counts[name], **asdict(one)} for name, one in found.items()})
        return
    from rich.table import Table

    table = Table("benchmark", box=None, pad_edge=False)
    for heading in ("problems", *KINDS):
        table.add_column(heading, justify="right")
    for name, one in found.items():
        table.add_row(name, f"{one.benchmark_rows:,}", *(f"{count:,}" for count in counts[name].values()))
    out = console()
    out.print(f"{source}: {counted(len(problems), 'problem')} compared")
    out.print(table)
    if list_pairs:
        _print_matches(out, [match for one in found.values() for match in one.matches], problems=problems)


def _load(
    source: str, folder: Path | None, column: Sequence[str] | None = None, **options: str | None
) -> "list[Problem]":
    from mada.problems import load_problems

    chosen = {key: value for key, value in options.items() if value}
    for assignment in column or []:
        role, equals, name = assignment.partition("=")
        if not (role and equals and name):
            raise DataError(f"--column {assignment}: wanted ROLE=NAME, such as answer=final_answer")
        chosen[role] = name
    return load_problems(source, options=chosen, folder=folder)


def _local_rows(name: str, folder: Path | None) -> int | None:
    from mada.problems.files import read_rows
    from mada.problems.known import local_files

    if folder is None:
        return None
    try:
        paths = local_files(name, folder)
    except DataError:  # it says which file is missing
        return None
    return sum(1 for path in paths for _ in read_rows(path)) if paths else None


def _print_problem(out: "Console", problem: "Problem") -> None:
    from rich.padding import Padding
    from rich.text import Text

    out.print()
    out.print(Text.assemble((sanitize(problem.id), "bold"), (f"  {sanitize(problem.source)}", "dim")))
    for text in (Text(sanitize(problem.question)), Text.assemble(("answer  ", "dim"), sanitize(problem.answer))):
        out.print(Padding(text, (0, 0, 0, 2)))


def _print_matches(out: "Console", matches: "Sequence[Match]", *, problems: "Sequence[Problem]") -> None:
    questions = {problem.id: excerpt(problem.question, out.width - 2) for problem in problems}
    for match in matches:
        pair = f"{sanitize(match.training)} ~ {sanitize(match.benchmark)}"
        out.print(f"\n{match.kind:7}  {match.similarity:.2f}  {pair}", soft_wrap=True)
        out.print(f"  {questions[match.training]}", style="dim")
