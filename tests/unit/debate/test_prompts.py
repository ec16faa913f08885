"""The prompts, held to the paper's own listing, and their rendering through real chat templates."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mada.debate.prompts import CUT_OFF, NO_CONCLUSION, Prompts, WindowError, fit_debate_prompt, render, shorten
from mada.debate.transcript import Response, StopReason
from mada.errors import ModelError

REPOSITORY = Path(__file__).resolve().parents[3]
QUESTION = r"What is $\frac{1}{2}$ of \{4\}? {question} {response}"


def response(text: str, stop: StopReason = "end") -> Response:
    return Response(text=text, answer=None, token_count=1, stop=stop)


def test_the_reasoning_prompt_word_for_word():
    assert Prompts().ask("What is 1+1?") == (
        "Solve the following math problem efficiently and clearly. The last line of your response should be of the "
        "following format: 'Therefore, the final answer is: $\\boxed{ANSWER}$. I hope it is correct' (without "
        "quotes) where ANSWER is just the final number or expression that solves the problem. Think step by step "
        "before answering.\n\nWhat is 1+1?"
    )


def test_the_debate_prompt_word_for_word():
    assert Prompts(reasoning="{question}").debate_prompt("What is 1+1?", ["It is 2.", "It is 3."]) == (
        "What is 1+1?\n\n"
        "These are the recent opinions from other agents:\n\n"
        "One agent's response:\n```\nIt is 2.\n```\n\n"
        "One agent's response:\n```\nIt is 3.\n```\n\n"
        "Using each response as additional advice, can you give an updated answer to the question?"
    )


def test_the_texts_are_those_of_the_papers_appendix():
    paper = REPOSITORY.parent / "shared" / "paper" / "mada-rl.tex"
    if not paper.is_file():
        pytest.skip("the paper's source is not beside the checkout")
    listings = re.findall(r"\\begin\{prompt\}\n(.*?)\n\\end\{prompt\}", paper.read_text(encoding="utf-8"), re.DOTALL)
    reasoning, header, block, request = listings
    prompts = Prompts()
    # The listing is Python source: two backslashes are one, doubled braces are single ones.
    as_python = reasoning.replace("\\\\", "\\").replace("{{", "{").replace("}}", "}")
    assert (prompts.reasoning, prompts.debate_header) == (as_python, header)
    assert (prompts.debate_response, prompts.debate_request) == (block, request)


def test_braces_and_placeholders_in_questions_and_responses_are_left_alone():
    prompt = Prompts().debate_prompt(QUESTION, ["I say {question} and {response}"])
    assert prompt.count(QUESTION) == 1
    assert "```\nI say {question} and {response}\n```" in prompt


@pytest.mark.parametrize(
    ("share", "said", "stop", "seen"),
    [
        ("full", " <think>hm</think> So 2. \n", "end", "<think>hm</think> So 2."),
        ("answer", "<think>hm</think> So 2.", "end", "So 2."),
        ("answer", "no tags, so all of it", "end", "no tags, so all of it"),
        ("answer", "<think>hm, still", "end", NO_CONCLUSION),
        ("answer", "<think>hm, still", "length", f"{NO_CONCLUSION} {CUT_OFF}"),
        ("full", "<think>hm, still", "length", f"<think>hm, still {CUT_OFF}"),
        ("full", "", "end", ""),
    ],
)
def test_what_others_see_of_a_response(share, said, stop, seen):
    assert Prompts(share=share).shared(response(said, stop)) == seen


def test_every_text_can_be_replaced():
    prompts = Prompts(reasoning="Q: {question}", debate_header="H", debate_response="<{response}>", debate_request="R")
    assert prompts.debate_prompt("q", ["a", "b"]) == "Q: q\n\nH\n\n<a>\n\n<b>\n\nR"


def test_the_judges_prompt_word_for_word():
    assert Prompts(reasoning="{question}").for_judge.debate_prompt("What is 1+1?", ["It is 2.", "It is 3."]) == (
        "What is 1+1?\n\n"
        "These are solutions of this problem by different agents:\n\n"
        "One agent's response:\n```\nIt is 2.\n```\n\n"
        "One agent's response:\n```\nIt is 3.\n```\n\n"
        "Judge the solutions: check the reasoning of each, and decide which final answer is correct. Choose one of "
        "the final answers given above, and end your response with 'Therefore, the final answer is: "
        "$\\boxed{ANSWER}$.' where ANSWER is the answer you have chosen."
    )


def test_a_judges_texts_can_be_replaced_and_all_else_is_as_for_critics():
    prompts = Prompts(reasoning="Q: {question}", debate_response="<{response}>", judge_header="JH", judge_request="JR")
    judge = replace(prompts, share="answer").for_judge
    assert judge.debate_prompt("q", ["a", "b"]) == "Q: q\n\nJH\n\n<a>\n\n<b>\n\nJR"
    assert judge.ask("q") == "Q: q"
    assert judge.shared(response("<think>hm</think> So 2.")) == "So 2."
    assert judge.for_judge == judge
    assert prompts.debate_header == "These are the recent opinions from other agents:", "the others' stay"


@pytest.fixture(scope="module")
def tiny_tokenizer():
    """A real tokenizer with a real chat template, made here."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    template = (
        "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    return PreTrainedTokenizerFast(tokenizer_object=words, chat_template=template)


def test_rendering_goes_through_the_chat_template(tiny_tokenizer):
    assert render("2 + 2 = {x}?", tokenizer=tiny_tokenizer) == "<|user|>2 + 2 = {x}?<|end|><|assistant|>"


def test_rendering_with_qwens_own_template():
    folder = REPOSITORY.parent / "shared" / "tools" / "qwen-tokenizer"
    if not folder.is_dir():
        pytest.skip("Qwen's tokenizer is not beside the checkout")
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = render(Prompts().ask("What is 1+1?"), tokenizer=tokenizer)
    assert text.startswith("<|im_start|>system\n")
    assert "<|im_start|>user\nSolve the following math problem" in text
    assert text.endswith("What is 1+1?<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "unsafe"),
        ("{% for message in %}", "cannot be used"),
        ("{{ raise_exception('only pictures') }}", "only pictures"),
        ("{% for n in range(10 ** 9) %}{% endfor %}", "cannot be used"),
        ("{{ 1 / 0 }}", "division"),
        ("{{ 'x' * 3000000 }}", "3,000,000 characters"),
        (
            "{% for a in range(99999) %}{% for b in range(99999) %}{% set c = b %}{% endfor %}{% endfor %}",
            "took longer",
        ),
    ],
)
def test_an_unsafe_or_runaway_chat_template_is_refused(tiny_tokenizer, monkeypatch, template, complaint):
    monkeypatch.setattr("mada.debate.prompts.TEMPLATE_SECONDS", 0.2)
    tiny_tokenizer.chat_template = template
    with pytest.raises(ModelError, match=complaint):
        render("q", tokenizer=tiny_tokenizer)


# Fitting a prompt into the window.


def words(text):
    return len(text.split())


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
