"""How long a recipe takes here: a few steps of its generators' training, timed and extrapolated to every stage.

`mada run RECIPE --dry-run --measure` does this in a temporary folder. Loading, grading and reports are not counted.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from mada.events import Event, Events, StepFinished
from mada.pipeline.plan import Plan, PlannedStage, Workload
from mada.pipeline.running import run_recipe
from mada.recipe import Recipe
from mada.runs import Run

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


def measure(recipe: Recipe) -> Rates:
    """Train the generators for a few steps in a temporary folder and return what they took."""
    values = recipe.model_dump()
    prompts = recipe.training_for("generators").prompts_per_step
    values["data"] |= {"screen": 0, "subset_size": STEPS * prompts, "validation_size": 1}
    values["generators"]["steps"] = STEPS
    values["training"] |= {"validate_every": STEPS, "checkpoint_every": STEPS}
    short = Recipe.model_validate(values)
    steps: list[StepFinished] = []

    def collect(event: Event) -> None:
        if isinstance(event, StepFinished):
            steps.append(event)

    with tempfile.TemporaryDirectory(prefix="mada-measure-") as folder, Run.open(Path(folder) / "run", short) as run:
        run_recipe(run, short, events=Events(collect), last="generators")
    return rates_of(steps[1:])


def rates_of(steps: list[StepFinished]) -> Rates:
    """Return the mean reply and the rates of training steps."""
    agents = [agent for step in steps for agent in step.agents.values()]
    learned = sum(agent.tokens_learnt for agent in agents)
    return Rates(
        reply_tokens=fmean(agent.length for agent in agents),
        sampled_per_second=sum(agent.tokens for agent in agents) / sum(step.rollout_seconds for step in steps),
        learned_per_second=learned / sum(step.learn_seconds for step in steps) if learned else None,
    )
