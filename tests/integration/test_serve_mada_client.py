"""mada as a client of `mada serve`: evaluations, teams and another server sample there what they sample here."""

from dataclasses import asdict

import httpx2
import pytest

from factories import save_trained_run
from mada import Team, evaluate
from mada.evaluation.sample_cache import SAMPLES, Sample
from mada.evaluation.scores import SCORES, Score
from mada_server import serving

QUESTION = "Calculate 64 + 57 - 38."
AGENTS = ("generator-1", "generator-2", "critic-1")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return save_trained_run(tmp_path_factory.mktemp("runs") / "trained", scale=0.03)


@pytest.fixture(scope="module")
def server(trained):
    with serving(trained.parent / "log", trained) as server:
        yield server


@pytest.fixture(scope="module")
def url(server):
    return f"{server.url}/v1"


def results_of(trained, folder, *, temperature, **engine):
    """What every system answered, and every sample's tokens and log-probabilities."""
    adapters = {agent: {"model": "mada-nano", "adapter": str(trained / "adapters" / agent)} for agent in AGENTS}
    evaluation = {
        "benchmarks": ["abacus-easy"],
        "problems": 3,
        "seeds": 2,
        "prompt_price": 0.5,
        "inference": {"temperature": temperature, "max_new_tokens": 96},
        "engine": engine,
        "grading": {"workers": 1},
        "agents": {"base": {"model": "mada-nano"}, **adapters},
        "systems": [
            {"kind": "debate", "name": "team", "agents": list(AGENTS[:2]), "critics": [AGENTS[2]]},
            {"kind": "single", "agents": ["base"]},
            {"kind": "weighted-vote", "agents": ["base"], "samples": 4},
        ],
    }
    run = evaluate(evaluation, folder)
    scores = sorted((asdict(score) for score in run.records(SCORES, Score)), key=str)
    samples = [sample.completion for sample in run.records(SAMPLES, Sample)]
    return scores, sorted((one.token_ids, one.stop, one.log_probs) for one in samples)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_an_evaluation_has_the_same_scores_and_samples_as_with_the_local_engine(trained, url, tmp_path, temperature):
    here, own = results_of(trained, tmp_path / "here", temperature=temperature)
    there, served = results_of(trained, tmp_path / "there", temperature=temperature, kind="openai", url=url)
    assert len(here) == 3 * 3 * 2
    if temperature == 1:
        assert there == here
    else:
        # Servers give log-probabilities at temperature 1, so there are none, and weighted votes have no weights.
        unweighted = [[one for one in scores if one["system"] != "weighted-vote"] for scores in (here, there)]
        assert unweighted[0] == unweighted[1]
    assert [one[:2] for one in served] == [one[:2] for one in own]
    for (*_, mine), (*_, theirs) in zip(own, served, strict=True):
        assert list(theirs) == (pytest.approx(list(mine), abs=1e-4) if temperature == 1 else [])


def test_a_team_whose_agents_are_served_debates_as_one_that_is_loaded(trained, server, url):
    with Team.load(trained) as here, Team.load(trained, server=url) as there:
        for seed in range(3):
            debate = here.debate_sync(QUESTION, seed=seed)
            assert there.debate_sync(QUESTION, seed=seed) == debate
            assert reasoning(server, seed) == [turn.response.text for one in debate.rounds for turn in one.turns]


def test_a_server_in_front_of_a_server_says_what_that_says(trained, server, url, tmp_path):
    with serving(tmp_path / "log", trained, "--server", url, "--no-store") as front:
        assert reasoning(front, 5) == reasoning(server, 5)
        chat = {"model": "generator-2", "messages": [{"role": "user", "content": QUESTION}], "seed": 5, "n": 2}
        assert posted(front, chat)["choices"] == posted(server, chat)["choices"]


def posted(server, chat):
    reply = httpx2.post(f"{server.url}/v1/chat/completions", json=chat, timeout=60, trust_env=False)
    assert reply.is_success, reply.text
    return reply.json()


def reasoning(server, seed):
    """What the turns of a debate say."""
    chat = {"model": "mada", "messages": [{"role": "user", "content": QUESTION}], "seed": seed}
    text = posted(server, chat)["choices"][0]["message"]["reasoning_content"]
    return [turn.partition("]\n")[2] for turn in text.removesuffix("\n\n").split("\n\n")]
