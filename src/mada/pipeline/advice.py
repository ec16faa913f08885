"""What a recipe should change before it is run: memory that does not suffice, rows that do not fit."""

from collections.abc import Iterator, Sequence

from mada.pipeline.calls import Calls
from mada.pipeline.estimates import MemoryEstimate, Setting, bytes_a_token, paged_rows
from mada.pipeline.quantities import in_bytes
from mada.recipe import Recipe
from mada.recipe.training import TrainingSettings

_ROLES = ("generators'", "critics'")
_STEP = 1024
"""Windows are advised in steps of so many tokens."""


def blockers(recipe: Recipe, setting: Setting, *, rollouts: Sequence[Calls]) -> Iterator[str]:
    """Yield why nothing could be sampled at all: the base does not fit, or not one row beside it."""
    there = setting.machine.memory
    if setting.base_bytes > there:
        yield (
            f"The base alone takes {in_bytes(setting.base_bytes)}, and there are {in_bytes(there)}: "
            "use a smaller model.name or a larger device."
        )
        return
    for calls, role in zip(rollouts, _ROLES, strict=False):
        if not setting.rows(calls):
            yield _few_rows(recipe, setting, calls, role=role)


def advice(
    recipe: Recipe, setting: Setting, memory: MemoryEstimate, *, rollouts: Sequence[Calls], settings: TrainingSettings
) -> Iterator[str]:
    """Yield what is wrong and what to change, in whole sentences; nothing where all is well.

    `rollouts` are the generators' and, if there are any, the critics'.
    """
    there = setting.machine.memory
    if setting.base_bytes > there:
        yield from blockers(recipe, setting, rollouts=rollouts)
        return
    for calls, role in zip(rollouts, _ROLES, strict=False):
        if setting.rows(calls) < _wanted_rows(setting, calls):
            yield _few_rows(recipe, setting, calls, role=role)
    if memory.together[1] > there:
        yield _too_large(recipe, setting, memory, settings)


def _wanted_rows(setting: Setting, calls: Calls) -> int:
    return min(calls.at_once, setting.wanted_rows or calls.at_once)


def _few_rows(recipe: Recipe, setting: Setting, calls: Calls, *, role: str) -> str:
    wanted = _wanted_rows(setting, calls)
    window = setting.cache_budget(calls) // (wanted * setting.shape.cache_bytes) // _STEP * _STEP
    rows = setting.rows(calls)
    got = f"Only {rows} rows fit" if rows else "Not one row fits, so nothing could be sampled"
    pages = (
        f" vLLM keeps pages instead, which hold about {paged_rows(calls, setting):,} rows of average length at ¼."
        if setting.machine.is_gpu
        else ""
    )
    return (
        f"{got}, and a step of the {role} training wants {wanted} at once: each has room for the longest prompt and "
        f"reply, {setting.row(calls):,} tokens. {_lower_window(recipe, window, 'makes room for them')}.{pages}"
    )


def _too_large(recipe: Recipe, setting: Setting, memory: MemoryEstimate, settings: TrainingSettings) -> str:
    there = setting.machine.memory
    always = memory.together[0] > there
    largest = memory.micro_batches[0 if always else 1]
    rest = memory.together[1] - memory.micro_batches[1].bytes
    fits = int(max(0, there - rest) / bytes_a_token(setting, settings))
    when = "Training does not fit" if always else "Training may not fit"
    if largest.longest <= fits:  # only that many at once do not
        return (
            f"{when}: a micro-batch of {largest.tokens:,} tokens takes {in_bytes(largest.bytes)} beside "
            f"{in_bytes(rest)} of the rest. training.micro_batch_tokens = {fits} would fit; without it the learner "
            "halves them when memory runs out."
        )
    change = _lower_window(recipe, fits // _STEP * _STEP, "would fit")
    alone = largest.longest * bytes_a_token(setting, settings)
    tokens = f"one sequence of {largest.longest:,} tokens"
    sequence = f"{when}: {tokens} takes {in_bytes(alone)} beside {in_bytes(rest)} of the rest"
    recomputed = largest.longest * bytes_a_token(setting, settings.model_copy(update={"gradient_checkpointing": True}))
    if not settings.gradient_checkpointing and rest + recomputed <= there:
        measured = setting.machine.throughput
        return (
            f"{sequence}. training.gradient_checkpointing = true takes {in_bytes(recomputed)} instead and makes "
            f"learning {measured.recomputing / measured.learning:.1f} times as long; without it the learner turns to "
            f"it when memory runs out. Or: {change}."
        )
    return f"{sequence}, and training would stop there. {change}."


def _lower_window(recipe: Recipe, window: int, effect: str) -> str:
    """Say which window helps; debates are shortened to it, and replies must be shorter than it."""
    replies = max(recipe.inference.max_new_tokens, recipe.training.max_new_tokens)
    if window < _STEP:
        return "Use a smaller model.name or a larger device"
    shorter = "" if replies < window else f" with max_new_tokens below it (now {replies:,})"
    return f"model.window = {window}{shorter} {effect}; debates are shortened to it"
