import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mada.seeds import rng, seed_for

part = st.text(max_size=6) | st.integers()
path = st.lists(part, max_size=4).map(tuple)


@pytest.mark.parametrize(
    ("arguments", "seed"),
    [
        ((0,), 844_364_212_162_823_610),
        ((17, "split"), 2_005_095_428_661_382_624),
        ((17, "debate", 3, "aime24-7"), 5_351_669_855_293_247_560),
        ((-1, "é\u2028\ud800"), 3_064_817_539_287_015_029),
    ],
)
def test_a_seed_is_the_same_on_every_machine_and_for_ever(arguments: tuple[int | str, ...], seed: int) -> None:
    assert seed_for(*arguments) == seed  # type: ignore[arg-type]


def test_a_generator_is_the_same_on_every_machine_and_for_ever() -> None:
    raw = rng(17, "split").bit_generator.random_raw(3)
    assert [int(bits) for bits in raw] == [10366737081814229201, 4061661729852493897, 11280520794439378716]
    assert isinstance(rng(17, "split").bit_generator, np.random.PCG64)


def test_a_generator_is_fresh_and_seeded_with_the_seed_of_its_path() -> None:
    expected = np.random.Generator(np.random.PCG64(seed_for(5, "a", 1))).random(4).tolist()
    assert rng(5, "a", 1).random(4).tolist() == expected
    assert rng(5, "a", 1).random(4).tolist() == expected


def test_the_process_salt_of_hash_has_no_influence() -> None:
    code = "from mada.seeds import seed_for; print(seed_for(17, 'debate', 3, 'aime24-7'))"
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    printed = subprocess.check_output([sys.executable, "-c", code], text=True, env=environment)
    assert int(printed) == seed_for(17, "debate", 3, "aime24-7")


def test_paths_that_look_alike_have_their_own_seeds() -> None:
    paths = [
        (),
        ("",),
        ("", ""),
        ("a", "b"),
        ("ab",),
        ("a/b",),
        (1,),
        ("1",),
        (1, 2),
        (12,),
        (-1,),
        ("b", "a"),
    ]
    assert len({seed_for(0, *one) for one in paths}) == len(paths)
    assert seed_for(0, 1) != seed_for(1, 0)
    assert seed_for(0, "a") != seed_for(1, "a")


@given(path, path)
def test_seeds_are_equal_exactly_when_paths_are(one: tuple[str | int, ...], other: tuple[str | int, ...]) -> None:
    alike = [(type(part), part) for part in one] == [(type(part), part) for part in other]
    assert (seed_for(3, *one) == seed_for(3, *other)) == alike


@given(st.integers(), path)
def test_seeds_fit_a_signed_64_bit_number(root: int, one: tuple[str | int, ...]) -> None:
    assert 0 <= seed_for(root, *one) < 2**63


def test_a_numpy_number_is_the_number_it_holds() -> None:
    assert seed_for(np.int64(4), np.uint8(9), np.str_("x")) == seed_for(4, 9, "x")


@pytest.mark.parametrize("odd", [True, 1.5, None, ("a",)])
def test_a_part_that_is_neither_text_nor_a_whole_number_is_refused(odd: object) -> None:
    with pytest.raises(TypeError):
        seed_for(0, odd)  # type: ignore[arg-type]
