"""The report of a run, made of its stored records alone: anyone who has the folder can make it again.

What a run has not come to yet is left out, or named as missing.
"""

from pathlib import Path

from mada.evaluation.scores import TRANSCRIPTS
from mada.evaluation.summary import Summary, summary_of
from mada.report.comparisons import comparisons_section
from mada.report.costs import costs_section
from mada.report.debates import example_markdown, pick_examples
from mada.report.ledger import ledger_section
from mada.report.markdown import code, escaped, table
from mada.report.numbers import duration
from mada.report.reading import CRITIC_EXAMPLES, ROLES, Source, has_records, stored
from mada.report.samples import samples_section
from mada.report.tables import headline, headline_markdown, replies_markdown
from mada.report.training import CriticExampleCount, critic_examples_markdown, outcomes_markdown, read_outcomes
from mada.run import Run, Session, StoredRun

REPORT_FILE = "report.md"


def write_report(run: Run) -> Path:
    """Write `report.md` into the run folder; the path it has."""
    return run.write_text(REPORT_FILE, report_markdown(run))


def report_markdown(run: StoredRun) -> str:
    """Return the report of a run as Markdown."""
    source = Source.of(run)
    grid = source.grid
    summary = None if grid is None else summary_of(grid)
    sections = [
        _heading(run),
        *_evaluation(source, summary),
        _training(run),
        _critic_examples(run),
        _debates(source, summary),
        _making(run),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _heading(run: StoredRun) -> str:
    manifest = run.manifest
    recipe = manifest.recipe.get("name")
    name = recipe if isinstance(recipe, str) else manifest.name
    return (
        f"# {escaped(name)}\n\n"
        f"Run {code(manifest.name)}, seed {manifest.seed}, recipe {code(manifest.recipe_digest[:12])}, "
        f"begun {manifest.started_at:%Y-%m-%d %H:%M} UTC."
    )


def _evaluation(source: Source, summary: Summary | None) -> list[str]:
    grid = source.grid
    if grid is None or summary is None:
        return ["## Results\n\nThis run has not been evaluated yet."]
    results = [headline_markdown(headline(summary)), "Replies and votes, in percent:", replies_markdown(summary)]
    return [
        "\n\n".join(["## Results", *results]),
        comparisons_section(grid),
        ledger_section(grid),
        samples_section(grid),
        costs_section(grid, source.efforts, sampled=source.sampled, price_per_hour=source.price_per_hour),
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
    if not has_records(run, CRITIC_EXAMPLES):
        return ""
    examples = stored(run, CRITIC_EXAMPLES, CriticExampleCount)
    explanation = "What the critics learn from, by the share of generators that were right about the problem."
    return f"## Critic examples\n\n{explanation}\n\n{critic_examples_markdown(examples)}"


def _debates(source: Source, summary: Summary | None) -> str:
    grid = source.grid
    if grid is None or summary is None:
        return ""
    # The reference is what the run is about; without debates of it, the best of the others.
    ranked = sorted(summary.systems, key=lambda one: (one.system != summary.reference, -one.accuracy.mean))
    systems = [one.system.name for one in ranked]
    examples = pick_examples(source.transcripts(), grid.scores, systems=systems)
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
