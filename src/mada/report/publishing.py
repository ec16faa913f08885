"""The report of a run or of several, made from stored records alone: what it says, and its files.

    report.html              the page: tables, charts, and every debate
    report.md                the same tables as text
    report/tables/NAME.*     every table as LaTeX, Markdown, HTML and plain text
    report/tables.tex        all of them in a document that compiles as it is
    report/figures/NAME.*    every figure as PDF, PNG and SVG

The report of one run lies in its folder; that of several in a folder of its own. Each file is replaced atomically, and
files of an earlier report that this one does not have are removed.
"""

import tempfile
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mada.atomic import atomic_path, describe_os_errors, folder_lock, remove_temporaries, replace_text
from mada.evaluation.grid import Omitted
from mada.evaluation.summary import summarize
from mada.report.comparing import comparison_sections
from mada.report.document import Code, Paragraph, Section, Strong, Table, paragraph
from mada.report.forms.html import html_table
from mada.report.forms.latex import latex, latex_document
from mada.report.forms.markdown import escaped, markdown, paragraph_markdown, table_markdown
from mada.report.forms.terminal import table_text
from mada.report.page.debates import pack_debates
from mada.report.page.page import page_pieces
from mada.report.paper import paper_tables
from mada.report.reading import Source
from mada.report.sections.debates import examples_section, ledger_section
from mada.report.sections.results import comparisons_section, headline_sentence, results_section, samples_section
from mada.report.sections.run import (
    costs_section,
    critic_examples_section,
    provenance_section,
    recipe_section,
    training_section,
)
from mada.report.training import finished_training_warnings
from mada.runs import StoredRun
from mada.text import counted

PAGE_FILE, TEXT_FILE, FOLDER = "report.html", "report.md", "report"
ALL_TABLES = "tables.tex"
FORMS = {"tex": latex, "md": table_markdown, "html": html_table, "txt": table_text}
"""Every table is written in each of these forms, by the ending of its file."""
NOT_EVALUATED = Section("results", "Results", (paragraph("This run has not been evaluated yet."),))

OF_SCORES = (results_section, comparisons_section, ledger_section, samples_section)
OF_RUN = (costs_section, training_section, critic_examples_section, examples_section, provenance_section)
"""All sections in the order of the report: first those made from scores, then those that need the complete run."""


@dataclass(frozen=True, slots=True)
class Published:
    """The files written, and how many tables, figures and debates they have."""

    page: Path
    text: Path
    tables: int
    figures: int
    debates: int

    def __str__(self) -> str:
        parts = [counted(self.tables, "table"), counted(self.figures, "figure"), counted(self.debates, "debate")]
        return ", ".join(parts)


def publish_run(run: StoredRun) -> Published:
    """Write the report of a run into its folder."""
    source = Source.of(run)
    sections = sections_of(source)
    shown = {table.name for section in sections for table in section.tables}
    tables = tuple(table for table in paper_tables(source) if table.name not in shown)
    paper = [Section("paper", "The paper's tables", tables, only="page")] if tables else []
    sections += [*paper, recipe_section(source)]
    return _publish([source], run.folder, title=title_of(run), opening=opening_of(source), sections=sections)


def publish_comparison(runs: Sequence[StoredRun], folder: Path) -> Published:
    """Write a report that compares runs into a folder."""
    sources = [Source.of(run, title=title) for run, title in zip(runs, distinct_titles(runs), strict=True)]
    *others, last = (source.title for source in sources)
    opening = [paragraph(f"{counted(len(sources), 'run')} side by side; the others are compared with the first.")]
    title = f"{', '.join(others)} and {last}"
    return _publish(sources, folder, title=title, opening=opening, sections=comparison_sections(sources))


def distinct_titles(runs: Sequence[StoredRun]) -> list[str]:
    """Return a name for every run, with as many of its parent folders as tell it from the others."""
    folders = [run.folder.parts[1:] for run in runs]
    for depth in range(1, max(map(len, folders)) + 1):
        titles = ["/".join(parts[-depth:]) for parts in folders]
        if len(set(titles)) == len(titles):
            return titles
    return [f"{run.folder.name} ({number})" for number, run in enumerate(runs, start=1)]


def report_markdown(run: StoredRun, *, figures: Collection[str] = ()) -> str:
    """Return the report of a run as Markdown, with links to these of its drawn figures."""
    source = Source.of(run)
    return _report_text(title_of(run), opening_of(source), sections_of(source), figures=figures)


