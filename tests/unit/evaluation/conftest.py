import pytest

from mada.grading import Grader


@pytest.fixture(scope="session")
def grader():
    with Grader(workers=1) as grader:
        yield grader
