import pytest

from mada.problems.answers import ANSWER_FORMS


@pytest.mark.parametrize(
    ("form", "text", "answer"),
    [
        ("text", " 72 ", "72"),
        ("text", "  ", None),
        ("after-hashes", "48/2 = 24\n#### 72", "72"),
        ("after-hashes", "#### 1,200 ", "1200"),
        ("after-hashes", "one #### 1\n#### 2", "2"),
        ("after-hashes", "72", None),
        ("after-hashes", "72 ####", None),
        ("last-boxed", r"so $\boxed{3}$", "3"),
        ("last-boxed", r"\boxed{1} then \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        ("last-boxed", r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        ("last-boxed", r"\fbox{9}", "9"),
        ("last-boxed", r"is $\boxed 7$.", "7"),
        ("last-boxed", r"\boxed{5} and \boxed{6", "5"),
        ("last-boxed", r"\boxed{5} and \boxed{}", "5"),
        ("last-boxed", r"5 is not boxed: \boxed", None),
        ("last-boxed", "5", None),
    ],
)
def test_the_final_answer_is_found_where_the_form_says(form: str, text: str, answer: str | None) -> None:
    assert ANSWER_FORMS[form](text) == answer
