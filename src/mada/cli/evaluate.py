"""`mada evaluate` and `mada ablate`: measure systems, with a run or without."""

import shlex
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mada.cli.run import RunOption, run_stage
from mada.cli.terminal import console, names_in, silence_libraries
from mada.errors import MadaError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from mada.events import Events
    from mada.pipeline.evaluations import Evaluation
    from mada.recipe import Recipe
    from mada.recipe.evaluation_file import EvaluationRecipe
    from mada.runs import StoredRun

SYSTEMS = ("single", "vote", "weighted-vote", "judge", "debate")

BenchmarksOption = Annotated[
    str | None, typer.Option(metavar="NAMES", help="Benchmarks by name or file, separated by commas.")
]
SeedsOption = Annotated[int | None, typer.Option(min=1, help="Times every system answers every question.")]
ProblemsOption = Annotated[int | None, typer.Option(min=1, help="Questions of each benchmark; without it all.")]
PriceOption = Annotated[
    float | None, typer.Option(min=0.0, help="Price of an hour of the device, to compute the cost.")
]
FailOnErrorOption = Annotated[
    float | None,
    typer.Option(
        min=0.0, max=1.0, metavar="SHARE", help="Questions that a server may fail to answer before it stops (0.01)."
    ),
]
OutOption = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for the results.")]
ReuseOption = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="DIR",
        help="Another evaluation, whose samples are used where they are the same; repeatable.",
    ),
]


def evaluate(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE] [KEY=VALUE]…", help="An evaluation file, or a recipe with --run."),
    ] = None,
    folder: RunOption = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Any chat model: a Hub id or a folder.")] = None,
    adapter: Annotated[str | None, typer.Option(metavar="NAME", help="A LoRA adapter on that model.")] = None,
    benchmarks: BenchmarksOption = None,
    seeds: SeedsOption = None,
    problems: ProblemsOption = None,
    systems: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Systems, separated by commas; of a model single,vote,debate.")
    ] = None,
    generators: Annotated[int | None, typer.Option(min=1, help="Agents of a debate's round 1 (3).")] = None,
    critics: Annotated[int | None, typer.Option(min=1, help="Agents of a debate's later rounds (3).")] = None,
    rounds: Annotated[int | None, typer.Option(min=2, help="Rounds of a debate (2).")] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Samples of a vote; without it as many as the debate's tokens allow.")
    ] = None,
    temperature: Annotated[float | None, typer.Option(min=0.0, help="0 takes the likeliest token (1).")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens after which a reply is cut off.")] = None,
    window: Annotated[int | None, typer.Option(min=2, help="Longest prompt and reply together, in tokens.")] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Completions sampled at the same time, at most.")] = None,
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="An OpenAI-compatible server that samples that model.")
    ] = None,
    fail_on_error: FailOnErrorOption = None,
    price: PriceOption = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Where all randomness starts (0).")] = None,
    reuse: ReuseOption = None,
    out: OutOption = None,
) -> None:
    """Measure systems on benchmarks: a file's, a model's (--model), or a run's team and its rivals (--run).

    The same command resumes an evaluation that was stopped.
    """
    given = arguments or []
    common = {"benchmarks": _names(benchmarks), "seeds": seeds, "problems": problems, "systems": _names(systems)}
    shape = {
        "generators": generators,
        "critics": critics,
        "rounds": rounds,
        "samples": samples,
        "temperature": temperature,
        "max_new_tokens": max_new_tokens,
        "window": window,
        "rows": rows,
        "server": server,
        "adapter": adapter,
        "price": price,
        "seed": seed,
    }
    if model is not None:
        _refuse(given, "a file", beside="--model")
        _refuse(folder, "--run", beside="--model")
        _evaluate_model(model, common | shape | {"fail_on_error": fail_on_error}, out, reuse=reuse)
        return
    _refuse_options(shape, "--model")
    if given and _is_evaluation_file(given):
        _refuse(folder, "--run", beside="an evaluation file")
        _refuse_options(common, "a recipe, or --run and --model; an evaluation file has its own")
        _evaluate_file(Path(given[0]), out, fail_on_error=fail_on_error, reuse=reuse)
    elif folder is not None and (out is not None or any(value is not None for value in common.values())):
        _refuse(given, "a recipe", beside="--run and other benchmarks, seeds or systems")
        _evaluate_run(folder, common, out, fail_on_error=fail_on_error, reuse=reuse)
    elif folder is not None or given:
        _refuse(out, "--out", beside="a recipe without --run")
        _refuse(reuse, "--reuse", beside="the evaluation of a recipe itself")
        _refuse_options(common, "--run")
        allowed = [] if fail_on_error is None else [f"engine.fail_on_error={fail_on_error}"]
        run_stage("evaluate", [*given, *allowed], folder)
    else:
        raise MadaError(
            "got nothing to evaluate; give an evaluation file, --run with the folder of a run, or --model with "
            "--benchmarks, such as `mada evaluate --model mada-nano --benchmarks abacus-easy`"
        )


