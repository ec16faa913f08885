"""`mada grade`, as a user types it."""

import json
import subprocess
import sys

import pytest

PAIRS = [
    {"response": r"so \boxed{\frac{1}{2}}", "answer": "0.5"},
    {"response": r"so \boxed{3}", "answer": "4", "id": "seven"},
    {"response": "I do not know", "answer": "4"},
    {"response": r"\boxed{)((}", "answer": "x"},
    {"response": r"\boxed{9^{9^{9^9}}}", "answer": "x^2"},
    {"response": r"\boxed{7}", "answer": 7},
]
REASONS = ["equal", "not equal", "no answer", "unparsable", "timed out", "equal"]


def mada(*arguments, given=None):
    return subprocess.run(
        [sys.executable, "-m", "mada", *map(str, arguments)], input=given, capture_output=True, timeout=600, check=False
    )


def lines_of(pairs):
    return "".join(json.dumps(pair) + "\n" for pair in pairs).encode()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "replies.jsonl"
    path.write_bytes(lines_of(PAIRS))
    return path


def test_json_is_one_object_a_line_in_input_order(file):
    done = mada("grade", file, "--json", "--time-limit", "1")
    graded = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert [row["reason"] for row in graded] == REASONS
    assert [row["correct"] for row in graded] == [True, False, False, False, False, True]
    assert graded[1] == {"id": "seven", "correct": False, "reason": "not equal", "extracted": "3"}
    assert graded[2]["extracted"] is None


def test_a_person_sees_one_line_each_and_the_counts(file):
    done = mada("grade", file, "--time-limit", "1", "--workers", "1")
    assert [line.strip() for line in done.stdout.decode().splitlines()] == [
        r"1  right  equal       \frac{1}{2}",
        "2  wrong  not equal   3  (reference 4)",
        "3  wrong  no answer   (reference 4)",
        "4  wrong  unparsable  )((  (reference x)",
        "5  wrong  timed out   9^{9^{9^9}}  (reference x^2)",
        "6  right  equal       7",
        "",
        "2 of 6 replies right (33.3%); 1 not equal, 1 no answer, 1 unparsable, 1 timed out",
    ]


def test_a_reply_cannot_steer_the_terminal():
    reply = "\\boxed{\x1b[31m[bold]red\x1b[0m\u202e" + "x" * 100 + "}"
    done = mada("grade", "-", given=lines_of([{"response": reply, "answer": "1"}]))
    shown = done.stdout.decode()
    assert "\x1b[31m" not in shown
    assert "\u202e" not in shown
    assert "[bold]red" in shown
    assert "…" in shown


def test_thinking_opened_by_the_prompt():
    pair = lines_of([{"response": r"maybe \boxed{4}", "answer": "4"}])
    assert json.loads(mada("grade", "-", "--json", given=pair).stdout)["reason"] == "equal"
    assert json.loads(mada("grade", "-", "--json", "--thinking-opened", given=pair).stdout)["reason"] == "no answer"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b'{"response": "x"}', "standard input:1: 'answer' is missing; every row needs 'response'"),
        (b'{"response": null, "answer": "x"}', "standard input:1: 'response' is null"),
        (b'{"response": "x", "answer": true}', "standard input:1: 'answer' is true"),
        (b'{"response": ', "standard input:1: not valid JSON"),
        (b"[1]", "standard input:1: wanted an object"),
        (b"\xff", "standard input:1: not UTF-8"),
    ],
)
def test_a_malformed_row_stops_with_its_place_and_a_remedy(line, complaint):
    done = mada("grade", "-", given=line)
    assert done.returncode == 2
    assert done.stderr.decode().startswith(f"mada: {complaint}")
    assert b"Traceback" not in done.stderr


def test_the_rows_before_a_malformed_one_are_graded():
    done = mada("grade", "-", "--json", given=lines_of(PAIRS[:3]) + b"nonsense")
    assert done.returncode == 2
    assert [json.loads(line)["reason"] for line in done.stdout.splitlines()] == REASONS[:3]
    assert done.stderr.decode().startswith("mada: standard input:4: not valid JSON")


def test_a_missing_file_and_bad_options_are_refused():
    missing = mada("grade", "nowhere.jsonl")
    assert missing.returncode == 2
    assert missing.stderr == b"mada: nowhere.jsonl: no such file; check the name and the folder you are in\n"
    assert mada("grade", "-", "--workers", "0", given=b"").returncode == 2
    assert mada("grade", "-", "--time-limit", "0", given=b"").returncode == 2


def test_a_reader_that_goes_away_is_no_error():
    command = f"{sys.executable} -m mada grade - --json | head -n 1"
    many = lines_of([{"response": rf"\boxed{{{n}}}", "answer": str(n)} for n in range(20_000)])
    done = subprocess.run(["bash", "-c", command], input=many, capture_output=True, timeout=600, check=False)
    assert done.stdout.count(b"\n") == 1
    assert b"Traceback" not in done.stderr
    assert b"Error" not in done.stderr
