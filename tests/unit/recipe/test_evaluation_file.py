"""Evaluation files: one with everything in it, and one mistake at a time."""

import json
import re
from pathlib import Path

import pytest

from mada.errors import RecipeError
from mada.problems.known import BENCHMARKS
from mada.recipe.evaluation_file import EvaluationRecipe, SystemSection, is_evaluation_file, load_evaluation
from mada.runs.manifest import allowed_changes

REPOSITORY = Path(__file__).resolve().parents[3]
EVERYTHING = """
name = "rivals"
seed = 5
reference = "team"
benchmarks = ["aime-2024", "mine.jsonl"]
seeds = 3
problems = 20
folder = "data"
price_per_hour = 2.5

[inference]
temperature = 0.5
top_p = 0.75
top_k = 20
max_new_tokens = 4096

[prompts]
judge_request = "Choose."

[engine]
rows = 8

[grading]
workers = 2

[agents.base]
model = "some/model"
revision = "v2"
dtype = "float32"
window = 8192

[agents.trained]
model = "some/model"
adapter = "adapters/first"

[agents.tuned]
model = "other/model"
parameters = 1_500_000_000

[[systems]]
kind = "single"
agents = ["tuned"]

[[systems]]
kind = "single"
name = "mean"
title = "Mean of two"
agents = ["base", "tuned"]

[[systems]]
kind = "vote"
agents = ["base"]
samples = 6

[[systems]]
kind = "vote"
name = "matched"
agents = ["base", "tuned"]
matched_to = "team"

[[systems]]
kind = "weighted-vote"
agents = ["base", "base", "tuned"]

[[systems]]
kind = "judge"
agents = ["base"]
samples = 3
judge = "tuned"

[[systems]]
kind = "best-of-n"
agents = ["base"]
samples = 3
critics = ["trained"]

[[systems]]
kind = "debate"
name = "team"
agents = ["trained", "trained"]
critics = ["trained", "base"]
rounds = 3

[[systems]]
kind = "debate"
agents = ["trained"]
rounds = 1
"""
AGENT = '[agents.base]\nmodel = "m"\n[agents.other]\nmodel = "m"\n'
SINGLE = '[[systems]]\nkind = "single"\nagents = ["base"]\n'
SMALLEST = AGENT + SINGLE


def written(folder, text):
    path = folder / "rivals.toml"
    path.write_text(text)
    return path


def system(kind, rest="", agents='["base"]'):
    return f'[[systems]]\nkind = "{kind}"\nagents = {agents}\n{rest}\n'


def test_a_file_with_all_kinds(tmp_path):
    recipe = load_evaluation(written(tmp_path, EVERYTHING))
    assert (recipe.name, recipe.seed, recipe.reference) == ("rivals", 5, "team")
    assert (recipe.benchmarks, recipe.seeds, recipe.problems) == (("aime-2024", "mine.jsonl"), 3, 20)
    assert (recipe.folder, recipe.price_per_hour) == (Path("data"), 2.5)
    assert recipe.inference.model_dump() == {"temperature": 0.5, "top_p": 0.75, "top_k": 20, "max_new_tokens": 4096}
    assert (recipe.prompts.judge_request, recipe.engine.rows, recipe.grading.workers) == ("Choose.", 8, 2)
    assert recipe.agents["base"].model_dump() == {
        "model": "some/model",
        "revision": "v2",
        "dtype": "float32",
        "window": 8192,
        "adapter": None,
        "parameters": None,
    }
    assert recipe.agents["trained"].adapter == "adapters/first"
    assert recipe.agents["tuned"].parameters == 1_500_000_000
    assert recipe.names == (
        *("single", "mean", "vote", "matched", "weighted-vote", "judge", "best-of-n", "team", "debate"),
    )
    assert recipe.systems[3] == SystemSection(kind="vote", name="matched", agents=("base", "tuned"), matched_to="team")
    assert recipe.systems[5] == SystemSection(kind="judge", agents=("base",), samples=3, judge="tuned")
    assert recipe.systems[7] == SystemSection(
        kind="debate", name="team", agents=("trained",) * 2, critics=("trained", "base"), rounds=3
    )


