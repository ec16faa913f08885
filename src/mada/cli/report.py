"""`mada report`: the results of runs as a page, tables and figures; no model is needed."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from mada.cli.terminal import console
from mada.errors import RunError

OutOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Folder for a report on several runs; reports/A+B+… without it."),
]


def report(
    folders: Annotated[
        list[Path] | None, typer.Argument(metavar="RUN…", help="The folder of a run, or several.")
    ] = None,
    folder: Annotated[Path | None, typer.Option("--run", metavar="DIR", help="The same, for one run.")] = None,
    out: OutOption = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Write the report of a run, or of several side by side: a page, tables and figures.

    One run's report lies in its folder: report.html (tables, charts, every debate), report.md, and under report/ each
    table as LaTeX, Markdown, HTML and text, each figure as PDF and PNG. Everything is made of stored records.
    """
    chosen = [*(folders or []), *([folder] if folder else [])]
    if not chosen:
        raise RunError("got no run; give the folder of one, such as runs/quickstart, or of several to compare")
    resolved = [one.resolve() for one in chosen]
    repeated = next((one for one in resolved if resolved.count(one) > 1), None)
    if repeated:
        raise RunError(f"got {repeated} twice; give each run once")
    from mada.runs import StoredRun
    from mada.runs.manifest import FILE as MANIFEST_FILE

    runs = [StoredRun.read(one) for one in chosen]
    if len(runs) == 1 and out is not None:
        raise RunError("got --out with one run, whose report lies in its own folder; give several runs, or no --out")
    if out is not None and (out / MANIFEST_FILE).exists():
        raise RunError(f"got --out {out}, which is a run and has a report of its own; give another folder")
    from mada.report.publishing import distinct_titles, publish_comparison, publish_run

    with console().status("writing the report"):
        if len(runs) == 1:
            target = chosen[0]
            published = publish_run(runs[0])
        else:
            target = out or Path("reports") / "+".join(title.replace("/", "-") for title in distinct_titles(runs))
            published = publish_comparison(runs, target)
    typer.echo(f"{target / published.page.name}: {published}")
    if open_it:
        import webbrowser

        if not webbrowser.open(published.page.resolve().as_uri()):
            page = shlex.quote(str(published.page))
            typer.echo(f"mada: found no browser to open; the page is {page}", err=True)
