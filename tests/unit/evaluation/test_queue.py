"""The queue of an evaluation: everything once, in the right order, and nothing again."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import pytest
from pydantic import BaseModel, ConfigDict

import mada.evaluation.budgets
import mada.runs.manifest
from mada.debate.prompts import WindowError
from mada.debate.transcript import Response, Turn
from mada.errors import EngineError, EvaluationError, RunError, UnansweredError
from mada.evaluation.costs import UsageMeter
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.queue import Queue
from mada.evaluation.scores import SCORES, TRANSCRIPTS, Score, Transcript
from mada.evaluation.systems import debate_system, llm_judge, majority_vote, single_agents
from mada.problems import Problem
from mada.runs import Records, Run
from mada.seeds import seed_for


class Recipe(BaseModel):
    model_config = ConfigDict(frozen=True)

    seed: int = 17


def problems(*numbers):
    return [Problem(f"question {number}", "4", f"p{number}", "test") for number in numbers]


# Two benchmarks whose problems have the same names: what tells them apart is the benchmark.
PROBLEMS = {"small": problems(0, 1), "large": problems(0, 1, 2)}
SEEDS = 2
TOKENS = {"g": 150, "h": 250, "c": 475}
SINGLE = single_agents("single", "Single", ["g"])
DEBATE = debate_system("debate", "Debate", ["g", "h"], critics=["c"], rounds=2)
VOTE = majority_vote("vote", "Vote", ["g", "h"], samples=3)
HIDDEN = debate_system("hidden", "Hidden", ["h"], critics=["c"], rounds=2).model_copy(
    update={"shown": False, "draws": (1,)}
)
FAMILY = PlannedSystem(name="family", title="Family", members=("hidden",))
MATCHED = majority_vote("matched", "Matched", ["g"], matched_to="debate")
JUDGE = llm_judge("judge", "Judge", ["g"], judge="g as judge", matched_to="debate")
# In the plan the matched ones stand first, and are held last all the same.
PLAN = EvaluationPlan.of([MATCHED, JUDGE, SINGLE, DEBATE, VOTE, FAMILY, HIDDEN], reference="debate")
QUESTIONS = SEEDS * 5


@dataclass
class Speaker:
    """Says a number that depends on its name, the question and the seed; in later rounds, what was said first."""

    name: str
    refuses: str | None = None
    unanswered: str | None = None
    fails_at: int | None = None
    insists_on: str | None = None
    varies: bool = False
    asked: list[tuple[str, int]] = field(default_factory=list)

    async def answer(self, question, seen, *, seed):
        self.asked.append((question, seed))
        await asyncio.sleep(0)
        if self.refuses and self.refuses in question:
            raise WindowError("the question does not fit")
        if self.unanswered and self.unanswered in question:
            raise UnansweredError("the server fails")
        if self.fails_at is not None and len(self.asked) > self.fails_at:
            raise EngineError("out of memory")
        said = self.insists_on or (seen[0].answer if seen else str(3 + seed_for(seed, self.name) % 3))
        tokens = TOKENS.get(self.name, 60) + (seed % 200 if self.varies else 0)
        return Turn(self.name, "prompt", 10, Response("", said, tokens))


class Ticks(UsageMeter):
    def __init__(self):
        self.count = 0

    def record(self, *, now=False):
        self.count += 1


class Session:
    """One process that holds an evaluation, or goes on with it."""

    def __init__(self, folder, grader, *, plan=PLAN, speakers=()):
        self.folder, self.grader, self.plan = folder, grader, plan
        self.progress, self.meter = [], Ticks()
        self.speakers = {name: Speaker(name) for name in ("g", "h", "c", "g as judge")}
        self.speakers |= {speaker.name: speaker for speaker in speakers}

    def hold(self, *, at_once=4, systems=None, fail_on_error=0.0, prompt_price=None):
        with Run.open(self.folder, Recipe()) as run:
            queue = Queue(
                run,
                self.plan,
                PROBLEMS,
                seeds=SEEDS,
                grader=self.grader,
                progressed=lambda done, of, note: self.progress.append((done, of, note)),
                fail_on_error=fail_on_error,
            )
            more = {"at_once": at_once, "meter": self.meter, "prompt_price": prompt_price}
            asyncio.run(
                queue.run(systems or self.plan.evaluated_systems, agent_named=self.speakers.__getitem__, **more)
            )
        return self

    @property
    def calls(self):
        return {name: len(speaker.asked) for name, speaker in self.speakers.items() if speaker.asked}

    @property
    def scores(self):
        return list(Run.read(self.folder).records(SCORES, Score))

    @property
    def transcripts(self):
        return list(Run.read(self.folder).records(TRANSCRIPTS, Transcript))


@pytest.fixture(autouse=True)
def quick_surroundings(monkeypatch):
    monkeypatch.setattr(mada.runs.manifest, "current_commit", lambda: None)


@pytest.fixture
def session(tmp_path, grader):
    def make(name="run", **others):
        return Session(tmp_path / name, grader, **others)

    return make


def place(one):
    return one.system, one.benchmark, one.seed, one.problem


def in_order(scores):
    return sorted(scores, key=place)


def by_question(scores):
    return sorted(scores, key=lambda one: (one.benchmark, one.seed, one.problem))


def test_every_question_is_answered_once_by_every_system_that_has_seats(session):
    held = session().hold()
    assert Counter(map(place, held.scores)) == {
        (system.name, benchmark, seed, problem.id): 1
        for system in (SINGLE, DEBATE, VOTE, HIDDEN, MATCHED, JUDGE)
        for benchmark, of_benchmark in PROBLEMS.items()
        for seed in range(SEEDS)
        for problem in of_benchmark
    }
    by_system = {score.system: score for score in held.scores}
    assert by_system["vote"].agents == (("g", "h", "g"),)
    assert by_system["debate"].agents == (("g", "h"), ("c",))
    assert by_system["judge"].agents[1] == ("g as judge",)
    assert held.meter.count == 6 * QUESTIONS


def test_the_order_in_which_questions_are_answered_changes_nothing(session):
    together, one_by_one = session("a").hold(at_once=50), session("b").hold(at_once=1)
    assert in_order(together.scores) == in_order(one_by_one.scores)


def test_matched_systems_come_last_and_meet_the_tokens_of_their_target(session):
    held = session().hold()
    systems = [score.system for score in held.scores]
    assert set(systems[: 4 * QUESTIONS]) == {"single", "debate", "vote", "hidden"}
    assert set(systems[4 * QUESTIONS :]) == {"matched", "judge"}
    for benchmark in PROBLEMS:
        here = by_question(one for one in held.scores if one.benchmark == benchmark)
        sizes = [len(one.agents[0]) for one in here if one.system == "matched"]
        # A debate has 150 + 250 + 475 = 875 tokens, a sample of g 150: 5.8333 samples a question.
        assert sizes == {"small": [6, 6, 6, 5], "large": [6, 6, 6, 5, 6, 6]}[benchmark]
        tokens = Counter[str]()
        for one in here:
            tokens[one.system] += one.generated_tokens
        assert abs(tokens["debate"] - tokens["matched"]) <= TOKENS["g"] / 2
        assert abs(tokens["debate"] - tokens["judge"]) <= TOKENS["g"] / 2


ROTATED = majority_vote("rotated", "Rotated", ["g", "h"], matched_to="debate")


def test_no_order_and_no_kill_changes_how_many_samples_there_are(session):
    def speakers():
        return [Speaker(name, varies=True) for name in (*TOKENS, "g as judge")]

    plan = EvaluationPlan.of([MATCHED, JUDGE, ROTATED, SINGLE, DEBATE], reference="debate")
    whole = session("whole", plan=plan, speakers=speakers()).hold(at_once=50)
    one_by_one = session("slowly", plan=plan, speakers=speakers()).hold(at_once=1)
    assert in_order(whole.scores) == in_order(one_by_one.scores)
    for kept in (
        lambda line: b'"judge"' not in line,
        lambda line: b'"p1"' not in line,
        lambda line: b'"p0"' not in line,
    ):
        file = whole.folder / "records" / f"{SCORES}.jsonl"
        file.write_bytes(b"".join(filter(kept, file.read_bytes().splitlines(keepends=True))))
        again = session("whole", plan=plan, speakers=speakers()).hold(at_once=3)
        assert in_order(again.scores) == in_order(one_by_one.scores)


@pytest.mark.parametrize("kept", [lambda number: number % 3 == 0, lambda number: number < 25, lambda number: True])
def test_only_what_is_missing_is_done_again_and_the_records_are_the_same(session, kept):
    whole = session().hold()
    before, transcripts = whole.scores, whole.transcripts
    file = whole.folder / "records" / f"{SCORES}.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(line for number, line in enumerate(lines) if kept(number)))
    left = [score for number, score in enumerate(before) if kept(number)]
    gone = [score for number, score in enumerate(before) if not kept(number)]

    again = session().hold()
    assert again.scores[: len(left)] == left
    assert in_order(again.scores) == in_order(before)
    assert again.transcripts == transcripts, "none is written twice"
    wanted = Counter(agent for score in gone for agents in score.agents for agent in agents)
    assert again.calls == wanted
    assert (again.progress[0][0], again.meter.count) == (len(left), len(gone))


def test_a_transcript_is_written_before_its_score_and_is_not_written_again_after_a_kill(session, monkeypatch):
    append, written = Records.append, []

    def killed_at_the_second_score(records, item):
        written.append((records.path.stem, place(item)))
        if records.kind is Score and len(written) == 4:
            raise RunError("killed")
        append(records, item)

    first = session(plan=EvaluationPlan.of([DEBATE], reference="debate"))
    with monkeypatch.context() as patch:
        patch.setattr(Records, "append", killed_at_the_second_score)
        with pytest.raises(RunError, match="killed"):
            first.hold(at_once=1)
    assert [name for name, _ in written] == [TRANSCRIPTS, SCORES, TRANSCRIPTS, SCORES]
    assert written[0][1] == written[1][1] != written[2][1] == written[3][1]
    assert (len(first.scores), len(first.transcripts)) == (1, 2)

    again = session(plan=first.plan).hold()
    assert (len(again.scores), len(again.transcripts)) == (QUESTIONS, QUESTIONS)
    assert set(map(place, again.transcripts)) == set(map(place, again.scores))


def test_a_question_that_does_not_fit_is_wrong_and_counted_and_stops_nothing(session):
    plan = EvaluationPlan.of([SINGLE, DEBATE, VOTE], reference="debate")
    held = session(plan=plan, speakers=[Speaker("g", refuses="question 1")]).hold()
    assert len(held.scores) == 3 * QUESTIONS
    for score in held.scores:
        seats = [agent for agents in score.agents for agent in agents]
        unfit = seats.count("g") if score.problem == "p1" else 0
        assert (score.unfit, score.truncated) == (unfit, unfit)
        silent = [answer for answer, agent in zip(score.answers[0], score.agents[0], strict=True) if agent == "g"]
        assert (silent == [None] * len(silent)) == (score.problem == "p1")
        if unfit and score.system == "single":
            assert (score.answers, score.tokens, score.prompts) == (((None,),), ((0,),), ((0,),))
            assert (score.correct, score.verdict_correct) == (((False,),), False)
    [turn, *_] = next(one for one in held.transcripts if one.problem == "p1").debate.rounds[0].turns
    assert turn == Turn("g", "", 0, Response("", None, 0, stop="length"))


def test_a_question_that_a_server_fails_to_answer_is_wrong_and_counted(session):
    plan = EvaluationPlan.of([SINGLE, DEBATE], reference="debate")
    held = session(plan=plan, speakers=[Speaker("g", unanswered="question 1")]).hold(fail_on_error=1.0)
    assert len(held.scores) == 2 * QUESTIONS
    assert {score.problem for score in held.scores if score.failed} == {"p1"}
    for score in held.scores:
        assert (score.unfit, score.truncated) == (0, 0)
        assert not (score.failed and score.system == "single" and score.verdict_correct)
    [turn, *_] = next(one for one in held.transcripts if one.problem == "p1").debate.rounds[0].turns
    assert turn.response == Response("", None, 0, stop="failed")


def test_too_many_failures_end_it_and_a_server_that_is_well_again_finishes_it(session):
    plan = EvaluationPlan.of([SINGLE], reference="single")
    broken = session(plan=plan, speakers=[Speaker("g", unanswered="question")])
    with pytest.raises(EvaluationError, match=r"more than 2 of .*--fail-on-error"):
        broken.hold(at_once=1, fail_on_error=1.5 / QUESTIONS)
    assert [score.failed for score in broken.scores] == [1, 1]
    again = session(plan=plan).hold(fail_on_error=1.5 / QUESTIONS)
    assert sum(score.failed for score in again.scores) == 2
    assert len(again.scores) == QUESTIONS


def test_any_other_error_ends_it_and_what_is_finished_is_kept(session):
    plan = EvaluationPlan.of([SINGLE, DEBATE], reference="debate")
    broken = session(plan=plan, speakers=[Speaker("c", fails_at=3)])
    with pytest.raises(EngineError, match=r"^out of memory$"):
        broken.hold(at_once=1)
    finished = broken.scores
    assert Counter(score.system for score in finished)["debate"] == 3
    assert broken.progress[-1][0] == len(finished)

    again = session(plan=plan).hold()
    assert again.scores[: len(finished)] == finished
    assert in_order(again.scores) == in_order(session("whole", plan=plan).hold().scores)
    assert again.calls["c"] == QUESTIONS - 3


def test_progress_counts_all_systems_and_says_how_right_the_reference_is(session):
    held = session().hold(at_once=1)
    of = 6 * QUESTIONS
    assert [done for done, _, _ in held.progress] == list(range(of + 1))
    assert {total for _, total, _ in held.progress} == {of}
    assert held.progress[0] == (0, of, "")
    right = []
    for number, score in enumerate(held.scores, start=1):
        if score.system == "debate":
            right.append(score.accuracy)
        assert held.progress[number][2] == (f"debate {sum(right) / len(right):.1%} right" if right else "")
    assert 0 < sum(right) < len(right), "a share that says something"
