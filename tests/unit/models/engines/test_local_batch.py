"""Slots of finished rows: skipped or refilled, and compacted only where that makes a step cheaper; the queue."""

import asyncio
import dataclasses
import random

import pytest
import torch

from mada.models.adapters import AdapterStack, Lora
from mada.models.engines import Sampling
from mada.models.engines.local import LocalEngine
from mada.models.engines.local import setup as engine_setup
from mada.models.engines.local.batch import Batch
from mada.models.engines.local.requests import Request, RequestQueue

AGENTS = ("one", "two")
SIZES = (4, 8, 16)


class PaddedBatch(Batch):
    """A batch that steps fixed numbers of slots, as CUDA graphs do, and records them."""

    move_tokens = 64

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.moves = []
        self.stepped = []

    def padded_size(self, count):
        return min(next(size for size in SIZES if size >= count), self.cache.slots)

    def step(self, count, *, longest, filtered):
        self.stepped.append(count)
        self.forward(self.padded_size(count), longest=longest, filtered=filtered)
        return self.copy_to_host(self.tokens_S[:count], self.log_probs_S[:count])

    def move(self, sources, targets, *, lengths):
        self.moves.append((list(sources), list(targets)))
        super().move(sources, targets, lengths=lengths)


@pytest.fixture
def make_engine(tiny_model, fill, monkeypatch):
    """Make an engine with a plain batch, or with a padded one as on a GPU."""

    def make(kind=Batch, *, steps_ahead=0, admit_at_least=1, context=64, rows=16):
        monkeypatch.setattr(engine_setup, "Batch", kind)
        model = tiny_model()
        stack = AdapterStack.attach(model, AGENTS, Lora(rank=4, alpha=8))
        fill(stack)
        engine = LocalEngine(model, stack, context=context, rows=rows)
        engine._limits = dataclasses.replace(engine._limits, steps_ahead=steps_ahead, admit_at_least=admit_at_least)
        return engine

    return make


def requests(count):
    source = random.Random(3)
    for number in range(count):
        sampling = Sampling(
            max_tokens=source.randint(1, 40),
            temperature=source.choice([0.0, 1.0]),
            top_k=source.choice([None, None, 5]),
            stop_tokens=(3,),
            seed=number,
        )
        prompt = [source.randrange(61) for _ in range(source.randint(1, 20))]
        yield source.choice([*AGENTS, None]), prompt, sampling, source.randint(1, 4)


def sample_all(engine, asked):
    async def gather():
        return await asyncio.gather(*(engine.sample(agent, prompt, how, n=n) for agent, prompt, how, n in asked))

    return asyncio.run(gather())


def tokens(groups):
    return [[completion.token_ids for completion in group] for group in groups]


@pytest.mark.parametrize("steps_ahead", [0, 1, 6])
@pytest.mark.parametrize("admit_at_least", [1, 3])
def test_idle_slots_between_rows_change_no_tokens(make_engine, steps_ahead, admit_at_least):
    asked = list(requests(40))
    plain = sample_all(make_engine(), asked)
    engine = make_engine(PaddedBatch, steps_ahead=steps_ahead, admit_at_least=admit_at_least)
    padded = sample_all(engine, asked)
    assert tokens(padded) == tokens(plain)
    for group, same in zip(padded, plain, strict=True):
        for one, other in zip(group, same, strict=True):
            assert one.log_probs == pytest.approx(other.log_probs, abs=2e-5)
    # The test means something only if rows lay apart: more slots than rows were gone over.
    assert sum(engine._batch.stepped) > engine.statistics.rows_stepped
    # Idle slots do not count; rows that ended at their first token, or a steps_ahead before the host knew, do.
    rows = sum(n for *_, n in asked)
    drawn = engine.statistics.generated_tokens - rows
    at_once = sum(len(one.token_ids) == 1 for group in padded for one in group)
    assert drawn <= engine.statistics.rows_stepped <= drawn + at_once + steps_ahead * rows


