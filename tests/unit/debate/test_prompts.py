"""The prompts, held to the paper's own listing, and their rendering through real chat templates."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from mada.debate.prompts import CUT_OFF, NO_CONCLUSION, Prompts, render
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
