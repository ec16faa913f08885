"""Matched budgets: as many samples as another system's budget allows, met over a benchmark's questions (B1).

A debate that is compared with a vote of as many calls is compared with a rival that may have had a fraction of its
tokens, because critics read and write more. So a rival may spend what the debate spent on the same benchmark: generated
tokens, or the *cost*, which is generated tokens and prompt tokens at their price. A prompt that several turns of one
agent share in a round is paid once, for the engine reads it once; such turns are told by the prompt's length.

The generators take turns, and who begins changes from question to question. How long samples will be is known on
average, from systems of a fixed size; each question gets the number of samples with which what is expected so far comes
closest to what is allowed so far, and at least one. What was really spent shows block by block: the first block is a
pilot, then each has half of the questions that are left, and shares out what remains of the budget. Sizes depend on
complete earlier blocks alone, so no order of finishing and no interruption changes them.

Whoever speaks after the samples, a judge, takes its turn out of the budget: in the pilot it is taken to cost as much as
a sample, and then as much as it did before.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mada.errors import EvaluationError
from mada.evaluation.plan import PlannedSystem
from mada.evaluation.scores import Score
from mada.models.engines import PacedEngine, Sampling
from mada.seeds import rng

PILOT = 16
"""How many questions of a benchmark are the first block, at most a quarter of them."""
_LAST = 128
"""No block but the last has fewer than a 128th of a benchmark's questions."""


@dataclass(slots=True)
class _Spent:
    """Tokens generated and read in a number of turns or debates. Whole numbers, so no order of adding changes a sum."""

    generated: int = 0
    prompt: int = 0
    count: int = 0

    def add(self, generated: int, prompt: int) -> None:
        self.generated += generated
        self.prompt += prompt
        self.count += 1

    def add_debate(self, score: Score, *, first: int = 0) -> None:
        """Add what the rounds from `first` on took; a prompt that turns share counts once."""
        rounds = list(zip(score.agents, score.prompts, strict=True))[first:]
        prompts = sum(tokens for agents, read in rounds for _, tokens in set(zip(agents, read, strict=True)))
        self.add(sum(map(sum, score.tokens[first:])), prompts)