def ablate(
    folder: Annotated[Path, typer.Option("--run", metavar="DIR", help="Folder of a finished run.")],
    benchmarks: BenchmarksOption = None,
    seeds: SeedsOption = None,
    problems: ProblemsOption = None,
    systems: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Some systems beside the team, separated by commas; without it all."),
    ] = None,
    price: PriceOption = None,
    reuse: ReuseOption = None,
    out: OutOption = None,
) -> None:
    """Evaluate every ablation of the paper, and every rival at the debate's tokens.

    Critics without the counterfactual advantage are trained for it; everything else is evaluation. What the run's own
    evaluation has sampled is used again, and what is not given is as in its recipe. The same command resumes.
    """
    _, *others = _stored_runs([folder, *(reuse or ())])  # before PyTorch is loaded, which takes seconds
    names, chosen = _names(benchmarks), _names(systems)
    with _progress() as events:
        from mada.pipeline.ablate import ablate as take_apart

        take_apart(
            folder,
            events=events,
            seeds=seeds,
            problems=problems,
            benchmarks=tuple(names) if names else None,
            systems=tuple(chosen) if chosen else None,
            price_per_hour=price or None,
            reuse=others,
            out=out,
        )
    _print_results(out or folder / "ablations")


def _evaluate_file(path: Path, out: Path | None, *, fail_on_error: float | None, reuse: list[Path] | None) -> None:
    from mada.recipe.evaluation_file import load_evaluation

    recipe = load_evaluation(path)
    if fail_on_error is not None:
        engine = recipe.engine.model_copy(update={"fail_on_error": fail_on_error})
        recipe = recipe.model_copy(update={"engine": engine})
    _evaluate_recipe(recipe, out, reuse=reuse)


def _evaluate_model(model: str, options: dict[str, Any], out: Path | None, *, reuse: list[Path] | None) -> None:
    from mada.recipe.evaluation_file import evaluation_of

    _evaluate_recipe(evaluation_of(_values_of(model, options), where="these options"), out, reuse=reuse)


def _evaluate_recipe(recipe: "EvaluationRecipe", out: Path | None, *, reuse: list[Path] | None) -> None:
    def evaluation() -> "Evaluation":
        from mada.pipeline.evaluations import evaluation_of_file

        return evaluation_of_file(recipe)

    _run_evaluation(recipe, evaluation, out or Path("runs") / recipe.name, earlier=_stored_runs(reuse))


def _evaluate_run(
    folder: Path,
    options: dict[str, Any],
    out: Path | None,
    *,
    fail_on_error: float | None,
    reuse: list[Path] | None,
) -> None:
    from mada.problems.sources import parse_sources

    stored, *others = _stored_runs([folder, *(reuse or ())])
    from mada.agents import adapter_folders, recipe_of, team_names
    from mada.recipe.loading import changed_recipe

    changes = {f"evaluation.{key}": value for key, value in options.items()} | {"engine.fail_on_error": fail_on_error}
    recipe = changed_recipe(recipe_of(stored), {key: value for key, value in changes.items() if value is not None})
    generators, critics = team_names(recipe)
    adapter_folders(stored, (*generators, *critics))  # raises if one is missing

    def evaluation() -> "Evaluation":
        from mada.pipeline.evaluations import evaluation_of_run

        return evaluation_of_run(recipe, stored.folder)

    name = "+".join(Path(one.name).stem for text in recipe.evaluation.benchmarks for one in parse_sources(text))
    _run_evaluation(recipe, evaluation, out or folder / "evaluations" / name, earlier=[stored, *others])


def _stored_runs(folders: Sequence[Path] | None) -> "list[StoredRun]":
    from mada.runs import StoredRun

    return [StoredRun.read(folder) for folder in folders or ()]


