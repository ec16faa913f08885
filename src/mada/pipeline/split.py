"""Stage 1, split: read the training problems, drop copies of benchmarks, cut one subset per generator (D1, D3)."""

from collections.abc import Sequence
from dataclasses import replace

from mada.pipeline.context import Context
from mada.pipeline.results import SplitResult
from mada.problems import Problem, Split, load_problems, remove_copies, split_problems
from mada.problems.known import KNOWN_SETS, known_name
from mada.recipe import Recipe
from mada.runs import StoredRun
from mada.seeds import seed_for

SPLIT_FILE = "split.json"
PROBLEMS = "problems"


async def split(context: Context) -> SplitResult:
    """Write the split and the problems that it uses."""
    data = context.recipe.data
    skipped = rows_to_skip(context.recipe)
    problems = load_training_problems(context.recipe, skipped=skipped)
    benchmarks = {name: load_problems(name, folder=data.folder) for name in context.recipe.decontaminate}
    clean = remove_copies(problems, benchmarks)
    cut = replace(cut_problems(context.recipe, clean.kept), unanswered=len(skipped or ()))
    used = {name for part in cut.parts for name in part.ids}
    records = context.run.records(PROBLEMS, Problem)
    records.keep_while(lambda _: False)  # an interrupted session may have left some
    records.extend(problem for problem in clean.kept if problem.id in used)
    context.run.write_text(SPLIT_FILE, cut.to_json())
    return SplitResult(
        problems=len(problems),
        without_reference=None if skipped is None else len(skipped),
        copies=sum(clean.dropped.values()),
        duplicates=cut.duplicates,
        parts={part.name: len(part.ids) for part in cut.parts},
        unused=cut.unused,
    )


def cut_problems(recipe: Recipe, problems: Sequence[Problem]) -> Split:
    """Cut problems into a subset for every generator and a validation set."""
    return split_problems(
        problems,
        subsets=recipe.team.generators,
        subset_size=recipe.data.subset_size,
        validation_size=recipe.data.validation_size,
        seed=seed_for(recipe.seed, "split"),
    )


def rows_to_skip(recipe: Recipe) -> list[str] | None:
    """Return a list that collects rows without an answer, or None where such a row is an error."""
    return [] if recipe.data.on_missing_answer == "skip" else None


def load_training_problems(recipe: Recipe, *, skipped: list[str] | None = None) -> list[Problem]:
    """Read the recipe's training problems; rows without an answer go into `skipped`, if it is given."""
    data = recipe.data
    options = {**data.columns.model_dump(), "config": data.config, "split": data.split, "revision": data.revision}
    return load_problems(
        data.train,
        options={key: value for key, value in options.items() if value is not None},
        folder=data.folder,
        limit=_limit(recipe),
        skipped=skipped,
    )


def read_split(run: StoredRun) -> Split:
    """Return the split that this stage has made."""
    return Split.from_json(run.path(SPLIT_FILE).read_text(encoding="utf-8"))


def read_problems(run: StoredRun) -> dict[str, Problem]:
    """Return the problems that the split uses, by id."""
    return {problem.id: problem for problem in run.records(PROBLEMS, Problem)}


def _limit(recipe: Recipe) -> int | None:
    """Return how many problems to read of an endless source: enough that another seed means other problems."""
    data = recipe.data
    name = known_name(data.train)
    if name is None or KNOWN_SETS[name].kind != "built-in" or data.subset_size == "all":
        return None
    return 4 * (recipe.team.generators * data.subset_size + data.validation_size)
