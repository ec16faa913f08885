"""How a GPU's engine should be paced in an evaluation: the same debates with several paces, one after another.

    python benchmarks/gpu/pacing.py RESULTS.jsonl SCRATCH/ MODEL [--paces 1:16,4:16,16:16,1:8,1:4] [--repeats 2]
        [--benchmark gsm8k] [--problems 500] [--rows 512] [--window 4096] [--max-new-tokens 1024]

A pace is two numbers of the local engine (`Limits`). The first is `steps_ahead`: while the host reads tokens, starts
rows, grades answers and writes records, the GPU goes on with the steps it has been given; with one step it is soon
done, with many, rows that have ended are computed for as many steps longer. The second is the part of the rows that
must be free before prompts are read while others are decoding: prefill delays all of them, however few the prompts,
and waiting leaves rows empty; 16 is a sixteenth.

Every measurement is a whole `mada evaluate` of debates of three untrained generators and three critics on MODEL (a Hub
id or a folder), from reading prompts to grading, in this process; loading is not counted. The paces take turns, after
an evaluation of few problems that is not counted: Triton compiles there. Prints seconds, tokens per second, and the
ratio to the first pace's median.
"""

import argparse
import asyncio
import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from workload import Results

from mada.errors import MadaError
from mada.evaluation.costs import USAGE, Usage
from mada.events import Events
from mada.models.engines.local.setup import Limits
from mada.pipeline.evaluate import run_evaluation
from mada.pipeline.evaluations import evaluation_of_file
from mada.recipe.evaluation_file import evaluation_of
from mada.runs import Run

WARM_UP_PROBLEMS = 60
SEATS = 3
SETTLED = Limits.of


@dataclass(frozen=True)
class Pace:
    """How many steps the device may be ahead, and which part of the rows is free before prompts are read."""

    steps_ahead: int
    part: int

    @classmethod
    def of(cls, text: str) -> "Pace":
        steps_ahead, part = map(int, text.split(":"))
        if steps_ahead < 0 or part < 1:
            raise ValueError(text)
        return cls(steps_ahead, part)

    def __str__(self) -> str:
        return f"{self.steps_ahead}:{self.part}"

    def of_limits(self, limits: Limits) -> Limits:
        return replace(limits, steps_ahead=self.steps_ahead, admit_at_least=max(1, limits.rows // self.part))


class Took(TypedDict):
    """What an evaluation took."""

    tokens: int
    seconds: float
    completions: int
    prompt_tokens: int


def evaluate(place: Path, options: argparse.Namespace, *, pace: Pace, problems: int) -> Took:
    """Hold one evaluation; return what it took."""
    # Every engine made from now on paces itself so.
    Limits.of = lambda *args, **kwargs: pace.of_limits(SETTLED(*args, **kwargs))  # type: ignore[method-assign]
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
        where="pacing.py",
    )
    with Run.open(place, recipe) as run:
        asyncio.run(run_evaluation(run, evaluation_of_file(recipe), events=Events()))
        efforts = list(run.records(USAGE, Usage))
    return Took(
        tokens=sum(effort.generated_tokens for effort in efforts),
        seconds=sum(effort.seconds for effort in efforts),
        completions=sum(effort.completions for effort in efforts),
        prompt_tokens=sum(effort.prompt_tokens for effort in efforts),
    )


def paces(text: str) -> list[Pace]:
    """Read paces with commas between."""
    return [Pace.of(each) for each in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("model")
    parser.add_argument("--paces", type=paces, default="1:16,4:16,16:16,1:8,1:4")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--benchmark", default="gsm8k")
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--window", type=int, default=4096)
    parser.add_argument("--max-new-tokens", type=int, default=1024)
    options = parser.parse_args()
    try:
        options.results.parent.mkdir(parents=True, exist_ok=True)
        compare(options)
    except (MadaError, OSError) as error:
        parser.exit(1, f"pacing: {error}\n")


def compare(options: argparse.Namespace) -> None:
    """Measure all paces in turns, and print the table."""
    results = Results(options.results, "mada")
    folder = options.scratch / f"pacing-{time.time_ns()}"
    few = min(options.problems, WARM_UP_PROBLEMS)
    evaluate(folder / "warm-up", options, pace=options.paces[0], problems=few)
    found: dict[Pace, list[Took]] = {pace: [] for pace in options.paces}
    for repeat in range(options.repeats):
        for pace, measured in found.items():
            place = folder / f"{pace.steps_ahead}-{pace.part}-{repeat}"
            took = evaluate(place, options, pace=pace, problems=options.problems)
            measured.append(took)
            results.add(rows=options.rows, pattern=f"pace {pace}", **took)
    first = statistics.median(each["seconds"] for each in found[options.paces[0]])
    print(f"{'pace':>6}{'seconds':>10}{'tokens/s':>11}{'ratio':>7}")
    for pace, each in found.items():
        seconds = statistics.median(one["seconds"] for one in each)
        speed = statistics.median(one["tokens"] / one["seconds"] for one in each)
        print(f"{pace!s:>6}{seconds:>10.1f}{speed:>11,.0f}{first / seconds:>7.2f}")


if __name__ == "__main__":
    main()
