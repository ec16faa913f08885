"""Samples on the disk: what comes back, what tells them apart, what outlives a session."""

import hashlib
import json
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from mada.evaluation.sample_cache import Sample, SampleCounts, SampleStore, open_samples, sample_key
from mada.models.engines import Completion, Sampling
from mada.runs import Records, Run, StoredRecords

SAMPLING = Sampling(max_tokens=8, temperature=0.5, top_p=0.75, top_k=20, stop_tokens=(2,), seed=3)
KEY, OTHER, THIRD = ("0" * 63 + digit for digit in "123")
FIRST = Completion((5, 151_936, 2), (-0.5, -1.25, -0.001953125), "end")
SECOND = Completion((4_294_967_295,), (-17.5,), "length")


@pytest.fixture
def opened(tmp_path):
    """Open a file of samples for appending, as a session does; the one before is closed."""
    files = []

    def open_file(name="samples"):
        for file in files:
            file.close()
        files.append(Records(tmp_path / f"{name}.jsonl", Sample))
        return files[-1]

    yield open_file
    for file in files:
        file.close()


TOKENS = st.integers(0, 2**32 - 1)
LOG_PROBS = st.floats(max_value=0, width=32, allow_nan=False, allow_infinity=False)


@given(pairs=st.lists(st.tuples(TOKENS, LOG_PROBS), max_size=20), stop=st.sampled_from(["end", "length"]))
def test_a_packed_completion_is_the_same_number_for_number(pairs, stop):
    completion = Completion(tuple(token for token, _ in pairs), tuple(one for _, one in pairs), stop)
    assert Sample.of("key", completion).completion == completion


def test_what_is_stored_is_found_now_and_after_reopening(opened):
    own = SampleStore(opened())
    assert own.get(KEY) is None
    stored = {KEY: FIRST, OTHER: Completion((), (), "end"), THIRD: Completion((5, 2), (), "end")}
    for key, completion in stored.items():
        own.put(key, completion)
    for reader in (own, SampleStore(opened())):
        assert {key: reader.get(key) for key in stored} == stored


def test_keys_differ_with_everything_that_decides_a_completion():
    changes = [
        {"seed": 4},
        {"temperature": 0.6},
        {"max_tokens": 9},
        {"top_p": 0.8},
        {"top_k": None},
        {"stop_tokens": (2, 3)},
    ]
    keys = [
        sample_key("a", (1, 2), SAMPLING, 0),
        sample_key("a", (1, 2), SAMPLING, 1),
        sample_key("b", (1, 2), SAMPLING, 0),
        *(sample_key("a", prompt, SAMPLING, 0) for prompt in [(1, 3), (2, 1), (1, 2, 0), ()]),
        *(sample_key("a", (1, 2), replace(SAMPLING, **change), 0) for change in changes),
    ]
    assert len(set(keys)) == len(keys)


def test_keys_are_digests_of_one_form_for_ever():
    parts = ["a", {"max_tokens": 8, "seed": 3, "stop_tokens": [2], "temperature": 0.5, "top_k": 20, "top_p": 0.75}, 0]
    digest = hashlib.sha256(json.dumps(parts).encode() + struct.pack("=2I", 1, 2)).hexdigest()
    assert sample_key("a", (1, 2), SAMPLING, 0) == digest


def test_a_torn_last_line_loses_that_sample_alone(opened):
    records = opened()
    own = SampleStore(records)
    own.put(KEY, FIRST)
    own.put(OTHER, SECOND)
    records.close()
    records.path.write_bytes(records.path.read_bytes()[:-5])
    own = SampleStore(opened())
    assert (len(own), own.get(KEY), own.get(OTHER)) == (1, FIRST, None)
    own.put(OTHER, SECOND)
    assert SampleStore(opened()).get(OTHER) == SECOND


def test_samples_of_earlier_runs_are_found_and_not_copied_and_the_runs_own_count_before_them(opened):
    earlier = []
    for name, key in (("first", KEY), ("second", OTHER)):
        records = opened(name)
        SampleStore(records).put(key, FIRST)
        records.close()
        earlier.append(StoredRecords(records.path, Sample))
    before = [file.path.read_bytes() for file in earlier]
    records = opened()
    store = SampleStore(records, earlier=earlier)
    assert [store.get(key) for key in (KEY, OTHER, THIRD)] == [FIRST, FIRST, None]
    store.put(THIRD, SECOND)
    store.put(KEY, SECOND)
    assert len(store) == 3
    store = SampleStore(records, earlier=earlier)
    assert [store.get(key) for key in (KEY, OTHER, THIRD)] == [SECOND, FIRST, SECOND]
    assert len(records) == 2
    assert [file.path.read_bytes() for file in earlier] == before


def flipped(line, field):
    """Change one character of a field's value."""
    place = line.index(f'"{field}":'.encode()) + len(field) + 5
    return line[:place] + bytes([line[place] ^ 1]) + line[place + 1 :]


DAMAGES = {
    **{field: lambda line, field=field: flipped(line, field) for field in ("key", "tokens", "log_probs", "stop")},
    "length": lambda line: line.replace(b'"length":3', b'"length":2'),
    "cut": lambda line: line[:90] + b"\n",
    "no JSON": lambda line: line[:-3] + b"\xff\x00\n",
    "not even a key": lambda line: b"\x00" * 40 + b"\n",
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("is_earlier", [False, True])
def test_a_damaged_sample_is_dropped_counted_and_sampled_again(opened, damage, is_earlier):
    records = opened("earlier" if is_earlier else "samples")
    for key in (KEY, OTHER):
        SampleStore(records).put(key, FIRST)
    records.close()
    first, second = records.path.read_bytes().splitlines(keepends=True)
    changed = DAMAGES[damage](first)
    assert changed != first
    records.path.write_bytes(changed + second)
    own = opened()
    store = SampleStore(own, earlier=[StoredRecords(records.path, Sample)] if is_earlier else [])
    assert (store.get(KEY), store.get(OTHER)) == (None, FIRST)
    assert store.damaged == (0 if damage == "key" else 1), "a sample under another key is one that nobody wants"
    store.put(KEY, SECOND)
    assert store.get(KEY) == SECOND
    assert SampleStore(opened()).get(KEY) == SECOND, "the newer one counts"


class Recipe(BaseModel):
    seed: int = 1


def test_a_file_that_is_damaged_at_its_end_loses_only_what_is_damaged(tmp_path):
    with Run.open(tmp_path / "run", Recipe()) as run:
        SampleStore(open_samples(run)).put(KEY, FIRST)
    path = tmp_path / "run" / "records" / "samples.jsonl"
    path.write_bytes(path.read_bytes() + b"\xff\x00\n" * 3)
    assert SampleCounts.of(StoredRecords(path, Sample)) == SampleCounts(1, 3)
    with Run.open(tmp_path / "run", Recipe()) as run:
        samples = open_samples(run)
        assert SampleStore(samples).get(KEY) == FIRST
        assert len(samples) == 1
