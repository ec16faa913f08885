"""The report of a run, made of its stored records alone: anyone who has the folder can make it again.

What a run has not come to yet is left out, or named as missing.
"""

from pathlib import Path
from typing import TypeVar

from mada.evaluation.costs import Bill, bill_of
from mada.evaluation.effort import EFFORT, Effort
from mada.evaluation.grid import Grid
from mada.evaluation.plan import PLAN_FILE, EvaluationPlan
from mada.evaluation.samples import SAMPLES, Sample, Sampled
from mada.evaluation.scores import SCORES, TRANSCRIPTS, Score, Transcript
from mada.evaluation.summary import Summary, summary_of
from mada.report.comparisons import comparisons_section
from mada.report.costs import costs_section
from mada.report.debates import example_markdown, pick_examples
from mada.report.ledger import ledger_section
from mada.report.markdown import code, escaped, table
from mada.report.numbers import duration
from mada.report.samples import samples_section
from mada.report.tables import headline, headline_markdown, replies_markdown
from mada.report.training import CriticExampleCount, critic_examples_markdown, outcomes_markdown, read_outcomes
from mada.run import Run, Session, StoredRecords, StoredRun

REPORT_FILE = "report.md"
CRITIC_EXAMPLES = "critic-examples"
ROLES = ("generators", "critics")

T = TypeVar("T")


def write_report(run: Run) -> Path:
    """Write `report.md` into the run folder; the path it has."""
    return run.write_text(REPORT_FILE, report_markdown(run))


def report_markdown(run: StoredRun) -> str:
    """Return the report of a run as Markdown."""
    grid = read_grid(run)
    summary = None if grid is None else summary_of(grid)
    sections = [
        _heading(run),
        *_evaluation(run, grid, summary),
        _training(run),
        _critic_examples(run),
        _debates(run, grid, summary),
        _making(run),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def read_grid(run: StoredRun) -> Grid | None:
    """Return the run's scores in their places; None before the evaluation has any."""
    path = run.path(PLAN_FILE)
    if not path.is_file() or not _has(run, SCORES):
        return None
    plan = EvaluationPlan.from_json(path.read_text(encoding="utf-8"))
    return Grid.of(_stored(run, SCORES, Score), plan)


def read_summary(run: StoredRun) -> Summary | None:
    """Return what the run's scores say; None before the evaluation has any."""
    grid = read_grid(run)
    return None if grid is None else summary_of(grid)


def read_bill(run: StoredRun) -> Bill | None:
    """Return what the run's evaluation took; None where there is no record of it."""
    grid, efforts = read_grid(run), _efforts(run)
    if grid is None or not efforts:
        return None
    return bill_of(grid, efforts, sampled=_sampled(run), price_per_hour=_price_per_hour(run))


def _heading(run: StoredRun) -> str:
    manifest = run.manifest
    recipe = manifest.recipe.get("name")
    name = recipe if isinstance(recipe, str) else manifest.name
    return (
        f"# {escaped(name)}\n\n"
        f"Run {code(manifest.name)}, seed {manifest.seed}, recipe {code(manifest.recipe_digest[:12])}, "
        f"begun {manifest.started_at:%Y-%m-%d %H:%M} UTC."
    )


def _evaluation(run: StoredRun, grid: Grid | None, summary: Summary | None) -> list[str]:
    if grid is None or summary is None:
        return ["## Results\n\nThis run has not been evaluated yet."]
    results = [headline_markdown(headline(summary)), "Replies and votes, in percent:", replies_markdown(summary)]
    return [
        "\n\n".join(["## Results", *results]),
        comparisons_section(grid),
        ledger_section(grid),
        samples_section(grid),
        costs_section(grid, _efforts(run), sampled=_sampled(run), price_per_hour=_price_per_hour(run)),
    ]


def _training(run: StoredRun) -> str:
    paths = [run.path(role, "validation.jsonl") for role in ROLES]
    outcomes = [outcome for path in paths if path.is_file() for outcome in read_outcomes(path)]
    if not outcomes:
        return ""
    explanation = (
        "Accuracy on the validation set in percent, and mean tokens of a reply. The best adapter is chosen by this "
        "very set, so its number flatters it; the results above do not."
    )
    return f"## Training\n\n{explanation}\n\n{outcomes_markdown(outcomes)}"


def _critic_examples(run: StoredRun) -> str:
    if not _has(run, CRITIC_EXAMPLES):
        return ""
    examples = _stored(run, CRITIC_EXAMPLES, CriticExampleCount)
    explanation = "What the critics learn from, by the share of generators that were right about the problem."
    return f"## Critic examples\n\n{explanation}\n\n{critic_examples_markdown(examples)}"


def _debates(run: StoredRun, grid: Grid | None, summary: Summary | None) -> str:
    if grid is None or summary is None or not _has(run, TRANSCRIPTS):
        return ""
    # The reference is what the run is about; without debates of it, the best of the others.
    ranked = sorted(summary.systems, key=lambda one: (one.system != summary.reference, -one.accuracy.mean))
    systems = [one.system.name for one in ranked]
    examples = pick_examples(_stored(run, TRANSCRIPTS, Transcript), grid.scores, systems=systems)
    if not examples:
        return ""
    shown = [example_markdown(outcome, example) for outcome, example in examples.items()]
    explanation = f"All that were kept are in {code(f'records/{TRANSCRIPTS}.jsonl')}, with the prompts."
    return "\n\n".join(["## Debates to read", explanation, *shown])


def _making(run: StoredRun) -> str:
    marks = run.finished_stages()
    parts = ["## How it was made"]
    if marks:
        rows = [[escaped(mark.name), duration(mark.seconds)] for mark in marks]
        rows.append(["all", duration(sum(mark.seconds for mark in marks))])
        parts.append(table(["stage", "time"], rows))
    parts.append("\n".join(f"- {line}" for line in _surroundings(run.manifest.sessions[-1])))
    sessions = len(run.manifest.sessions)
    if sessions > 1:
        parts.append(
            f"The run took {sessions} sessions; a stage's time is that of the session that ended it, "
            "and commit, versions and machine are those of the latest."
        )
    return "\n\n".join(parts)


def _surroundings(session: Session) -> list[str]:
    commit = session.commit
    hardware = session.hardware
    machine = ", ".join([hardware.cpu, f"{hardware.cores or '?'} cores", *(gpu.name for gpu in hardware.gpus)])
    return [
        f"commit: {code(commit.id) if commit else 'unknown'}{', with changes' if commit and commit.dirty else ''}",
        f"versions: {escaped(', '.join(f'{name} {version}' for name, version in session.versions.items()))}",
        f"machine: {escaped(machine)}",
    ]


def _efforts(run: StoredRun) -> list[Effort]:
    return list(_stored(run, EFFORT, Effort)) if _has(run, EFFORT) else []


def _sampled(run: StoredRun) -> Sampled | None:
    return Sampled.of(_stored(run, SAMPLES, Sample)) if _has(run, SAMPLES) else None


def _price_per_hour(run: StoredRun) -> float | None:
    price = run.manifest.recipe.get("price_per_hour")
    return float(price) if isinstance(price, int | float) else None


def _has(run: StoredRun, name: str) -> bool:
    return name in run.record_names()


def _stored(run: StoredRun, name: str, kind: type[T]) -> StoredRecords[T]:
    # Not `run.records`: a run open for writing has these records open already, as the types that their stages use.
    return StoredRecords(run.path("records", f"{name}.jsonl"), kind)
