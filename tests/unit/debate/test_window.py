import pytest
from hypothesis import given
from hypothesis import strategies as st

from mada.debate.prompts import CUT_OFF, Prompts, WindowError, fit_debate_prompt, shorten
from mada.debate.transcript import Response, StopReason


def words(text):
    return len(text.split())


def response(text: str, stop: StopReason = "end") -> Response:
    return Response(text=text, answer=None, token_count=words(text), stop=stop)


def fit(responses, budget, question="q", prompts=None):
    prompts = prompts or Prompts(reasoning="{question}")
    return fit_debate_prompt(question, responses, prompts=prompts, count_tokens=words, budget=budget)


@pytest.mark.parametrize(
    ("text", "limit", "shortened"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 10, "abcdef"),
        ("abcdef", 4, "ab\n[… 2 characters left out …]\nef"),
        ("abcdef", 3, "ab\n[… 3 characters left out …]\nf"),
        ("abcdef", 1, "a\n[… 5 characters left out …]\n"),
        ("abcdef", 0, "\n[… 6 characters left out …]\n"),
        ("x" * 3000, 1000, "x" * 500 + "\n[… 2,000 characters left out …]\n" + "x" * 500),
    ],
)
def test_shortening_takes_the_middle_and_says_how_much(text, limit, shortened):
    assert shorten(text, limit) == shortened


def test_the_longest_response_gives_way_first_and_keeps_both_ends():
    long = " ".join(f"w{n}" for n in range(1000))
    fitted = fit([response("short one"), response(long)], budget=200)
    assert "```\nshort one\n```" in fitted.text
    assert "```\nw0 w1 " in fitted.text
    assert " w998 w999\n```" in fitted.text
    assert fitted.shortened_responses == 1
    assert f"[… {fitted.characters_left_out:,} characters left out …]" in fitted.text
    assert fitted.tokens <= 200


@pytest.mark.parametrize(
    ("texts", "most"),
    [
        (["word " * 4000] * 3, 3),
        (["word " * 900, "word " * 2500, "word " * 9000], 3),
        (["word " * 3000 + "x" * 40_000, "word " * 2000], 10),  # all words are at one end
        (["word " * 780 + "x" * 90_000 + " word" * 780], 20),  # at both ends, and only a few too many
    ],
)
def test_few_prompts_are_counted_until_the_budget_is_used(texts, most):
    counted = []

    def count(text):
        counted.append(words(text))
        return counted[-1]

    responses = [response(text) for text in texts]
    fitted = fit_debate_prompt("q", responses, prompts=Prompts(), count_tokens=count, budget=1500)
    assert 0.99 * 1500 <= fitted.tokens <= 1500
    assert len(counted) <= most


def test_a_response_cut_off_at_the_token_limit_keeps_its_mark():
    fitted = fit([response("word " * 1000, stop="length")], budget=100)
    assert f"{CUT_OFF}\n```" in fitted.text


def test_no_response_is_dropped_even_in_the_smallest_window():
    responses = [response("word " * 500) for _ in range(4)]
    smallest = words(Prompts(reasoning="{question}").debate_prompt("q", [shorten("word " * 500, 0)] * 4))
    fitted = fit(responses, budget=smallest + 4)
    assert fitted.text.count("One agent's response:") == 4
    assert fitted.shortened_responses == 4


def test_a_question_that_does_not_fit_is_an_error_with_both_numbers():
    with pytest.raises(WindowError, match=r"the prompt has 1,0\d\d tokens and the window leaves 500"):
        fit([response("a")], budget=500, question="word " * 1000)


@given(st.lists(st.text("ab \n", max_size=300), max_size=4), st.integers(45, 200))
def test_whatever_is_said_the_prompt_fits_and_the_counts_are_right(said, budget):
    responses = [response(text) for text in said]
    try:
        fitted = fit(responses, budget)
    except WindowError:
        return
    assert words(fitted.text) == fitted.tokens <= budget
    assert fitted.text.count("One agent's response:") == len(said)
    assert fitted.text.count("characters left out …]") == fitted.shortened_responses
