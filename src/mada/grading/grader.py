"""The grader: thousands of replies against their references, in order, in parallel, and never stuck (R1).

Plain answers are decided at once in the calling thread; the rest go to worker processes. A pair that takes longer than
a short first slice is put aside and tried again, with the full time limit, behind everything else that is waiting; when
such pairs keep all workers busy, one more worker is started for newcomers. So hostile answers hold up no honest ones.
"""

import asyncio
import logging
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Literal, Self

from mada.errors import GradingError
from mada.grading.answer import algebra_pair, compare_plainly, read_answer
from mada.grading.extraction import extract_answer
from mada.grading.normalization import nesting
from mada.grading.worker_pool import InProcess, NoMoreWorkersError, Worker, WorkerDiedError, WorkerPool

Reason = Literal["equal", "not equal", "no answer", "unparsable", "timed out"]

FIRST_SLICE = 0.25  # seconds of processor time before a pair is put aside
MAX_ANSWER_LENGTH = 2_000  # characters; the longest reference of any known data set has 1,222
MAX_NESTING = 16  # brackets in brackets; parsing slows with every level, and no known reference has more than 5
MAX_CRASHES = 2
MAX_DEATHS = 20
CACHE_SIZE = 50_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Grade:
    """Whether a reply is right, why, and the answer that was found in it."""

    correct: bool
    reason: Reason
    answer: str | None


@dataclass(slots=True, eq=False)
class _Comparison:
    """Two answers that need algebra, on their way through the lanes."""

    gold: str
    given: str
    reason: Future[Reason] = field(default_factory=Future[Reason])
    put_aside: bool = False
    deaths: int = 0
    crashes: int = 0


