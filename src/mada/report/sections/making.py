"""How a run was made: its stages and their times, its sessions, and what they ran on."""

from collections.abc import Iterator, Sequence

from mada.report.document import Block, Code, Column, Paragraph, Section, Table, paragraph, row
from mada.report.reading import Source
from mada.run import Session, StageMark
from mada.text import duration


def making_section(source: Source) -> Section:
    """Return the finished stages, and the surroundings of the latest session."""
    manifest = source.run.manifest
    marks = source.run.finished_stages()
    blocks: list[Block] = []
    if marks:
        blocks.append(_stages(marks))
        blocks += _data(marks)
    blocks += _surroundings(manifest.sessions[-1])
    sessions = len(manifest.sessions)
    if sessions > 1:
        blocks.append(
            paragraph(
                f"The run took {sessions} sessions; a stage's time is that of the session that ended it, and commit, "
                "versions and machine are those of the latest."
            )
        )
    return Section("making", "How it was made", tuple(blocks))


def _stages(marks: Sequence[StageMark]) -> Table:
    rows = tuple(row(mark.name, [duration(mark.seconds)]) for mark in marks)
    total = row("all", [duration(sum(mark.seconds for mark in marks))])
    return Table("stages", "Stages", (Column("stage", "text"), Column("time")), (rows, (total,)))


def _data(marks: Sequence[StageMark]) -> Iterator[Paragraph]:
    """Say what became of the training rows."""
    for mark in marks:
        counts = [f"{name} {count:,}" for name, count in mark.summary.items() if isinstance(count, int) and count]
        if mark.name == "split" and counts:
            yield paragraph(f"Training data: {', '.join(counts)}.")


def _surroundings(session: Session) -> Iterator[Paragraph]:
    commit = session.commit
    changes = ", with changes" if commit and commit.dirty else ""
    yield paragraph("Commit: ", Code(commit.id), f"{changes}.") if commit else paragraph("Commit: unknown.")
    versions = ", ".join(f"{name} {version}" for name, version in session.versions.items())
    yield paragraph(f"Versions: {versions}.")
    hardware = session.hardware
    machine = ", ".join([hardware.cpu, f"{hardware.cores or '?'} cores", *(gpu.name for gpu in hardware.gpus)])
    yield paragraph(f"Machine: {machine}.")
