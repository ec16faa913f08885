"""`mada evaluate` and `mada ablate`: measure systems, with a run or without."""

import json
import shlex
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mada.cli.run import RunOption, run_stage
from mada.cli.terminal import names_in, silence_libraries
from mada.errors import MadaError

if TYPE_CHECKING:
    from collections.abc import Generator

    from mada.events import Events
    from mada.recipe import Recipe
    from mada.recipe.evaluation_file import EvaluationRecipe
    from mada.runs import StoredRun

SYSTEMS = ("single", "vote", "weighted-vote", "judge", "debate")
_OF_ALL = ("benchmarks", "seeds", "problems", "systems")
_OF_A_MODEL = (
    *("adapter", "generators", "critics", "rounds", "samples", "temperature", "max_new_tokens", "window", "rows"),
    *("server", "price", "seed"),
)

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
    context: typer.Context,
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
    given = {key: value for key, value in context.params.items() if value not in (None, (), [])}
    given |= {key: names_in(given[key]) for key in ("benchmarks", "systems") if key in given}
    words = arguments or []
    if model is not None:
        _refuse(given, ("arguments", "folder"), " and --model; leave one of them out")
        from mada.recipe.evaluation_file import evaluation_of

        _run_evaluation(evaluation_of(_values_of(given), where="these options"), out, _stored_runs(reuse))
        return
    _refuse(given, _OF_A_MODEL, ", which goes with --model")
    from mada.recipe.evaluation_file import is_evaluation_file, load_evaluation

    if words and is_evaluation_file(Path(words[0])):
        if len(words) > 1:
            raise MadaError(f"got {words[1]!r} beside an evaluation file; write it into the file")
        _refuse(given, ("folder", *_OF_ALL), ", which goes with a recipe, or --run and --model; the file has its own")
        recipe = load_evaluation(Path(words[0]))
        engine = recipe.engine.model_copy(update=_some(given, "fail_on_error"))
        _run_evaluation(recipe.model_copy(update={"engine": engine}), out, _stored_runs(reuse))
    elif folder is not None and not given.keys().isdisjoint((*_OF_ALL, "out")):
        _refuse(given, ("arguments",), " and --run with other benchmarks, seeds or systems; leave one of them out")
        _evaluate_run(folder, given, out, _stored_runs(reuse))
    elif folder is not None or words:
        _refuse(given, ("out", "reuse", *_OF_ALL), " and the evaluation of a recipe itself; leave one of them out")
        allowed = [] if fail_on_error is None else [f"engine.fail_on_error={fail_on_error}"]
        run_stage("evaluate", [*words, *allowed], folder)
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
    with _progress() as events:
        from mada.pipeline.ablate import ablate as take_apart

        take_apart(
            folder,
            events=events,
            seeds=seeds,
            problems=problems,
            benchmarks=tuple(names_in(benchmarks or "")) or None,
            systems=tuple(names_in(systems or "")) or None,
            price_per_hour=price or None,
            reuse=others,
            out=out,
        )
    _print_results(out or folder / "ablations")


def _evaluate_run(folder: Path, given: dict[str, Any], out: Path | None, earlier: "Sequence[StoredRun]") -> None:
    from mada.problems.sources import parse_sources

    [stored] = _stored_runs([folder])
    from mada.agents import adapter_folders, recipe_of, team_names
    from mada.recipe.loading import overridden

    changes = {f"evaluation.{key}": given[key] for key in _OF_ALL if key in given}
    changes |= {f"engine.{key}": value for key, value in _some(given, "fail_on_error").items()}
    overrides = [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in changes.items()]
    recipe = overridden(recipe_of(stored), overrides)
    generators, critics = team_names(recipe)
    adapter_folders(stored, (*generators, *critics))  # raises if one is missing

    name = "+".join(Path(one.name).stem for text in recipe.evaluation.benchmarks for one in parse_sources(text))
    _run_evaluation(recipe, out or folder / "evaluations" / name, [stored, *earlier], team=stored)


