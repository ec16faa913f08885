import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mada.errors import DataError
from mada.problems import Part, Problem, Split, split_problems
from mada.problems.contamination import text_key
from mada.problems.split import seeded_order

Make = Callable[..., Problem]


def numbered(count: int) -> list[Problem]:
    return [Problem(f"What is {n} + 1?", str(n + 1), f"n/{n}", "test") for n in range(count)]


def cut(problems: list[Problem], **changes: int) -> Split:
    sizes = {"subsets": 2, "subset_size": 3, "validation_size": 2, "seed": 0, **changes}
    return split_problems(problems, **sizes)


def test_the_same_seed_gives_this_split_on_every_machine() -> None:
    split = cut(numbered(10))

    assert split.parts == (
        Part("subset-1", ("n/0", "n/2", "n/5")),
        Part("subset-2", ("n/1", "n/3", "n/6")),
        Part("validation", ("n/4", "n/8")),
    )
    assert split.digest == "b2efbc219f8ecb8f00fe72ee4130ab83"
    assert (split.rows, split.duplicates, split.conflicts, split.unused) == (10, 0, 0, 2)
    assert split.ids("validation") == ("n/4", "n/8")


def test_validation_and_earlier_subsets_do_not_change_when_subsets_are_added() -> None:
    problems = numbered(40)
    small, large = cut(problems), cut(problems, subsets=5)

    assert large.parts[:2] == small.parts[:2]
    assert large.ids("validation") == small.ids("validation") == cut(problems, subset_size=7).ids("validation")


def test_of_equal_problems_the_smallest_id_is_kept_and_other_answers_are_counted(problem: Make) -> None:
    problems = [
        problem("Find $x$.", "1", "c"),
        problem("find x", "2", "b"),
        problem("Find y", r"\frac{1}{2}", "e"),
        problem("Find $y$", r"$\dfrac12$", "d"),
    ]
    split = cut(problems, subsets=1, subset_size=2, validation_size=0)

    assert set(split.ids("subset-1")) == {"b", "d"}
    assert (split.duplicates, split.conflicts, split.unused) == (2, 1, 0)


texts = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["{}", "${}$", " {}.", "{}"])), min_size=1)


@given(texts, st.integers(), st.randoms(use_true_random=False))
def test_parts_are_disjoint_whatever_the_rows_and_do_not_depend_on_their_order(
    rows: list[tuple[str, str]], seed: int, random: object
) -> None:
    problems = [Problem(form.format(text), "1", f"id{n}", "s") for n, (text, form) in enumerate(rows)]
    different = len({text_key(problem.question) for problem in problems})
    sizes = {"subsets": 1, "subset_size": 1, "validation_size": different - 1, "seed": seed}
    if different > 2:
        sizes |= {"subsets": 2, "subset_size": (different - 1) // 2, "validation_size": 1}
    split = split_problems(problems, **sizes)

    question_of = {problem.id: text_key(problem.question) for problem in problems}
    used = [name for part in split.parts for name in part.ids]
    assert len({question_of[name] for name in used}) == len(used)
    assert len(used) + split.unused + split.duplicates == split.rows == len(problems)
    shuffled = list(problems)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert split_problems(shuffled, **sizes) == split
    assert seeded_order(shuffled, seed) == seeded_order(problems, seed)


def test_too_few_problems_are_refused_with_the_numbers() -> None:
    with pytest.raises(DataError) as raised:
        cut([*numbered(7), Problem("what is 0 + 1", "1", "copy", "s")])
    assert str(raised.value) == (
        "2 × 3 + 2 = 8 problems are wanted, but of 8 only 7 differ in text; ask for smaller or fewer subsets"
    )


def test_repeated_ids_are_refused() -> None:
    with pytest.raises(DataError, match="the id 'n/0' occurs twice; a split needs ids that are unique"):
        cut(numbered(10) + numbered(1))


def test_a_split_survives_its_file_and_a_changed_file_is_noticed() -> None:
    split = cut(numbered(10))

    assert Split.from_json(split.to_json()) == split
    record = json.loads(split.to_json())
    assert record["digest"] == split.digest
    record["parts"][0]["ids"][0] = "n/9"
    with pytest.raises(DataError, match=f"but the file says {split.digest}; it was changed"):
        Split.from_json(json.dumps(record))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"parts": []}', '{"parts": [], "digest": ""}', '{"parts": [3]}'])
def test_a_text_that_is_no_split(text: str) -> None:
    with pytest.raises(DataError, match="not a split"):
        Split.from_json(text)