def test_nothing_moves_while_requests_wait_for_the_slots(make_engine):
    # Three slots of ten are collected before prompts are read, and with two free a step of 8 would do.
    engine = make_engine(PaddedBatch, steps_ahead=1, admit_at_least=3, rows=10)
    moved_while_waiting = []
    move = engine._batch.move
    engine._batch.move = lambda *args, **kwargs: (
        moved_while_waiting.append(len(engine._queue)),
        move(*args, **kwargs),
    )
    sample_all(engine, list(requests(40)))
    assert moved_while_waiting
    assert not any(moved_while_waiting)


def test_rows_move_only_when_the_step_falls_to_a_smaller_size(make_engine):
    engine = make_engine(PaddedBatch)
    source = random.Random(0)
    lengths = list(range(5, 21))
    source.shuffle(lengths)
    sample_all(engine, [("one", [4], Sampling(max_tokens=length, seed=length), 1) for length in lengths])
    # 16 rows end one after another: once eight are left they go into the first 8 slots, once four into the first 4.
    assert len(engine._batch.moves) == 2
    for (sources, targets), size in zip(engine._batch.moves, (8, 4), strict=True):
        assert min(sources) >= size > max(targets)
    assert {engine._batch.padded_size(count) for count in engine._batch.stepped} == set(SIZES)


def test_without_padding_only_rows_in_progress_are_stepped(make_engine, monkeypatch):
    engine = make_engine()
    stepped = []
    step = engine._batch.step
    monkeypatch.setattr(engine._batch, "step", lambda count, **how: (stepped.append(count), step(count, **how))[1])
    sample_all(engine, list(requests(40)))
    assert sum(stepped) == engine.statistics.rows_stepped


def test_idle_slots_stay_inside_the_context_however_long_they_are_stepped(make_engine):
    asked = [("one", [4, 5], Sampling(max_tokens=20, seed=seed), 3 if seed == 0 else 1) for seed in range(8)]
    plain, padded = make_engine(context=24), make_engine(PaddedBatch, context=24, rows=4)
    # One after another, so slots that the first request used idle for seven times as long as a row can be.
    for one in asked:
        assert tokens(sample_all(padded, [one])) == tokens(sample_all(plain, [one]))
    assert padded.statistics.steps > 6 * 18
    assert padded._batch.lengths_S.max() < 24


def test_slots_of_finished_rows_are_reset(make_engine):
    engine = make_engine(PaddedBatch)
    asked = [("one", [4] * 30, Sampling(max_tokens=2, seed=0), 1), ("one", [4], Sampling(max_tokens=8, seed=1), 1)]
    sample_all(engine, asked)
    assert engine._batch.lengths_S[0] < 10


def random_batch(make_engine, kind):
    batch = make_engine(kind)._batch
    source = torch.Generator().manual_seed(0)
    for tensor in (batch.cache.keys_LSHCD, batch.cache.values_LSHCD):
        tensor.copy_(torch.randn(tensor.shape, generator=source))
    for tensor in batch._tensors():
        tensor.copy_(torch.randint(0, 60, tensor.shape, generator=source))
    return batch


@pytest.mark.parametrize("kind", [Batch, PaddedBatch])
def test_rows_that_move_take_everything_along(make_engine, kind):
    batch = random_batch(make_engine, kind)
    caches = (batch.cache.keys_LSHCD, batch.cache.values_LSHCD)
    before, state = [tensor.clone() for tensor in caches], [tensor.clone() for tensor in batch._tensors()]
    moves = {15: (0, 30), 9: (3, 10), 12: (1, 7), 14: (5, 64), 10: (2, 11)}
    targets, lengths = zip(*moves.values(), strict=True)
    batch.move(list(moves), targets, lengths=lengths)
    stay = [slot for slot in range(16) if slot not in targets]
    for tensor, was in zip(caches, before, strict=True):
        assert torch.equal(tensor[:, stay], was[:, stay])
        for source, (target, length) in moves.items():
            assert torch.equal(tensor[:, target, :, :length], was[:, source, :, :length])
    for tensor, was in zip(batch._tensors(), state, strict=True):
        assert torch.equal(tensor[stay], was[stay])
        assert torch.equal(tensor[list(targets)], was[list(moves)])