class Grader:
    """Grades replies. One instance serves any number of threads and event loops; close it, or use it with `with`."""

    def __init__(self, *, workers: int | None = None, time_limit: float = 2.0) -> None:
        if workers is not None and workers < 1:
            raise GradingError(f"a grader needs at least 1 worker, got {workers}")
        if not 0 < time_limit < float("inf"):
            raise GradingError(f"the grading time limit must be a positive number of seconds, got {time_limit}")
        self.time_limit = time_limit
        self._slots = workers or _cores()
        self._most_threads = self._slots + 1
        self._pool = WorkerPool()
        self._changed = threading.Condition()
        self._quick: deque[_Comparison] = deque()
        self._slow: deque[_Comparison] = deque()
        self._slow_running = 0
        self._idle = 0
        self._cache: OrderedDict[tuple[str, str], Future[Reason]] = OrderedDict()
        self._threads: list[threading.Thread] = []
        self._workers: dict[int, Worker | InProcess] = {}  # by the thread that asks
        self._closed = False
        self._process = os.getpid()

    def grade(self, pairs: Iterable[tuple[str, str]], *, thinking_opened: bool = False) -> list[Grade]:
        """Grade (reply, reference) pairs; the grades come in the same order. Blocks until all are known."""
        return self.compare((extract_answer(reply, thinking_opened=thinking_opened), gold) for reply, gold in pairs)

    def stream(
        self, pairs: Iterable[tuple[str, str]], *, thinking_opened: bool = False, ahead: int = 2_000
    ) -> Iterator[Grade]:
        """Grade pairs as they come, up to `ahead` of them at once; each grade comes as soon as those before it have.

        When the pairs end in an exception, it is raised after the grades of all pairs before it.
        """
        waiting: deque[tuple[str | None, Future[Reason]]] = deque()
        source = iter(pairs)
        failure: Exception | None = None
        while True:
            try:
                reply, gold = next(source)
            except StopIteration:
                break
            except Exception as error:
                failure = error
                break
            answer = extract_answer(reply, thinking_opened=thinking_opened)
            waiting.append((answer, self._submit(answer, gold)))
            while waiting and (waiting[0][1].done() or len(waiting) >= ahead):
                yield _finished(*waiting.popleft())
        while waiting:
            yield _finished(*waiting.popleft())
        if failure is not None:
            raise failure

    def compare(self, pairs: Iterable[tuple[str | None, str]]) -> list[Grade]:
        """Grade (extracted answer, reference) pairs; `None` stands for no answer."""
        return [_finished(answer, reason) for answer, reason in self._submit_all(pairs)]

    async def grade_async(self, pairs: Iterable[tuple[str, str]], *, thinking_opened: bool = False) -> list[Grade]:
        """Do what `grade` does without blocking the event loop."""
        return await self.compare_async(
            (extract_answer(reply, thinking_opened=thinking_opened), gold) for reply, gold in pairs
        )

    async def compare_async(self, pairs: Iterable[tuple[str | None, str]]) -> list[Grade]:
        """Do what `compare` does without blocking the event loop."""
        submitted = await asyncio.to_thread(self._submit_all, pairs)
        # Shielded: identical pairs share one comparison, so one caller's cancellation must not reach another's grade.
        waiting = [asyncio.shield(asyncio.wrap_future(reason)) for _, reason in submitted if not reason.done()]
        await asyncio.gather(*waiting)
        return [_finished(answer, reason) for answer, reason in submitted]

    def worker_pids(self) -> list[int]:
        """Return the process ids of the workers alive now, for monitoring and for tests that kill them."""
        with self._changed:
            return [worker.pid for worker in self._workers.values() if isinstance(worker, Worker)]

    def close(self, *, abandon: bool = False) -> None:
        """Stop the workers: when all that was submitted is graded, or, with `abandon`, after what they are doing."""
        with self._changed:
            self._closed = True
            if abandon:
                for comparison in (*self._quick, *self._slow):
                    comparison.reason.set_exception(GradingError("the grader was closed before this was graded"))
                self._quick.clear()
                self._slow.clear()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        while self._workers:  # those of calling threads
            self._workers.popitem()[1].close()
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Nobody waits any longer for what an exception, Ctrl-C above all, has left behind.
        self.close(abandon=kind is not None)

    def _submit_all(self, pairs: Iterable[tuple[str | None, str]]) -> list[tuple[str | None, Future[Reason]]]:
        return [(answer, self._submit(answer, gold)) for answer, gold in pairs]

    def _submit(self, answer: str | None, gold: str) -> Future[Reason]:
        if answer is None:
            return _known("no answer")
        if max(len(answer), len(gold)) > MAX_ANSWER_LENGTH:
            return _known("equal" if answer == gold else "unparsable")
        key = (gold, answer)
        with self._changed:
            if self._closed:
                raise GradingError("this grader is closed; make another one")
            if os.getpid() != self._process:
                raise GradingError("a grader does not survive fork(); make one in the new process")
            cached = self._cache.get(key)
            if cached and not (cached.done() and cached.exception()):
                return cached
            self._cache.pop(key, None)
        gold_answer, given_answer = read_answer(gold), read_answer(answer)
        decided = compare_plainly(gold_answer, given_answer)
        if decided is not None:
            return self._cached(key, _known("equal" if decided else "not equal"))
        comparison = _Comparison(*algebra_pair(gold_answer, given_answer))
        if max(nesting(comparison.given), nesting(comparison.gold)) > MAX_NESTING:
            return self._cached(key, _known("unparsable"))
        reason = self._cached(key, comparison.reason)
        if reason is comparison.reason:
            self._enqueue(comparison)
        return reason

    def _cached(self, key: tuple[str, str], reason: Future[Reason]) -> Future[Reason]:
        with self._changed:
            known = self._cache.setdefault(key, reason)
            if len(self._cache) > CACHE_SIZE:
                self._cache.popitem(last=False)
            return known

    def _enqueue(self, comparison: _Comparison) -> None:
        with self._changed:
            self._quick.append(comparison)
            wanted = min(self._slots + (self._slow_running == self._slots), self._most_threads)
            if self._idle < len(self._quick) and len(self._threads) < wanted:
                self._start_thread()
            self._changed.notify()
            if self._threads or comparison not in self._quick:
                return
            self._quick.remove(comparison)
        while not self._try(comparison):
            pass

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._serve, name=f"mada-grader-{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except RuntimeError as refusal:  # the system refuses another thread
            self._limit_workers(len(self._threads), refusal)
        else:
            self._threads.append(thread)

    def _limit_workers(self, threads: int, refusal: Exception) -> None:
        """Go on with the threads there are, and say so once."""
        if self._most_threads > self._slots:
            went_on = f"with {threads} of {self._slots} workers" if threads else "without worker processes, slowly"
            _log.warning("grading goes on %s: the system refuses more (%s)", went_on, refusal)
        self._slots = max(1, min(self._slots, threads))
        self._most_threads = min(self._slots, threads)

    def _next_comparison(self) -> _Comparison | None:
        """Return the next comparison, the quick lane first; `None` when the grader is closed and empty."""
        with self._changed:
            while True:
                if self._quick:
                    return self._quick.popleft()
                if self._slow and self._slow_running < self._slots:
                    self._slow_running += 1
                    return self._slow.popleft()
                if self._closed and not self._slow:
                    return None
                self._idle += 1
                self._changed.wait()
                self._idle -= 1

    def _serve(self) -> None:
        while comparison := self._next_comparison():
            slow = comparison.put_aside
            settled = self._try(comparison)
            with self._changed:
                if not settled:
                    (self._slow if comparison.put_aside else self._quick).append(comparison)
                self._slow_running -= slow
                self._changed.notify_all()
                if threading.current_thread() not in self._threads:  # there is no worker for this thread
                    return
        if worker := self._workers.pop(threading.get_ident(), None):
            worker.close()

    def _try(self, comparison: _Comparison) -> bool:
        """Ask this thread's worker once; return whether the comparison has its reason or an error."""
        try:
            reason = self._ask_worker(comparison)
        except Exception as error:  # whatever it is, the caller that waits for this grade gets it
            comparison.reason.set_exception(error)
            return True
        if reason is not None:
            comparison.reason.set_result(reason)
        return reason is not None

    def _ask_worker(self, comparison: _Comparison) -> Reason | None:
        """Return the reason, or `None` when the comparison is to be tried again."""
        worker = self._own_worker()
        if worker is None:
            return None
        limit = self.time_limit if comparison.put_aside else min(FIRST_SLICE, self.time_limit)
        try:
            return worker.ask(comparison.gold, comparison.given, limit=limit)  # type: ignore[return-value]
        except WorkerDiedError as death:
            with self._changed:
                self._workers.pop(threading.get_ident()).close()
            return _after_death(comparison, death, final=limit == self.time_limit)

    def _own_worker(self) -> Worker | InProcess | None:
        """Return this thread's worker; `None` when there can be none, and other threads have theirs."""
        worker = self._workers.get(threading.get_ident())
        if worker is not None:
            return worker
        try:
            worker = self._pool.start_worker()
        except NoMoreWorkersError as refusal:
            with self._changed:
                thread = threading.current_thread()
                self._limit_workers(len(self._workers), refusal)
                if self._workers and thread in self._threads:
                    self._threads.remove(thread)
                    return None
            worker = InProcess()
        with self._changed:
            self._workers[threading.get_ident()] = worker
        return worker


def _after_death(comparison: _Comparison, death: WorkerDiedError, *, final: bool) -> Reason | None:
    """Return what a worker's death says of the pair it worked on, or `None` when the pair is to be tried again."""
    comparison.deaths += 1
    comparison.crashes += death.crashed
    if comparison.crashes >= MAX_CRASHES:
        return "unparsable"
    if (death.timed_out and final) or comparison.deaths >= MAX_DEATHS:
        return "timed out"
    comparison.put_aside = comparison.put_aside or death.timed_out
    return None


def _known(reason: Reason) -> Future[Reason]:
    future: Future[Reason] = Future()
    future.set_result(reason)
    return future


def _finished(answer: str | None, reason: Future[Reason]) -> Grade:
    known = reason.result()
    return Grade(correct=known == "equal", reason=known, answer=answer)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
