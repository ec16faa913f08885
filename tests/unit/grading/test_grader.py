"""The grader as a whole: order, limits, deaths of workers, threads and event loops."""

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mada.errors import GradingError
from mada.grading import Grade, Grader, worker_pool
from mada.grading import grader as grader_module
from mada.grading.worker_pool import Worker, WorkerPool

ENDLESS = r"\sum_{k=1}^{123456} \frac{1}{k}"  # runs for minutes, and nothing tells so beforehand
HOSTILE = [
    "9^{9^{9^9}}",
    "(10^9)!",
    "[" * 300 + "x" + "]" * 300,
    "(x+1)^{100000}",
    "\\sqrt{" * 200 + "x" + "}" * 200,
    "x^{" * 100 + "2" + "}" * 100,
]


def boxed(answer):
    return f"so it is \\boxed{{{answer}}}"


def squares(count, letter="x"):
    return [(boxed(f"({letter}+{n})^2"), f"{letter}^2+{2 * n}{letter}+{n * n}") for n in range(1, count + 1)]


@pytest.fixture
def grader():
    with Grader(workers=2, time_limit=1.0) as one:
        yield one


def test_grades_come_in_the_order_of_the_pairs(grader):
    pairs = [(boxed("x+1"), "1+x"), (boxed("3"), "4"), ("nothing", "4"), (boxed(")(("), "x"), (boxed("y+2"), "2+y")]
    assert grader.grade(pairs) == [
        Grade(correct=True, reason="equal", answer="x+1"),
        Grade(correct=False, reason="not equal", answer="3"),
        Grade(correct=False, reason="no answer", answer=None),
        Grade(correct=False, reason="unparsable", answer=")(("),
        Grade(correct=True, reason="equal", answer="y+2"),
    ]


@pytest.mark.parametrize("answer", HOSTILE)
def test_a_hostile_answer_ends_in_a_verdict_and_others_are_not_lost(grader, answer):
    grades = grader.grade([(boxed(answer), "x+1"), *squares(3), (boxed(answer), "x+1")])
    assert [grade.correct for grade in grades] == [False, True, True, True, False]
    assert grades[0] == grades[-1]
    assert grades[0].reason in {"timed out", "not equal", "unparsable"}


def test_hostile_pairs_are_put_aside_for_workers_of_their_own(monkeypatch):
    monkeypatch.setattr(grader_module, "FIRST_SLICE", 0.3)
    asked: list[tuple[str, float]] = []
    ask = Worker.ask

    def recorded(self, gold, given, *, limit):
        asked.append((given, limit))
        return ask(self, gold, given, limit=limit)

    monkeypatch.setattr(Worker, "ask", recorded)
    with Grader(workers=1, time_limit=1.0) as grader:
        pairs = [(boxed(ENDLESS), "x^2"), *[(boxed(f"x+{n}"), f"{n}+x") for n in range(20)]]
        reasons = [grade.reason for grade in grader.grade(pairs)]
    assert reasons == ["timed out"] + ["equal"] * 20
    assert asked[0] == (ENDLESS, 0.3)
    assert (ENDLESS, 1.0) in asked
    assert len(asked) == 22


def test_a_megabyte_nul_bytes_and_marks_of_direction(grader):
    replies = [
        "x" * 1_000_000,
        boxed("1" * 1_000_000),
        "\\boxed{" * 100_000,
        boxed("5\x00"),
        boxed("\u202e5\u202c"),
        boxed("\ud800"),
    ]
    reasons = [grade.reason for grade in grader.grade([(reply, "5") for reply in replies])]
    assert reasons == ["no answer", "unparsable", "no answer", "equal", "equal", "unparsable"]


def test_brackets_nested_beyond_anything_honest_are_unparsable(grader):
    deep, deeper = (("\\frac{1}{1+" * depth + "x" + "}" * depth) for depth in (5, 17))
    pairs = [(deep, "y+1"), (deeper, "y+1"), ("y+1", deeper), (deeper, deeper)]
    assert [grade.reason for grade in grader.compare(pairs)] == ["not equal", "unparsable", "unparsable", "equal"]