def test_rows_of_like_length_move_together_within_a_bound(make_engine, monkeypatch):
    batch = random_batch(make_engine, PaddedBatch)
    copied = []
    monkeypatch.setattr(
        batch.cache, "move_together", lambda sources, targets, *, length: copied.append((sources.tolist(), length))
    )
    monkeypatch.setattr(batch.cache, "move", lambda source, target, *, length: copied.append(([source], length)))
    batch.move([8, 9, 10, 11, 12], [0, 1, 2, 3, 4], lengths=[50, 20, 10, 21, 12])
    assert copied == [([10, 12, 9], 20), ([11], 21), ([8], 50)]


def make_request(loop, count=1):
    return Request(0, (4,), Sampling(max_tokens=5), count, 5, loop.create_future())


def test_a_queue_counts_completions_without_a_row():
    async def scenario():
        queue = RequestQueue()
        made = [make_request(asyncio.get_running_loop(), count) for count in (3, 1, 2)]
        for request in made:
            queue.append(request)
        assert queue.completions == 6
        assert [(row.index, row.slot) for row in queue.start_rows([5, 7])] == [(0, 5), (1, 7)]
        assert (queue.first, queue.completions) == (made[0], 4)
        assert [(row.index, row.slot) for row in queue.start_rows([1, 2, 3])] == [(2, 1)]
        assert (queue.first, queue.completions) == (made[1], 3)
        made[2].result.cancel()
        queue.drop_cancelled()
        assert (list(queue), queue.completions) == ([made[1]], 1)
        queue.clear()
        assert (len(queue), queue.completions) == (0, 0)

    asyncio.run(scenario())


def test_a_cancelled_request_in_the_middle_of_the_queue_is_dropped(make_engine):
    engine = make_engine(rows=1)

    async def scenario():
        tasks = [
            asyncio.create_task(engine.sample("one", [4], Sampling(max_tokens=30, seed=seed), n=2)) for seed in range(5)
        ]
        await asyncio.sleep(0.01)
        assert len(engine._queue) >= 4
        before = len(engine._queue), engine._queue.completions
        tasks[3].cancel()
        for _ in range(3):
            await asyncio.sleep(0)
        assert (len(engine._queue), engine._queue.completions) == (before[0] - 1, before[1] - 2)
        return await asyncio.gather(*tasks, return_exceptions=True)

    results = asyncio.run(scenario())
    assert [isinstance(result, asyncio.CancelledError) for result in results] == [False] * 3 + [True, False]
    assert engine.statistics.generated_tokens == 4 * 2 * 30


def test_the_queue_is_searched_only_after_a_cancellation(make_engine, monkeypatch):
    engine = make_engine(rows=2)
    searches = []
    drop = engine._queue.drop_cancelled
    monkeypatch.setattr(engine._queue, "drop_cancelled", lambda: (searches.append(engine.statistics.steps), drop()))
    sample_all(engine, list(requests(20)))
    assert searches == [0]
    assert engine.statistics.steps > 50
    assert engine._queue.completions == 0


def test_a_failure_empties_the_queue(make_engine, monkeypatch):
    engine = make_engine(rows=1)
    ask = ("one", [4], Sampling(max_tokens=5), 2)
    with monkeypatch.context() as broken:
        broken.setattr(engine._batch, "step", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            sample_all(engine, [ask, ask])
    assert (len(engine._queue), engine._queue.completions) == (0, 0)
    assert len(sample_all(engine, [ask])[0]) == 2
