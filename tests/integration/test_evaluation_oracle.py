"""`mada evaluate` on a scripted model: everything it says is foretold by plain Python that knows what will be said.

What a model says is a function of who it is, what it is asked, what it sees and the seed. So who says what is known
before anybody is asked, and with it every answer, vote, token and average. Of mada only the seeds' paths are used for
that, and the tokenizer.
"""

import asyncio
import json
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerBase
from typer.testing import CliRunner

from mada.cli import app
from mada.evaluation.scores import Transcript
from mada.models.adapters import AdapterStack, Lora
from mada.models.adapters.peft_files import save_adapter
from mada.models.engines import EngineStatistics
from mada.models.engines.engine import Completion, Sampling
from mada.models.loading import load_base
from mada.report.numbers import spread_text
from mada.runs import StoredRun
from mada.seeds import seed_for

# --- What is evaluated -----------------------------------------------------------------------------------------------

RUN_SEED, SEEDS, MAX_NEW_TOKENS = 11, 3, 64
SIZES = {"small.jsonl": 3, "large.jsonl": 8, "middle.jsonl": 5}
REFERENCE = "debate-2"
SPEAKERS = {"base": "bare", "ada": "first", "bob": "second", "eve": "first"}
"""Agents by name, and whose words they speak: ada and eve have one adapter between them."""
WINDOWS = {"base": 1024, "ada": 1024, "bob": 1000, "eve": 1024}
"""A window of its own makes bob's a second model, so that systems differ in what must be loaded for them."""


@dataclass(frozen=True)
class Shape:
    """A system as the evaluation file describes it."""

    kind: str
    agents: tuple[str, ...]
    samples: int | None = None
    matched_to: str | None = None
    critics: tuple[str, ...] = ()
    judge: str | None = None
    rounds: int | None = None

    @property
    def toml(self) -> str:
        values = {key: value for key, value in vars(self).items() if value not in (None, ())}
        return "\n".join(f"{key} = {json.dumps(value)}" for key, value in values.items())

    @property
    def later_rounds(self) -> int:
        return {"debate": (self.rounds or 2) - 1, "judge": 1, "best-of-n": 1}.get(self.kind, 0)


SYSTEMS = {
    "single": Shape("single", ("base",)),
    "mean": Shape("single", ("ada", "bob", "base")),
    "vote": Shape("vote", ("ada",), samples=5),
    "mixed-vote": Shape("vote", ("bob", "eve"), samples=5),
    "weighted": Shape("weighted-vote", ("base", "bob"), samples=4),
    "judge": Shape("judge", ("base",), samples=4, judge="bob"),
    "best": Shape("best-of-n", ("ada", "bob", "base"), samples=4, critics=("bob", "ada", "bob")),
    "debate-2": Shape("debate", ("ada", "bob", "base"), critics=("eve", "bob", "eve"), rounds=2),
    "debate-3": Shape("debate", ("base", "base", "base"), critics=("base", "base"), rounds=3),
    "matched-vote": Shape("vote", ("ada",), matched_to="debate-2"),
    "matched-weighted": Shape("weighted-vote", ("base", "bob"), matched_to="debate-3"),
    "matched-judge": Shape("judge", ("base",), matched_to="debate-2", judge="ada"),
}
DEBATES = ("debate-2", "debate-3")


@dataclass(frozen=True)
class Question:
    id: str
    text: str
    truth: int


def questions_of(name: str, count: int) -> list[Question]:
    stem = name.removesuffix(".jsonl")
    made = [Question(f"{stem}-{place}", f"{stem} sum {place}: {place} + 7", place + 7) for place in range(count)]
    if stem == "middle":  # one that does not fit the window
        made[2] = Question("middle-long", "middle sum long: " + "1 + " * 1500 + "1", 1501)
    return made


BENCHMARKS = {name: questions_of(name, count) for name, count in SIZES.items()}
TRUTHS = {question.text: question.truth for questions in BENCHMARKS.values() for question in questions}


