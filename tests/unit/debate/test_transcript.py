from html import escape

from pydantic import TypeAdapter

from mada.debate.transcript import Debate, Response, Turn, Verdict, Votes


def turn(agent, *, prompt_tokens, tokens):
    said = Response(f"é {agent} says \\boxed{{4}}", "4", tokens, stop="length")
    return Turn(agent, "<prompt>", prompt_tokens, said, shortened_responses=1, characters_left_out=7)


def whole():
    return (
        Debate("q")
        .with_round("generator", [turn("g1", prompt_tokens=10, tokens=3), turn("g2", prompt_tokens=10, tokens=4)])
        .with_round("critic", [turn("c1", prompt_tokens=100, tokens=5)])
        .with_verdict(Verdict("4", (Votes("4", 1),), tie=False, unanswered=2))
    )


def test_rounds_are_numbered_and_tokens_are_counted_over_the_whole_protocol():
    debate = whole()
    assert [(one.number, one.role, len(one.turns)) for one in debate.rounds] == [(1, "generator", 2), (2, "critic", 1)]
    assert debate.last is debate.rounds[1]
    assert [response.token_count for response in debate.rounds[0].responses] == [3, 4]
    assert (debate.prompt_tokens, debate.generated_tokens) == (120, 12)


def test_a_debate_is_stored_as_json_and_read_back():
    adapter = TypeAdapter(Debate)
    assert adapter.validate_json(adapter.dump_json(whole())) == whole()


def test_a_notebook_shows_a_debate_and_runs_nothing_in_it():
    evil = "</pre><script>alert(1)</script>&amp; $\\href{javascript:x}{y}$"
    said = Response(f"I say {evil}", evil, 1234, stop="length")
    debate = Debate(evil).with_round("generator", [Turn(evil, "p", 1, said)])
    page = debate.with_verdict(Verdict(evil, (Votes(evil, 1),), tie=True))._repr_html_()
    assert "<script" not in page
    assert page.count("</pre>") == 1
    assert page.count(escape(evil)) == 6
    assert "I say &lt;/pre&gt;" in page
    assert "1,234 tokens, cut off" in page
    assert page.startswith('<div class="mathjax_ignore')
    assert "no answer" in Debate("q").with_verdict(Verdict(None))._repr_html_()
