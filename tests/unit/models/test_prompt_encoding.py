"""Prompts to tokens and back: the same as transformers says, once for all who ask, and in the order of asking."""

import asyncio
import threading

import pytest

from mada.models import chat
from mada.models.chat import chat_prompt, encode_in_thread, encoder_of, prompt_ids, text_of

LONG = "What is 2 + 2? " * 200


@pytest.fixture
def encoded(monkeypatch):
    """The texts that were really encoded, and in which thread."""
    seen = []

    def noted(text, chat_tokenizer):
        seen.append((text, threading.current_thread().name))
        return prompt_ids(text, chat_tokenizer)

    monkeypatch.setattr(chat, "prompt_ids", noted)
    return seen


def test_a_prompt_is_encoded_once_and_as_the_chat_template_says(chat_tokenizer, encoded):
    encode = encoder_of.__wrapped__(chat_tokenizer)
    rendered, ids = encode("What is 2 + 2?")
    assert rendered == chat_prompt("What is 2 + 2?", chat_tokenizer)
    assert chat_tokenizer.decode(list(ids)) == rendered
    assert encode("What is 2 + 2?") == (rendered, ids)
    assert len(encoded) == 1


def test_only_long_prompts_are_made_aside(chat_tokenizer, encoded):
    encode = encoder_of.__wrapped__(chat_tokenizer)

    async def ask(text):
        return await encode_in_thread(lambda: encode(text), characters=len(text))

    async def all_of_them():
        return await asyncio.gather(*map(ask, (LONG, LONG, "short", LONG)))

    replies = asyncio.run(all_of_them())
    threads = dict(encoded)
    assert threads[chat_prompt(LONG, chat_tokenizer)].startswith("mada-encoding")
    assert threads[chat_prompt("short", chat_tokenizer)] == threading.current_thread().name
    assert len(encoded) == 2
    assert replies == [encode(text) for text in (LONG, LONG, "short", LONG)]


def test_prompts_come_back_in_the_order_of_asking(chat_tokenizer):
    encode, done = encoder_of.__wrapped__(chat_tokenizer), []

    async def ask(number, text):
        await encode_in_thread(lambda: encode(text), characters=len(text))
        done.append(number)

    async def all_of_them():
        await asyncio.gather(*(ask(number, f"{number} {LONG * (9 - number)}") for number in range(9)))

    asyncio.run(all_of_them())
    assert done == list(range(9))


def test_what_was_asked_long_ago_is_forgotten(chat_tokenizer, encoded, monkeypatch):
    monkeypatch.setattr(chat, "_CACHED_PROMPTS", 2)
    encode = encoder_of.__wrapped__(chat_tokenizer)
    for text in ("a", "b", "c", "c", "b", "a"):
        encode(text)
    assert len(encoded) == 4


def test_agents_of_one_tokenizer_share_an_encoder(chat_tokenizer):
    assert encoder_of(chat_tokenizer) is encoder_of(chat_tokenizer)


@pytest.mark.parametrize("cleans_up", [False, True])
def test_tokens_say_what_transformers_says(chat_tokenizer, monkeypatch, cleans_up):
    monkeypatch.setattr(chat_tokenizer, "clean_up_tokenization_spaces", cleans_up)
    ids = [*chat_tokenizer.encode(r"so , it is \boxed{4} .", add_special_tokens=False), chat_tokenizer.eos_token_id]
    assert text_of(ids, chat_tokenizer) == chat_tokenizer.decode(ids, skip_special_tokens=True)
    assert text_of((), chat_tokenizer) == ""
