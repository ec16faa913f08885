"""Stage 1, split: read the training problems, drop what a benchmark holds, cut one subset per agent (D1, D3)."""

from pydantic import JsonValue

from mada.pipeline.context import Context
from mada.problems import Problem, Split, load_problems, remove_copies, split_problems
from mada.problems.known import KNOWN_SETS, known_name
from mada.run import StoredRun

SPLIT_FILE = "split.json"
PROBLEMS = "problems"


async def split(context: Context) -> dict[str, JsonValue]:
    """Write the split and the problems that it uses."""
    data, seed = context.recipe.data, context.run.seed("split")
    problems = load_training_problems(context)
    benchmarks = {name: load_problems(name, folder=data.folder) for name in data.decontaminate}
    clean = remove_copies(problems, benchmarks)
    cut = split_problems(
        clean.kept,
        subsets=context.recipe.team.generators,
        subset_size=data.subset_size,
        validation_size=data.validation_size,
        seed=seed,
    )
    used = {name for part in cut.parts for name in part.ids}
    records = context.run.records(PROBLEMS, Problem)
    records.keep_while(lambda _: False)  # an interrupted session may have left some
    records.extend(problem for problem in clean.kept if problem.id in used)
    context.run.write_text(SPLIT_FILE, cut.to_json())
    return {
        "problems": len(problems),
        "benchmark copies dropped": sum(clean.dropped.values()),
        "duplicates dropped": cut.duplicates,
        **{part.name: len(part.ids) for part in cut.parts},
        "unused": cut.unused,
    }


def load_training_problems(context: Context) -> list[Problem]:
    """Read the recipe's source of training problems."""
    data = context.recipe.data
    columns = {role: name for role, name in data.columns.model_dump().items() if name is not None}
    return load_problems(
        data.train,
        config=data.config,
        split=data.split,
        revision=data.revision,
        columns=columns,
        folder=data.folder,
        limit=_enough(context),
    )


def read_split(run: StoredRun) -> Split:
    """Return the split that this stage has made."""
    return Split.from_json(run.path(SPLIT_FILE).read_text(encoding="utf-8"))


def read_problems(run: StoredRun) -> dict[str, Problem]:
    """Return the problems that the split uses, by id."""
    return {problem.id: problem for problem in run.records(PROBLEMS, Problem)}


def _enough(context: Context) -> int | None:
    """Return how many problems of an endless source are read: so many that another seed means other problems."""
    name = known_name(context.recipe.data.train)
    if name is None or KNOWN_SETS[name].kind != "built-in":
        return None
    data = context.recipe.data
    wanted = context.recipe.team.generators * data.subset_size + data.validation_size
    return 4 * wanted