def _run_evaluation(
    recipe: "Recipe | EvaluationRecipe",
    make_evaluation: "Callable[[], Evaluation]",
    folder: Path,
    *,
    earlier: "Sequence[StoredRun]",
) -> None:
    with _progress() as events:
        from mada.pipeline.running import evaluate_and_report
        from mada.runs import Run

        evaluation = make_evaluation()
        evaluation.check()
        with Run.open(folder, recipe) as run:
            evaluate_and_report(run, evaluation, events=events, earlier=earlier)
    _print_results(folder)


def _values_of(model: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return an evaluation of one model as the values of an evaluation file."""
    chosen = options["systems"] or ["single", "vote", "debate"]
    unknown = [name for name in chosen if name not in SYSTEMS]
    if unknown:
        raise MadaError(f"--systems: unknown system {unknown[0]!r}; choose from {', '.join(SYSTEMS)}")
    samples = options["samples"] or (None if "debate" in chosen else 6)
    size: dict[str, Any] = {"samples": samples} if samples else {"matched_to": "debate"}
    amount = f"of {samples}" if samples else "at the debate's tokens"
    sizes, rounds = (options["generators"] or 3, options["critics"] or 3), options["rounds"] or 2
    shapes: dict[str, dict[str, Any]] = {
        "single": {"title": "single agent"},
        "vote": {"title": f"vote {amount}", **size},
        "weighted-vote": {"title": f"weighted vote {amount}", **size},
        "judge": {"title": f"judge {amount}", "judge": "model", **size},
        "debate": {
            "title": f"debate {sizes[0]}+{sizes[1]}, {rounds} rounds",
            "agents": ["model"] * sizes[0],
            "critics": ["model"] * sizes[1],
            "rounds": rounds,
        },
    }
    values: dict[str, Any] = {
        "name": Path(model).name if Path(model).name.strip(".") else Path(model).resolve().name,
        "seed": options["seed"],
        "benchmarks": options["benchmarks"],
        "seeds": options["seeds"],
        "problems": options["problems"],
        "price_per_hour": options["price"] or None,
        "reference": "debate" if "debate" in chosen else None,
        "inference": _given(options, "temperature", "max_new_tokens"),
        "engine": {
            **_given(options, "rows", "fail_on_error"),
            **({"url": options["server"]} if options["server"] else {}),
        },
        "agents": {"model": {"model": model, **_given(options, "adapter", "window")}},
        "systems": [{"kind": name, "agents": ["model"], **shapes[name]} for name in chosen],
    }
    return {key: value for key, value in values.items() if value is not None}


def _given(options: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: options[name] for name in names if options[name] is not None}


def _is_evaluation_file(arguments: list[str]) -> bool:
    from mada.recipe.evaluation_file import is_evaluation_file

    if not is_evaluation_file(Path(arguments[0])):
        return False
    if len(arguments) > 1:
        raise MadaError(f"got {arguments[1]!r} beside an evaluation file; write it into the file")
    return True


def _names(text: str | None) -> list[str] | None:
    return names_in(text) if text is not None else None


def _refuse(value: object, what: str, *, beside: str) -> None:
    if value:
        raise MadaError(f"got {what} and {beside}; leave one of them out")


def _refuse_options(options: dict[str, Any], belongs_to: str) -> None:
    stray = [name for name, value in options.items() if value is not None]
    if stray:
        raise MadaError(f"got --{stray[0].replace('_', '-')}, which goes with {belongs_to}")


@contextmanager
def _progress() -> "Generator[Events]":
    from mada.cli.run_view import shown_progress
    from mada.events import Events

    silence_libraries()
    with shown_progress(resume=shlex.join(["mada", *sys.argv[1:]])) as view:
        yield Events(view)


def _print_results(folder: Path) -> None:
    from mada.cli.runs import print_headline_tables
    from mada.report.publishing import PAGE_FILE
    from mada.report.reading import Source, read_summary
    from mada.report.sections.run import cost_lines
    from mada.runs import StoredRun

    stored = StoredRun.read(folder)
    summary = read_summary(stored)
    assert summary is not None
    typer.echo()
    print_headline_tables(summary, console())
    cost = Source.of(stored).cost
    if cost is not None:
        typer.echo("\n".join(cost_lines(cost)) + "\n")
    typer.echo(f"report: {folder / PAGE_FILE}")