def sections_of(source: Source) -> list[Section]:
    """Return all sections that the run has something to say in, in the order of the report."""
    grid, left_out = source.grid, source.left_out
    opening = [unfinished_section(left_out)] if left_out else [] if grid else [NOT_EVALUATED]
    of_scores = [] if grid is None else [make(grid) for make in OF_SCORES]
    sections = [*opening, *of_scores, *(make(source) for make in OF_RUN)]
    return [section for section in sections if section is not None]


def title_of(run: StoredRun) -> str:
    """Return the recipe's name, or the run's."""
    recipe = run.manifest.recipe.get("name")
    return recipe if isinstance(recipe, str) else run.manifest.name


def opening_of(source: Source) -> list[Paragraph]:
    """Return the lines under the title: the main result, warnings about training, and which run it is."""
    manifest = source.run.manifest
    digest, begun = Code(manifest.recipe_digest[:12]), f", begun {manifest.started_at:%Y-%m-%d %H:%M} UTC."
    about = paragraph("Run ", Code(manifest.name), f", seed {manifest.seed}, recipe ", digest, begun)
    headline = [paragraph(headline_sentence(summarize(source.grid)))] if source.grid else []
    warnings = [paragraph(Strong("Warning:"), f" {text}.") for text in finished_training_warnings(source.run)]
    return [*headline, *warnings, about]


def unfinished_section(left_out: Omitted) -> Section:
    """Return the sentence on what of an unfinished evaluation is left out, and why."""
    is_one = len(left_out.seeds) + len(left_out.systems) == 1
    reason = f"not every system has answered every question with {'it' if is_one else 'them'} yet"
    if left_out.systems:
        reason = "not every question has been answered there yet"
    verb = "is" if is_one else "are"
    text = f"The evaluation is not finished: {left_out} {verb} left out, because {reason}."
    return Section("unfinished", "Not finished", (paragraph(text),))


def _report_text(
    title: str, opening: Sequence[Paragraph], sections: Sequence[Section], *, figures: Collection[str]
) -> str:
    parts = [f"# {escaped(title)}", *map(paragraph_markdown, opening)]
    parts += [markdown(section, figures=figures) for section in sections if section.only != "page"]
    return "\n\n".join(parts) + "\n"


def _publish(
    sources: Sequence[Source], folder: Path, *, title: str, opening: Sequence[Paragraph], sections: Sequence[Section]
) -> Published:
    # Loads matplotlib, which takes longer than everything else here.
    from mada.report.figures.writing import write_figures

    page, text, own = folder / PAGE_FILE, folder / TEXT_FILE, folder / FOLDER
    with describe_os_errors(page):
        folder.mkdir(parents=True, exist_ok=True)
    with folder_lock(folder):
        remove_temporaries(own)  # of a killed process; beside it a run may be writing
        # Without an earlier report, files in a folder that somebody chose are not ours to remove.
        has_earlier_report = (own / ALL_TABLES).is_file()
        tables = [table for section in sections for table in section.tables]
        paths, drawings = write_figures(sources, own / "figures")
        paths += _write_tables(tables, own)
        if has_earlier_report:
            _remove_others(own, paths)
        replace_text(text, _report_text(title, opening, sections, figures=set(drawings)))
        shown = [section for section in sections if section.only != "text"]
        # Debates wait beside the page, which has to have room for them anyway.
        with describe_os_errors(page), tempfile.TemporaryFile(dir=folder) as file:
            debates = pack_debates(sources, file)
            with atomic_path(page) as partial, partial.open("w", encoding="utf-8", errors="backslashreplace") as out:
                out.writelines(page_pieces(title, shown, figures=drawings, debates=debates, lead=opening))
        return Published(page, text, len(tables), len(drawings), debates.count)


def _write_tables(tables: Sequence[Table], folder: Path) -> list[Path]:
    replace_text(folder / ALL_TABLES, latex_document(tables))
    written: list[Path] = []
    for table in tables:
        for ending, form in FORMS.items():
            written.append(folder / "tables" / f"{table.name}.{ending}")
            replace_text(written[-1], form(table).rstrip("\n") + "\n")
    return written


def _remove_others(folder: Path, written: Iterable[Path]) -> None:
    """Remove files of an earlier report: only files, and only in the folders of tables and figures."""
    for path in {*folder.glob("tables/*.*"), *folder.glob("figures/*.*")} - set(written):
        if not path.is_dir():
            path.unlink(missing_ok=True)
