"""What an evaluation compares: the part of its systems that outlives their models, kept in `evaluation.json`."""

from collections import Counter
from collections.abc import Sequence
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from mada.errors import EvaluationError
from mada.evaluation.systems import Measure, System

PLAN_FILE = "evaluation.json"


class PlannedSystem(BaseModel):
    """A system's name in the records, its title for people, how it is measured, and its model calls per question."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = Field(min_length=1)
    title: str = Field(min_length=1)
    measure: Measure = "mean"
    calls: int = Field(ge=1)


class EvaluationPlan(BaseModel):
    """The systems in the order of the table, and the one that all others are compared with.

    `benchmarks` gives the order of the benchmarks; without it they stand in alphabetical order.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    systems: tuple[PlannedSystem, ...] = Field(min_length=1)
    reference: str
    benchmarks: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _names_are_known_and_different(self) -> Self:
        names = Counter(system.name for system in self.systems)
        repeated = [name for name, count in names.items() if count > 1]
        if repeated:
            raise ValueError(f"the name {repeated[0]!r} is given to several systems")
        if self.reference not in names:
            raise ValueError(f"the reference {self.reference!r} is none of the systems {', '.join(names)}")
        return self

    @classmethod
    def of(cls, systems: Sequence[System], *, reference: str, benchmarks: Sequence[str] = ()) -> Self:
        """Return the plan for these systems."""
        planned = tuple(
            PlannedSystem(name=system.name, title=system.title, measure=system.measure, calls=system.calls)
            for system in systems
        )
        try:
            return cls(systems=planned, reference=reference, benchmarks=tuple(benchmarks))
        except ValidationError as error:
            raise EvaluationError(f"these systems make no evaluation: {_first_complaint(error)}") from error

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise EvaluationError(
                f"not the plan of an evaluation: {_first_complaint(error)}; "
                f"run the evaluation again to write {PLAN_FILE} anew"
            ) from error

    def to_json(self) -> str:
        """Return the plan as a file's text."""
        return self.model_dump_json(indent=2) + "\n"


def _first_complaint(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"].removeprefix("Value error, ")
