"""What reading a prompt token costs where generating one costs 1: a short measurement on the engine itself.

Every row of the engine is filled, once with replies of one token and once with longer ones: the difference is the time
of generating, the rest that of reading. A server is measured in the same way, with its network.
"""

import asyncio
from collections.abc import Callable, Sequence

from mada.errors import EvaluationError
from mada.models.engines import PacedEngine, Sampling
from mada.seeds import rng

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
    (reading, first), (whole, tokens) = min(short), min(long)
    each = (whole - reading) / max(1, tokens - first)
    if each <= 0:
        raise EvaluationError(
            "the price of a prompt token cannot be measured here, for longer replies took no longer; give it as "
            "prompt_price, or match by tokens"
        )
    return float(f"{max(0.0, reading - first * each) / (engine.slots * len(prompt_ids)) / each:.2g}")
