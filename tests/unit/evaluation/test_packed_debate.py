"""Debates in their records: small, restored letter by letter, and those of an older mada still readable."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from mada.debate.prompts import Prompts, fit_debate_prompt
from mada.debate.transcript import Debate, Response, Turn, Verdict, Votes
from mada.errors import RunError
from mada.evaluation.scores import Transcript, pack_debate, unpack_debate
from mada.runs import Records, StoredRecords
from mada.seeds import rng

WORDS = [f"{first}{second}" for first in ("so", "then", "we", "add", "half", "x") for second in ("", "s", "=", " 3")]


def reply(*path, words=1200):
    """A response of some thousand characters that nothing else repeats."""
    draw = rng(5, *path)
    text = " ".join(f"{WORDS[draw.integers(len(WORDS))]} {draw.integers(10_000)}" for _ in range(words))
    return Response(f" {text}\n$\\boxed{{{draw.integers(99)}}}$ ", "7", words, stop="end", mean_log_prob=-0.123)


def debate_of(*, generators=3, critics=3, rounds=3, words=1200, window=None):
    """A debate held by hand: every critic is shown the whole round before, shortened where a window is given."""
    prompts, question = Prompts(order="shuffled"), "What is {x} plus one half? " * 4
    debate = Debate(question)
    for number in range(1, rounds + 1):
        seen = debate.last.responses if debate.rounds else ()
        turns = []
        for seat in range(critics if number > 1 else generators):
            text, shortened, left_out = prompts.ask(question), 0, 0
            if seen:
                fitted = fit_debate_prompt(
                    question,
                    prompts.ordered(seen, seed=seat),
                    prompts=prompts,
                    count_tokens=len,
                    budget=window or 10**9,
                )
                text, shortened, left_out = fitted.text, fitted.shortened_responses, fitted.characters_left_out
            said = reply(number, seat, words=words)
            turns.append(Turn(f"a-{seat}", f"<|user|>{text}<|assistant|>", len(text), said, shortened, left_out))
        debate = debate.with_round("critic" if number > 1 else "generator", turns)
    return debate.with_verdict(Verdict("7", (Votes("7", 3),)))


def restored(debate):
    return TypeAdapter(Debate).validate_python(unpack_debate(pack_debate(debate)))


def plain(debate):
    return TypeAdapter(Debate).dump_json(debate)


@pytest.mark.parametrize("window", [None, 9_000])
def test_long_debates_are_restored_exactly_and_at_least_five_times_smaller(window):
    debate = debate_of(window=window)
    assert any(turn.shortened_responses for turn in debate.last.turns) == (window is not None)
    assert restored(debate) == debate
    assert len(pack_debate(debate)) * (5 if window is None else 3) < len(plain(debate))


text = st.text(alphabet=st.one_of(st.sampled_from('ab\n\\"é`'), st.characters(codec="utf-8")), max_size=300)


@given(question=text, said=st.lists(text, min_size=1, max_size=4), prompts=st.lists(text, min_size=4, max_size=4))
def test_whatever_is_in_a_prompt_is_restored(question, said, prompts):
    debate = Debate(question)
    for number, response in enumerate(said):
        prompt = prompts[number] + question + "".join(said[:number]) * 3 + prompts[-1]
        debate = debate.with_round("generator", [Turn("a", prompt, 3, Response(response, None, 4, stop="length"))])
    assert restored(debate) == debate


def test_half_a_surrogate_pair_is_restored():
    said = Response("\ud800" * 60, None, 4, stop="end")
    debate = Debate("?").with_round("generator", [Turn("a", "?", 3, said)])
    debate = debate.with_round("critic", [Turn("b", f"? {said.text} ?", 3, said)])
    assert restored(debate) == debate


OLDER = (  # of an older mada: prompts refer to earlier texts
    "eNrlUkFOwzAQ/MrKVywUKKU0l4o7EhckDm0VOcm2sep4g+2QVlH+zjolBQQ/4BbPrGdnxunFW4s+aLIiFa+VCqA9zOAK7iRoCx25"
    "0gO5+G3bOkfnJXSVLip8RwcnasHoA0LOGishhaPWll6k616cx0V6E1GDLL9Hi04FcjwYWmfPc4rhwKxitHFUN3xYi0frO3QpCLlO"
    "ZCLvZ9vtRGeBDhgvz1kZfUPWs3ovAh6jzkuF4NsaaAehQo8QOgKj3B6nBJFSTWPQx7CbTU5HLPvFcM0O1LiXZRbRZFyUFZyJhZdS"
    "+EANU2jLC6ljWtsaI4WhfcYO8wtQo7LZhJ7BgUUqcoGbKLPJPF9IpCgq5VQR2F9mcBcyanlpMmwH+dXl7aXLwumgiz+LzH8U+UR0"
    "+F6jFPDMvXALXp1G4paJ+UMkxvcvaXxWZlfid+fL/9E5B+f/u9RF+NT4AFYCEpo="
)


def test_records_are_packed_and_those_of_older_versions_are_read(tmp_path):
    question = "What is 3 + 4, in words or in numbers, whichever you like best?"
    said = Response("The sum of these two large numbers of apples is \\boxed{7}.", "7", 9, stop="end")
    debate = Debate(question).with_round("generator", [Turn("a", f"Answer: {question}", 5, said)])
    prompt = f"Look: {question} Others say: {said.text} What do you say?"
    debate = debate.with_round("critic", [Turn("b", prompt, 9, said)])
    path = tmp_path / "transcripts.jsonl"
    old = {"system": "s", "benchmark": "b", "seed": 0, "problem": "p", "reference": "7"}
    path.write_text("".join(json.dumps({**old, "debate": one}) + "\n" for one in (json.loads(plain(debate)), OLDER)))
    with Records(path, Transcript) as records:
        records.append(Transcript("s", "b", 0, "p", reference="7", debate=debate))
        assert [one.debate for one in records] == [debate] * 3
    assert isinstance(json.loads(path.read_text().splitlines()[-1])["debate"], str)


@pytest.mark.parametrize("damage", ["", "!", "AAAA", pack_debate(Debate("?"))[:-8]])
def test_a_damaged_debate_is_named_by_file_and_line(tmp_path, damage):
    path = tmp_path / "transcripts.jsonl"
    old = {"system": "s", "benchmark": "b", "seed": 0, "problem": "p", "reference": "7"}
    path.write_text(json.dumps({**old, "debate": damage}) + "\n" + json.dumps({**old, "debate": damage}) + "\n")
    with pytest.raises(RunError, match=r"transcripts.jsonl:1: .*damaged"):
        list(StoredRecords(path, Transcript))
