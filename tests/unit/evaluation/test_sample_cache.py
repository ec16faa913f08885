"""Samples on the disk: what comes back, what tells them apart, what outlives a session."""

import hashlib
import json
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from mada.evaluation.sample_cache import Sample, SampleCounts, SampleKey, SampleStore, open_samples
from mada.models.engines import Completion, Sampling
from mada.runs import Records, Run, StoredRecords

SAMPLING = Sampling(max_tokens=8, temperature=0.5, top_p=0.75, top_k=20, stop_tokens=(2,), seed=3)
KEY = SampleKey("a", (1, 2), SAMPLING, 1)
FINGERPRINTS = {None: "model", "a": "model with a", "b": "model with b"}
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


def cache(records, earlier=()):
    return SampleStore(records, earlier=earlier).of_model(FINGERPRINTS)


TOKENS = st.integers(0, 2**32 - 1)
LOG_PROBS = st.floats(max_value=0, width=32, allow_nan=False, allow_infinity=False)


@given(pairs=st.lists(st.tuples(TOKENS, LOG_PROBS), max_size=20), stop=st.sampled_from(["end", "length"]))
def test_a_packed_completion_is_the_same_number_for_number(pairs, stop):
    completion = Completion(tuple(token for token, _ in pairs), tuple(one for _, one in pairs), stop)
    assert Sample.of("key", completion).completion == completion


def test_log_probs_have_the_precision_that_engines_compute_with():
    [kept] = Sample.of("key", Completion((1,), (-0.1,), "end")).completion.log_probs
    assert kept == struct.unpack("f", struct.pack("f", -0.1))[0]


def test_what_is_kept_is_found_now_and_after_reopening(opened):
    own = cache(opened())
    group = replace(KEY, prompt_ids=(9,), n=2)
    assert own.get(KEY) is None
    own.put(KEY, [FIRST])
    own.put(group, [SECOND, FIRST])
    for reader in (own, cache(opened())):
        assert reader.get(KEY) == [FIRST]
        assert reader.get(group) == [SECOND, FIRST]


@pytest.mark.parametrize(
    "other",
    [
        replace(KEY, agent="b"),
        replace(KEY, agent=None),
        replace(KEY, prompt_ids=(1, 3)),
        replace(KEY, prompt_ids=(2, 1)),
        replace(KEY, prompt_ids=(1, 2, 0)),
        replace(KEY, prompt_ids=()),
        *(
            replace(KEY, sampling=replace(SAMPLING, **change))
            for change in (
                {"seed": 4},
                {"temperature": 0.6},
                {"max_tokens": 9},
                {"top_p": 0.8},
                {"top_k": None},
                {"stop_tokens": (2, 3)},
            )
        ),
    ],
)
def test_keys_that_differ_anywhere_have_samples_of_their_own(other, opened):
    own = cache(opened())
    own.put(KEY, [FIRST])
    assert own.get(other) is None
    own.put(other, [SECOND])
    assert (own.get(KEY), own.get(other)) == ([FIRST], [SECOND])


def test_samples_of_older_versions_are_found(opened):
    """A key is a digest of speaker, sampling, place and prompt, in one form for ever."""
    records = opened()
    cache(records).put(KEY, [FIRST])
    parts = [
        "model with a",
        {"max_tokens": 8, "seed": 3, "stop_tokens": [2], "temperature": 0.5, "top_k": 20, "top_p": 0.75},
        0,
    ]
    key = hashlib.sha256(json.dumps(parts).encode() + struct.pack("=2I", 1, 2)).hexdigest()
    assert [sample.key for sample in records] == [key]


def test_a_group_is_found_when_all_of_it_is_there_and_holds_smaller_groups(opened):
    own = cache(opened())
    three = replace(KEY, n=3)
    own.put(KEY, [FIRST])
    assert own.get(three) is None
    own.put(three, [FIRST, SECOND, FIRST])
    assert own.get(three) == [FIRST, SECOND, FIRST]
    assert own.get(replace(KEY, n=2)) == [FIRST, SECOND]
    assert own.get(KEY) == [FIRST]