def write_problems(folder: Path, benchmarks: Mapping[str, Sequence[Question]]) -> None:
    for name, questions in benchmarks.items():
        rows = [{"id": one.id, "problem": one.text, "answer": str(one.truth)} for one in questions]
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def evaluation_file(adapters: Mapping[str, Path]) -> str:
    agents = [
        f'[agents.{name}]\nmodel = "mada-nano"\nwindow = {WINDOWS[name]}\n'
        + (f"adapter = {json.dumps(str(adapters[speaker]))}\n" if speaker in adapters else "")
        for name, speaker in SPEAKERS.items()
    ]
    systems = [f"[[systems]]\nname = {json.dumps(name)}\n{shape.toml}\n" for name, shape in SYSTEMS.items()]
    return f"""
name = "oracle"
seed = {RUN_SEED}
seeds = {SEEDS}
reference = "{REFERENCE}"
price_per_hour = 3.6
benchmarks = {json.dumps(list(SIZES))}
[inference]
max_new_tokens = {MAX_NEW_TOKENS}
[grading]
workers = 1
[prompts]
reasoning = "Solve: {{question}}"
debate_header = "Others said:"
debate_response = "<{{response}}>"
debate_request = "Update."
judge_header = "Candidates:"
judge_request = "Choose."
{"".join(agents)}{"".join(systems)}"""


# --- What is said ----------------------------------------------------------------------------------------------------

SKILL = {"bare": 0.35, "first": 0.6, "second": 0.5}
BOX = re.compile(r"\\boxed\{(.*?)\}")


@dataclass(frozen=True)
class Said:
    """A reply before it is tokens; every token has `sureness` for its log-probability, give or take."""

    text: str
    sureness: float
    cut_off: bool

    def completion(self, tokenizer: PreTrainedTokenizerBase) -> Completion:
        tokens = tokenizer.encode(self.text, add_special_tokens=False)
        if not self.cut_off:
            tokens += tokenizer.encode("<|end|>", add_special_tokens=False)
        log_probs = [self.sureness] * len(tokens)
        log_probs[0], log_probs[-1] = log_probs[0] - 0.0625, log_probs[-1] + 0.0625  # the mean is the sureness itself
        return Completion(tuple(tokens), tuple(log_probs), "length" if self.cut_off else "end")


def say(speaker: str, kind: str, question: str, seen: Sequence[str], seed: int) -> Said:
    """Be right as often as skill has it, in several spellings; a critic or judge often takes over what it sees."""
    chance = random.Random(f"{speaker}|{kind}|{question}|{'|'.join(seen)}|{seed}")
    truth = TRUTHS[question]
    wrong = truth + chance.choice([1, 1, 1, 2, 2, 30])
    others = [int(Fraction(box)) for text in seen for box in BOX.findall(text)]
    if others and chance.random() < {"debate": 0.5, "judge": 0.8}[kind]:
        value = chance.choice(others)
    else:
        value = truth if chance.random() < SKILL[speaker] else wrong
    spelling = f"{2 * value}/2" if chance.random() < 0.3 else str(value)
    ending = f"it is \\boxed{{{spelling}}}" if chance.random() < 0.87 else "no idea"
    text = f"Well{' so' * chance.randrange(12)} {ending}"
    return Said(text, chance.choice([-0.25, -0.5, -2.0]), cut_off=chance.random() < 0.1)


class KnownEngine:
    """In place of the model: reads who is asked what, with which responses in sight, and says what the script says."""

    slots = 8

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, context: int) -> None:
        self.context = context
        self.statistics = EngineStatistics()
        self.requests: list[tuple[str, str, int]] = []
        self._tokenizer = tokenizer

    async def sample(
        self, agent: str | None, prompt_ids: Sequence[int], sampling: Sampling, *, n: int = 1
    ) -> list[Completion]:
        prompt = str(self._tokenizer.decode(list(prompt_ids)))
        speaker = "bare" if agent is None else Path(agent).name
        self.requests.append((speaker, prompt, sampling.seed))
        await asyncio.sleep(0.001 * (len(self.requests) % 3))  # replies come in another order than questions
        asked, *rest = prompt.removeprefix("<|user|>").removesuffix("<|end|><|assistant|>").split("\n\n")
        kind = {"": "ask", "Others said:": "debate", "Candidates:": "judge"}[rest[0] if rest else ""]
        seen = [one.removeprefix("<").removesuffix(">") for one in rest[1:-1]]
        said = say(speaker, kind, asked.removeprefix("Solve: "), seen, sampling.seed)
        assert (n, sampling.temperature) == (1, 1.0)
        completion = said.completion(self._tokenizer)
        self.statistics.prompt_tokens += len(prompt_ids)
        self.statistics.generated_tokens += len(completion.token_ids)
        self.statistics.seconds += 0.25
        return [completion]

    async def close(self) -> None:
        pass


