"""`mada debate`, as a user types it, and what its two views show."""

import io
import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
from rich.console import Console
from typer.testing import CliRunner

from mada.cli import app
from mada.cli.debate_view import TIE_RULE, DebateView, styled_response, verdict_line
from mada.debate.protocol import RoundStarted, TurnFinished
from mada.debate.transcript import Debate, Response, StopReason, Turn, Verdict, Votes
from mada.recipe import Recipe
from mada.runs import Run

pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture
def debated(model_folder, mada):
    """Run the command with a tiny model and return what it printed."""

    def run(*arguments, given=""):
        return mada("debate", "--model", model_folder, *arguments, given=given)

    return run


def test_json_is_the_whole_transcript_and_the_same_for_the_same_seed(debated):
    options = ["--json", "--generators", 2, "--critics", 1, "--max-new-tokens", 9, "--seed", 3, "--reference", "4"]
    printed = debated("What is 2 + 2?", *options)
    [line] = printed.splitlines()
    record = json.loads(line)
    assert record["question"] == "What is 2 + 2?"
    assert [(one["role"], len(one["turns"])) for one in record["rounds"]] == [("generator", 2), ("critic", 1)]
    turn = record["rounds"][0]["turns"][0]
    assert turn["agent"] == "generator-1"
    assert "What is 2 + 2?<|end|>" in turn["prompt"]
    assert turn["response"]["token_count"] <= 9
    assert record["verdict"]["unanswered"] == 1
    assert (record["reference"], record["correct"], record["accuracy"]) == ("4", False, 0.0)
    assert debated(*options, given="What is 2 + 2?\n") == printed


def test_a_pipe_gets_plain_lines(debated):
    printed = debated("-", "--rounds", 1, "--generators", 2, "--max-new-tokens", 5, given="Why?")
    first, *turns, verdict, cost = printed.splitlines()
    assert first == "round 1: generators"
    assert sorted(line.split(" (")[0] for line in turns) == ["  generator-1: no answer", "  generator-2: no answer"]
    assert verdict == "verdict: no answer (2 agents without one)"
    assert cost.startswith("10 tokens generated, ")
    assert "\x1b" not in printed


