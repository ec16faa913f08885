"""Tasks of inspect-ai: problems of a file in the folder where it runs, scored by what is in the box."""

from pathlib import Path

from inspect_ai import Task, task  # type: ignore[import-not-found]
from inspect_ai.dataset import FieldSpec, json_dataset  # type: ignore[import-not-found]
from inspect_ai.scorer import pattern  # type: ignore[import-not-found]
from inspect_ai.solver import generate  # type: ignore[import-not-found]


def _boxed(name: str) -> Task:
    fields = FieldSpec(input="problem", target="answer", id="id")
    return Task(json_dataset(str(Path.cwd() / name), fields), solver=generate(), scorer=pattern(r"\\boxed\{(.*)\}"))


@task
def abacus() -> Task:
    """Built-in problems."""
    return _boxed("abacus.jsonl")


@task
def gsm8k_slice() -> Task:
    """The first problems of GSM8K."""
    return _boxed("gsm8k_slice.jsonl")