def test_killed_workers_are_replaced_and_no_grade_is_lost(grader):
    pairs = squares(60, "a")
    grader.grade(squares(2))
    stop = threading.Event()

    def kill_everything():
        while not stop.is_set():
            for pid in grader.worker_pids():
                kill(pid)
            time.sleep(0.05)

    killer = threading.Thread(target=kill_everything)
    killer.start()
    try:
        # Killing goes on for a while and then stops, as an out-of-memory killer would.
        threading.Timer(1.0, stop.set).start()
        grades = grader.grade(pairs)
    finally:
        stop.set()
        killer.join()
    assert all(grade.correct for grade in grades)


def test_a_killed_fork_server_is_replaced(grader):
    grader.grade(squares(2))
    kill(grader._pool._process.pid)
    for pid in grader.worker_pids():
        kill(pid)
    assert all(grade.correct for grade in grader.grade(squares(6, "b")))


def test_a_worker_that_crashes_twice_on_a_pair_makes_it_unparsable(monkeypatch):
    ask = Worker.ask

    def crashing(self, gold, given, *, limit):
        if "crash" in given:
            os.kill(self.pid, signal.SIGSEGV)
            time.sleep(0.1)
        return ask(self, gold, given, limit=limit)

    monkeypatch.setattr(Worker, "ask", crashing)
    with Grader(workers=1) as grader:
        grades = grader.compare([("crash+x", "x+1"), ("x+1", "1+x")])
    assert [grade.reason for grade in grades] == ["unparsable", "equal"]


def test_identical_pairs_are_graded_once(monkeypatch, grader):
    asked: list[str] = []
    ask = Worker.ask

    def recorded(self, gold, given, *, limit):
        asked.append(given)
        return ask(self, gold, given, limit=limit)

    monkeypatch.setattr(Worker, "ask", recorded)
    pair = squares(1)
    assert all(grade.correct for grade in grader.grade(pair * 50))
    assert all(grade.correct for grade in grader.grade(pair * 50))
    assert len(asked) == 1


def test_a_stream_gives_each_grade_as_soon_as_those_before_it_are_known(grader):
    read: list[int] = []

    def endless_pairs():
        for n in itertools.count():
            read.append(n)
            yield boxed(str(n)), str(n - n % 3)

    grades = list(itertools.islice(grader.stream(endless_pairs(), ahead=50), 200))
    assert [grade.correct for grade in grades] == [n % 3 == 0 for n in range(200)]
    assert len(read) <= 250


def test_a_streams_own_error_comes_after_the_grades_before_it(grader):
    def failing():
        yield from squares(3)
        raise OSError("the disk is gone")

    grades = grader.stream(failing())
    assert [next(grades).correct for _ in range(3)] == [True] * 3
    with pytest.raises(OSError, match="the disk is gone"):
        next(grades)


def test_many_threads_share_one_grader(grader):
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda letter: grader.grade(squares(5, letter)), "abcdfghk"))
    assert all(grade.correct for grades in results for grade in grades)


def test_event_loops_share_one_grader_and_are_not_blocked(grader):
    async def many():
        return await asyncio.gather(*[grader.grade_async(squares(4, letter)) for letter in "abcd"])

    assert all(grade.correct for grades in asyncio.run(many()) for grade in grades)
    assert all(grade.correct for grades in asyncio.run(many()) for grade in grades)


def test_cancelling_one_caller_leaves_the_other_its_grade(grader):
    async def two_callers():
        pair = [(boxed(ENDLESS), "x^2"), *squares(2)]
        first = asyncio.create_task(grader.grade_async(pair))
        second = asyncio.create_task(grader.grade_async(pair))
        await asyncio.sleep(0.2)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return await second

    assert [grade.correct for grade in asyncio.run(two_callers())] == [False, True, True]


def test_closing_finishes_what_was_submitted_and_refuses_more():
    grader = Grader(workers=1)
    assert grader.grade(squares(1))[0].correct
    pids = grader.worker_pids()
    grader.close()
    grader.close()
    with pytest.raises(GradingError, match="closed"):
        grader.grade(squares(1, "z"))
    for _ in range(100):
        if not any(is_alive(pid) for pid in pids):
            break
        time.sleep(0.05)
    assert not any(is_alive(pid) for pid in pids)


def test_an_exception_abandons_what_is_still_waiting():
    grader = Grader(workers=1, time_limit=1.0)
    submitted = grader._submit_all((answer, "x+1") for answer in [ENDLESS, *(f"y+{n}" for n in range(2000))])

    def interrupted():
        with grader:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    abandoned = [reason for _, reason in submitted if reason.exception()]
    assert len(abandoned) > 1900
    assert all("closed before" in str(reason.exception()) for reason in abandoned)