def blocks(count: int) -> list[range]:
    """Cut a benchmark's questions, by number, into those whose sizes are decided at the same time."""
    ends = [min(PILOT, -(-count // 4))]
    while ends[-1] < count:
        left = count - ends[-1]
        ends.append(ends[-1] + (left if left <= count / _LAST else -(-left // 2)))
    return [range(start, end) for start, end in zip([0, *ends], ends, strict=False)]


class Budgets:
    """What systems spent on every benchmark, and what matched systems may still spend.

    `prompt_price` is what reading a token costs, where generating one costs 1.
    """

    def __init__(self, prompt_price: float | None = None) -> None:
        self.prompt_price = prompt_price
        self._of_system: dict[tuple[str, str], _Spent] = defaultdict(_Spent)
        self._of_agent: dict[tuple[str, str], _Spent] = defaultdict(_Spent)
        self._matched: dict[tuple[str, str], list[tuple[int, Score]]] = defaultdict(list)

    def add(self, score: Score) -> None:
        """Add the score of a system of a fixed size."""
        self._of_system[score.system, score.benchmark].add_debate(score)
        for agent, tokens, prompt in zip(score.agents[0], score.tokens[0], score.prompts[0], strict=True):
            self._of_agent[agent, score.benchmark].add(tokens, prompt)

    def add_matched(self, score: Score, number: int) -> None:
        """Add what a matched system spent on the question of that number."""
        self._matched[score.system, score.benchmark].append((number, score))

    def sizes(self, system: PlannedSystem, benchmark: str, block: range, *, of: int) -> dict[int, int]:
        """Return how many samples a matched system has on each question of a block, of `of` questions in all.

        All questions before the block must have been answered.
        """
        price = self._price_of(system)
        target, samples = self._measured(system, benchmark)
        cost = {agent: (max(1, one.generated) / one.count, price * one.prompt / one.count) for agent, one in samples}
        spent, after = _Spent(), _Spent()
        for earlier, score in self._matched[system.name, benchmark]:
            if earlier < block.start:
                spent.add_debate(score)
                after.add_debate(score, first=1)
        if after.count:
            later = (after.generated + price * after.prompt) / after.count
        else:
            turns = [sum(cost[agent]) for agent in system.generators]
            later = (system.rounds - 1) * len(system.critics) * sum(turns) / len(turns)
        budget = of * (target.generated + price * target.prompt) / target.count
        allowance = (budget - spent.generated - price * spent.prompt) / (of - block.start)
        expected, found = 0.0, dict[int, int]()
        for count, number in enumerate(block, start=1):
            expected += later
            goal = count * allowance
            turns, read = 0, set[str]()
            while True:
                agent = system.generators[(number + turns) % len(system.generators)]
                writing, reading = cost[agent]
                added = writing + (0 if agent in read else reading)
                if turns and abs(expected + added - goal) >= abs(expected - goal):
                    break
                expected, turns = expected + added, turns + 1
                read.add(agent)
            found[number] = turns
        return found

    def _measured(self, system: PlannedSystem, benchmark: str) -> tuple[_Spent, list[tuple[str, _Spent]]]:
        """Return what the target spent, and what samples of each generator took."""
        agents = list(dict.fromkeys(system.generators))
        target = self._of_system.get((system.matched_to or "", benchmark))
        samples = [(agent, known) for agent in agents if (known := self._of_agent.get((agent, benchmark)))]
        if target is None or len(samples) < len(agents):
            raise EvaluationError(
                f"{system.name!r} is to spend as much as {system.matched_to!r} on {benchmark}, and how much a sample "
                f"of {', '.join(agents)} takes is not known; "
                "evaluate a system of fixed size with these generators too, such as a single agent"
            )
        return target, samples

    def _price_of(self, system: PlannedSystem) -> float:
        """Return what a prompt token costs this system."""
        if system.match == "tokens":
            return 0.0
        if self.prompt_price is None:
            raise EvaluationError(f"{system.name!r} is matched by cost, and the price of a prompt token is not known")
        return self.prompt_price


_REPLY = 24
"""Tokens of the longer replies."""
_REPEATS, _SECONDS = 5, 4.0
"""Both are measured at least twice, at most so often and not again after so long; the shortest times count."""


async def measure_prompt_price(
    engine: PacedEngine, agent: str | None, *, prompt_ids: Sequence[int], clock: Callable[[], float]
) -> float:
    """Return seconds per prompt token over seconds per generated token, to two digits.

    Prompts are as long as `prompt_ids`, a usual one, and made of its tokens in other orders.
    """
    shuffled = rng(0, "prompt-price")

    async def batch(most: int) -> tuple[float, int]:
        """Return the seconds that a full batch took, and the tokens that it generated."""
        # No stop tokens, so that replies are long; no prompt twice, so that each must be read.
        prompts = [[int(one) for one in shuffled.permutation(prompt_ids)] for _ in range(engine.slots)]
        started = clock()
        groups = await asyncio.gather(
            *(engine.sample(agent, prompt, Sampling(most, seed=seed)) for seed, prompt in enumerate(prompts))
        )
        return clock() - started, sum(len(completion.token_ids) for group in groups for completion in group)

    await batch(_REPLY)  # the first of its size, which an engine may have to prepare for
    short, long = [await batch(1)], [await batch(_REPLY)]
    begun = clock()
    while len(short) < 2 or (len(short) < _REPEATS and clock() - begun < _SECONDS):
        short.append(await batch(1))
        long.append(await batch(_REPLY))
    (reading, first), (complete, tokens) = min(short), min(long)
    each = (complete - reading) / max(1, tokens - first)
    if each <= 0:
        raise EvaluationError(
            "the price of a prompt token cannot be measured here, for longer replies took no longer; give it as "
            "prompt_price, or match by tokens"
        )
    return float(f"{max(0.0, reading - first * each) / (engine.slots * len(prompt_ids)) / each:.2g}")
