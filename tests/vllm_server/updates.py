"""Samples through VllmEngine before and after an update, and prints how far vLLM is from the model that learns.

Run by a Python that has a CPU build of vLLM; mada's sources are on its path. `VllmEngine.start` wants a CUDA device, so
the engine is put together here.
"""

import asyncio
import json
import random
from collections.abc import Sequence

import torch

from mada.models.adapters import AdapterStack, Lora
from mada.models.engines import Completion, Sampling
from mada.models.engines.local import LocalEngine
from mada.models.engines.vllm import AdapterFiles, VllmEngine
from mada.models.engines.vllm_backend import VllmBackend, VllmSettings
from mada.models.loading import load_base, resolve_model

AGENTS = ("one", "two")
TEMPERATURES = (0.0, 0.7, 1.0)
CONTEXT = 256


def fill(stack: AdapterStack, *, seed: int) -> None:
    """Move all adapters, as an update does."""
    with torch.no_grad():
        for number, parameter in enumerate(stack.parameters().values()):
            generator = torch.Generator().manual_seed(1000 * seed + number)
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.05)


def learners(stack: AdapterStack, agent: str | None, prompt: Sequence[int], one: Completion, how: Sampling) -> float:
    """How far a completion's log-probs are from those of the tensors that learn, on average."""
    ids = torch.tensor([[*prompt, *one.token_ids]])
    with torch.no_grad(), stack.routed([agent]):
        logits = stack.model(ids).logits[0].float() / (how.temperature or 1.0)
    likely = logits.log_softmax(-1)[len(prompt) - 1 : -1]
    own = likely.gather(1, torch.tensor(one.token_ids)[:, None])[:, 0]
    return float((own - torch.tensor(one.log_probs)).abs().mean())


async def main() -> None:
    base = load_base("mada-nano")
    stack = AdapterStack.attach(base.model, AGENTS, Lora(rank=4, alpha=8))
    fill(stack, seed=1)
    # Room for one adapter more than there are: on a CPU, vLLM gives the bare base's rows what lies in the last place.
    settings = VllmSettings(
        model=resolve_model("mada-nano"), revision=None, dtype="float32", context=CONTEXT, rows=16, memory=0.1, seed=0,
        agents=len(AGENTS) + 1, rank=4, eager=True,
    )  # fmt: skip
    backend = await VllmBackend.start(settings)
    files = AdapterFiles(stack, base_name="mada-nano")
    engine = VllmEngine(backend, context=CONTEXT, rows=16, files=files, stack=stack)
    await engine.wake_up()
    local = LocalEngine(base.model, stack, context=CONTEXT)
    source = random.Random(0)
    prompts = [[source.randrange(5, 200) for _ in range(source.randint(20, 60))] for _ in range(3)]
    asked = [
        (agent, prompt, Sampling(max_tokens=30, temperature=temperature, stop_tokens=(1,), seed=place))
        for place, prompt in enumerate(prompts)
        for agent in (*AGENTS, None)
        for temperature in TEMPERATURES
    ]

    async def sampled(by: VllmEngine | LocalEngine) -> list[Completion]:
        return [group[0] for group in await asyncio.gather(*(by.sample(*one) for one in asked))]

    def apart(found: Sequence[Completion], agents: Sequence[str | None]) -> float:
        pairs = zip(asked, found, strict=True)
        kept = [learners(stack, *one[:2], done, one[2]) for one, done in pairs if one[0] in agents]
        return sum(kept) / len(kept)

    report: dict[str, object] = {}
    before: list[Completion] = []
    for name, seed in (("first", 1), ("updated", 2)):
        if seed == 2:
            await engine.sleep()
            fill(stack, seed=seed)
            await engine.wake_up()
            report["older samples"] = apart(before, AGENTS)
        there, here = await sampled(engine), await sampled(local)
        greedy = [place for place, (_, _, how) in enumerate(asked) if not how.temperature]
        report[name] = {
            "adapters": apart(there, AGENTS),
            "base": apart(there, (None,)),
            "greedy": len(greedy),
            "greedy as here": sum(there[place].token_ids == here[place].token_ids for place in greedy),
            "distinct greedy": len({there[place].token_ids for place in greedy}),
        }
        before = there
    loaded = await backend._engine.list_loras()
    report["loaded"] = sorted(loaded)
    report["current"] = sorted(version.number for version in engine._current.values())
    report["files"] = len(list(files.folder.iterdir()))
    await engine.close()
    print(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(main())