# --- The oracle: who says what ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Turn:
    agent: str
    speaker: str
    prompt: str
    seed: int
    text: str = ""
    sureness: float = 0.0
    tokens: int = 0
    prompt_tokens: int = 0
    cut_off: bool = True
    unfit: bool = True

    @property
    def answer(self) -> str | None:
        found = BOX.findall(self.text)
        return found[-1] if found else None

    @property
    def value(self) -> Fraction | None:
        return None if self.answer is None else Fraction(self.answer)


@dataclass(frozen=True)
class Item:
    """One system on one question with one seed: what is said, and what follows from it."""

    system: str
    benchmark: str
    seed: int
    question: Question
    rounds: tuple[tuple[Turn, ...], ...]

    @property
    def place(self) -> tuple[str, str, int, str]:
        return self.system, self.benchmark, self.seed, self.question.id

    @cached_property
    def turns(self) -> list[Turn]:
        return [turn for row in self.rounds for turn in row]

    def right(self, turn: Turn) -> bool:
        return turn.value == self.question.truth

    @cached_property
    def votes(self) -> list[Fraction | None]:
        """The vote of every round, as if the debate had ended there."""
        return [majority(self.rounds[: number + 1])[0] for number in range(len(self.rounds))]

    @cached_property
    def verdict(self) -> tuple[Fraction | None, bool]:
        """The system's one answer, and whether it was tied."""
        kind = SYSTEMS[self.system].kind
        if kind == "weighted-vote":
            return weighted_majority(self.rounds[0])
        return pick(self.rounds[0], self.rounds[-1]) if kind in ("judge", "best-of-n") else majority(self.rounds)

    @cached_property
    def verdict_right(self) -> bool:
        return self.verdict[0] == self.question.truth

    @cached_property
    def first_vote_right(self) -> bool:
        return self.votes[0] == self.question.truth

    @cached_property
    def generated(self) -> int:
        return sum(turn.tokens for turn in self.turns)


def spelled(answers: Sequence[str]) -> tuple[int, str]:
    """How a group of equal answers is spelled: as most do, then shortest, then first in the alphabet."""
    return min((-answers.count(one), len(one), one) for one in answers)[1:]


def groups_of(turns: Sequence[Turn]) -> dict[Fraction, list[str]]:
    groups: dict[Fraction, list[str]] = defaultdict(list)
    for turn in turns:
        if turn.value is not None and turn.answer is not None:
            groups[turn.value].append(turn.answer)
    return groups


def majority(rounds: Sequence[Sequence[Turn]]) -> tuple[Fraction | None, bool]:
    """Most votes in the last round, else in the one before, and so on; then the shorter spelling, then the alphabet."""
    last = groups_of(rounds[-1])
    if not last:
        return None, False
    earlier = [Counter(turn.value for turn in row) for row in reversed(rounds[:-1])]
    ranked = sorted(
        last, key=lambda value: (-len(last[value]), [-row[value] for row in earlier], *spelled(last[value]))
    )
    return ranked[0], len(ranked) > 1 and len(last[ranked[0]]) == len(last[ranked[1]])


def weighted_majority(turns: Sequence[Turn]) -> tuple[Fraction | None, bool]:
    groups = groups_of(turns)
    if not groups:
        return None, False
    weights = {value: math.fsum(math.exp(one.sureness) for one in turns if one.value == value) for value in groups}
    best = max(weights.values())
    tied = [value for value in groups if math.isclose(weights[value], best, rel_tol=1e-12)]
    return min(tied, key=lambda value: spelled(groups[value])), len(tied) > 1


def pick(candidates: Sequence[Turn], choosers: Sequence[Turn]) -> tuple[Fraction | None, bool]:
    """The candidate that most choosers name; then the one that more candidates give, then the spelling."""
    groups = groups_of(candidates)
    named = Counter(turn.value for turn in choosers if turn.value in groups)
    if not named:
        return majority([candidates])
    values = [value for value in named if value is not None]
    ranked = sorted(values, key=lambda value: (-named[value], -len(groups[value]), *spelled(groups[value])))
    return ranked[0], len(ranked) > 1 and named[ranked[0]] == named[ranked[1]]


