"""The algebra that runs inside workers, called directly."""

import pytest

from mada.grading.symbolic import symbolic_equivalence


@pytest.mark.parametrize(
    ("gold", "given", "equivalence"),
    [
        ("x^{2}-1", "(x-1)(x+1)", "equal"),
        ("x^{2}-1", "(x-1)(x+2)", "not equal"),
        ("x^{2}-1", ")(", "unparsable"),
        (")(", "x", "unparsable"),
        ("5", r"x = 2 + 3 = 5", "equal"),
        (r"x \in [1,2]", "[1,2]", "equal"),
        ("(2,5)", "2<x<5", "equal"),
        (r"\frac{m}{M}", "1", "not equal"),
        ("3R", "3r", "equal"),
        ("E_{1}+1", "1+E_{1}", "equal"),
        (r"M_{\odot}+1", r"1+M_{\odot}", "equal"),
        (r"\frac{dx}{dt}=2x", r"\frac{dx}{dt}=3x", "not equal"),
        (r"\frac{dx}{dt}=2x", r"\frac{dx}{dt}=x+x", "equal"),
        ("50%", "0.5", "equal"),
        (r"\sin(30°)", r"\sin(30°)", "equal"),
        (r"9^{9^{9^{9}}}", "x+1", "timed out"),
    ],
)
def test_symbolic_equivalence(gold, given, equivalence):
    assert symbolic_equivalence(gold, given) == equivalence


def test_an_answer_is_never_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    attack = "__import__('pathlib').Path('owned').touch()"
    for answer in (attack, f"eval({attack!r})", rf"\text{{{attack}}}", f"2+{attack}", f"lambda: {attack}"):
        assert symbolic_equivalence("x+1", answer) in {"not equal", "unparsable"}
        symbolic_equivalence(answer, "x+1")
    assert list(tmp_path.iterdir()) == []
