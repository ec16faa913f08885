"""How completions are read from answers, and errors from refusals; how long one waits, and how time is counted."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx2
import openai
import pytest

from mada.models.engines import Completion, Sampling
from mada.models.engines.openai import OpenAIEngine
from mada.models.engines.openai_client import Backoff, ServerClient, retry_after
from mada.models.engines.openai_protocol import ReplyError, blames_field, error_message, read_reply, request_body

VOCABULARY = 100
SAMPLING = Sampling(max_tokens=4, stop_tokens=(2, 7))


def read(tokenizer, *choices, sampling=SAMPLING, **answer):
    content = json.dumps({"choices": list(choices), **answer}).encode()
    return read_reply(content, sampling, n=len(choices), tokenizer=tokenizer, vocabulary=VOCABULARY)


def client(key="", **backoff):
    return ServerClient("http://host/v1", key, slots=1, timeout=1.0, retry_for=1.0, backoff=Backoff(**backoff))


def refusal(status, text):
    response = httpx2.Response(status, text=text, request=httpx2.Request("POST", "http://host"))
    return openai.AsyncOpenAI(api_key="key")._make_status_error_from_response(response)


def choice(ids=None, reason: str | None = "stop", log_probs=None, **more):
    found = {"text": "", "finish_reason": reason, "token_ids": ids, **more}
    return found | ({"logprobs": {"token_logprobs": log_probs}} if log_probs else {})


@pytest.mark.parametrize(
    ("given", "want"),
    [
        (choice([5, 2], log_probs=[-1, -2]), Completion((5, 2), (-1.0, -2.0), "end")),
        (choice([5, 6], "length", [-1, -2]), Completion((5, 6), (-1.0, -2.0), "length")),
        # The stop token is missing: named, the tokenizer's own, and one that is no stop token of ours.
        (choice([5], stop_reason=7), Completion((5, 7), (), "end")),
        (choice([5], log_probs=[-1]), Completion((5, 2), (), "end")),
        (choice([]), Completion((2,), (), "end")),
        (choice([5, 1]), Completion((5, 1), (), "end")),
        # A server that goes on after a stop token, or after the length.
        (choice([5, 7, 6, 2], "length", [-1, -2, -3, -4]), Completion((5, 7), (-1.0, -2.0), "end")),
        (choice([5, 6, 5, 6, 5], "length", [-1] * 5), Completion((5, 6, 5, 6), (-1.0,) * 4, "length")),
        # Log-probabilities that are none.
        (choice([5, 2], log_probs=[None, -2]), Completion((5, 2), (), "end")),
        (choice([5, 2], log_probs=[-2]), Completion((5, 2), (), "end")),
        (choice([5, 2], log_probs=[-1e300, -2]), Completion((5, 2), (), "end")),
        (choice([5, 2], log_probs=[3, -2]), Completion((5, 2), (), "end")),
        # Endings that are none: the reply has failed, and nothing is added to it.
        (choice([5], "content_filter", log_probs=[-1]), Completion((5,), (-1.0,), "failed")),
        (choice([5], None), Completion((5,), (), "failed")),
        (choice([5] * 6, "abort"), Completion((5,) * 4, (), "failed")),
        # Ids among the log-probabilities, and none at all ("w1" is 5).
        (
            {"finish_reason": "stop", "logprobs": {"tokens": ["token_id:5", "token_id:7"], "token_logprobs": [-1, -2]}},
            Completion((5, 7), (-1.0, -2.0), "end"),
        ),
        (
            {"finish_reason": "stop", "text": "w1", "logprobs": {"tokens": ["token_id:9", "w1"]}},
            Completion((5, 2), (), "end"),
        ),
        ({"finish_reason": "length", "text": "w1 w1 w1 w1 w1"}, Completion((5,) * 5, (), "length")),
    ],
)
def test_completions(tokenizer, given, want):
    assert read(tokenizer, given).completions == (want,)


def test_log_probs_need_a_temperature_of_one_or_none(tokenizer):
    given = choice([5, 2], log_probs=[-1, -2])
    for temperature, count in ((0.0, 2), (1.0, 2), (0.5, 0), (1.5, 0)):
        sampling = Sampling(max_tokens=4, stop_tokens=(2,), temperature=temperature)
        [completion] = read(tokenizer, given, sampling=sampling).completions
        assert len(completion.log_probs) == count


def test_without_stop_tokens_nothing_is_added_and_without_the_tokenizers_own_the_first_is(tokenizer):
    for stops, want in (((), (5,)), ((9, 8), (5, 9))):
        sampling = Sampling(max_tokens=4, stop_tokens=stops)
        assert read(tokenizer, choice([5]), sampling=sampling).completions[0].token_ids == want


def test_choices_are_put_in_their_order_and_usage_is_read(tokenizer):
    answer = read(tokenizer, choice([6, 2], index=1), choice([5, 2], index=0), usage={"prompt_tokens": 3})
    assert [one.token_ids[0] for one in answer.completions] == [5, 6]
    assert (answer.prompt_tokens, answer.generated_tokens, answer.has_ids) == (3, None, True)
    unnumbered = read(tokenizer, choice([6, 2]), {"finish_reason": "stop", "text": "w1"}, usage="many")
    assert [one.token_ids[0] for one in unnumbered.completions] == [6, 5]
    assert (unnumbered.prompt_tokens, unnumbered.has_ids) == (None, False)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[]", "valid dictionary|object"),
        ('{"choices": 3}', "choices: "),
        ('{"choices": [{"finish_reason": "stop", "token_ids": [-1]}]}', "choices.0.token_ids.0: "),
        ('{"choices": [{"finish_reason": "stop", "token_ids": ["5"]}]}', "choices.0.token_ids.0: "),
        ('{"choices": [{"finish_reason": "stop", "token_ids": [100]}]}', "token id 100,"),
        (f'{{"choices": [{{"finish_reason": "stop", "token_ids": [{10**4000}]}}]}}', "token id 1000"),
        ('{"choices": [{"finish_reason": "stop", "logprobs": {"tokens": ["token_id:999999999"]}}]}', "id 999999999"),
        (f'{{"choices": [{{"finish_reason": "stop", "text": "{"w1 " * 30}"}}]}}', "30 tokens"),
        ("[" * 5000, "Invalid JSON"),
    ],
)
def test_what_is_no_answer(tokenizer, content, says):
    with pytest.raises(ReplyError, match=says):
        read_reply(content.encode(), SAMPLING, n=1, tokenizer=tokenizer, vocabulary=VOCABULARY)


def test_a_request_leaves_nothing_to_the_servers_defaults():
    body = request_body("m", [1, 2], Sampling(max_tokens=3, seed=-1), n=2, without={"min_p"})
    assert body == {
        "model": "m",
        "prompt": [1, 2],
        "max_tokens": 3,
        "temperature": 1.0,
        "top_p": 1.0,
        "n": 2,
        "seed": 2**63 - 1,
        "logprobs": 1,
        "top_k": -1,
        "repetition_penalty": 1.0,
        "stop_token_ids": [],
        "add_special_tokens": False,
        "skip_special_tokens": False,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
    }


@pytest.mark.parametrize(
    ("body", "message", "named"),
    [
        ('{"error": {"message": "no top_k here", "param": null}}', "no top_k here", {"top_k"}),
        ('{"error": {"message": "no; see seed", "param": "top_k"}}', "no; see seed", {"top_k"}),
        ('{"error": "unknown: top_k, seed"}', "unknown: top_k, seed", {"top_k", "seed"}),
        ('{"message": "my_seed_2"}', "my_seed_2", set()),
        ('{"detail": [{"loc": ["body", "seed"], "msg": "bad"}]}', "body.seed: bad", {"seed"}),
        ('{"detail": [{"loc": 5, "msg": "bad"}, 3]}', '{"detail": [{"loc": 5, "msg": "bad"}, 3]}', set()),
        ('{"detail": "seed!"}', "seed!", {"seed"}),
        ("seed", "seed", {"seed"}),
        ("[1]", "[1]", set()),
        ("", "Bad Request", set()),
    ],
)
def test_refusals(body, message, named):
    error = refusal(400, body)
    assert error_message(error) == message
    assert {field for field in ("top_k", "seed") if blames_field(error, field)} == named
    assert not blames_field(refusal(403, body), "seed")


def test_a_servers_words_are_sanitized():
    quote = client("secret").quote
    assert quote("a\n\tb\x1b[0m \u202ec secrets") == "a b�[0m �c …s"
    assert len(quote("x" * 5000)) == 300


def test_waits_double_up_to_a_bound_and_are_shortened_at_random():
    steady = Backoff(first=1.0, longest=5.0, random=lambda: 0.0)
    assert [steady.delay(attempt) for attempt in (1, 2, 3, 4, 5000)] == [1, 2, 4, 5, 5]
    assert Backoff(first=1.0, random=lambda: 1.0).delay(2) == 1.0
    assert [steady.delay(3, retry_after=wait) for wait in (7.5, 1.0, 1e9)] == [7.5, 4.0, 600.0]


def test_retry_after():
    now = datetime.now(UTC)
    values = ["2", "1.5", "soon", "", ".", format_datetime(now - timedelta(days=1), usegmt=True)]
    assert [retry_after(value) for value in values] == [2.0, 1.5, None, None, None, 0.0]
    wait = retry_after(format_datetime(now + timedelta(seconds=100), usegmt=True))
    assert wait is not None
    assert 50 < wait <= 100


def test_time_counts_while_something_is_under_way_and_once_for_all(monkeypatch):
    now = [0.0]
    connections = client(clock=lambda: now[0])

    async def work(*, begins, ends):
        now[0] = begins
        async with connections.connected() as one:
            now[0] += 1
            async with connections.connected() as two:
                now[0] += 1
                assert two.client is one.client
                assert connections.seconds == pytest.approx(spent + 2)
            now[0] = ends
        assert one.client.is_closed()

    spent = 0.0
    asyncio.run(work(begins=10, ends=15))
    now[0], spent = 50, 5.0
    assert connections.seconds == 5
    asyncio.run(work(begins=100, ends=103))
    assert connections.seconds == 8


def test_a_loop_that_was_dropped_is_not_waited_for():
    connections = client()
    dropped = asyncio.new_event_loop()
    held = connections.connected()
    first = dropped.run_until_complete(held.__aenter__())

    async def other():
        async with connections.connected() as second:
            assert second.client is not first.client
            await asyncio.wait_for(second.slots.acquire(), 5)

    asyncio.run(other())
    dropped.run_until_complete(held.__aexit__(None, None, None))
    dropped.close()
    assert first.client.is_closed()


def test_an_accepted_field_is_not_left_out_when_its_value_is_refused(tokenizer):
    body = request_body("m", [1], Sampling(max_tokens=3), n=1, without={"seed"})
    known, fresh = (OpenAIEngine("http://host/v1", models={}, tokenizer=tokenizer) for _ in range(2))
    known._accepted.update(body)
    assert not known._leave_out_refused(body, refusal(400, "the prompt and stop_token_ids are wrong"))
    assert not known._leave_out_refused(body, refusal(400, "no seed"))  # it was not sent
    assert fresh._leave_out_refused(body, refusal(400, "the prompt and stop_token_ids are wrong"))
    assert fresh._refused == {"stop_token_ids"}