class Oracle:
    """Foretells every item of the evaluation."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        fixed = [name for name, shape in SYSTEMS.items() if shape.matched_to is None]
        self.items = [self._item(*place, count=len(self._seats(place[0]))) for place in self._places(fixed)]
        self._measure_tokens()
        for system in SYSTEMS.keys() - {*fixed}:
            for benchmark in BENCHMARKS:
                self.items += self._matched(system, benchmark)
        self.by_place = {item.place: item for item in self.items}

    def of(self, system: str) -> list[Item]:
        return [item for item in self.items if item.system == system]

    @cached_property
    def sampled(self) -> dict[tuple[str, str, int], Turn]:
        """What has to be sampled at all: whoever says the same to the same with the same seed shares it."""
        turns = [turn for item in self.items for turn in item.turns if not turn.unfit]
        return {(turn.speaker, turn.prompt, turn.seed): turn for turn in turns}

    def average(self, system: str, value: Callable[[Item], float]) -> float:
        return fmean(self.seed_averages(system, value))

    def seed_averages(self, system: str, value: Callable[[Item], float]) -> list[float]:
        return [fmean(self.benchmark_means(system, name, value)[seed] for name in BENCHMARKS) for seed in range(SEEDS)]

    def benchmark_means(self, system: str, benchmark: str, value: Callable[[Item], float]) -> list[float]:
        items = [item for item in self.of(system) if item.benchmark == benchmark]
        return [fmean(value(item) for item in items if item.seed == seed) for seed in range(SEEDS)]

    @staticmethod
    def _places(systems: Sequence[str] | set[str]) -> Iterator[tuple[str, str, int, int]]:
        for system, benchmark, seed in product(sorted(systems), BENCHMARKS, range(SEEDS)):
            for place in range(len(BENCHMARKS[benchmark])):
                yield system, benchmark, seed, place

    @staticmethod
    def _seats(system: str, count: int | None = None, *, start: int = 0) -> list[tuple[str, int]]:
        """Who answers in turn, and the number of each one's sample: a seat's own, and then one more table away."""
        shape = SYSTEMS[system]
        size = len(shape.agents)
        turns = [(turn, (start + turn) % size) for turn in range(count or shape.samples or size)]
        return [(shape.agents[seat], seat + turn // size * size) for turn, seat in turns]

    def _item(self, system: str, benchmark: str, seed: int, place: int, *, count: int) -> Item:
        shape, question = SYSTEMS[system], BENCHMARKS[benchmark][place]
        root = seed_for(RUN_SEED, "evaluate", benchmark, seed, question.id)
        start = seed * len(BENCHMARKS[benchmark]) + place if shape.matched_to else 0
        rounds = [self._round(self._seats(system, count, start=start), "ask", question, (), root, 1)]
        critics = (shape.judge,) if shape.judge else shape.critics
        for number in range(2, 2 + shape.later_rounds):
            kind = "judge" if shape.judge else "debate"
            seats = [(agent, seat) for seat, agent in enumerate(critics)]
            rounds.append(self._round(seats, kind, question, rounds[-1], root, number))
        return Item(system, benchmark, seed, question, tuple(rounds))

    def _round(
        self,
        agents: Sequence[tuple[str, int]],
        kind: str,
        question: Question,
        before: Sequence[Turn],
        root: int,
        number: int,
    ) -> tuple[Turn, ...]:
        seen = [turn.text + " [cut off at the token limit]" * turn.cut_off for turn in before]
        texts = [f"Solve: {question.text}"]
        if kind == "debate":
            texts += ["Others said:", *(f"<{text}>" for text in seen), "Update."]
        if kind == "judge":
            texts += ["Candidates:", *(f"<{text}>" for text in seen), "Choose."]
        # The model's chat template by hand.
        prompt = "<|user|>" + "\n\n".join(texts) + "<|end|><|assistant|>"
        length = len(self._tokenizer.encode(prompt, add_special_tokens=False))
        turns: list[Turn] = []
        for agent, draw in agents:
            name = f"{agent} as judge" if kind == "judge" else agent
            seed = seed_for(root, "turn", number, draw)
            if length > WINDOWS[agent] - MAX_NEW_TOKENS:
                assert question.id == "middle-long", "nothing else is meant to be too long"
                turns.append(Turn(name, SPEAKERS[agent], prompt, seed))
                continue
            said = say(SPEAKERS[agent], kind, question.text, seen, seed)
            tokens = len(self._tokenizer.encode(said.text, add_special_tokens=False)) + (not said.cut_off)
            turns.append(
                Turn(
                    *(name, SPEAKERS[agent], prompt, seed, said.text, said.sureness),
                    tokens=tokens,
                    prompt_tokens=length,
                    cut_off=said.cut_off,
                    unfit=False,
                )
            )
        return tuple(turns)

    def _measure_tokens(self) -> None:
        of_systems: dict[tuple[str, str], list[int]] = defaultdict(list)
        of_agents: dict[tuple[str, str], list[int]] = defaultdict(list)
        for item in self.items:
            of_systems[item.system, item.benchmark].append(item.generated)
            for turn in item.rounds[0]:
                of_agents[turn.agent, item.benchmark].append(turn.tokens)
        self._of_systems = {key: Fraction(sum(values), len(values)) for key, values in of_systems.items()}
        self._of_agents = {key: Fraction(sum(values), len(values)) for key, values in of_agents.items()}

    def _matched(self, system: str, benchmark: str) -> list[Item]:
        """As many samples as the other's tokens and a judge's own reply allow.

        First a pilot of 16 questions, at most a quarter, then half of what is left each time: in each, what is left of
        the budget is met as closely as can be, with replies as long as they were on average.
        """
        shape, questions = SYSTEMS[system], len(BENCHMARKS[benchmark])
        of, items, done = SEEDS * questions, list[Item](), 0
        one = sum(self._of_agents[agent, benchmark] for agent in shape.agents) / len(shape.agents)
        while done < of:
            end = done + math.ceil((of - done) / 2) if done else min(16, math.ceil(of / 4))
            reply = shape.later_rounds * one
            if shape.later_rounds and items:
                reply = Fraction(sum(turn.tokens for item in items for turn in item.rounds[1]), len(items))
            left = of * self._of_systems[shape.matched_to or "", benchmark] - sum(item.generated for item in items)
            share, expected = left / (of - done), Fraction(0)
            for number in range(done, end):
                goal = (number - done + 1) * share - expected - reply
                lengths = [
                    self._of_agents[shape.agents[(number + turn) % len(shape.agents)], benchmark] for turn in range(60)
                ]
                count = min(range(1, 60), key=lambda size, goal=goal, lengths=lengths: abs(sum(lengths[:size]) - goal))
                expected += reply + sum(lengths[:count])
                seed, place = divmod(number, questions)
                items.append(self._item(system, benchmark, seed, place, count=count))
            done = end
        return items


# --- The evaluation, held once ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Held:
    """An evaluation as it lies on the disk, what the engine was asked, and what the terminal showed."""

    run: StoredRun
    engines: Sequence[KnownEngine]
    shown: str

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run.path("records", f"{name}.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return load_base("mada-nano", device="cpu").tokenizer


@pytest.fixture(scope="module")
def adapters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two adapters of different sizes, named after who speaks through them."""
    folders: dict[str, Path] = {}
    for rank, name in enumerate(("first", "second"), start=2):
        base = load_base("mada-nano", device="cpu")
        stack = AdapterStack.attach(base.model, (name,), Lora(rank, 8.0, dropout=0.0))
        generator = torch.Generator().manual_seed(rank)
        own = stack.tensors(name)
        stack.assign(name, {key: torch.randn(one.shape, generator=generator) for key, one in own.items()})
        folders[name] = tmp_path_factory.mktemp("adapters") / name
        save_adapter(stack, name, folders[name], base_name="mada-nano")
    return folders


