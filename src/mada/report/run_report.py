"""The report of a run, made of its stored records alone: anyone who has the folder can make it again.

What a run has not come to yet is left out, or named as missing.
"""

from pathlib import Path
from typing import TypeVar

from mada.evaluation.plan import PLAN_FILE, EvaluationPlan
from mada.evaluation.scores import SCORES, TRANSCRIPTS, Score, Transcript
from mada.evaluation.summary import Summary, summarize
from mada.report.debates import example_markdown, pick_examples, place_of
from mada.report.markdown import code, escaped, table
from mada.report.tables import differences_markdown, headline, headline_markdown, replies_markdown
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
    summary = read_summary(run)
    sections = [
        _heading(run),
        _results(summary),
        _training(run),
        _critic_examples(run),
        _debates(run, summary),
        _making(run),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def read_summary(run: StoredRun) -> Summary | None:
    """Return what the run's scores say; None before the evaluation has any."""
    path = run.path(PLAN_FILE)
    if not path.is_file() or not _has(run, SCORES):
        return None
    plan = EvaluationPlan.from_json(path.read_text(encoding="utf-8"))
    return summarize(_stored(run, SCORES, Score), plan)


def _heading(run: StoredRun) -> str:
    manifest = run.manifest
    recipe = manifest.recipe.get("name")
    name = recipe if isinstance(recipe, str) else manifest.name
    return (
        f"# {escaped(name)}\n\n"
        f"Run {code(manifest.name)}, seed {manifest.seed}, recipe {code(manifest.recipe_digest[:12])}, "
        f"begun {manifest.started_at:%Y-%m-%d %H:%M} UTC."
    )


def _results(summary: Summary | None) -> str:
    if summary is None:
        return "## Results\n\nThis run has not been evaluated yet."
    parts = ["## Results", headline_markdown(headline(summary))]
    if len(summary.systems) > 1:
        parts += ["Differences in points:", differences_markdown(summary)]
    parts += ["Replies and votes, in percent:", replies_markdown(summary)]
    return "\n\n".join(parts)


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


def _debates(run: StoredRun, summary: Summary | None) -> str:
    if summary is None or not _has(run, TRANSCRIPTS):
        return ""
    scores = {place_of(score): score for score in _stored(run, SCORES, Score)}
    # The reference is what the run is about; without debates of it, the best of the others.
    ranked = sorted(summary.systems, key=lambda one: (one.system != summary.reference, -one.accuracy.mean))
    systems = [one.system.name for one in ranked]
    examples = pick_examples(_stored(run, TRANSCRIPTS, Transcript), scores, systems=systems)
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


def _has(run: StoredRun, name: str) -> bool:
    return name in run.record_names()


def _stored(run: StoredRun, name: str, kind: type[T]) -> StoredRecords[T]:
    # Not `run.records`: a run open for writing has these records open already, as the types that their stages use.
    return StoredRecords(run.path("records", f"{name}.jsonl"), kind)


def duration(seconds: float) -> str:
    """Return a length of time for people: `42 s`, `3 min 5 s`, `2 h 7 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
