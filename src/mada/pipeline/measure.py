"""How long a recipe takes here: a few steps of its generators' training, timed and extrapolated to every stage.

`mada run RECIPE --dry-run --measure` does this in a temporary folder. Loading, grading and reports are not counted.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from mada.errors import RunError
from mada.pipeline.observing import RunObserver
from mada.pipeline.plan import Plan, PlannedStage, Workload
from mada.pipeline.running import run_recipe
from mada.recipe import Recipe
from mada.run import Run, StoredRecords
from mada.run.records import METRICS, AgentStep

STEPS = 3
"""The first one compiles and fills caches, and is not counted."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What the measured steps tell: the mean reply, and tokens of replies per second, all agents together."""

    reply_tokens: float
    sampled_per_second: float
    learned_per_second: float | None
    """None where no step had anything to learn from."""

    def seconds(self, work: Workload) -> float:
        """Extrapolate to a workload; replies of others in a prompt count as learned once for the group."""
        reply = min(self.reply_tokens, work.max_tokens)
        seconds = work.completions * reply / self.sampled_per_second
        if work.learns and self.learned_per_second:
            shown = work.responses * min(self.reply_tokens, work.response_tokens) / work.group_size
            seconds += work.completions * (reply + shown) / self.learned_per_second
        return seconds

    def stage_seconds(self, stage: PlannedStage) -> float | None:
        """Return how long a stage samples and learns; None where its workload is unknown or it has none."""
        return None if stage.workloads is None else sum(map(self.seconds, stage.workloads))

    def total_seconds(self, plan: Plan) -> float:
        """Return how long all stages of known size take together."""
        return sum(self.stage_seconds(stage) or 0.0 for stage in plan.stages)


def measure(recipe: Recipe, *, watch: RunObserver) -> Rates:
    """Train the generators for a few steps in a temporary folder and return what they took."""
    values = recipe.model_dump()
    prompts = recipe.training_for("generators").prompts_per_step
    values["data"] |= {"screen": 0, "subset_size": STEPS * prompts, "validation_size": 1}
    values["generators"]["steps"] = STEPS
    values["training"] |= {"validate_every": STEPS, "checkpoint_every": STEPS}
    short = Recipe.model_validate(values)
    with tempfile.TemporaryDirectory(prefix="mada-measure-") as folder, Run.open(Path(folder) / "run", short) as run:
        run_recipe(run, short, watch=watch, last="generators")
        return rates_of(list(StoredRecords(run.path("generators", METRICS), AgentStep)))


def rates_of(records: list[AgentStep]) -> Rates:
    """Return the rates of all steps but the first; agents share each step's seconds."""
    steps = [[one for one in records if one.step == step] for step in range(2, STEPS + 1)]
    sampled = [sum(one.rollout_tokens_per_second or 0.0 for one in agents) for agents in steps]
    learned = [sum(one.learn_tokens_per_second or 0.0 for one in agents) for agents in steps]
    if not all(sampled):
        raise RunError("the measured steps sampled no tokens; run with --dry-run alone")
    learned = [one for one in learned if one]
    return Rates(
        reply_tokens=fmean(one.length for agents in steps for one in agents),
        sampled_per_second=fmean(sampled),
        learned_per_second=fmean(learned) if learned else None,
    )
