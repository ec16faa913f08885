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
from mada.run import Records, Run, StoredRecords

SAMPLING = Sampling(max_tokens=8, temperature=0.5, top_p=0.75, top_k=20, stop_tokens=(2,), seed=3)
WISH = SampleKey("a", (1, 2), SAMPLING, 1)
SPEAKERS = {None: "model", "a": "model with a", "b": "model with b"}
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


def memory(records, earlier=()):
    return SampleStore(records, earlier=earlier).of_model(SPEAKERS)


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
    own = memory(opened())
    group = replace(WISH, prompt_ids=(9,), n=2)
    assert own.find(WISH) is None
    own.keep(WISH, [FIRST])
    own.keep(group, [SECOND, FIRST])
    for reader in (own, memory(opened())):
        assert reader.find(WISH) == [FIRST]
        assert reader.find(group) == [SECOND, FIRST]


@pytest.mark.parametrize(
    "other",
    [
        replace(WISH, agent="b"),
        replace(WISH, agent=None),
        replace(WISH, prompt_ids=(1, 3)),
        replace(WISH, prompt_ids=(2, 1)),
        replace(WISH, prompt_ids=(1, 2, 0)),
        replace(WISH, prompt_ids=()),
        *(
            replace(WISH, sampling=replace(SAMPLING, **change))
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
def test_wishes_that_differ_anywhere_have_samples_of_their_own(other, opened):
    own = memory(opened())
    own.keep(WISH, [FIRST])
    assert own.find(other) is None
    own.keep(other, [SECOND])
    assert (own.find(WISH), own.find(other)) == ([FIRST], [SECOND])


def test_samples_of_older_versions_are_found(opened):
    """A key is a digest of speaker, sampling, place and prompt, in one form for ever."""
    records = opened()
    memory(records).keep(WISH, [FIRST])
    parts = [
        "model with a",
        {"max_tokens": 8, "seed": 3, "stop_tokens": [2], "temperature": 0.5, "top_k": 20, "top_p": 0.75},
        0,
    ]
    key = hashlib.sha256(json.dumps(parts).encode() + struct.pack("=2I", 1, 2)).hexdigest()
    assert [sample.key for sample in records] == [key]


def test_a_group_is_found_when_all_of_it_is_there_and_holds_smaller_groups(opened):
    own = memory(opened())
    three = replace(WISH, n=3)
    own.keep(WISH, [FIRST])
    assert own.find(three) is None
    own.keep(three, [FIRST, SECOND, FIRST])
    assert own.find(three) == [FIRST, SECOND, FIRST]
    assert own.find(replace(WISH, n=2)) == [FIRST, SECOND]
    assert own.find(WISH) == [FIRST]


def test_a_speaker_is_its_fingerprint_and_not_its_name(opened):
    store = SampleStore(opened())
    store.of_model({"a": "one"}).keep(WISH, [FIRST])
    assert store.of_model({"a": "other"}).find(WISH) is None
    assert store.of_model({"b": "one"}).find(replace(WISH, agent="b")) == [FIRST]


def test_an_empty_completion_is_a_completion(opened):
    own = memory(opened())
    own.keep(WISH, [Completion((), (), "end")])
    assert own.find(WISH) == [Completion((), (), "end")]


def test_a_torn_last_line_loses_that_sample_alone(opened):
    records = opened()
    own = memory(records)
    other = replace(WISH, agent="b")
    own.keep(WISH, [FIRST])
    own.keep(other, [SECOND])
    records.close()
    records.path.write_bytes(records.path.read_bytes()[:-5])
    read = SampleStore(opened())
    assert len(read) == 1
    own = read.of_model(SPEAKERS)
    assert (own.find(WISH), own.find(other)) == ([FIRST], None)
    own.keep(other, [SECOND])
    assert (own.find(WISH), own.find(other)) == ([FIRST], [SECOND])
    assert memory(opened()).find(other) == [SECOND]


def test_samples_of_earlier_runs_are_found_and_not_copied(opened):
    others = [replace(WISH, agent="b"), replace(WISH, agent=None)]
    earlier = []
    for name, wish in zip(("first", "second"), others, strict=True):
        records = opened(name)
        memory(records).keep(wish, [FIRST])
        records.close()
        earlier.append(StoredRecords(records.path, Sample))
    before = [file.path.read_bytes() for file in earlier]
    records = opened()
    store = SampleStore(records, earlier=earlier)
    own = store.of_model(SPEAKERS)
    assert len(store) == 2
    assert [own.find(wish) for wish in (*others, WISH)] == [[FIRST], [FIRST], None]
    own.keep(WISH, [SECOND])
    assert len(store) == 3
    assert [own.find(wish) for wish in (*others, WISH)] == [[FIRST], [FIRST], [SECOND]]
    assert len(records) == 1
    assert [file.path.read_bytes() for file in earlier] == before


def test_of_two_samples_for_one_wish_the_runs_own_counts(opened):
    memory(opened("first")).keep(WISH, [FIRST])
    memory(opened()).keep(WISH, [SECOND])
    earlier = StoredRecords(opened("first").path, Sample)
    store = SampleStore(opened(), earlier=[earlier])
    assert len(store) == 1
    assert store.of_model(SPEAKERS).find(WISH) == [SECOND]


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
    other = replace(WISH, agent="b")
    for wish in (WISH, other):
        memory(records).keep(wish, [FIRST])
    records.close()
    first, second = records.path.read_bytes().splitlines(keepends=True)
    changed = DAMAGES[damage](first)
    assert changed != first
    records.path.write_bytes(changed + second)
    own = opened()
    store = SampleStore(own, earlier=[StoredRecords(records.path, Sample)] if is_earlier else [])
    found = store.of_model(SPEAKERS)
    assert (found.find(WISH), found.find(other)) == (None, [FIRST])
    assert store.damaged == (0 if damage == "key" else 1), "a sample under another key is one that nobody wants"
    found.keep(WISH, [SECOND])
    assert found.find(WISH) == [SECOND]
    assert memory(opened()).find(WISH) == [SECOND], "the newer one counts"


class Recipe(BaseModel):
    seed: int = 1


def test_a_file_that_is_damaged_at_its_end_loses_only_what_is_damaged(tmp_path):
    with Run.open(tmp_path / "run", Recipe()) as run:
        memory(open_samples(run)).keep(WISH, [FIRST])
    path = tmp_path / "run" / "records" / "samples.jsonl"
    path.write_bytes(path.read_bytes() + b"\xff\x00\n" * 3)
    assert SampleCounts.of(StoredRecords(path, Sample)) == SampleCounts(1, 3)
    with Run.open(tmp_path / "run", Recipe()) as run:
        samples = open_samples(run)
        assert memory(samples).find(WISH) == [FIRST]
        assert len(samples) == 1
