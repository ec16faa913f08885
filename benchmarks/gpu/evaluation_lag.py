"""How far a GPU should be ahead of the host in an evaluation: the same debates with several lags, one after another.

    python benchmarks/gpu/evaluation_lag.py RESULTS.jsonl SCRATCH/ MODEL [--lags 1,4,16] [--repeats 2]
        [--benchmark gsm8k] [--problems 500] [--rows 512] [--window 4096] [--max-new-tokens 1024]

While the host looks at drawn tokens, begins rows, grades answers and writes records, the GPU goes on with the steps
that it has been given already (`Limits.lag` of the local engine). With one, it is soon done and waits; with many, rows
that have ended are computed for as many steps longer. Every measurement is a whole `mada evaluate` of debates of three
untrained generators and three critics on MODEL (a Hub id or a folder), from reading prompts to grading, in this
process; loading is not counted. The lags take turns, after a first evaluation of few problems that is not counted:
Triton compiles there. Prints seconds, the share of them in which the engine worked, tokens per second, and the ratio to
the first lag's median.
"""

import argparse
import asyncio
import json
import statistics
import time
from dataclasses import replace
from pathlib import Path

from mada.evaluation.effort import EFFORT, Effort
from mada.models.engines.local.setup import Limits
from mada.pipeline.contest import hold_contest
from mada.pipeline.evaluations import contest_of_file
from mada.pipeline.observing import SilentRunObserver
from mada.recipe.evaluation_file import evaluation_of
from mada.run import Run

WARM_UP_PROBLEMS = 60
SEATS = 3
SETTLED = Limits.of


def with_lag(lag: int) -> None:
    """Have every engine made from now on pace itself so."""
    Limits.of = lambda *args, **kwargs: replace(SETTLED(*args, **kwargs), lag=lag)  # type: ignore[method-assign]


def evaluate(place: Path, options: argparse.Namespace, *, problems: int) -> dict[str, float]:
    """Hold one evaluation; return what it took."""
    seat = ["model"] * SEATS
    recipe = evaluation_of(
        {
            "name": place.name,
            "benchmarks": [options.benchmark],
            "seeds": 1,
            "problems": problems,
            "inference": {"temperature": 1.0, "max_new_tokens": options.max_new_tokens},
            "engine": {"rows": options.rows, "kind": "local"},
            "agents": {"model": {"model": options.model, "window": options.window}},
            "systems": [{"kind": "debate", "agents": seat, "critics": seat, "rounds": 2, "title": "debate"}],
        },
        where="evaluation_lag.py",
    )
    with Run.open(place, recipe) as run:
        asyncio.run(hold_contest(run, contest_of_file(recipe), watch=SilentRunObserver()))
        efforts = list(run.records(EFFORT, Effort))
    return {
        "seconds": sum(effort.seconds for effort in efforts),
        "busy": sum(effort.busy for effort in efforts),
        "completions": sum(effort.completions for effort in efforts),
        "generated_tokens": sum(effort.generated_tokens for effort in efforts),
        "prompt_tokens": sum(effort.prompt_tokens for effort in efforts),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("model")
    parser.add_argument("--lags", type=lambda text: [int(lag) for lag in text.split(",")], default=[1, 4, 16])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--benchmark", default="gsm8k")
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--window", type=int, default=4096)
    parser.add_argument("--max-new-tokens", type=int, default=1024)
    options = parser.parse_args()
    folder = options.scratch / f"lag-{time.time_ns()}"
    evaluate(folder / "warm-up", options, problems=min(options.problems, WARM_UP_PROBLEMS))
    found: dict[int, list[dict[str, float]]] = {lag: [] for lag in options.lags}
    for repeat in range(options.repeats):
        for lag in options.lags:
            with_lag(lag)
            measured = evaluate(folder / f"{lag}-{repeat}", options, problems=options.problems)
            found[lag].append(measured)
            with options.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"benchmark": "evaluation_lag", "lag": lag, **measured}) + "\n")
            print(f"lag {lag}: {measured}", flush=True)
    first = statistics.median(each["seconds"] for each in found[options.lags[0]])
    print(f"{'lag':>4}{'seconds':>10}{'busy':>7}{'tokens/s':>11}{'ratio':>7}")
    for lag, each in found.items():
        seconds = statistics.median(one["seconds"] for one in each)
        busy = statistics.median(one["busy"] / one["seconds"] for one in each)
        speed = statistics.median(one["generated_tokens"] / one["seconds"] for one in each)
        print(f"{lag:>4}{seconds:>10.1f}{busy:>7.2f}{speed:>11,.0f}{first / seconds:>7.2f}")


if __name__ == "__main__":
    main()
