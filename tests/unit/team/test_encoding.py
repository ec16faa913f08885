"""Prompts to tokens and back: the same as transformers says, once for all who ask, and in the order of asking."""

import asyncio
import threading

import pytest

from mada.team import encoding
from mada.team.encoding import Encoder, aside, chat_prompt, encoder_of, prompt_ids, text_of

LONG = "What is 2 + 2? " * 200


@pytest.fixture
def encoded(monkeypatch):
    """The texts that were really encoded, and in which thread."""
    seen = []

    def noted(text, tokenizer):
        seen.append((text, threading.current_thread().name))
        return prompt_ids(text, tokenizer)

    monkeypatch.setattr(encoding, "prompt_ids", noted)
    return seen


def test_a_prompt_is_encoded_once_and_as_the_chat_template_says(tokenizer, encoded):
    encoder = Encoder(tokenizer)
    rendered, ids = encoder.encode("What is 2 + 2?")
    assert rendered == chat_prompt("What is 2 + 2?", tokenizer)
    assert tokenizer.decode(list(ids)) == rendered
    assert encoder.encode("What is 2 + 2?") == (rendered, ids)
    assert len(encoded) == 1


def test_only_long_prompts_are_made_aside(tokenizer, encoded):
    encoder = Encoder(tokenizer)

    async def ask(text):
        return await aside(lambda: encoder.encode(text), characters=len(text))

    async def all_of_them():
        return await asyncio.gather(*map(ask, (LONG, LONG, "short", LONG)))

    replies = asyncio.run(all_of_them())
    threads = dict(encoded)
    assert threads[chat_prompt(LONG, tokenizer)].startswith("mada-encoding")
    assert threads[chat_prompt("short", tokenizer)] == threading.current_thread().name
    assert len(encoded) == 2
    assert replies == [encoder.encode(text) for text in (LONG, LONG, "short", LONG)]


def test_prompts_come_back_in_the_order_of_asking(tokenizer):
    encoder, done = Encoder(tokenizer), []

    async def ask(number, text):
        await aside(lambda: encoder.encode(text), characters=len(text))
        done.append(number)

    async def all_of_them():
        await asyncio.gather(*(ask(number, f"{number} {LONG * (9 - number)}") for number in range(9)))

    asyncio.run(all_of_them())
    assert done == list(range(9))


def test_what_was_asked_long_ago_is_forgotten(tokenizer, encoded, monkeypatch):
    monkeypatch.setattr(encoding, "_KEPT", 2)
    encoder = Encoder(tokenizer)
    for text in ("a", "b", "c", "c", "b", "a"):
        encoder.encode(text)
    assert len(encoded) == 4


def test_agents_of_one_tokenizer_share_an_encoder(tokenizer):
    assert encoder_of(tokenizer) is encoder_of(tokenizer)


@pytest.mark.parametrize("cleans_up", [False, True])
def test_tokens_say_what_transformers_says(tokenizer, monkeypatch, cleans_up):
    monkeypatch.setattr(tokenizer, "clean_up_tokenization_spaces", cleans_up)
    ids = [*tokenizer.encode(r"so , it is \boxed{4} .", add_special_tokens=False), tokenizer.eos_token_id]
    assert text_of(ids, tokenizer) == tokenizer.decode(ids, skip_special_tokens=True)
    assert text_of((), tokenizer) == ""
