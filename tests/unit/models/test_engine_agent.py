"""What exactly reaches the engine, and what comes back from it."""

import asyncio
import itertools
import re
import threading
from dataclasses import replace
from typing import Any

import pytest

from mada.debate.prompts import CUT_OFF, NO_CONCLUSION, Prompts, WindowError
from mada.debate.protocol import run_debate
from mada.debate.transcript import Response, StopReason
from mada.errors import ModelError
from mada.models.chat import opens_thinking, prompt_ids
from mada.models.engine_agent import EngineAgent, response_of
from mada.models.engines import Completion, Sampling, ScriptedEngine
from mada.seeds import seed_for

SHORT = Prompts(reasoning="Q: {question}", debate_header="H", debate_response="<{response}>", debate_request="R")


def engine_that_says(chat_tokenizer, says):
    """An engine whose agents say what a dictionary has for them, and end there."""

    def script(request):
        return [*chat_tokenizer.encode(says[request.agent], add_special_tokens=False), chat_tokenizer.eos_token_id]

    return ScriptedEngine(script)


def agent(engine, chat_tokenizer, name="generator-1", adapter: str | None = "same", **changes):
    settings: dict[str, Any] = {
        "prompts": SHORT,
        "sampling": Sampling(max_tokens=100, stop_tokens=(chat_tokenizer.eos_token_id,)),
        "window": 1000,
        **changes,
    }
    return EngineAgent(
        name, name if adapter == "same" else adapter, engine=engine, tokenizer=chat_tokenizer, **settings
    )


def response(text, answer=None, stop: StopReason = "end"):
    return Response(text=text, answer=answer, token_count=len(text), stop=stop)


def test_a_generator_sees_its_question_in_the_chat_template_and_nothing_else(chat_tokenizer):
    engine = engine_that_says(chat_tokenizer, {"generator-1": "so $\\boxed{4}$"})
    turn = asyncio.run(agent(engine, chat_tokenizer).answer("2 + 2?", (), seed=5))
    assert turn.agent == "generator-1"
    assert turn.prompt == "<|user|>Q: 2 + 2?<|end|><|assistant|>"
    [request] = engine.requests
    assert chat_tokenizer.decode(list(request.prompt_ids)) == turn.prompt
    assert turn.prompt_tokens == len(request.prompt_ids) == len("Q: 2 + 2?") + 3
    assert request.sampling == Sampling(max_tokens=100, stop_tokens=(chat_tokenizer.eos_token_id,), seed=5)
    assert turn.response == Response("so $\\boxed{4}$", "4", len("so $\\boxed{4}$") + 1, mean_log_prob=0.0)


def test_a_critic_sees_every_response_of_the_round_before(chat_tokenizer):
    engine = engine_that_says(chat_tokenizer, {"critic-1": "\\boxed{1}"})
    seen = [response("one"), response("two, still", stop="length")]
    turn = asyncio.run(agent(engine, chat_tokenizer, "critic-1").answer("q", seen, seed=0))
    assert turn.prompt == f"<|user|>Q: q\n\nH\n\n<one>\n\n<two, still {CUT_OFF}>\n\nR<|end|><|assistant|>"
    assert (turn.shortened_responses, turn.characters_left_out) == (0, 0)


def test_exactly_what_each_critic_of_a_debate_saw(chat_tokenizer):
    said = {"generator-1": "first \\boxed{1}", "generator-2": "second \\boxed{2}"}
    said |= {f"critic-{number}": f"critic {number} says \\boxed{{{number}}}" for number in (1, 2, 3)}
    engine = engine_that_says(chat_tokenizer, said)
    seats = {name: agent(engine, chat_tokenizer, name) for name in said}
    generators, critics = list(seats.values())[:2], list(seats.values())[2:]
    debate = asyncio.run(run_debate("q", generators=generators, critics=critics, rounds=3, seed=9))

    def prompt(*responses):
        blocks = "".join(f"<{one}>\n\n" for one in responses)
        return f"<|user|>Q: q\n\nH\n\n{blocks}R<|end|><|assistant|>"

    seen = [(request.agent, chat_tokenizer.decode(list(request.prompt_ids))) for request in engine.requests]
    assert seen[:2] == [(name, "<|user|>Q: q<|end|><|assistant|>") for name in ("generator-1", "generator-2")]
    round_two = prompt(said["generator-1"], said["generator-2"])
    assert seen[2:5] == [(f"critic-{number}", round_two) for number in (1, 2, 3)]
    round_three = prompt(said["critic-1"], said["critic-2"], said["critic-3"])
    assert seen[5:] == [(f"critic-{number}", round_three) for number in (1, 2, 3)]
    assert [turn.prompt for turn in debate.last.turns] == [round_three] * 3
    seeds = [request.sampling.seed for request in engine.requests]
    places = [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (3, 0), (3, 1), (3, 2)]
    assert seeds == [seed_for(9, "turn", *place) for place in places]


