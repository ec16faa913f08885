"""What every system is asked for a run's adapters: speakers, prompts as token ids, and what ends a reply."""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from greedy_workers import Replies

if TYPE_CHECKING:
    from mada.models.loading import ChatModel
    from mada.runs import StoredRun

ROLES = ("generator", "critic")
BARE = {role: f"bare base, {role} prompts" for role in ROLES}
MOST_KV_MEMORY = 32 * 2**30
LONGEST_PROMPT = 4096  # longer ones are left out


def speakers_of(run: "StoredRun") -> list[dict[str, Any]]:
    """Return the run's adapters by role, and the bare base for each role."""
    from mada.agents import ADAPTERS, recipe_of, team_names
    from mada.errors import RunError
    from mada.pipeline.ablate import NO_COUNTERFACTUAL

    found: list[dict[str, Any]] = []
    for role, seats in zip(ROLES, team_names(recipe_of(run)), strict=True):
        folders = {seat: run.folder / ADAPTERS / seat for seat in seats}
        if role == "critic":  # the generators in there are the run's own
            other = run.folder / NO_COUNTERFACTUAL / ADAPTERS
            others = {f"{seat}, {NO_COUNTERFACTUAL}": other / seat for seat in seats}
            folders |= {name: folder for name, folder in others.items() if folder.is_dir()}
        missing = [name for name, folder in folders.items() if not (folder / "adapter_config.json").is_file()]
        if missing:
            raise RunError(f"{run.folder} has no adapter of {missing[0]}; wait until the run has trained all of them")
        found += [{"name": name, "role": role, "folder": str(folder)} for name, folder in folders.items()]
        found += [{"name": BARE[role], "role": role, "folder": None}] if folders else []
    return found


def stored_debate_prompts(run: "StoredRun", benchmark: str, most: int) -> list[str]:
    """Return prompts that critics were given, one per problem, those of the benchmark first."""
    from mada.evaluation.scores import TRANSCRIPTS, Transcript

    found: dict[str, dict[str, str]] = {"of the benchmark": {}, "others": {}}
    if TRANSCRIPTS not in run.record_names():
        return []
    for one in run.records(TRANSCRIPTS, Transcript):
        turns = (turn for part in one.debate.rounds if part.role == "critic" for turn in part.turns)
        turn = next((turn for turn in turns if turn.agent.startswith("critic")), None)
        if turn is not None:
            kind = "of the benchmark" if one.benchmark == benchmark else "others"
            found[kind].setdefault(f"{one.benchmark} {one.problem}", turn.prompt)
        if len(found["of the benchmark"]) == most:
            break
    return [*found["of the benchmark"].values(), *found["others"].values()]


def made_debate_prompts(
    run: "StoredRun", chat: "ChatModel", questions: list[str], replies: Replies, budget: int
) -> Iterator[str]:
    """Yield the prompts that critics would be given after these replies of the generators."""
    from mada.agents import DebateSettings, recipe_of
    from mada.debate.prompts import fit_debate_prompt
    from mada.models.chat import chat_prompt, opens_thinking, prompt_ids
    from mada.models.engine_agent import response_of
    from mada.models.engines import Completion

    prompts = DebateSettings.of(recipe_of(run)).prompts
    for question, said in zip(questions, zip(*replies.values(), strict=True), strict=True):
        opened = opens_thinking(chat_prompt(prompts.ask(question), chat.tokenizer))
        spoken = [tuple(reply["ids"]) for reply in said]
        completions = [Completion(ids, (), "end" if ids[-1] in chat.stop_tokens else "length") for ids in spoken]
        responses = [response_of(one, chat.tokenizer, thinking_opened=opened) for one in completions]

        def count(text: str) -> int:
            return len(prompt_ids(chat_prompt(text, chat.tokenizer), chat.tokenizer))

        text = fit_debate_prompt(question, responses, prompts=prompts, count_tokens=count, budget=budget).text
        yield chat_prompt(text, chat.tokenizer)


def make_job(arguments: argparse.Namespace, answers: Callable[[dict[str, Any]], Replies]) -> dict[str, Any]:
    """Settle what every system is asked; `answers` asks the run's generators where it stored no debates."""
    from mada.agents import DebateSettings, recipe_of
    from mada.errors import DataError
    from mada.models.chat import chat_prompt, prompt_ids
    from mada.models.loading import load_chat, resolve_model
    from mada.problems import load_problems
    from mada.runs import StoredRun

    run = StoredRun.read(arguments.run)
    recipe = recipe_of(run)
    revision = None if arguments.model else recipe.model.revision
    model = resolve_model(arguments.model or recipe.model.name)
    chat = load_chat(model, revision=revision)
    budget = min(LONGEST_PROMPT, (chat.window or sys.maxsize) - arguments.max_new_tokens)
    prompts = DebateSettings.of(recipe).prompts

    def encoded(texts: Iterable[str]) -> list[list[int]]:
        ids = [list(prompt_ids(text, chat.tokenizer)) for text in texts]
        return [one for one in ids if len(one) <= budget][: arguments.problems]

    def asked(question: str) -> str:
        return chat_prompt(prompts.ask(question), chat.tokenizer)

    data = arguments.data or recipe.data.folder
    problems = load_problems(arguments.benchmark, folder=data, limit=arguments.problems)
    questions = [problem.question for problem in problems if encoded([asked(problem.question)])]
    if not questions:
        raise DataError(f"no problem of {arguments.benchmark} leaves room for --max-new-tokens; give fewer")
    speakers = speakers_of(run)
    job: dict[str, Any] = {
        "model": model, "revision": revision, "dtype": arguments.dtype, "control": True,
        "max_new_tokens": arguments.max_new_tokens, "stop_tokens": list(chat.stop_tokens), "speakers": speakers,
        "context": budget + arguments.max_new_tokens, "kv_memory": None, "critics_from": "stored transcripts",
        "prompts": {"generator": encoded(map(asked, questions)), "critic": []},
    }  # fmt: skip
    if any(one["role"] == "critic" for one in speakers):
        debates = encoded(stored_debate_prompts(run, arguments.benchmark, 2 * arguments.problems))
        if not debates:
            job["critics_from"] = "the generators' greedy answers"
            generators = [one for one in speakers if one["role"] == "generator" and one["folder"]]
            replies = answers({**job, "speakers": generators, "control": False})
            debates = encoded(made_debate_prompts(run, chat, questions, replies, budget))
        job["prompts"]["critic"] = debates
    job["context"] = max(len(ids) for some in job["prompts"].values() for ids in some) + arguments.max_new_tokens
    rows = sum(len(job["prompts"][one["role"]]) for one in speakers)
    job["kv_memory"] = min(MOST_KV_MEMORY, rows * (job["context"] + 64) * token_bytes(model, revision))
    return job


def token_bytes(model: str, revision: str | None) -> int:
    """Return what a token's keys and values take in float32: a cache of what is needed leaves room for others."""
    from mada.models.loading import load_config

    config: Any = load_config(model, revision=revision).get_text_config()
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 4 * 2 * config.num_hidden_layers * config.num_key_value_heads * size
