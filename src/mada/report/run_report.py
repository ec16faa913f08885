"""The report of a run, made of its stored records alone: anyone who has the folder can make it again.

What a run has not come to yet is left out, or named as missing.
"""

from collections.abc import Collection, Sequence

from mada.evaluation.grid import LeftOut
from mada.evaluation.summary import summary_of
from mada.report.document import Code, Paragraph, Section, Strong, paragraph
from mada.report.forms.markdown import escaped, markdown, paragraph_markdown
from mada.report.reading import Source
from mada.report.sections.comparisons import comparisons_section
from mada.report.sections.costs import costs_section
from mada.report.sections.critic_examples import critic_examples_section
from mada.report.sections.debates import debates_section
from mada.report.sections.headline import headline_sentence, results_section
from mada.report.sections.ledger import ledger_section
from mada.report.sections.making import making_section
from mada.report.sections.samples import samples_section
from mada.report.sections.training import training_section
from mada.report.training import finished_training_warnings
from mada.run import StoredRun

NOT_EVALUATED = Section("results", "Results", (paragraph("This run has not been evaluated yet."),))

OF_SCORES = (results_section, comparisons_section, ledger_section, samples_section)
OF_RUN = (costs_section, training_section, critic_examples_section, debates_section, making_section)
"""All sections in the order of the report: first what the scores say, then what only the whole run can tell."""


def report_markdown(run: StoredRun, *, figures: Collection[str] = ()) -> str:
    """Return the report of a run as Markdown, with links to these of its drawn figures."""
    source = Source.of(run)
    return report_text(title_of(run), opening_of(source), sections_of(source), figures=figures)


def report_text(
    title: str, opening: Sequence[Paragraph], sections: Sequence[Section], *, figures: Collection[str] = ()
) -> str:
    """Return a report as Markdown, with links to these of its drawn figures."""
    parts = [f"# {escaped(title)}", *map(paragraph_markdown, opening)]
    parts += [markdown(section, figures=figures) for section in sections if section.only != "page"]
    return "\n\n".join(parts) + "\n"


def sections_of(source: Source) -> list[Section]:
    """Return all sections that the run has something to say in, in the order of the report."""
    grid = source.grid
    not_evaluated = [] if source.left_out else [NOT_EVALUATED]
    of_scores = not_evaluated if grid is None else [section_of(grid) for section_of in OF_SCORES]
    of_run = [section_of(source) for section_of in OF_RUN]
    unfinished = _unfinished(source.left_out) if source.left_out else None
    return [section for section in (unfinished, *of_scores, *of_run) if section is not None]


def title_of(run: StoredRun) -> str:
    """Return what the report is called: the recipe's name, or the run's."""
    recipe = run.manifest.recipe.get("name")
    return recipe if isinstance(recipe, str) else run.manifest.name


def opening_of(source: Source) -> list[Paragraph]:
    """Return the lines under the title: what came of the run, who did not improve, and which run it is."""
    manifest = source.run.manifest
    about = paragraph(
        "Run ",
        Code(manifest.name),
        f", seed {manifest.seed}, recipe ",
        Code(manifest.recipe_digest[:12]),
        f", begun {manifest.started_at:%Y-%m-%d %H:%M} UTC.",
    )
    headline = [paragraph(headline_sentence(summary_of(source.grid)))] if source.grid else []
    warnings = [paragraph(Strong("Warning:"), f" {text}.") for text in finished_training_warnings(source.run)]
    return [*headline, *warnings, about]


def _unfinished(left_out: LeftOut) -> Section:
    one = len(left_out.seeds) + len(left_out.systems) == 1
    text = f"The evaluation is not finished: {left_out} {'is' if one else 'are'} left out, because "
    if left_out.systems:
        text += "not every question has been answered there yet."
    else:
        text += f"not every system has answered every question with {'it' if one else 'them'} yet."
    return Section("unfinished", "Not finished", (paragraph(text),))
