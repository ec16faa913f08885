"""`mada runs`: the runs in a folder, how far they are, and their headline numbers."""

from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from mada.cli.terminal import console, print_json, safe
from mada.errors import MadaError, RunError
from mada.pipeline.stages import STAGE_NAMES
from mada.text import counted, duration

if TYPE_CHECKING:
    from mada.runs import StoredRun


@dataclass(frozen=True, slots=True)
class RunLine:
    """What a list says of one run; accuracies are shares of right verdicts, None before they are measured."""

    folder: str
    recipe: str
    state: str
    started_at: datetime | None
    seconds: float
    untrained: float | None
    team: float | None
    standard_error: float | None


def print_runs(folder: Path, *, as_json: bool) -> None:
    """List the runs in a folder, oldest first."""
    lines = find_runs(folder)
    if as_json:
        print_json([asdict(line) | {"started_at": line.started_at and line.started_at.isoformat()} for line in lines])
        return
    if not lines:
        raise RunError(f"{folder} holds no runs; `mada run recipes/quickstart.toml` makes one")
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("run", "recipe", "state", "begun"):
        table.add_column(name, no_wrap=name != "state", max_width=40 if name == "state" else None)
    for name in ("took", "single agent", "MADA debate"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in lines:
        begun = f"{line.started_at:%Y-%m-%d %H:%M}" if line.started_at else "–"
        error = f" ± {100 * line.standard_error:.1f}" if line.standard_error is not None else ""
        single, team = (f"{100 * one:.1f}" if one is not None else "–" for one in (line.untrained, line.team))
        table.add_row(
            safe(line.folder), safe(line.recipe), safe(line.state), begun, duration(line.seconds), single, team + error
        )
    screen = console()
    # Names are for copying: in a window too narrow for them lines are wrapped by it, and nothing is cut off here.
    screen.width = max(screen.width, screen.measure(table, options=screen.options.update(max_width=10_000)).maximum)
    screen.print(table)


def latest_run(folder: Path) -> Path:
    """Return the run in a folder that was worked on last."""
    from mada.runs import StoredRun

    started: dict[Path, datetime] = {}
    for manifest in sorted(folder.glob("*/manifest.json")):
        with suppress(MadaError):  # `mada runs` says what is wrong with it
            started[manifest.parent] = StoredRun.read(manifest.parent).manifest.sessions[-1].started_at
    if not started:
        raise RunError(f"got no run, and {folder} holds none that can be read; give the folder of a run")
    return max(started, key=lambda run: started[run])


def find_runs(folder: Path) -> list[RunLine]:
    """Return the runs that lie directly in a folder; one that cannot be read is listed with the reason."""
    if not folder.is_dir():
        raise RunError(f"{folder}: no such folder; give the one that holds your runs")
    from mada.runs import StoredRun

    lines: list[RunLine] = []
    for manifest in sorted(folder.glob("*/manifest.json")):
        try:
            lines.append(_line(StoredRun.read(manifest.parent), manifest.parent))
        except MadaError as error:
            lines.append(RunLine(str(manifest.parent), "–", f"unreadable: {error}", None, 0.0, None, None, None))
    return sorted(lines, key=lambda line: (line.started_at is None, line.started_at and line.started_at.timestamp()))


def _line(run: "StoredRun", folder: Path) -> RunLine:
    from mada.report.reading import read_summary

    marks = run.finished_stages()
    names = [mark.name for mark in marks]
    summary = read_summary(run) if "evaluate" in names else None
    by_name = {one.system.name: one for one in summary.systems} if summary else {}
    team, single = by_name.get("mada"), by_name.get("single")
    return RunLine(
        folder=str(folder),
        recipe=str(run.manifest.recipe.get("name", "–")),
        state=state_of(run, names),
        started_at=run.manifest.started_at,
        seconds=sum(mark.seconds for mark in marks),
        untrained=single.verdict.average.mean if single else None,
        team=team.verdict.average.mean if team else None,
        standard_error=team.verdict.average.standard_error if team else None,
    )


def state_of(run: "StoredRun", done: list[str]) -> str:
    """Say how far a run is: running, finished, or where it stopped."""
    from mada.report.publishing import PAGE_FILE
    from mada.runs.lock import holder_of

    if holder_of(run.folder) is not None:
        return f"running, {counted(len(done), 'stage')} done"
    # `mada report` writes the page without taking the run from whoever else may want it, so it leaves no mark.
    if "report" in done or ("evaluate" in done and (run.folder / PAGE_FILE).is_file()):
        return "finished"
    after = [name for name in STAGE_NAMES if name in done]
    return f"stopped after {after[-1]}" if after else "stopped before its first stage was done"
