"""A process killed at any moment loses nothing that was finished, and what it leaves can be continued."""

import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import BaseModel

import mada.runs.manifest
from mada.atomic import replace_text
from mada.errors import RunError
from mada.runs import Run

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


class Recipe(BaseModel):
    seed: int = 5


@dataclass(frozen=True)
class Number:
    value: int
    text: str


class Child:
    """A forked process that sends numbers to its parent until it ends or is killed."""

    def __init__(self, work: Callable[[Callable[[int], None]], None]) -> None:
        self._read_end, write_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.close(self._read_end)
                work(lambda number: sent(write_end, number))
                status = 0
            finally:
                os._exit(status)
        os.close(write_end)

    def receive(self) -> int | None:
        content = os.read(self._read_end, 8)
        return struct.unpack("q", content)[0] if content else None

    def received_till_the_end(self) -> list[int]:
        numbers: list[int] = []
        while (number := self.receive()) is not None:
            numbers.append(number)
        return numbers

    def kill(self) -> list[int]:
        """Kill it, and return what it had sent and was not yet received."""
        os.kill(self.pid, signal.SIGKILL)
        numbers = self.received_till_the_end()
        self.wait()
        return numbers

    def wait(self) -> int:
        os.close(self._read_end)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def sent(write_end: int, number: int) -> None:
    os.write(write_end, struct.pack("q", number))


@pytest.fixture(autouse=True)
def quick_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mada.runs.manifest, "current_commit", lambda: None)


def test_every_acknowledged_record_survives_its_killed_writer(tmp_path: Path) -> None:
    def write(acknowledge: Callable[[int], None]) -> None:
        with Run.open(tmp_path, Recipe()) as run:
            records = run.records("numbers", Number)
            for value in range(len(records), 10**9):
                # Long lines, so that some kills fall into the middle of a write.
                records.append(Number(value, "é" * (value % 7) * 30_000))
                acknowledge(value)

    moments = random.Random(0)
    for kill in range(10):
        writer = Child(write)
        first = writer.receive()
        assert first is not None
        time.sleep(moments.uniform(0, 0.03))
        acknowledged = max([first, *writer.kill()])
        with Run.open(tmp_path, Recipe()) as run:
            records = run.records("numbers", Number)
            values = [record.value for record in records]
            assert values == list(range(len(values)))
            assert len(values) > acknowledged
            assert (tmp_path / "records" / "numbers.jsonl").read_bytes().endswith(b"\n")
            records.append(Number(len(values), f"after kill {kill}"))
        assert len(Run.read(tmp_path).manifest.sessions) == 2 * (kill + 1)
    ended = [session.ended_at is not None for session in Run.read(tmp_path).manifest.sessions]
    assert ended == [False, True] * 10


def test_a_file_is_whole_whenever_its_writer_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "file"

    def write(acknowledge: Callable[[int], None]) -> None:
        for number in range(10**9):
            replace_text(path, "ab"[number % 2] * 200_000)
            acknowledge(number)

    moments = random.Random(1)
    for _ in range(8):
        writer = Child(write)
        writer.receive()
        end = time.monotonic() + moments.uniform(0, 0.03)
        while time.monotonic() < end:
            assert_whole(path.read_text())
        writer.kill()
        assert_whole(path.read_text())


def assert_whole(text: str) -> None:
    assert len(text) == 200_000
    assert set(text) in ({"a"}, {"b"})


def test_a_run_killed_again_and_again_ends_like_one_that_was_left_alone(tmp_path: Path) -> None:
    def work(folder: Path) -> Callable[[Callable[[int], None]], None]:
        def stages(report: Callable[[int], None]) -> None:
            with Run.open(folder, Recipe()) as run:
                for name in ("first", "second", "third"):
                    if run.mark(name):
                        continue
                    with run.stage(name) as stage:
                        records = run.records(name, Number)
                        for value in range(len(records), 20):
                            records.append(Number(value, str(run.rng(name, value).integers(10**9))))
                            report(value)
                            time.sleep(0.001)
                        run.write_text(f"{name}.json", str(sum(int(record.text) for record in records)))
                        stage.summarize({"records": len(records)})

        return stages

    alone = Child(work(tmp_path / "alone"))
    alone.received_till_the_end()
    assert alone.wait() == 0

    moments = random.Random(2)
    for _ in range(12):
        interrupted = Child(work(tmp_path / "interrupted"))
        time.sleep(moments.uniform(0, 0.03))
        interrupted.kill()
    last = Child(work(tmp_path / "interrupted"))
    last.received_till_the_end()
    assert last.wait() == 0

    assert results(tmp_path / "interrupted") == results(tmp_path / "alone")
    assert [mark.name for mark in Run.read(tmp_path / "interrupted").finished_stages()] == [
        "first",
        "second",
        "third",
    ]
    assert list((tmp_path / "interrupted").rglob("*.partial")) == []


def results(folder: Path) -> dict[str, bytes]:
    paths = [*folder.glob("*.json"), *(folder / "records").iterdir()]
    return {path.name: path.read_bytes() for path in paths if path.name != "manifest.json"}


HOLDER = """
import os, subprocess, sys, time
from pydantic import BaseModel
from mada.runs import Run

class Recipe(BaseModel):
    seed: int = 5

run = Run.open(sys.argv[1], Recipe())
started = subprocess.Popen(["sleep", "30"], stdout=subprocess.DEVNULL)
forked = os.fork()
if forked == 0:
    os.close(1)
    time.sleep(30)
    os._exit(0)
print(started.pid, forked, flush=True)
time.sleep(30)
"""


def test_a_killed_holder_frees_the_run_though_its_children_live(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with subprocess.Popen([sys.executable, "-c", HOLDER, folder], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        children = [int(word) for word in holder.stdout.readline().split()]
        try:
            with pytest.raises(RunError, match=f"{folder} is in use by process {holder.pid} on "):
                Run.open(folder, Recipe())
            holder.kill()
            holder.wait()
            for child in children:
                os.kill(child, 0)
            with Run.open(folder, Recipe()) as run:
                killed, mine = run.manifest.sessions
                assert (killed.pid, killed.ended_at, mine.pid) == (holder.pid, None, os.getpid())
        finally:
            holder.kill()
            for child in children:
                os.kill(child, signal.SIGKILL)


def test_of_processes_that_race_for_a_run_exactly_one_gets_it(tmp_path: Path) -> None:
    for race in range(5):
        folder = tmp_path / str(race)
        start, starter = os.pipe()
        finish, finisher = os.pipe()

        def compete(
            report: Callable[[int], None],
            folder: Path = folder,
            pipes: tuple[int, int, int, int] = (start, starter, finish, finisher),
        ) -> None:
            start, starter, finish, finisher = pipes
            os.close(starter)
            os.close(finisher)
            os.read(start, 1)  # returns when the parent closes its end, for all at once
            try:
                with Run.open(folder, Recipe()) as run:
                    run.write_text("winner", str(os.getpid()))
                    report(1)
                    os.read(finish, 1)
            except RunError as error:
                report(0 if "is in use by" in str(error) else -1)

        racers = [Child(compete) for _ in range(5)]
        os.close(starter)
        outcomes = [racer.receive() for racer in racers]
        os.close(finisher)
        assert sorted(outcomes, key=str) == [0, 0, 0, 0, 1]
        assert [racer.wait() for racer in racers] == [0] * 5
        assert (folder / "winner").read_text() == str(racers[outcomes.index(1)].pid)
        assert len(Run.read(folder).manifest.sessions) == 1
        os.close(start)
        os.close(finish)
