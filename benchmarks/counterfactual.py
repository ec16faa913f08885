"""Critics with the counterfactual advantage against critics with GRPO's, on the same generators and the same data.

    python benchmarks/counterfactual.py [RECIPE] [KEY=VALUE …] [--seeds 10] [--processes 2] [--runs FOLDER]
                                        [--generators RUN]…

For every seed a team is trained as the recipe says; then a second set of critics is trained on the very same critic
data with `critics.advantage=grpo` (A3), and both teams are evaluated with the same seeds. With `--generators` the
generators and the critic data of finished runs are used, in turn, and only critics are trained. Runs that are finished
are read and not run again. Prints the difference within each seed, its mean, and its 95 % interval over seeds.
"""

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev

from scipy.special import stdtrit

from mada.pipeline.running import copy_generators
from mada.recipe import load_recipe
from mada.report.reading import read_summary
from mada.runs import Run, StoredRun

ADVANTAGES = ("counterfactual", "grpo")
MEASURES = ("accuracy", "verdict", "improves", "damages")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One trained team, as shares."""

    accuracy: float
    verdict: float
    improves: float
    damages: float
    generators: float
    """Share of right answers of the generators to the critics' problems: what the critics started from."""


def train_pair(arguments: argparse.Namespace, seed: int) -> dict[str, Outcome]:
    """Train and evaluate one seed's two teams, the second from the first one's generators."""
    folders = {advantage: arguments.runs / f"seed-{seed}-{advantage}" for advantage in ADVANTAGES}
    given: list[Path] = arguments.generators
    source = given[seed % len(given)] if given else None
    for advantage, folder in folders.items():
        overrides = [*arguments.overrides, f"seed={seed}", f"critics.advantage={advantage}"]
        if source is not None and not (folder / "manifest.json").exists():
            recipe = load_recipe(arguments.recipe, overrides=overrides)
            with Run.open(folder, recipe) as run:
                copy_generators(StoredRun.read(source), run, recipe)
        _mada(arguments, folder, overrides)
        source = source or folder
    return {advantage: read_outcome(folder) for advantage, folder in folders.items()}


def _mada(arguments: argparse.Namespace, folder: Path, overrides: list[str]) -> None:
    command = [sys.executable, "-m", "mada", "run", str(arguments.recipe), *overrides, "--run", str(folder)]
    with (arguments.runs / f"{folder.name}.log").open("w") as log:
        subprocess.run(command, check=True, stdout=log, stderr=subprocess.STDOUT)


def read_outcome(folder: Path) -> Outcome:
    """Read what a finished run measured."""
    run = StoredRun.read(folder)
    summary = read_summary(run)
    assert summary is not None
    [team] = [one for one in summary.systems if one.system.name == "mada"]
    [data] = [mark for mark in run.finished_stages() if mark.name == "critic-data"]
    assert team.improves is not None
    assert team.damages is not None
    started = float(str(data.summary["generator accuracy"]))
    return Outcome(team.mean.average.mean, team.verdict.average.mean, team.improves, team.damages, started)


def interval(values: list[float]) -> tuple[float, float]:
    """Return the mean and half of its 95 % interval by Student's t."""
    half = float(stdtrit(len(values) - 1, 0.975)) * stdev(values) / len(values) ** 0.5
    return fmean(values), half


def show(pairs: dict[int, dict[str, Outcome]]) -> None:
    """Print every seed, the means, and the differences."""
    print(f"{'seed':>5} {'advantage':<15}" + "".join(f"{name:>10}" for name in MEASURES) + f"{'acc_G':>10}")
    for seed, pair in sorted(pairs.items()):
        for advantage in ADVANTAGES:
            one = pair[advantage]
            shares = "".join(f"{100 * getattr(one, name):>10.1f}" for name in MEASURES)
            print(f"{seed:>5} {advantage:<15}{shares}{100 * one.generators:>10.1f}")
    if len(pairs) < 2:
        return
    print(f"\nmean over {len(pairs)} training seeds ± half of the 95 % interval, in percent or points")
    for name in MEASURES:
        columns = {advantage: [getattr(pair[advantage], name) for pair in pairs.values()] for advantage in ADVANTAGES}
        difference = [one - other for one, other in zip(columns["counterfactual"], columns["grpo"], strict=True)]
        written = [f"{advantage} {_written(values)}" for advantage, values in columns.items()]
        print(f"{name:<10} {', '.join(written)}, difference {_written(difference)}")


def _written(values: list[float]) -> str:
    mean, half = interval(values)
    return f"{100 * mean:.1f} ± {100 * half:.1f}"


def main() -> None:
    """Read the command line, train what is missing, print the table."""
    parser = argparse.ArgumentParser(description="Compare the two advantages of critics over training seeds.")
    parser.add_argument("recipe", type=Path, nargs="?", default=Path("recipes/quickstart.toml"))
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path("runs/counterfactual"))
    parser.add_argument("--generators", type=Path, nargs="+", default=[], metavar="RUN")
    parser.add_argument("--json", type=Path, help="also write the outcomes to this file")
    arguments = parser.parse_args()
    arguments.runs.mkdir(parents=True, exist_ok=True)
    pairs: dict[int, dict[str, Outcome]] = {}

    def work(seed: int) -> None:
        pairs[seed] = train_pair(arguments, seed)
        print(f"seed {seed} done, {len(pairs)} of {arguments.seeds}", flush=True)
        if arguments.json:
            plain = {seed: {name: asdict(one) for name, one in pairs[seed].items()} for seed in sorted(pairs)}
            arguments.json.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")

    with ThreadPoolExecutor(arguments.processes) as pool:
        list(pool.map(work, range(arguments.seeds)))
    show(pairs)


if __name__ == "__main__":
    main()