def test_only_the_answer_is_shared_when_the_prompts_say_so(chat_tokenizer):
    engine = engine_that_says(chat_tokenizer, {"critic-1": "ok"})
    seen = [response("<think>long</think> So 4."), response("<think>long", stop="length")]
    critic = agent(engine, chat_tokenizer, "critic-1", prompts=replace(SHORT, share="answer"))
    turn = asyncio.run(critic.answer("q", seen, seed=0))
    assert f"H\n\n<So 4.>\n\n<{NO_CONCLUSION} {CUT_OFF}>\n\nR" in turn.prompt


def test_shuffled_every_critic_sees_all_responses_in_an_order_of_its_own(chat_tokenizer):
    said = {f"generator-{number}": f"says {number}" for number in (1, 2, 3)} | {"critic-1": "a", "critic-2": "b"}
    engine = engine_that_says(chat_tokenizer, said)
    seats = [agent(engine, chat_tokenizer, name, prompts=replace(SHORT, order="shuffled")) for name in said]

    def shown(seed):
        debate = asyncio.run(run_debate("q", generators=seats[:3], critics=seats[3:], rounds=2, seed=seed))
        return tuple(tuple(re.findall(r"<says (\d)>", turn.prompt)) for turn in debate.last.turns)

    orders = [shown(seed) for seed in range(40)]
    assert {len(set(order)) for pair in orders for order in pair} == {3}
    assert {order for pair in orders for order in pair} == set(itertools.permutations("123"))
    assert any(first != second for first, second in orders)
    assert shown(7) == shown(7)


def test_every_seat_may_have_its_own_sampling_and_any_adapter_or_none(chat_tokenizer):
    engine = engine_that_says(chat_tokenizer, {None: "base", "mine": "mine"})
    cold = agent(engine, chat_tokenizer, "a", None, sampling=Sampling(max_tokens=50, temperature=0.0))
    warm = agent(engine, chat_tokenizer, "b", "mine", sampling=Sampling(max_tokens=60, temperature=0.7, top_p=0.9))
    debate = asyncio.run(run_debate("q", generators=[cold, warm], rounds=1, seed=1))
    assert [turn.agent for turn in debate.last.turns] == ["a", "b"]
    asked = [(request.agent, request.sampling.temperature, request.sampling.max_tokens) for request in engine.requests]
    assert asked == [(None, 0.0, 50), ("mine", 0.7, 60)]


def test_a_reply_cut_off_at_the_token_limit_is_marked(chat_tokenizer):
    engine = engine_that_says(chat_tokenizer, {"generator-1": "\\boxed{1} " + "x" * 500})
    turn = asyncio.run(agent(engine, chat_tokenizer).answer("q", (), seed=0))
    assert turn.response.truncated
    assert turn.response.token_count == 100
    assert turn.response.answer == "1"


def test_long_responses_are_shortened_to_what_the_reply_leaves_of_the_window(chat_tokenizer):
    engine = engine_that_says(chat_tokenizer, {"critic-1": "ok"})
    turn = asyncio.run(agent(engine, chat_tokenizer, "critic-1").answer("q", [response("word " * 500)], seed=0))
    assert turn.prompt_tokens <= 900
    assert turn.shortened_responses == 1
    assert f"[… {turn.characters_left_out:,} characters left out …]" in turn.prompt


@pytest.mark.parametrize("seen", [(), (response("a"),)])
def test_a_question_that_does_not_fit_is_an_error_for_everyone(chat_tokenizer, seen):
    engine = engine_that_says(chat_tokenizer, {})
    with pytest.raises(WindowError, match=r"the question does not fit: .*2,0\d\d tokens.*900"):
        asyncio.run(agent(engine, chat_tokenizer).answer("x" * 2000, seen, seed=0))
    assert engine.requests == []


