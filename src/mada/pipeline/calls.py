"""What the stages of a recipe ask models for: how many completions, how long, after which prompts, how many at once."""

from dataclasses import dataclass

from mada.evaluation.plan import PlannedSystem
from mada.learning.prompts import steps_to_take
from mada.pipeline.evaluate import systems_of
from mada.pipeline.split import load_training_problems
from mada.problems.known import KNOWN_SETS, known_name
from mada.recipe import Recipe
from mada.recipe.training import TrainingSettings


@dataclass(frozen=True, slots=True)
class Calls:
    """Completions of one kind."""

    completions: int
    most: int
    """Tokens after which one is cut off."""
    at_once: int
    """How many are wanted at the same time."""
    share_prompt: int = 1
    """How many continue the same prompt."""
    responses: int = 0
    """Responses of others in the prompt, beside the question."""
    most_response: int = 0
    """Tokens after which one of those was cut off."""
    whole_responses: bool = True
    """Whether a prompt holds the whole of them, or what follows their thinking."""
    learnt: bool = False
    alone: bool = False
    """Whether no learner works beside the engine, so that more rows fit."""
    whole_window: bool = False
    """Whether the engine's rows have room for the whole window, because others with longer prompts use it too."""

    def row(self, *, question: int, window: int) -> int:
        """Return the tokens that a row must have room for: the longest prompt and the longest reply."""
        return window if self.whole_window else min(window, question + self.responses * self.most_response + self.most)

    def reply(self, share: float) -> float:
        """Return the length of a reply that fills this share of its limit."""
        return share * self.most

    def prompt(self, share: float, *, question: int, window: int) -> float:
        """Return the length of a prompt whose responses fill this share of their limit; the window cuts it.

        How much of a response follows its thinking is not known: nothing, or at most all of it.
        """
        shown = share if self.whole_responses or share == 1 else 0.0
        return max(1, min(question + self.responses * shown * self.most_response, window - self.most))


def subset_size(recipe: Recipe) -> int:
    """Return the problems in an agent's subset; with "all", at most so many."""
    data = recipe.data
    if data.subset_size != "all":
        return data.subset_size
    name = known_name(data.train)
    rows = KNOWN_SETS[name].rows if name else len(load_training_problems(recipe, skipped=[]))
    return max(1, (rows - data.validation_size) // recipe.team.generators)


def training_settings(recipe: Recipe, *, critics: bool) -> TrainingSettings:
    """Return how a role learns."""
    return recipe.training_for("critics" if critics else "generators")


def training_calls(recipe: Recipe, *, critics: bool) -> tuple[str, tuple[Calls, ...]]:
    """Return the rollouts of a role's training and its looks at the validation set, and their sizes in words."""
    agents = recipe.team.critics if critics else recipe.team.generators
    settings = training_settings(recipe, critics=critics)
    problems = subset_size(recipe)
    if critics:
        problems = recipe.team.generators * problems // agents
    # Only the number of prompts matters for the number of steps.
    steps = steps_to_take(settings, {"any": [None] * problems})  # pyright: ignore[reportArgumentType]
    looks = 1 + steps // settings.validate_every + bool(steps % settings.validate_every)
    size = f"{agents} agents × {steps:,} steps × {settings.batch_size} completions, {looks} looks at the validation set"
    seen, most = (recipe.team.generators if critics else 0), recipe.inference.max_new_tokens
    whole = recipe.prompts.share == "full"
    rollouts = Calls(
        completions=agents * steps * settings.batch_size,
        most=settings.max_new_tokens,
        at_once=agents * settings.batch_size,
        share_prompt=settings.group_size,
        responses=seen,
        most_response=most,
        whole_responses=whole,
        learnt=True,
    )
    validation = Calls(
        completions=agents * looks * recipe.data.validation_size,
        most=settings.max_new_tokens,
        at_once=agents * recipe.data.validation_size,
        responses=seen,
        most_response=most,
        whole_responses=whole,
    )
    return size, (rollouts, validation)


def screen_calls(recipe: Recipe) -> tuple[str, tuple[Calls, ...]]:
    """Return the bare base's answers that show which problems can be learnt from."""
    problems, times = recipe.team.generators * subset_size(recipe), recipe.data.screen
    most = training_settings(recipe, critics=False).max_new_tokens
    completions = problems * times
    size = f"{problems:,} problems × {times} answers of the bare model"
    return size, (Calls(completions, most, at_once=completions, share_prompt=times, alone=True),)


def critic_data_calls(recipe: Recipe) -> tuple[str, tuple[Calls, ...]]:
    """Return the generators' answers that critics are to learn from."""
    problems = recipe.team.generators * subset_size(recipe) + recipe.data.validation_size
    completions = problems * recipe.team.generators
    size = f"{problems:,} problems × {recipe.team.generators} generators"
    return size, (Calls(completions, recipe.inference.max_new_tokens, at_once=completions, alone=True),)


def evaluation_calls(recipe: Recipe) -> tuple[str, tuple[Calls, ...] | None]:
    """Return the answers and the turns of debates that the systems need; None where a benchmark's size is unknown."""
    evaluation, most = recipe.evaluation, recipe.inference.max_new_tokens
    answers, later = _completions_a_question(recipe)
    known = [known_name(name) for name in evaluation.benchmarks]
    size = f"{len(known)} benchmarks × {evaluation.seeds} seeds × {answers + later} completions a question"
    if None in known and evaluation.problems is None:
        return size, None
    rows = [KNOWN_SETS[name].rows if name else evaluation.problems or 0 for name in known]
    questions = sum(min(count, evaluation.problems or count) for count in rows) * evaluation.seeds
    bare = Calls(questions * answers, most, at_once=questions * answers, alone=True, whole_window=True)
    turns = Calls(
        completions=questions * later,
        most=most,
        at_once=questions * later,
        responses=recipe.team.generators,
        most_response=most,
        whole_responses=recipe.prompts.share == "full",
        alone=True,
        whole_window=True,
    )
    return size, (bare, turns) if later else (bare,)


def _completions_a_question(recipe: Recipe) -> tuple[int, int]:
    """Count the answers and the later turns that the systems need between them.

    A matched system is taken to have as many calls as what it is matched to. How many it really has depends on how long
    replies turn out to be.
    """
    chosen = [system for system in systems_of(recipe) if system.name in recipe.evaluation.systems]
    calls = {system.name: len(system.generators) + _later(system) for system in chosen}
    answers: set[tuple[str, int]] = set()
    debates: dict[tuple[object, ...], int] = {}
    for system in chosen:
        sized = system.with_generators(calls[system.matched_to] - _later(system)) if system.matched_to else system
        draws = sized.draws or tuple(range(len(sized.generators)))
        answers |= set(zip(sized.generators, draws, strict=True))
        debates[sized.generators, draws, sized.critics] = _later(sized)
    return len(answers), sum(debates.values())


def _later(system: PlannedSystem) -> int:
    return (system.rounds - 1) * len(system.critics)
