"""The meter: stretches of time and what was sampled in each, none twice and none lost."""

import pytest

from mada.evaluation.costs import EngineUsage, Usage, UsageMeter
from mada.run import Records


class Clock:
    """Time and engines that a test moves on."""

    def __init__(self):
        self.now = 1000.0
        self.reading = EngineUsage("cpu", 0, busy=7.0, completions=3, generated_tokens=40, prompt_tokens=500)

    def work(self, seconds, *, busy, completions, generated, prompt):
        self.now += seconds
        last = self.reading
        self.reading = EngineUsage(
            last.device,
            last.accelerators,
            last.busy + busy,
            last.completions + completions,
            last.generated_tokens + generated,
            last.prompt_tokens + prompt,
        )


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr("mada.evaluation.costs.time.monotonic", lambda: made.now)
    return made


@pytest.fixture
def records(tmp_path, clock):
    with Records(tmp_path / "effort.jsonl", Usage) as opened:
        yield opened


def test_the_last_stretch_is_recorded_however_short(clock, records):
    meter = UsageMeter(records, lambda: clock.reading)
    clock.work(0.25, busy=0.125, completions=1, generated=5, prompt=20)
    meter.record(now=True)
    assert list(records) == [Usage(0.25, 0.125, "cpu", 0, 1, 5, 20)]
    clock.work(0.5, busy=0.5, completions=0, generated=1, prompt=0)
    meter.record(now=True)
    assert list(records)[1] == Usage(0.5, 0.5, "cpu", 0, 0, 1, 0)


def test_seconds_add_up_to_the_whole_session(clock, records):
    meter = UsageMeter(records, lambda: clock.reading)
    for seconds in (1, 0.75, 0.5, 20, 1, 10, 0.5):
        clock.work(seconds, busy=seconds / 2, completions=1, generated=8, prompt=10)
        meter.record()
    meter.record(now=True)
    kept = list(records)
    assert [one.seconds for one in kept] == [2.25, 20, 11, 0.5]
    assert sum(one.busy for one in kept) == 16.875
    assert sum(one.generated_tokens for one in kept) == 7 * 8
    assert (sum(one.completions for one in kept), sum(one.prompt_tokens for one in kept)) == (7, 70)


def test_the_device_is_the_one_that_computes(clock, records):
    meter = UsageMeter(records, lambda: clock.reading)
    clock.reading = EngineUsage("NVIDIA H200", 1, busy=8.0, completions=3, generated_tokens=40, prompt_tokens=500)
    clock.now += 10
    meter.record()
    assert list(records) == [Usage(10.0, 1.0, "NVIDIA H200", 1, 0, 0, 0)]