def test_a_reply_must_leave_room_for_a_prompt(chat_tokenizer):
    with pytest.raises(WindowError, match="up to 100 tokens leave no room for a prompt in a window of 100; lower"):
        agent(engine_that_says(chat_tokenizer, {}), chat_tokenizer, window=100)


def test_a_model_without_a_chat_template_is_refused(tokenizer_without_template):
    with pytest.raises(ModelError, match=r"no chat template.*instruction-tuned"):
        agent(engine_that_says(tokenizer_without_template, {}), tokenizer_without_template)


@pytest.mark.parametrize(
    ("says", "text", "answer"),
    [
        ("hm</think>so \\boxed{4}", "<think>\nhm</think>so \\boxed{4}", "4"),
        ("hm, \\boxed{3}?", "<think>\nhm, \\boxed{3}?", None),
    ],
)
def test_thinking_that_the_prompt_opened_is_still_thinking(tokenizer_that_opens_thinking, says, text, answer):
    chat_tokenizer = tokenizer_that_opens_thinking
    engine = engine_that_says(chat_tokenizer, {"generator-1": says})
    turn = asyncio.run(agent(engine, chat_tokenizer).answer("q", (), seed=0))
    assert turn.prompt.endswith("<|assistant|><think>\n")
    assert (turn.response.text, turn.response.answer) == (text, answer)
    # The next round, which does not see the prompt, sees the thinking for what it is.
    assert Prompts(share="answer").shared(turn.response) == (NO_CONCLUSION if answer is None else "so \\boxed{4}")


def test_only_a_prompt_that_ends_in_the_opening_opens_thinking():
    assert opens_thinking("…<think>\n")
    assert not opens_thinking("what does <think> mean?<|assistant|>")


def test_tokens_are_kept_only_when_asked_for(chat_tokenizer):
    completion = Completion((70, 71), (-0.5, -1.0), "length")
    kept = response_of(completion, chat_tokenizer, thinking_opened=False, keep_tokens=True)
    assert (kept.token_ids, kept.log_probs, kept.stop) == ((70, 71), (-0.5, -1.0), "length")
    assert response_of(completion, chat_tokenizer, thinking_opened=False).token_ids is None


def test_no_special_tokens_are_added_to_a_rendered_prompt(chat_tokenizer):
    assert chat_tokenizer.decode(list(prompt_ids("<|user|>é", chat_tokenizer))) == "<|user|>é"


def test_a_prompt_that_several_are_sent_is_encoded_once(chat_tokenizer, monkeypatch):
    encoded = []

    def note(text, of):
        encoded.append(text)
        return prompt_ids(text, of)

    monkeypatch.setattr("mada.models.chat.prompt_ids", note)
    engine = engine_that_says(chat_tokenizer, {"critic-1": "1", "critic-2": "2"})
    seen = [response("only in this test")]
    turns = [
        asyncio.run(agent(engine, chat_tokenizer, name).answer("Once?", seen, seed=0))
        for name in ("critic-1", "critic-2")
    ]
    assert len(encoded) == 1
    assert [request.prompt_ids for request in engine.requests] == [prompt_ids(turns[0].prompt, chat_tokenizer)] * 2


@pytest.mark.parametrize(("window", "most"), [(10_000, 1), (1000, 4)])  # as it is, and shortened
def test_a_long_debate_prompt_is_made_beside_the_event_loop_and_nowhere_else(chat_tokenizer, monkeypatch, window, most):
    threads = []

    def note(text, of):
        threads.append(threading.current_thread().name)
        return prompt_ids(text, of)

    monkeypatch.setattr("mada.models.chat.prompt_ids", note)
    engine = engine_that_says(chat_tokenizer, {"critic-1": "1"})
    seen = [response(f"long, and only in this test of {window}; " * 100)]
    asyncio.run(agent(engine, chat_tokenizer, "critic-1", window=window).answer("Aside?", seen, seed=0))
    assert {name.split("_")[0] for name in threads} == {"mada-encoding"}
    assert len(threads) <= most