def _stored_runs(folders: Sequence[Path] | None) -> "list[StoredRun]":
    from mada.runs import StoredRun

    return [StoredRun.read(folder) for folder in folders or ()]


def _run_evaluation(
    recipe: "Recipe | EvaluationRecipe",
    out: Path | None,
    earlier: "Sequence[StoredRun]",
    *,
    team: "StoredRun | None" = None,
) -> None:
    """Run an evaluation of a file, or of a run's team with a recipe."""
    folder = out or Path("runs") / recipe.name
    with _progress() as events:
        from mada.pipeline.evaluations import evaluation_of_file, evaluation_of_run
        from mada.pipeline.running import evaluate_and_report
        from mada.recipe import Recipe
        from mada.runs import Run

        if isinstance(recipe, Recipe):
            assert team is not None
            evaluation = evaluation_of_run(recipe, team.folder)
        else:
            evaluation = evaluation_of_file(recipe)
        evaluation.check()
        with Run.open(folder, recipe) as run:
            evaluate_and_report(run, evaluation, events=events, earlier=earlier)
    _print_results(folder)


def _values_of(given: dict[str, Any]) -> dict[str, Any]:
    """Return an evaluation of one model as the values of an evaluation file."""
    model, chosen = given["model"], given.get("systems") or ["single", "vote", "debate"]
    unknown = [name for name in chosen if name not in SYSTEMS]
    if unknown:
        raise MadaError(f"--systems: unknown system {unknown[0]!r}; choose from {', '.join(SYSTEMS)}")
    samples = given.get("samples", None if "debate" in chosen else 6)
    size: dict[str, Any] = {"samples": samples} if samples else {"matched_to": "debate"}
    amount = f"of {samples}" if samples else "at the debate's tokens"
    generators, critics, rounds = given.get("generators", 3), given.get("critics", 3), given.get("rounds", 2)
    shapes: dict[str, dict[str, Any]] = {
        "single": {"title": "single agent"},
        "vote": {"title": f"vote {amount}", **size},
        "weighted-vote": {"title": f"weighted vote {amount}", **size},
        "judge": {"title": f"judge {amount}", "judge": "model", **size},
        "debate": {
            "title": f"debate {generators}+{critics}, {rounds} rounds",
            "agents": ["model"] * generators,
            "critics": ["model"] * critics,
            "rounds": rounds,
        },
    }
    return {
        "name": Path(model).name if Path(model).name.strip(".") else Path(model).resolve().name,
        **_some(given, "seed", "benchmarks", "seeds", "problems"),
        **({"price_per_hour": given["price"]} if given.get("price") else {}),
        **({"reference": "debate"} if "debate" in chosen else {}),
        "inference": _some(given, "temperature", "max_new_tokens"),
        "engine": _some(given, "rows", "fail_on_error") | ({"url": given["server"]} if "server" in given else {}),
        "agents": {"model": _some(given, "model", "adapter", "window")},
        "systems": [{"kind": name, "agents": ["model"], **shapes[name]} for name in chosen],
    }


def _some(given: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}


def _refuse(given: dict[str, Any], names: Sequence[str], because: str) -> None:
    for name in names:
        if name in given:
            shown = {"arguments": "a file", "folder": "--run"}.get(name, f"--{name.replace('_', '-')}")
            raise MadaError(f"got {shown}{because}")


@contextmanager
def _progress() -> "Generator[Events]":
    from mada.cli.run_view import shown_progress
    from mada.events import Events

    silence_libraries()
    with shown_progress(resume=shlex.join(["mada", *sys.argv[1:]])) as view:
        yield Events(view)


def _print_results(folder: Path) -> None:
    from mada.cli.runs import print_results
    from mada.report.reading import Source
    from mada.report.sections.run import cost_lines
    from mada.runs import StoredRun

    cost = Source.of(StoredRun.read(folder)).cost
    print_results(folder, notes=[*cost_lines(cost), ""] if cost is not None else ())
