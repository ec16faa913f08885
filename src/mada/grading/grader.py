"""The grader: thousands of replies against their references, in order, in parallel, and never stuck (R1).

Plain answers are decided at once in the calling thread; the rest go to worker processes. A pair that takes longer than
a short first slice is tried again, with the full time limit, by other workers. So hostile answers hold up no honest
ones.
"""

import asyncio
import logging
import os
import queue
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
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
MAX_DEATHS = 15
CACHE_SIZE = 50_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Grade:
    """Whether a reply is right, why, and the answer that was found in it."""

    correct: bool
    reason: Reason
    answer: str | None


class Grader:
    """Grades replies. One instance serves any number of threads and event loops; close it, or use it with `with`."""

    def __init__(self, *, workers: int | None = None, time_limit: float = 2.0) -> None:
        if workers is not None and workers < 1:
            raise GradingError(f"a grader needs at least 1 worker, got {workers}")
        if not 0 < time_limit < float("inf"):
            raise GradingError(f"the grading time limit must be a positive number of seconds, got {time_limit}")
        self.time_limit = time_limit
        count = workers or _cores()
        self._quick = ThreadPoolExecutor(count, "mada-grader")
        self._slow = ThreadPoolExecutor(max(1, count // 2), "mada-grader-slow")
        self._pool = WorkerPool()
        self._workers: set[Worker] = set()
        self._idle: queue.LifoQueue[Worker | InProcess] = queue.LifoQueue()
        self._lock = threading.Lock()
        self._cache: OrderedDict[tuple[str, str], Future[Reason]] = OrderedDict()
        self._closed = self._has_warned = False
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
        with self._lock:
            return [worker.pid for worker in self._workers]

    def close(self, *, abandon: bool = False) -> None:
        """Stop the workers: when all that was submitted is graded, or, with `abandon`, after what they are doing."""
        with self._lock:
            self._closed = True
        for pool in (self._quick, self._slow):
            pool.shutdown(cancel_futures=abandon)
        while self._workers:
            self._workers.pop().close()
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
        with self._lock:
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
        pair = algebra_pair(gold_answer, given_answer)
        if max(map(nesting, pair)) > MAX_NESTING:
            return self._cached(key, _known("unparsable"))
        own: Future[Reason] = Future()
        reason = self._cached(key, own)
        if reason is own:
            self._enqueue(self._quick, pair, min(FIRST_SLICE, self.time_limit), own)
        return reason

    def _cached(self, key: tuple[str, str], reason: Future[Reason]) -> Future[Reason]:
        with self._lock:
            known = self._cache.setdefault(key, reason)
            if len(self._cache) > CACHE_SIZE:
                self._cache.popitem(last=False)
            return known

    def _enqueue(self, pool: ThreadPoolExecutor, pair: tuple[str, str], limit: float, reason: Future[Reason]) -> None:
        """Have a pair compared within a limit; one that exceeds the first slice is left to the slow workers."""

        def settle(task: Future[Reason | None]) -> None:
            try:
                if (found := task.result()) is not None:
                    reason.set_result(found)
                elif limit == self.time_limit:
                    reason.set_result("timed out")
                else:
                    self._enqueue(self._slow, pair, self.time_limit, reason)
            except CancelledError:
                reason.set_exception(GradingError("the grader was closed before this was graded"))
            except Exception as error:  # whatever it is, the caller that waits for this grade gets it
                reason.set_exception(error)

        try:
            task = pool.submit(self._ask_worker, *pair, limit=limit)
        except RuntimeError as refusal:  # the grader was closed meanwhile, or the system refuses another thread
            task = Future[Reason | None]()
            if self._closed:
                task.cancel()
            else:
                self._warn(refusal)
                try:
                    task.set_result(self._ask_worker(*pair, limit=limit))
                except Exception as error:
                    task.set_exception(error)
        task.add_done_callback(settle)

    def _ask_worker(self, gold: str, given: str, *, limit: float) -> Reason | None:
        """Return the reason, or `None` when the limit was exceeded."""
        crashes = 0
        for deaths in range(MAX_DEATHS):
            worker = self._take_worker()
            try:
                reason = worker.ask(gold, given, limit=limit)
            except WorkerDiedError as death:
                with self._lock:
                    self._workers.discard(worker)  # type: ignore[arg-type]
                worker.close()
                if death.timed_out:
                    return None
                crashes += death.crashed
                if crashes >= MAX_CRASHES:
                    return "unparsable"
                time.sleep(min(1.0, 0.01 * 2**deaths))  # what kills workers, an out-of-memory killer, takes a while
            except BaseException:
                self._idle.put(worker)
                raise
            else:
                self._idle.put(worker)
                return reason  # type: ignore[return-value]
        return "timed out"

    def _take_worker(self) -> Worker | InProcess:
        """Return a worker that is idle or new; where the system refuses another, wait for one of those there are."""
        with suppress(queue.Empty):
            return self._idle.get_nowait()
        try:
            worker = self._pool.start_worker()
        except NoMoreWorkersError as refusal:
            self._warn(refusal)
            while self._workers:
                with suppress(queue.Empty):
                    return self._idle.get(timeout=0.1)
            return InProcess()
        with self._lock:
            self._workers.add(worker)
        return worker

    def _warn(self, refusal: Exception) -> None:
        """Say once with what grading goes on."""
        if not self._has_warned:
            self._has_warned = True
            went_on = f"with {len(self._workers)} workers" if self._workers else "without worker processes, slowly"
            _log.warning("grading goes on %s: the system refuses more (%s)", went_on, refusal)


def _known(reason: Reason) -> Future[Reason]:
    future: Future[Reason] = Future()
    future.set_result(reason)
    return future


def _finished(answer: str | None, reason: Future[Reason]) -> Grade:
    known = reason.result()
    return Grade(correct=known == "equal", reason=known, answer=answer)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
