"""The reviewed corpus: every line of corpus.txt, through the grader a user would use."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from mada.grading import Grader, extract_answer


class Case(NamedTuple):
    group: str
    reason: str
    reference: str
    reply: str


def read_corpus() -> list[Case]:
    cases: list[Case] = []
    group = ""
    for line in (Path(__file__).parent / "corpus.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            group = line.removeprefix("# ")
        elif line:
            reason, reference, reply = line.split(" ¦ ")
            cases.append(
                Case(
                    group,
                    reason,
                    reference,
                    reply if "\\boxed" in reply or reply == "It is 7" else f"\\boxed{{{reply}}}",
                )
            )
    return cases


CORPUS = read_corpus()


@pytest.fixture(scope="module")
def grades():
    with Grader(time_limit=20.0) as grader:
        graded = grader.grade((case.reply, case.reference) for case in CORPUS)
    return dict(zip(CORPUS, graded, strict=True))


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: f"{case.group}: {case.reference} ← {case.reply}"[:90])
def test_corpus_case(case, grades):
    assert grades[case].reason == case.reason
    assert grades[case].correct == (case.reason == "equal")


def test_corpus_is_large_and_names_every_reason_but_the_time_limit():
    assert len(CORPUS) >= 300
    assert set(Counter(case.reason for case in CORPUS)) == {"equal", "not equal", "no answer", "unparsable"}


# A lone letter behind a reference's number is a variable; behind a reply's it may be a unit.
ONE_WAY = {r"\frac{37}{4}"}


def test_equality_works_both_ways():
    pairs = [(extract_answer(case.reply), case.reference) for case in CORPUS]
    there = [(answer, reference) for answer, reference in pairs if answer is not None and answer not in ONE_WAY]
    back = [(reference, answer) for answer, reference in there]
    with Grader(time_limit=20.0) as grader:
        one_way, other_way = grader.compare(there), grader.compare(back)
    differing = [
        pair for pair, one, other in zip(there, one_way, other_way, strict=True) if one.correct != other.correct
    ]
    assert differing == []
