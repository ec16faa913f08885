"""How often the embedded model is right, and what a vote corrects: the tables of its card.

    python nano/measure.py [--samples 16]

All problems of each benchmark, temperature 1 with a seed for each problem, and the likeliest reply; then the same for
problems without and with a number, after the first, that ends in 8 or 9, with a vote of all samples.
"""

import argparse
import asyncio
import re
from collections import Counter
from statistics import fmean, stdev

import torch

from mada.debate.prompts import Prompts
from mada.grading.extraction import extract_answer
from mada.models.chat import chat_prompt, prompt_ids
from mada.models.engines import Sampling
from mada.models.engines.local import LocalEngine
from mada.models.loading import Base, ChatModel, load_base
from mada.problems import Problem
from mada.problems.abacus import abacus_problems
from mada.seeds import seed_for

BENCHMARKS = ("abacus-easy", "abacus-medium", "abacus-hard", "abacus-long")
HABIT = ("8", "9")


async def answers(base: Base, problems: list[Problem], *, temperature: float, samples: int) -> list[list[str | None]]:
    """Return the answers of all samples to every problem."""
    engine = LocalEngine(base.model, context=512, rows=192)
    stop_tokens = ChatModel.of(base).stop_tokens

    async def ask(problem: Problem) -> list[str | None]:
        ids = prompt_ids(chat_prompt(Prompts().ask(problem.question), base.tokenizer), base.tokenizer)
        how = Sampling(128, temperature, stop_tokens=stop_tokens, seed=seed_for(0, "measure", problem.id))
        replies = await engine.sample(None, ids, how, n=samples)
        return [extract_answer(str(base.tokenizer.decode(list(reply.token_ids)))) for reply in replies]

    return await asyncio.gather(*(ask(problem) for problem in problems))


def has_habit(problem: Problem) -> bool:
    """Whether a number that is added, taken away or multiplied ends in a digit with which the model loses carries."""
    numbers = [int(number) for number in re.findall(r"\d+", problem.question)]
    return any(str(number)[-1] in HABIT for number in numbers[1:])


def main() -> None:
    """Measure, and print the card's tables."""
    parser = argparse.ArgumentParser(description="Measure the embedded model.")
    parser.add_argument("--samples", type=int, default=16)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    base = load_base("mada-nano", device="cpu")
    for name in BENCHMARKS:
        problems = list(abacus_problems(name))
        drawn = asyncio.run(answers(base, problems, temperature=1.0, samples=arguments.samples))
        likeliest = asyncio.run(answers(base, problems, temperature=0.0, samples=1))
        right = [[answer == problem.answer for answer in own] for problem, own in zip(problems, drawn, strict=True)]
        shares = [fmean(own[index] for own in right) for index in range(arguments.samples)]
        greedy = fmean(own[0] == problem.answer for problem, own in zip(problems, likeliest, strict=True))
        error = stdev(shares) / arguments.samples**0.5
        print(f"{name}: sampled {fmean(shares):.1%} ± {error:.1%}, likeliest {greedy:.1%}")
        votes = [Counter(own).most_common(1)[0][0] for own in drawn]
        for wanted in (False, True):
            chosen = [index for index, problem in enumerate(problems) if has_habit(problem) is wanted]
            sampled = fmean(fmean(right[index]) for index in chosen)
            voted = fmean(votes[index] == problems[index].answer for index in chosen)
            which = "with" if wanted else "without"
            print(f"  {len(chosen)} problems {which} an 8 or 9: sampled {sampled:.0%}, vote {voted:.0%}", flush=True)


if __name__ == "__main__":
    main()