def test_what_is_not_said_is_as_in_the_paper(tmp_path):
    recipe = load_evaluation(written(tmp_path, SMALLEST))
    assert (recipe.name, recipe.seed, recipe.reference) == ("evaluation", 0, None)
    assert (recipe.benchmarks, recipe.seeds, recipe.problems) == (BENCHMARKS, 10, None)
    assert recipe.inference.model_dump() == {"temperature": 1.0, "top_p": 1.0, "top_k": None, "max_new_tokens": None}
    assert recipe.systems[0].rounds == 2
    assert recipe.agents["base"].dtype == "auto"


@pytest.mark.parametrize("text", [EVERYTHING, SMALLEST])
def test_a_stored_recipe_reads_back_and_may_lack_what_mada_gained_since(tmp_path, text):
    recipe = load_evaluation(written(tmp_path, text))
    stored = recipe.model_dump(mode="json")
    assert EvaluationRecipe.model_validate_json(json.dumps(stored)) == recipe
    del stored["engine"]["kind"], stored["engine"]["url"]
    assert allowed_changes(tmp_path, stored, recipe) == {}
    fewer = recipe.model_copy(update={"engine": recipe.engine.model_copy(update={"rows": 3})})
    assert allowed_changes(tmp_path, stored, fewer) == {"engine.rows": 3}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # unknown names
        (
            AGENT + system("vote", agents='["base", "bsae"]'),
            "'bsae'; did you mean 'base'? choose from base, other",
        ),
        (SMALLEST + system("vote", 'matched_to = "team"'), "matched_to: unknown system 'team'"),
        ('reference = "team"\n' + SMALLEST, "reference: unknown system 'team'"),
        # repeated names
        (SMALLEST + SINGLE, "two systems are called 'single'"),
        # fields that contradict the kind
        (AGENT + system("judge"), "systems[0]: a judge needs judge"),
        (AGENT + system("debate"), "systems[0]: a debate needs critics"),
        (AGENT + system("vote", 'judge = "base"'), "systems[0]: a vote has no judge"),
        (AGENT + system("vote", "rounds = 3"), "systems[0]: a vote has no rounds"),
        (SMALLEST + system("vote", 'samples = 3\nmatched_to = "single"'), "systems[1]: matched_to"),
        (SMALLEST + system("best-of-n", 'critics = ["base"]\nmatched_to = "single"'), "systems[1]: matched_to"),
        (SMALLEST + system("vote", 'match = "cost"'), "systems[1]: match"),
        (AGENT + system("debate", 'critics = ["base"]\nsamples = 3'), "systems[0]: a debate has one answer per agent"),
        # keys and values
        ("benchmark = 3\n" + SMALLEST, "benchmark: unknown key; did you mean 'benchmarks'?"),
        (AGENT + system("vote", "sample = 3"), "systems[0].sample: unknown key; did you mean 'samples'?"),
        ('[agents.base]\nmodel = "m"\nlora = 3\n' + SINGLE, "agents.base.lora: unknown key"),
        ("[agents.base]\n" + SINGLE, "agents.base.model: is missing"),
        (AGENT + system("jury"), "systems[0].kind: got \"jury\", wanted 'single', 'vote'"),
        (AGENT + system("vote", agents="[]"), "systems[0].agents: got []"),
        (AGENT, "systems: is missing"),
        ("[agents]\n" + SINGLE, "agents: got {}"),
        (SMALLEST + "seeds = = 3\n", "not valid TOML"),
    ],
)
def test_a_mistake_is_named_with_its_file_and_key(text, words, tmp_path):
    path = written(tmp_path, text)
    with pytest.raises(RecipeError, match=f"^{re.escape(f'{path}: ')}.*{re.escape(words)}"):
        load_evaluation(path)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (SMALLEST, True),
        # With mistakes it still is one, so that these are named as an evaluation's.
        ("systems = 3", True),
        ("seeds = 3\n" + system("jury"), True),
        ("", False),
        ('[evaluation]\nsystems = ["debate"]', False),
        ("systems = [", False),
        (b"systems = '\xff'", False),
    ],
)
def test_what_an_evaluation_file_looks_like(text, is_one, tmp_path):
    path = tmp_path / "rivals.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert is_evaluation_file(path) == is_one
    assert not is_evaluation_file(tmp_path)
    assert not is_evaluation_file(tmp_path / "missing.toml")