def test_workers_that_cannot_start_say_why(monkeypatch):
    monkeypatch.setattr("mada.grading.worker_pool._START", "raise ImportError('no module named math_verify')")
    with Grader(workers=1) as grader:
        with pytest.raises(GradingError, match="no module named math_verify"):
            grader.grade(squares(1))
        # Plain answers need no worker, and the failure is not remembered as a grade.
        assert grader.grade([(boxed("2"), "2")])[0].correct
        monkeypatch.undo()
        assert grader.grade(squares(1))[0].correct


def test_a_fork_server_that_keeps_dying_ends_in_an_error(monkeypatch):
    def dying(self):
        raise ConnectionError

    monkeypatch.setattr(WorkerPool, "_fork_worker", dying)
    with Grader(workers=1) as grader, pytest.raises(GradingError, match="died three times"):
        grader.grade(squares(1))


@pytest.mark.parametrize(("forks", "warning"), [(1, "with 1 workers"), (0, "without worker processes")])
def test_a_system_that_refuses_processes_leaves_fewer_workers_and_one_warning(monkeypatch, caplog, forks, warning):
    refusing = f"""
import itertools, os
forked, fork = itertools.count(), os.fork
def refusing():
    if next(forked) >= {forks}:
        raise BlockingIOError("Resource temporarily unavailable")
    return fork()
os.fork = refusing
"""
    monkeypatch.setattr(worker_pool, "_START", refusing.replace("{", "{{").replace("}", "}}") + worker_pool._START)
    with Grader(workers=3, time_limit=1.0) as grader:
        grades = grader.grade([*squares(30), (boxed(ENDLESS), "x^2")])
        assert len(grader.worker_pids()) <= forks
    assert [grade.reason for grade in grades] == ["equal"] * 30 + ["timed out"]
    assert [record.getMessage() for record in caplog.records if warning in record.getMessage()]
    assert len(caplog.records) == 1


def test_without_a_fork_server_or_threads_the_caller_does_the_work(monkeypatch, caplog):
    def refused(*_, **__):
        raise BlockingIOError("Resource temporarily unavailable")

    def no_thread(self):
        raise RuntimeError("can't start new thread")

    with Grader(workers=2, time_limit=1.0) as grader:
        monkeypatch.setattr(threading.Thread, "start", no_thread)
        assert all(grade.correct for grade in grader.grade(squares(3)))
        assert len(grader.worker_pids()) == 1
    monkeypatch.setattr(subprocess, "Popen", refused)
    with Grader(workers=2, time_limit=1.0) as grader:
        reasons = [grade.reason for grade in grader.grade([*squares(3), (boxed(ENDLESS), "x^2")])]
        assert reasons == ["equal"] * 3 + ["timed out"]
        assert grader.worker_pids() == []
    assert len(caplog.records) == 2


def test_an_unforeseen_error_reaches_the_one_who_waits(monkeypatch):
    def broken(self, gold, given, *, limit):
        raise RuntimeError("a bug")

    with Grader(workers=1) as grader:
        with monkeypatch.context() as patch:
            patch.setattr(Worker, "ask", broken)
            with pytest.raises(RuntimeError, match="a bug"):
                grader.grade(squares(1))
        assert grader.grade(squares(1))[0].correct


def test_a_grader_in_a_forked_process_refuses_instead_of_hanging():
    code = """
import os
from mada.errors import GradingError
from mada.grading import Grader
grader = Grader(workers=1)
grader.compare([("x+1", "1+x")])
pid = os.fork()
if pid == 0:
    try:
        grader.compare([("y+1", "1+y")])
    except GradingError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(pid, 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert "does not survive fork" in done.stdout


def test_a_script_without_a_main_guard_works_and_leaves_no_process_behind(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from mada.grading import Grader\n"
        "grader = Grader(workers=1)\n"
        "print('started once')\n"
        "print(grader.compare([('x+1', '1+x')])[0].reason, *grader.worker_pids(), grader._pool._process.pid)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=600, check=True)
    first, second = done.stdout.splitlines()
    assert first == "started once"
    reason, *pids = second.split()
    assert reason == "equal"
    for _ in range(200):
        if not any(is_alive(int(pid)) for pid in pids):
            break
        time.sleep(0.05)
    assert not any(is_alive(int(pid)) for pid in pids)


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def is_alive(pid):
    """Whether a process runs; a zombie that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
