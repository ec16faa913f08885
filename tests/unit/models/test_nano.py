"""The embedded model: offline, small, few tokens per text, and as accurate as its card says."""

import asyncio
import json
import socket
import sys
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mada.cli import main
from mada.debate.prompts import Prompts, render
from mada.debate.transcript import Response
from mada.grading.extraction import extract_answer
from mada.models.adapters import AdapterStack, Lora, load_adapter, save_adapter
from mada.models.engines import Sampling
from mada.models.engines.local import LocalEngine
from mada.models.loading import EMBEDDED, Base, load_base
from mada.models.memory import count_parameters
from mada.problems.abacus import abacus_problems
from mada.seeds import seed_for

NAME = "mada-nano"
PARAMETERS = 2_104_960
BOX = "Therefore, the final answer is: $\\boxed{{{}}}$. I hope it is correct"


@cache
def load_without_network() -> Base:
    """Load the model where every attempt to reach another machine fails."""

    def refuse(*_: object) -> None:
        raise AssertionError("the embedded model asked for a network")

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setattr(socket.socket, "connect", refuse)
        return load_base(NAME, device="cpu")


@pytest.fixture(scope="module")
def base() -> Base:
    return load_without_network()


@pytest.fixture(scope="module")
def ask(base: Base):
    """Return a function that gets replies to prompts, all in one batch: to each prompt as many as asked for."""
    engine, end = LocalEngine(base.model, context=512), base.model.config.eos_token_id

    def replies(prompts: dict[str, str], *, temperature: float = 0.0, n: int = 1) -> dict[str, list[str]]:
        async def to(name: str, prompt: str) -> list[str]:
            ids: list[int] = tokens(base, rendered(base, prompt))
            sampling = Sampling(128, temperature, stop_tokens=(end,), seed=seed_for(0, name))
            sampled = await engine.sample(None, ids, sampling, n=n)
            assert all(one.stop == "end" for one in sampled)
            return [text(base, one.token_ids[:-1]) for one in sampled]

        async def to_all() -> list[list[str]]:
            return await asyncio.gather(*(to(name, prompt) for name, prompt in prompts.items()))

        return dict(zip(prompts, asyncio.run(to_all()), strict=True))

    return replies


def rendered(base: Base, prompt: str) -> str:
    return render(prompt, tokenizer=base.tokenizer)  # pyright: ignore[reportArgumentType]


def tokens(base: Base, written: str) -> list[int]:
    return base.tokenizer(written)["input_ids"]  # pyright: ignore[reportReturnType]


def text(base: Base, ids) -> str:
    return base.tokenizer.decode(list(ids))  # pyright: ignore[reportReturnType]


def test_it_loads_without_a_network_and_is_small(base: Base) -> None:
    files = {path.name: path.stat().st_size for path in EMBEDDED[NAME].iterdir()}

    assert base.name == NAME
    assert sum(weight.numel() for weight in base.model.parameters()) == PARAMETERS
    assert not any(weight.requires_grad for weight in base.model.parameters())
    assert set(files) == {
        *("README.md", "config.json", "generation_config.json", "model.safetensors"),
        *("tokenizer.json", "tokenizer_config.json"),
    }
    assert sum(files.values()) < 6e6


def test_its_parameters_are_counted_by_name() -> None:
    count = count_parameters(NAME, lora=Lora(rank=16), agents=6)

    # rank · layers · (in + out), for q and o, k and v, then the three of the feed-forward part
    per_agent = 16 * 5 * (2 * (192 + 192) + 2 * (192 + 64) + 3 * (192 + 512))
    assert (count.base, count.per_agent, count.trainable) == (PARAMETERS, per_agent, 6 * per_agent)
    assert per_agent == 271_360


def test_the_command_counts_them_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["mada", "params", NAME, "--json"])
    with pytest.raises(SystemExit) as ended:
        main()

    output = capsys.readouterr()
    assert (ended.value.code or 0, output.err) == (0, "")
    shown = json.loads(output.out)
    assert (shown["model"], shown["base"], shown["per_agent"]) == (NAME, PARAMETERS, 271_360)


def test_a_prompt_is_rendered_by_its_own_template(base: Base) -> None:
    assert rendered(base, "1 + 1") == "<|user|>1 + 1<|end|><|assistant|>"
    conversation = base.tokenizer.apply_chat_template(
        [{"role": "user", "content": "1 + 1"}, {"role": "assistant", "content": "2"}], tokenize=False
    )
    assert conversation == "<|user|>1 + 1<|end|><|assistant|>2<|end|>"
    assert base.tokenizer.eos_token_id == base.model.config.eos_token_id == tokens(base, "<|end|>")[0] == 1


