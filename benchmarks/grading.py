"""Pairs graded per second: mada's grader against math-verify called in a plain loop, on the same pairs.

    python benchmarks/grading.py [--pairs 1000] [--repeats 3] [--data FOLDER]

The pairs are real references, each with a group of four replies as in training: the same answer in another
typesetting, and wrong answers a digit or a sign away. One reply in a hundred is hostile: reading it or computing it
takes minutes or years. mada has its own time limit; the loop is run with the same, and with math-verify's.
Rounds are interleaved, every round has pairs of its own (nothing is remembered from the one before), and the
grader's workers start inside the measured time. The line below the table says when honest replies have their grades
although hostile ones were there before them.
"""

import argparse
import json
import logging
import os
import random
import re
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mada.grading import Grader

LIMIT = 2  # seconds for one comparison: mada's default
RIVAL_LIMIT = 5  # math-verify's default
FILES = ("math500", "minerva_math", "aime24", "aime25", "amc23", "math_train_12k", "still3_subset")
HOSTILE = (  # the grader recognises some of them; the others run into its time limit
    "{n}^{{9^{{9^9}}}}",
    "({n}^{{9}})!",
    "\\sum_{{k=1}}^{{{n}}} k^{{k}}",
    "(x+{n})^{{{n}}}",
    "\\frac{{1}}{{" * 20 + "x+{n}" + "}}" * 20,
)
GROUP = 4  # replies to one reference, as in training


def references(folder: Path) -> list[str]:
    """Return the answers of the benchmarks and of two training sets, numbers and formulas as they come."""
    return [
        json.loads(line)["answer"]
        for name in FILES
        for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    ]


def other_typesetting(answer: str) -> str:
    """Write the same answer as another model would."""
    return answer.replace(r"\frac", r"\dfrac").replace(r"\left", "").replace(r"\right", "").replace(" ", "  ")


def perturbed(answer: str, generator: random.Random) -> str:
    """Write a wrong answer that looks right: one digit changed, or a sign in front."""
    digits = [match.start() for match in re.finditer(r"\d", answer)]
    if not digits:
        return f"-{answer}"
    place = generator.choice(digits)
    return answer[:place] + str((int(answer[place]) + generator.randrange(1, 9)) % 10) + answer[place + 1 :]


def make_pairs(answers: list[str], count: int, *, seed: int) -> list[tuple[str, str]]:
    """Return (reply, reference) pairs in groups of one reference; one reply in a hundred is hostile."""
    generator = random.Random(seed)
    pairs = []
    gold = ""
    for position in range(count):
        if position % GROUP == 0:
            gold = generator.choice(answers)
        if position % 100 == 50:
            reply = HOSTILE[position // 100 % len(HOSTILE)].format(n=generator.randrange(10**5, 10**6))
        else:
            reply = other_typesetting(gold) if generator.random() < 0.4 else perturbed(gold, generator)
        pairs.append((f"So the answer is $\\boxed{{{reply}}}$.", gold))
    return pairs


def plain_loop(pairs: list[tuple[str, str]], *, limit: int) -> tuple[float, list[bool]]:
    """Time math-verify in a plain loop, its own time limits on."""
    from math_verify import parse, verify

    started = time.perf_counter()
    verdicts = [
        verify(parse(f"${gold}$", parsing_timeout=limit), parse(reply, parsing_timeout=limit), timeout_seconds=limit)
        for reply, gold in pairs
    ]
    return time.perf_counter() - started, verdicts


def grader(pairs: list[tuple[str, str]]) -> tuple[float, list[bool]]:
    """Time mada's grader, the start of its workers included."""
    started = time.perf_counter()
    with Grader(time_limit=LIMIT) as one:
        verdicts = [grade.correct for grade in one.grade(pairs)]
        seconds = time.perf_counter() - started
    return seconds, verdicts


def honest_wait(pairs: list[tuple[str, str]], *, hostile_first: bool) -> float:
    """Return the seconds until the honest pairs have their grades, alone or while hostile ones were there before."""
    honest = [pair for position, pair in enumerate(pairs) if position % 100 != 50]
    hostile = [pair for position, pair in enumerate(pairs) if position % 100 == 50]
    with Grader(time_limit=LIMIT) as one, ThreadPoolExecutor(1) as background:
        started = time.perf_counter()
        if hostile_first:
            background.submit(one.grade, hostile)
        one.grade(honest)
        return time.perf_counter() - started


def main() -> None:
    """Print the tables and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("MADA_DATA", beside)))
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        parser.error(f"{arguments.data} is not a folder; give the folder of the data sets with --data")
    logging.disable(logging.CRITICAL)

    answers = references(arguments.data)
    rounds: list[tuple[float, float, float]] = []
    loop = "plain loop"
    print(f"{'round':>5} {'pairs':>6} {'mada':>8} {loop + ', 2 s':>16} {loop + ', 5 s':>16} {'other verdicts':>15}")
    for repeat in range(arguments.repeats):
        pairs = make_pairs(answers, arguments.pairs, seed=repeat)
        ours, verdicts = grader(pairs)
        same_limit, rival_verdicts = plain_loop(pairs, limit=LIMIT)
        own_limit, _ = plain_loop(pairs, limit=RIVAL_LIMIT)
        rounds.append((ours, same_limit, own_limit))
        other = sum(one != another for one, another in zip(verdicts, rival_verdicts, strict=True))
        speeds = [f"{len(pairs) / seconds:.1f}/s" for seconds in rounds[-1]]
        print(f"{repeat + 1:>5} {len(pairs):>6} {speeds[0]:>8} {speeds[1]:>16} {speeds[2]:>16} {other:>15}", flush=True)
    last = make_pairs(answers, arguments.pairs, seed=arguments.repeats)
    alone, among = honest_wait(last, hostile_first=False), honest_wait(last, hostile_first=True)
    print(f"honest pairs graded after {alone:.1f} s without hostile pairs, {among:.1f} s with those submitted first")
    same = statistics.median(rival / ours for ours, rival, _ in rounds)
    print(f"with mada's time limit on both sides: {same:.2f}")
    ratio = statistics.median(rival / ours for ours, _, rival in rounds)
    print(f"ratio: {ratio:.2f} (mada's grader against math-verify in a plain loop)")


if __name__ == "__main__":
    main()