def test_a_speaker_is_its_fingerprint_and_not_its_name(opened):
    store = SampleStore(opened())
    store.of_model({"a": "one"}).put(KEY, [FIRST])
    assert store.of_model({"a": "other"}).get(KEY) is None
    assert store.of_model({"b": "one"}).get(replace(KEY, agent="b")) == [FIRST]


def test_an_empty_completion_is_a_completion(opened):
    own = cache(opened())
    own.put(KEY, [Completion((), (), "end")])
    assert own.get(KEY) == [Completion((), (), "end")]


def test_a_torn_last_line_loses_that_sample_alone(opened):
    records = opened()
    own = cache(records)
    other = replace(KEY, agent="b")
    own.put(KEY, [FIRST])
    own.put(other, [SECOND])
    records.close()
    records.path.write_bytes(records.path.read_bytes()[:-5])
    read = SampleStore(opened())
    assert len(read) == 1
    own = read.of_model(FINGERPRINTS)
    assert (own.get(KEY), own.get(other)) == ([FIRST], None)
    own.put(other, [SECOND])
    assert (own.get(KEY), own.get(other)) == ([FIRST], [SECOND])
    assert cache(opened()).get(other) == [SECOND]


def test_samples_of_earlier_runs_are_found_and_not_copied(opened):
    others = [replace(KEY, agent="b"), replace(KEY, agent=None)]
    earlier = []
    for name, key in zip(("first", "second"), others, strict=True):
        records = opened(name)
        cache(records).put(key, [FIRST])
        records.close()
        earlier.append(StoredRecords(records.path, Sample))
    before = [file.path.read_bytes() for file in earlier]
    records = opened()
    store = SampleStore(records, earlier=earlier)
    own = store.of_model(FINGERPRINTS)
    assert len(store) == 2
    assert [own.get(key) for key in (*others, KEY)] == [[FIRST], [FIRST], None]
    own.put(KEY, [SECOND])
    assert len(store) == 3
    assert [own.get(key) for key in (*others, KEY)] == [[FIRST], [FIRST], [SECOND]]
    assert len(records) == 1
    assert [file.path.read_bytes() for file in earlier] == before


def test_of_two_samples_for_one_key_the_runs_own_counts(opened):
    cache(opened("first")).put(KEY, [FIRST])
    cache(opened()).put(KEY, [SECOND])
    earlier = StoredRecords(opened("first").path, Sample)
    store = SampleStore(opened(), earlier=[earlier])
    assert len(store) == 1
    assert store.of_model(FINGERPRINTS).get(KEY) == [SECOND]


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
    other = replace(KEY, agent="b")
    for key in (KEY, other):
        cache(records).put(key, [FIRST])
    records.close()
    first, second = records.path.read_bytes().splitlines(keepends=True)
    changed = DAMAGES[damage](first)
    assert changed != first
    records.path.write_bytes(changed + second)
    own = opened()
    store = SampleStore(own, earlier=[StoredRecords(records.path, Sample)] if is_earlier else [])
    found = store.of_model(FINGERPRINTS)
    assert (found.get(KEY), found.get(other)) == (None, [FIRST])
    assert store.damaged == (0 if damage == "key" else 1), "a sample under another key is one that nobody wants"
    found.put(KEY, [SECOND])
    assert found.get(KEY) == [SECOND]
    assert cache(opened()).get(KEY) == [SECOND], "the newer one counts"


class Recipe(BaseModel):
    seed: int = 1


def test_a_file_that_is_damaged_at_its_end_loses_only_what_is_damaged(tmp_path):
    with Run.open(tmp_path / "run", Recipe()) as run:
        cache(open_samples(run)).put(KEY, [FIRST])
    path = tmp_path / "run" / "records" / "samples.jsonl"
    path.write_bytes(path.read_bytes() + b"\xff\x00\n" * 3)
    assert SampleCounts.of(StoredRecords(path, Sample)) == SampleCounts(1, 3)
    with Run.open(tmp_path / "run", Recipe()) as run:
        samples = open_samples(run)
        assert cache(samples).get(KEY) == [FIRST]
        assert len(samples) == 1