def test_a_file_of_problems_is_debated_at_once_and_marked(debated, tmp_path):
    file = tmp_path / "problems.jsonl"
    rows = [{"problem": f"{n} + 1?", "answer": str(n), "id": f"p{n}"} for n in (1, 2)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ["--file", file, "--max-new-tokens", 5]
    shown = debated(*options).splitlines()
    assert shown[0] == "     1  wrong  1 + 1?  →  no answer (3 agents without one)  (reference 1)"
    assert shown[-1].startswith("2 debates, 0 of 2 right (0.0%), ")
    records = [json.loads(line) for line in debated(*options, "--json").splitlines()]
    assert [(record["id"], record["reference"], record["correct"]) for record in records] == [
        ("p1", "1", False),
        ("p2", "2", False),
    ]


def test_a_text_file_has_a_question_a_line(debated, tmp_path):
    file = tmp_path / "questions.txt"
    file.write_text("\ufeffWhy?\n\n  How? \n")
    printed = debated("--file", file, "--max-new-tokens", 5, "--json", "--share", "answer", "--temperature", 0)
    assert [json.loads(line)["question"] for line in printed.splitlines()] == ["Why?", "How?"]


@pytest.mark.parametrize(
    ("words", "given", "complaint"),
    [
        (["debate", ""], b"", "the question is empty"),
        (["debate", "-"], b" \n", "the question is empty"),
        (["debate"], b"", "the question is empty"),
        (["debate"], b"\xff", "standard input: not UTF-8 (at byte 1)"),
        (["debate", "q", "--run", "nowhere"], b"", "nowhere does not exist"),
        (["debate", "--file", "nowhere.txt"], b"", "nowhere.txt: cannot be read (No such file or directory)"),
        (["debate", "--file", "nowhere.jsonl"], b"", "nowhere.jsonl: no such file"),
        (["debate", "--file", "."], b"", ".: cannot be read (Is a directory)"),
        (["debate", "--file", "empty.txt"], b"", "empty.txt: holds no questions"),
        (["debate", "--file", "bytes.txt"], b"", "bytes.txt: not UTF-8 (at byte 3)"),
        (["debate", "q", "--run", "r", "--model", "m"], b"", "got --run and --model"),
        (["debate", "q", "--run", "r", "--critics", "1"], b"", "got --run and --critics"),
        (["debate", "q", "--file", "f.txt"], b"", "got a question and --file"),
        (["debate", "--file", "f.txt", "--reference", "4"], b"", "got --file and --reference"),
        (["debate", "q", "--temperature", "inf"], b"", "got --temperature inf"),
        (["debate", "q", "--critics", "0"], b"", "got --critics 0 and more than 1 round"),
        (["debate", "q", "--model", "./no/where"], b"", "no/where: no such folder"),
    ],
)
def test_mistakes_end_in_one_sentence(words, given, complaint, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_bytes(b"\n \n")
    (tmp_path / "bytes.txt").write_bytes(b"a\n\xff")
    message = refused(*words, given=given)
    assert complaint in message
    assert message.count("\n") == 1


@pytest.mark.parametrize("option", [["--rounds", 0], ["--generators", 0], ["--temperature", -1], ["--share", "some"]])
def test_options_out_of_range_are_refused(option):
    assert CliRunner().invoke(app, ["debate", "q", *map(str, option)]).exit_code == 2


def test_questions_that_do_not_fit(model_folder, refused, tmp_path):
    assert "does not fit: with its prompt it has 100," in refused(
        "debate", "x" * 100_000, "--model", model_folder, prints_first=True
    )
    file = tmp_path / "questions.txt"
    file.write_text("Why?\n" + "x" * 10_000)
    message = refused("debate", "--file", file, "--model", model_folder, "--max-new-tokens", 5, prints_first=True)
    assert message.startswith("mada: question 2 ('xxxxxxxx")


def test_a_run_without_adapters_is_refused(tmp_path, refused):
    with Run.open(tmp_path / "run", Recipe()):
        pass
    message = refused("debate", "q", "--run", tmp_path / "run")
    assert "has no adapter for generator-1, generator-2, generator-3, critic-1, critic-2, critic-3 yet" in message
    assert f"`mada run --run {tmp_path / 'run'}`" in message


@pytest.mark.parametrize(
    ("by", "ignored"),
    [(signal.SIGINT, None), (signal.SIGTERM, None), (signal.SIGHUP, None), (signal.SIGTERM, signal.SIGINT)],
)
def test_control_c_and_its_like_stop_with_one_line(model_folder, by, ignored):
    process = subprocess.Popen(
        [sys.executable, "-m", "mada", "debate", "q", "--model", str(model_folder), "--max-new-tokens", "3000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        preexec_fn=lambda: signal.signal(ignored, signal.SIG_IGN) if ignored else None,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"round 1: generators\n"
    process.send_signal(by)
    _, complaint = process.communicate(timeout=300)
    assert process.returncode == 130
    assert complaint == b"mada: stopped\n"


def test_a_terminal_without_a_question_is_told_what_to_write():
    terminal, other_end = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "mada", "debate"], stdin=other_end, capture_output=True, timeout=300, check=False
    )
    os.close(other_end)
    os.close(terminal)
    assert done.returncode == 2
    assert done.stderr.startswith(b"mada: got no question; write `mada debate")


# What the views show


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def turn(agent, text, answer, *, stop: StopReason = "end", shortened=0):
    return Turn(agent, "prompt", 10, Response(text, answer, 7, stop=stop), shortened_responses=shortened)


GENERATORS = (
    turn("generator-1", "<think>\nhm\n</think>\nso $\\boxed{4}$", "4"),
    turn("generator-2", "\x1b[31m[bold]\tI do not", None, stop="length"),
)
CRITICS = (turn("critic-1", "\\boxed{4}", "4", shortened=2), turn("critic-2", "\\boxed{5}", "5"))
VERDICT = Verdict("4", (Votes("4", 1), Votes("5", 1)), tie=True)


def console(*, terminal, width=120, height=40):
    return Console(
        file=io.StringIO(),
        force_terminal=terminal,
        width=width,
        height=height,
        markup=False,
        highlight=False,
        color_system=None,
    )


def shown(view: DebateView) -> str:
    assert isinstance(view.console.file, io.StringIO)
    return view.console.file.getvalue()


def play(view, *, rounds=2, finish=True, right=None):
    """Let a view see a debate, as far as it goes."""
    clock = view.clock = Clock()
    view._started = 0.0
    debate = Debate("What is 2 + 2?").with_round("generator", GENERATORS).with_round("critic", CRITICS)
    for one in debate.rounds[:rounds]:
        view(RoundStarted(one.number, one.role, tuple(turn.agent for turn in one.turns)))
        for seat, said in enumerate(one.turns):
            clock.now += 1.5
            view(TurnFinished(one.number, seat, said))
    if finish:
        view.finish(debate.with_verdict(VERDICT), right=right)


def drawn(view) -> str:
    with view.console.capture() as capture:
        view.console.print(view.render())
    return capture.get()


def test_lines():
    with DebateView("q", rounds=2, console=console(terminal=False)) as view:
        play(view, right=frozenset({"4"}))
    assert shown(view).splitlines() == [
        "round 1: generators",
        "  generator-1: 4 (7 tokens, 1.5 s)",
        "  generator-2: no answer (7 tokens, 3.0 s, cut off)",
        "round 2: critics",
        "  critic-1: 4 (7 tokens, 1.5 s, saw 2 responses shortened)",
        "  critic-2: 5 (7 tokens, 3.0 s)",
        "verdict: 4 (1 of 2 votes; 5: 1) – right",
        TIE_RULE,
        "28 tokens generated, 6.0 s",
    ]


def test_rounds_stand_side_by_side_in_a_wide_terminal():
    view = DebateView("What is 2 + 2?", rounds=2, console=console(terminal=True))
    play(view, right=frozenset({"4"}))
    lines = drawn(view).splitlines()
    assert lines[0].strip() == "What is 2 + 2?"
    assert lines[1].split() == ["round", "1:", "generators", "round", "2:", "critics"]
    assert "generator-1: 4 – right" in lines[2]
    assert "critic-1: 4 – right" in lines[2]
    text = "\n".join(lines)
    assert "critic-2: 5 – wrong" in text
    assert "4 (1 of 2 votes; 5: 1) – right" in text
    assert TIE_RULE in text
    assert all(len(line) <= 120 for line in lines)


def test_a_narrow_terminal_shows_the_round_that_is_going_on():
    view = DebateView("q", rounds=2, console=console(terminal=True, width=70))
    play(view, finish=False)
    assert "round 1" not in drawn(view)
    assert "round 2" in drawn(view)


def test_a_model_cannot_steer_the_terminal_or_break_the_frame():
    view = DebateView("evil \x1b[2J question", rounds=2, console=console(terminal=True))
    play(view)
    text = drawn(view)
    assert "\x1b" not in text
    assert "\t" not in text
    assert "�[31m[bold]" in text


def test_long_responses_keep_both_ends():
    said = "\n".join(f"line {n}" for n in range(100)) + "\n\\boxed{4}"
    view = DebateView("q", rounds=1, console=console(terminal=True))
    view(RoundStarted(1, "generator", ("generator-1",)))
    view(TurnFinished(1, 0, turn("generator-1", said, "4")))
    text = drawn(view)
    assert "line 0 " in text
    assert "line 99 " in text
    assert "… 86 lines left out …" in text
    assert len([line for line in text.splitlines() if "line " in line or "boxed" in line]) == 15


def test_the_way_to_the_answer_is_dim_and_the_answer_bright():
    text = styled_response(turn("a", "first 4\nso $\\boxed{4}$.", "4"))
    styles = {text.plain[span.start : span.end]: str(span.style) for span in text.spans}
    assert styles == {"first 4\n": "dim", "4": "bold green"}
    cut = styled_response(turn("a", "no", None, stop="length"))
    assert cut.plain == "no [cut off at the token limit]"


def test_the_live_view_stays_on_the_screen_unless_something_went_wrong():
    view = DebateView("q", rounds=2, console=console(terminal=True))
    with view:
        play(view)
    assert "verdict" in shown(view)
    failing = DebateView("q", rounds=2, console=console(terminal=True))
    with suppress(RuntimeError), failing:
        failing(RoundStarted(1, "generator", ("a",)))
        raise RuntimeError
    assert "round 1" not in shown(failing).rpartition("\x1b[2K")[2], "erased"


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (Verdict("4", (Votes("4", 3),)), "4 (3 of 3 votes)"),
        (Verdict("4", (Votes("4", 2), Votes("5", 1)), unanswered=1), "4 (2 of 4 votes; 5: 1; no answer: 1)"),
        (Verdict(None, unanswered=1), "no answer (1 agent without one)"),
        (Verdict("x" * 99, (Votes("x" * 99, 1),)), f"{'x' * 59}… (1 of 1 votes)"),
    ],
)
def test_verdicts_in_words(verdict, said):
    assert verdict_line(verdict) == said
