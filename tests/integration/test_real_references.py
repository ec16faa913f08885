"""The grader on the references of the five benchmarks, and on how models would write them."""

import json
import re
from decimal import Decimal

import pytest

from mada.grading import Grader

FILES = ("math500", "aime24", "aime25", "amc23", "minerva_math")


@pytest.fixture(scope="module")
def references(data_folder):
    return {
        name: [json.loads(line)["answer"] for line in (data_folder / f"{name}.jsonl").read_text("utf-8").splitlines()]
        for name in FILES
    }


def graded(pairs):
    with Grader(time_limit=20.0) as grader:
        return grader.grade((f"The final answer is: $\\boxed{{{text}}}$. I hope", gold) for text, gold in pairs)


def test_every_reference_equals_itself(references):
    pairs = [(answer, answer) for answers in references.values() for answer in answers]
    assert sum(grade.correct for grade in graded(pairs)) == 872 == len(pairs)


def test_every_number_differs_from_the_next_one(references):
    integers = [answer for answers in references.values() for answer in answers if re.fullmatch(r"-?\d+", answer)]
    assert len(integers) > 450
    assert not any(grade.correct for grade in graded((str(int(answer) + 1), answer) for answer in integers))


def test_minervas_e_notation_is_matched_as_models_write_it(references):
    written = [answer for answer in references["minerva_math"] if re.fullmatch(r"[-+.\d]+e[-+]?\d+", answer)]
    assert len(written) == 58
    pairs = []
    for answer in written:
        mantissa, exponent = answer.split("e")
        power = f"{mantissa} \\times 10^{{{int(exponent)}}}"
        pairs += [(power, answer), (f"{power} \\mathrm{{~cm}}", answer), (f"{power}\\ \\text{{erg/s}}", answer)]
        pairs += [(f"{mantissa} \\cdot 10^{{{int(exponent)}}}", answer), (f"{Decimal(answer):f}", answer)]
    assert [pair for pair, grade in zip(pairs, graded(pairs), strict=True) if not grade.correct] == []
    tenfold = [(f"{Decimal(answer) * 10:f}", answer) for answer in written]
    assert not any(grade.correct for grade in graded(tenfold))


def test_units_left_out_of_minervas_numbers_may_be_written(references):
    numbers = [answer for answer in references["minerva_math"] if re.fullmatch(r"-?\d*\.?\d+", answer)]
    assert len(numbers) > 100
    for unit in (
        r" \mathrm{~cm}",
        r"\text{ km/s}",
        r"\ \mathrm{m/s^2}",
        r"^\circ",
        r" \text{ years}",
        r"\,\text{J}",
        r" \AA",
    ):
        grades = graded((answer + unit, answer) for answer in numbers)
        assert [answer for answer, grade in zip(numbers, grades, strict=True) if not grade.correct] == [], unit


def test_minervas_formulas_survive_another_typesetting(references):
    formulas = [answer for answer in references["minerva_math"] if "\\frac" in answer]
    assert len(formulas) >= 35
    pairs = [(reset(answer), answer) for answer in formulas]
    assert [pair for pair, grade in zip(pairs, graded(pairs), strict=True) if not grade.correct] == []


def reset(answer):
    """The same formula in another hand: display fractions, growing brackets."""
    answer = answer.replace(r"\frac", r"\dfrac").replace(r"\left", "").replace(r"\right", "")
    return answer.replace("(", r"\left(").replace(")", r"\right)")
