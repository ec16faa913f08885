from pathlib import Path

import pytest

from mada.recipe import Difference, Recipe, diff_recipes, format_differences, load_recipe


def test_equal_recipes_do_not_differ():
    assert diff_recipes(Recipe(), load_recipe(None)) == []
    assert format_differences([]) == ""


def test_every_difference_is_named_in_the_schemas_order():
    overrides = [
        *("training.learning_rate=2e-6", "seed=3", "model.revision=main", "data.folder=here"),
        *("evaluation.benchmarks=['amc-23']", "training.max_gradient_norm=none"),
    ]
    right = load_recipe(None, overrides=overrides)
    differences = diff_recipes(Recipe(), right)
    assert differences == [
        Difference("seed", 0, 3),
        Difference("model.revision", None, "main"),
        Difference("data.folder", None, Path("here")),
        Difference("training.learning_rate", 1e-6, 2e-6),
        Difference("training.max_gradient_norm", 1.0, None),
        Difference(
            "evaluation.benchmarks",
            ("math-500", "aime-2024", "aime-2025", "amc-23", "minerva-math"),
            ("amc-23",),
        ),
    ]
    assert format_differences(differences) == (
        "seed                        0                                                 →  3\n"
        "model.revision              none                                              →  'main'\n"
        "data.folder                 none                                              →  'here'\n"
        "training.learning_rate      1e-06                                             →  2e-06\n"
        "training.max_gradient_norm  1.0                                               →  none\n"
        "evaluation.benchmarks       ['math-500', 'aime-2024', 'aime-2025', 'amc-23'…  →  ['amc-23']"
    )


@pytest.mark.parametrize(
    ("left", "right", "shown"),
    [
        (1, 2, "key: 1 → 2"),
        (None, "none", "key: none → 'none'"),
        ("a\nb", 'a"b', "key: 'a\\nb' → 'a\"b'"),
        ("x" * 200 + "'", "x" * 200, "key: …" + "x" * 16 + "\\'' → …" + "x" * 16 + "'"),
        (
            "a" * 100 + "b" * 100,
            "a" * 100 + "c" * 10,
            "key: …" + "a" * 16 + "b" * 30 + "… → …" + "a" * 16 + "c" * 10 + "'",
        ),
        ("b" + "a" * 60, "c" + "a" * 60, "key: 'b" + "a" * 45 + "… → 'c" + "a" * 45 + "…"),
    ],
)
def test_a_difference_shows_where_long_texts_part(left, right, shown):
    assert str(Difference("key", left, right)) == shown


def test_one_list_that_begins_like_another():
    left, right = ("name-of-a-layer-with-a-long-name",), ("name-of-a-layer-with-a-long-name", "two", "three")
    assert str(Difference("key", left, right)) == "key: …ith-a-long-name'] → …ith-a-long-name', 'two', 'three']"