@pytest.fixture(scope="module")
def held(
    tmp_path_factory: pytest.TempPathFactory, adapters: dict[str, Path], tokenizer: PreTrainedTokenizerBase
) -> Held:
    """Type `mada evaluate` in a folder, with the script in the model's place."""
    folder = tmp_path_factory.mktemp("evaluation")
    write_problems(folder, BENCHMARKS)
    (folder / "rivals.toml").write_text(evaluation_file(adapters))
    engines: list[KnownEngine] = []

    def make(model: object, stack: object, *, context: int, rows: int | None, alone: bool) -> KnownEngine:
        engines.append(KnownEngine(tokenizer, context=context))
        return engines[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("mada.models.engines.starting.LocalEngine", make)
        # It silences libraries for the rest of the process, which other tests may want to hear.
        patch.setattr("mada.cli.evaluate.silence_libraries", lambda: None)
        patch.setattr("torch.set_num_threads", lambda count: None)
        patch.setattr("torch.cuda.is_available", lambda: False)
        screen = CliRunner(env={"COLUMNS": "250", "TERM": "dumb"})
        done = screen.invoke(app, ["evaluate", "rivals.toml", "--out", "results"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return Held(StoredRun.read(folder / "results"), engines, done.stdout)


@pytest.fixture(scope="module")
def oracle(tokenizer: PreTrainedTokenizerBase) -> Oracle:
    return Oracle(tokenizer)


def standard_error(values: Sequence[float]) -> float:
    return stdev(values) / math.sqrt(len(values))


# --- The comparison --------------------------------------------------------------------------------------------------


def test_every_question_is_recorded_as_foretold(held: Held, oracle: Oracle) -> None:
    scores = {(one["system"], one["benchmark"], one["seed"], one["problem"]): one for one in held.lines("scores")}
    assert len(held.lines("scores")) == len(scores) == len(SYSTEMS) * SEEDS * sum(SIZES.values())
    assert scores.keys() == oracle.by_place.keys()
    for place, item in oracle.by_place.items():
        score = scores[place]
        wanted: dict[str, list[list[Any]]] = {
            "agents": [[turn.agent for turn in row] for row in item.rounds],
            "answers": [[turn.answer for turn in row] for row in item.rounds],
            "correct": [[item.right(turn) for turn in row] for row in item.rounds],
            "tokens": [[turn.tokens for turn in row] for row in item.rounds],
            "prompts": [[turn.prompt_tokens for turn in row] for row in item.rounds],
        }
        assert {key: score[key] for key in wanted} == wanted, place
        numbered = [group for row in score["groups"] for group in row]
        values = [turn.value for turn in item.turns]
        assert renamed(numbered) == renamed(values), place
        assert score["verdict_correct"] == item.verdict_right, place
        assert score["first_vote_correct"] == item.first_vote_right, place
        assert score["tie"] == item.verdict[1], place
        assert score["truncated"] == sum(turn.cut_off for turn in item.turns)
        assert score["unfit"] == sum(turn.unfit for turn in item.turns)
        assert score["shortened"] == 0


def renamed(names: Sequence[object]) -> list[int | None]:
    """Number names in the order in which they first occur; None stays."""
    order = list(dict.fromkeys(name for name in names if name is not None))
    return [None if name is None else order.index(name) for name in names]


def test_every_debate_is_kept_word_for_word(held: Held, oracle: Oracle) -> None:
    transcripts = list(held.run.records("transcripts", Transcript))
    assert len(transcripts) == sum(len(oracle.of(name)) for name in DEBATES)
    for one in transcripts:
        item = oracle.by_place[one.system, one.benchmark, one.seed, one.problem]
        assert one.reference == str(item.question.truth)
        said = [[(turn.prompt, turn.response.text) for turn in row.turns] for row in one.debate.rounds]
        assert said == [[("" if turn.unfit else turn.prompt, turn.text) for turn in row] for row in item.rounds]
        assert one.debate.verdict is not None
        answer = one.debate.verdict.answer
        assert (None if answer is None else Fraction(answer)) == item.verdict[0]


def test_each_sample_is_sampled_once_and_shared(held: Held, oracle: Oracle) -> None:
    requests = [request for engine in held.engines for request in engine.requests]
    assert len(requests) == len(set(requests)) == len(held.lines("samples"))
    assert set(requests) == oracle.sampled.keys()
    for engine in held.engines:
        assert {speaker == "second" for speaker, _, _ in engine.requests} <= {engine.context == WINDOWS["bob"]}
    turns = [turn for item in oracle.items for turn in item.turns]
    [evaluated, _] = held.run.finished_stages()
    assert evaluated.summary["completions wanted"] == len(turns)
    assert evaluated.summary["of these sampled"] == len(oracle.sampled)
    assert evaluated.summary["questions"] == SEEDS * sum(SIZES.values())


def test_the_tables_show_what_was_foretold(held: Held, oracle: Oracle) -> None:
    report = held.run.path("report.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in report.splitlines() if line[:1] == "|"]
    heading, _, *body = rows
    [place] = [at for at, row in enumerate(rows) if row[1:] == list(SIZES)]
    by_benchmark = rows[place + 2 :]
    for name, row, own in zip(SYSTEMS, body, by_benchmark, strict=False):
        cells = dict(zip(heading, row, strict=True))
        averages = oracle.seed_averages(name, lambda item: item.verdict_right)
        wanted = spread_text(fmean(averages), standard_error(averages))
        assert cells["verdict"] == wanted
        assert cells["tokens, generated"] == f"{oracle.average(name, lambda item: item.generated):,.0f}"
        for benchmark, cell in zip(SIZES, own[1:], strict=True):
            means = oracle.benchmark_means(name, benchmark, lambda item: item.verdict_right)
            assert cell == spread_text(fmean(means), standard_error(means))
        [line, *_] = [
            line for line in held.shown.splitlines() if line.strip().startswith(row[0][:20]) and wanted in line
        ]
        assert cells["tokens, generated"] in line