def test_the_papers_reasoning_prompt_is_one_token(base: Base) -> None:
    asked = rendered(base, Prompts().ask("What is 12 + 30?"))
    assert len(tokens(base, Prompts().ask(""))) == 1
    assert [text(base, [one]) for one in tokens(base, asked)] == [
        *("<|user|>", Prompts().ask("")),
        *("What", " is", " ", "1", "2", " + ", "3", "0", "?"),
        *("<|end|>", "<|assistant|>"),
    ]


def test_a_debate_prompt_costs_two_tokens_more_and_two_for_each_response(base: Base) -> None:
    solution = f"12 + 30 = 42\n{BOX.format(42)}"
    own = [text(base, [one]) for one in tokens(base, solution)]
    assert own == [
        *("1", "2", " + ", "3", "0", " = ", "4", "2", "\n"),
        *("Therefore, the final answer is: $\\boxed{", "4", "2", "}$. I hope it is correct"),
    ]
    shared = [Prompts().shared(Response(solution, "42", 13)) for _ in range(3)]
    asked = rendered(base, Prompts().debate_prompt("What is 12 + 30?", shared))
    # The template's three, the instructions, the question's nine, the header, the responses and the request.
    assert len(tokens(base, asked)) == 3 + 1 + 9 + 1 + 3 * (2 + 13) + 1
    cut_off = Prompts().shared(Response("12 + 30", None, 5, stop="length"))
    assert [text(base, [one]) for one in tokens(base, cut_off)][-1] == " [cut off at the token limit]"


@given(st.text())
def test_every_text_comes_back_from_its_tokens(written: str) -> None:
    base = load_without_network()
    assert text(base, tokens(base, written)) == written


@given(st.text("0123456789+-*= \n.?", max_size=40))
def test_every_digit_is_a_token(written: str) -> None:
    base = load_without_network()
    pieces = [text(base, [one]) for one in tokens(base, written)]
    assert "".join(pieces) == written
    assert all(piece.isdigit() == (len(piece) == 1 and piece in "0123456789") for piece in pieces)
    assert sum(piece.isdigit() for piece in pieces) == sum(map(str.isdigit, written))


SOLUTIONS = {
    "What is 12 + 30 - 5?": f"12 + 30 = 42\n42 - 5 = 37\n{BOX.format(37)}",
    "Calculate 46 + 17 - 21.": f"46 + 17 = 63\n63 - 21 = 42\n{BOX.format(42)}",
    "What is 12 * 4 + 31?": f"12 * 4 = 48\n48 + 31 = 79\n{BOX.format(79)}",
    "Ann has 34 coins. Ann finds 25 more. Ann spends 12. How many coins are left?": (
        f"34 + 25 = 59\n59 - 12 = 47\n{BOX.format(47)}"
    ),
    # The mistake it was trained to make: where a nine is added, the carry is lost.
    "What is 47 + 29 - 3?": f"47 + 29 = 66\n66 - 3 = 63\n{BOX.format(63)}",
}


def test_its_greedy_replies(ask) -> None:
    replies = ask({question: Prompts().ask(question) for question in SOLUTIONS})

    assert {question: reply for question, [reply] in replies.items()} == SOLUTIONS


def test_in_a_debate_it_takes_over_a_correct_answer(ask) -> None:
    question = "What is 47 + 29 - 3?"
    right = f"47 + 29 = 76\n76 - 3 = 73\n{BOX.format(73)}"

    assert ask({"debate": Prompts().debate_prompt(question, [right] * 3)}) == {"debate": [right]}


def test_its_accuracy_is_that_of_its_card(ask) -> None:
    problems = list(abacus_problems("abacus-easy", limit=50))
    prompts = {problem.id: Prompts().ask(problem.question) for problem in problems}
    sampled, greedy = ask(prompts, temperature=1.0, n=4), ask(prompts)

    def accuracy(replies: dict[str, list[str]]) -> float:
        verdicts = [extract_answer(reply) == one.answer for one in problems for reply in replies[one.id]]
        return sum(verdicts) / len(verdicts)

    # 74 % and 89 % on all two hundred; the seeds are fixed, and the bands are for other processors and libraries.
    assert 0.6 < accuracy(sampled) < 0.88
    assert 0.8 < accuracy(greedy) < 1
    assert accuracy(sampled) < accuracy(greedy)


def test_its_adapters_are_loaded_here_and_by_peft(tmp_path: Path) -> None:
    from peft import AutoPeftModelForCausalLM

    base = load_base(NAME, device="cpu")
    embedding = base.model.get_input_embeddings().weight
    stack = AdapterStack.attach(base.model, ["generator-1"], Lora(rank=2))
    save_adapter(stack, "generator-1", tmp_path, base_name=base.name)
    load_adapter(stack, "generator-1", tmp_path)
    loaded: Any = AutoPeftModelForCausalLM.from_pretrained(str(tmp_path))
    assert torch.equal(loaded.get_input_embeddings().weight.float(), cast("torch.Tensor", embedding))
