"""The systems that answer greedily, each in a process of its own; started by adapters_elsewhere.py.

    python benchmarks/gpu/greedy_workers.py NAME FOLDER

A job, FOLDER/NAME.job.json, is what all systems are given; its result is FOLDER/NAME.json. Nothing of mada is imported
for PEFT and vLLM.
"""

import gc
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # what vLLM's max_lora_rank may be

Reply = dict[str, Any]
"""The tokens (`ids`) of a reply, with the last one that ended it, and their `log_probs`."""
Replies = dict[str, list[Reply]]
"""Per speaker, its reply to every prompt of its role."""


def ask_mada(job: dict[str, Any]) -> dict[str, Any]:
    """Answer with LocalEngine: all speakers in one batch, and once more with few rows, as a control of rounding."""
    import asyncio

    import torch

    from mada.models.engines import Sampling
    from mada.models.engines.local import LocalEngine

    base, stack = _mada_model(job, job["dtype"])
    sampling = Sampling(job["max_new_tokens"], temperature=0.0, stop_tokens=tuple(job["stop_tokens"]))
    asked = [(one, ids) for one in job["speakers"] for ids in job["prompts"][one["role"]]]

    async def replies(engine: LocalEngine) -> Replies:
        agents = [one["name"] if one["folder"] else None for one, _ in asked]
        calls = [engine.sample(agent, ids, sampling) for agent, (_, ids) in zip(agents, asked, strict=True)]
        found: Replies = {one["name"]: [] for one in job["speakers"]}
        for (one, _), [completion] in zip(asked, await asyncio.gather(*calls), strict=True):
            found[one["name"]].append(_reply(completion.token_ids, completion.log_probs, sampling.stop_tokens))
        return found

    made: dict[str, Any] = {}
    for name, rows in {"replies": len(asked), **({"few rows": len(asked) // 10 + 1} if job["control"] else {})}.items():
        engine = LocalEngine(base.model, stack, context=job["context"], rows=min(rows, 512), kv_memory=job["kv_memory"])
        made[name] = asyncio.run(replies(engine))
        del engine
        gc.collect()
        torch.cuda.empty_cache()
    return made


def ask_peft(job: dict[str, Any]) -> dict[str, Any]:
    """Answer with transformers and PEFT as their documentation has it: load, set the adapter, generate."""
    import warnings

    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, GenerationConfig

    warnings.filterwarnings("error", message=".*missing adapter keys.*")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = getattr(torch, job["dtype"])
    loader: Any = AutoModelForCausalLM
    base = loader.from_pretrained(job["model"], revision=job["revision"], dtype=dtype).to(device).eval()
    # What a model's own settings say beside greedy decoding, a penalty for repetition above all, would count otherwise.
    base.generation_config = GenerationConfig()
    stop = job["stop_tokens"]
    greedy = GenerationConfig(
        do_sample=False, max_new_tokens=job["max_new_tokens"], eos_token_id=stop, pad_token_id=stop[0],
        return_dict_in_generate=True, output_logits=True,
    )  # fmt: skip
    model: Any = None
    replies: Replies = {}
    for number, one in enumerate(each for each in job["speakers"] if each["folder"]):
        label = f"adapter_{number}"
        if model is None:
            model = PeftModel.from_pretrained(base, one["folder"], adapter_name=label).eval()
        else:
            loaded = model.load_adapter(one["folder"], adapter_name=label)
            assert not loaded.missing_keys, loaded.missing_keys
        model.set_adapter(label)
        prompts = job["prompts"][one["role"]]
        width = max(map(len, prompts))
        ids = torch.tensor([[stop[0]] * (width - len(each)) + each for each in prompts], device=device)
        mask = torch.tensor([[0] * (width - len(each)) + [1] * len(each) for each in prompts], device=device)
        with torch.inference_mode():
            made = model.generate(input_ids=ids, attention_mask=mask, generation_config=greedy)
            drawn = made.sequences[:, width:]
            steps = zip(made.logits, drawn.T, strict=True)
            likely = [logits.float().log_softmax(-1).gather(1, new[:, None])[:, 0] for logits, new in steps]
        log_probs = torch.stack(likely, dim=1).tolist()
        replies[one["name"]] = [_reply(*both, stop) for both in zip(drawn.tolist(), log_probs, strict=True)]
        del made, likely
        print(one["name"], flush=True)
    return {"replies": replies}


def ask_vllm(job: dict[str, Any]) -> dict[str, Any]:
    """Answer with vLLM's own LLM, all adapters in one batch."""
    from vllm import LLM, SamplingParams  # pyright: ignore[reportMissingImports]
    from vllm.lora.request import LoRARequest  # pyright: ignore[reportMissingImports]

    speakers = [one for one in job["speakers"] if one["folder"]]
    ranks = [json.loads((Path(one["folder"]) / "adapter_config.json").read_text())["r"] for one in speakers]
    rows = min(512, sum(len(job["prompts"][one["role"]]) for one in speakers))
    llm = LLM(
        job["model"], revision=job["revision"], dtype=job["dtype"], generation_config="vllm",
        skip_tokenizer_init=True, tokenizer_mode="hf",
        enable_lora=True, max_loras=len(speakers), max_lora_rank=next(one for one in LORA_RANKS if one >= max(ranks)),
        max_model_len=job["context"], max_num_seqs=rows, max_num_batched_tokens=8192,
        # A fixed cache needs no measuring, which fails where another process gives memory back meanwhile.
        kv_cache_memory_bytes=job["kv_memory"], gpu_memory_utilization=0.3,
        enforce_eager=True,  # compiling and capturing would take longer than these few replies
    )  # fmt: skip
    # The model's own end ends nothing by itself: the stop tokens that all systems are given do, and stay in the reply.
    greedy = SamplingParams(
        temperature=0.0, max_tokens=job["max_new_tokens"], stop_token_ids=job["stop_tokens"], ignore_eos=True,
        detokenize=False, logprobs=0,
    )  # fmt: skip
    prompts: list[Any] = []
    adapters: list[Any] = []
    for number, one in enumerate(speakers, start=1):
        request = LoRARequest(one["name"], number, one["folder"])
        prompts += [{"prompt_token_ids": ids} for ids in job["prompts"][one["role"]]]
        adapters += [request] * len(job["prompts"][one["role"]])
    outputs = iter(llm.generate(prompts, greedy, lora_request=adapters, use_tqdm=False))
    replies: Replies = {}
    for one in speakers:
        said = [next(outputs).outputs[0] for _ in job["prompts"][one["role"]]]
        likely = [[at[token].logprob for at, token in zip(each.logprobs, each.token_ids, strict=True)] for each in said]
        both = zip(said, likely, strict=True)
        replies[one["name"]] = [_reply(each.token_ids, log_probs, job["stop_tokens"]) for each, log_probs in both]
    return {"replies": replies}


def weigh(job: dict[str, Any]) -> dict[str, Any]:
    """Say how much mada's model prefers its likeliest token to the less likely of two, at every first difference.

    All are weighed at the precision asked for; those that would decide and are no near ties there, in float32 too.
    """
    import torch

    questions, own = job["questions"], job["dtype"]
    gaps: list[dict[str, float]] = [{} for _ in questions]
    for dtype in dict.fromkeys((own, "float32")):
        wanted = [
            number
            for number, one in enumerate(questions)
            if dtype == own or (one["decides"] and gaps[number][own] >= job["tolerance"])
        ]
        wanted.sort(key=lambda number: len(questions[number]["ids"]))
        if not wanted:
            continue
        base, stack = _mada_model(job, dtype)
        for start in range(0, len(wanted), 16):
            numbers = wanted[start : start + 16]
            some = [questions[number] for number in numbers]
            width = max(len(one["ids"]) for one in some)
            # Padding on the right is never looked at from the left.
            padded = [one["ids"] + [0] * (width - len(one["ids"])) for one in some]
            ids = torch.tensor(padded, device=base.model.device)
            ends = sorted({len(one["ids"]) - 1 for one in some})
            kept = torch.tensor(ends, device=ids.device)
            with torch.inference_mode(), stack.routed([one["speaker"] for one in some]):
                logits = base.model(input_ids=ids, logits_to_keep=kept, use_cache=False).logits
            for row, (number, one) in enumerate(zip(numbers, some, strict=True)):
                there = logits[row, ends.index(len(one["ids"]) - 1)].float()
                gaps[number][dtype] = float(there.max() - there[one["tokens"]].min())
        del base, stack
        gc.collect()
        torch.cuda.empty_cache()
    return {"gaps": gaps}


WORK = {"mada": ask_mada, "peft": ask_peft, "vllm": ask_vllm, "weigh": weigh, "answers": ask_mada}


def _mada_model(job: dict[str, Any], dtype: str) -> tuple[Any, Any]:
    from mada.agents import stack_of
    from mada.models.loading import load_base

    base = load_base(job["model"], revision=job["revision"], dtype=dtype)
    return base, stack_of(base, {one["name"]: Path(one["folder"]) for one in job["speakers"] if one["folder"]})


def _reply(tokens: Sequence[int], log_probs: Sequence[float], stop: Sequence[int]) -> Reply:
    """Return a reply up to the first token that ends it: in a batch, PEFT pads what has ended."""
    end = next((place for place, token in enumerate(tokens) if token in stop), len(tokens) - 1) + 1
    return {"ids": list(tokens[:end]), "log_probs": [round(value, 6) for value in log_probs[:end]]}


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    job = json.loads((folder / f"{name}.job.json").read_text(encoding="utf-8"))
    (folder / f"{name}.json").write_text(json.dumps(WORK[name](job)), encoding="utf-8")


if __name__ == "__main__":
    main()
