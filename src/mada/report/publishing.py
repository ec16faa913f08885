"""Everything a report leaves on the disk, made of stored records alone: a page, a text, tables and figures as files.

    report.html              the page: tables, charts, and every debate
    report.md                the same tables as text
    report/tables/NAME.*     every table as LaTeX, Markdown, HTML and plain text
    report/tables.tex        all of them in a document that compiles as it is
    report/figures/NAME.*    every figure as PDF, PNG and SVG

Of one run this lies in its folder; of several in a folder of its own, and the page has more columns. Each file is
replaced as a whole, and what an earlier report left that this one does not have is removed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mada.atomic import alone_in, explaining, remove_leftovers, replace_text
from mada.report.comparing import comparison_sections
from mada.report.document import Paragraph, Section, Table, paragraph
from mada.report.figures.gallery import figures_of
from mada.report.forms.html import html_table
from mada.report.forms.latex import latex, latex_document
from mada.report.forms.markdown import table_markdown
from mada.report.forms.terminal import table_text
from mada.report.page.packing import packed
from mada.report.page.page import write_page
from mada.report.paper import paper_tables
from mada.report.reading import Source
from mada.report.run_report import opening_of, report_text, sections_of, title_of
from mada.report.sections.recipe import recipe_section
from mada.run import StoredRun
from mada.text import counted

PAGE_FILE, TEXT_FILE, FOLDER = "report.html", "report.md", "report"
ALL_TABLES = "tables.tex"


@dataclass(frozen=True, slots=True)
class Published:
    """What was written: the page and the text, and how many tables, figures and debates there are."""

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
    shown = {block.name for section in sections for block in section.blocks if isinstance(block, Table)}
    tables = tuple(table for table in paper_tables(source) if table.name not in shown)
    paper = [Section("paper", "The paper's tables", tables, only="page")] if tables else []
    sections = [*sections, *paper, recipe_section(source)]
    return _publish([source], run.folder, title=title_of(run), opening=opening_of(source), sections=sections)


def publish_comparison(runs: Sequence[StoredRun], folder: Path) -> Published:
    """Write a report that compares runs into a folder."""
    sources = [Source.of(run, title=title) for run, title in zip(runs, distinct_titles(runs), strict=True)]
    *others, last = (source.title for source in sources)
    names = f"{', '.join(others)} and {last}"
    opening = [
        paragraph(f"{counted(len(sources), 'run')} side by side; the first is what the others are held against.")
    ]
    return _publish(sources, folder, title=names, opening=opening, sections=comparison_sections(sources))


def distinct_titles(runs: Sequence[StoredRun]) -> list[str]:
    """Return a name for every run, with as many of its folders as tell it from the others."""
    # The root, which all have, tells nothing.
    folders = [run.folder.parts[1:] for run in runs]
    for depth in range(1, max(map(len, folders)) + 1):
        titles = ["/".join(parts[-depth:]) for parts in folders]
        if len(set(titles)) == len(titles):
            return titles
    return [f"{run.folder.name} ({number})" for number, run in enumerate(runs, start=1)]


def _publish(
    sources: Sequence[Source], folder: Path, *, title: str, opening: Sequence[Paragraph], sections: Sequence[Section]
) -> Published:
    with explaining(folder / PAGE_FILE):
        folder.mkdir(parents=True, exist_ok=True)
    with alone_in(folder):
        return _write(sources, folder, title=title, opening=opening, sections=sections)


def _write(
    sources: Sequence[Source], folder: Path, *, title: str, opening: Sequence[Paragraph], sections: Sequence[Section]
) -> Published:
    # Loads matplotlib, which takes longer than everything else here.
    from mada.report.figures.writing import write_figures

    remove_leftovers(folder / FOLDER)  # of a killed process; beside it a run may be writing
    figures = figures_of(sources)
    tables = [block for section in sections for block in section.blocks if isinstance(block, Table)]
    # Without it, what lies in a folder that somebody chose is somebody's, whatever its name.
    has_earlier_report = (folder / FOLDER / ALL_TABLES).is_file()
    paths, drawings = write_figures(figures, folder / FOLDER / "figures")
    written = [*paths, *_write_tables(tables, folder / FOLDER)]
    if has_earlier_report:
        _remove_others(folder / FOLDER, written)
    replace_text(folder / TEXT_FILE, report_text(title, opening, sections, figures=set(drawings)))
    shown = [section for section in sections if section.only != "text"]
    with packed(sources, page=folder / PAGE_FILE) as debates:
        write_page(folder / PAGE_FILE, title, shown, figures=drawings, debates=debates, lead=opening)
        return Published(folder / PAGE_FILE, folder / TEXT_FILE, len(tables), len(figures), debates.count)


def _write_tables(tables: Sequence[Table], folder: Path) -> list[Path]:
    forms = {"tex": latex, "md": table_markdown, "html": html_table, "txt": table_text}
    written = [folder / ALL_TABLES]
    replace_text(written[0], latex_document(tables))
    for table in tables:
        for ending, form in forms.items():
            path = folder / "tables" / f"{table.name}.{ending}"
            replace_text(path, form(table).rstrip("\n") + "\n")
            written.append(path)
    return written


def _remove_others(folder: Path, written: Iterable[Path]) -> None:
    """Remove files of an earlier report; only files, and only those in folders that are wholly ours."""
    kept = set(written)
    for part in ("tables", "figures"):
        for path in (folder / part).glob("*.*"):
            if path not in kept and not path.is_dir():
                path.unlink(missing_ok=True)
