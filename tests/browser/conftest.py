"""Pages of debates whose outcomes are known, opened from disk by the Chromium that is installed."""

import shutil
from dataclasses import dataclass, replace
from tempfile import TemporaryFile
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import Page, sync_playwright

from mada.debate.prompts import Prompts
from mada.debate.transcript import Debate, Response, Turn, Verdict, Votes
from mada.evaluation.grid import Grid
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.scores import Transcript
from mada.report.document import Cell, Column, Section, Shade, Table, paragraph, row
from mada.report.page.debates import pack_debates
from mada.report.page.page import page_pieces
from scores import score_of

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
GENERATORS, CRITICS = ("generator-1", "generator-2", "generator-3"), ("critic-1", "critic-2", "critic-3")
# Answers of generators and critics; 42 is right. Of the last, two answers are tied and one critic gives none.
PATTERNS = {
    "corrected": (("41", "41", "42"), ("42", "42", "41")),
    "damaged": (("42", "42", "41"), ("41", "41", "42")),
    "right throughout": (("42", "42", "42"), ("42", "42", "42")),
    "wrong throughout": (("41", "41", "41"), ("41", "40", None)),
}
SECTION = Section(
    "results",
    "Results",
    (
        paragraph("Every benchmark has equal weight."),
        Table(
            "accuracy",
            "Accuracy in percent",
            (Column("system", "text"), *(Column(f"benchmark {number}") for number in range(9))),
            ((row("a debating team with a long name", [Cell("82.0(3)", "**", Shade("green", 63))] * 9),),),
        ),
    ),
)


def held(system, place, answers, *, question, agents=(GENERATORS, CRITICS), prefix="", groups=None):
    """A debate with these answers, and its score; groups number the generators' answers where they are no numbers."""
    benchmark, seed, problem = place
    prompts, debate, shared = Prompts(), Debate(question), []
    for number, given in enumerate(answers):
        asked = prompts.debate_prompt(question, shared) if number else prompts.ask(question)
        turns = []
        for agent, answer in zip(agents[number], given, strict=True):
            is_cut = answer is None
            boxed = "" if is_cut else f"Therefore, the final answer is: $\\boxed{{{answer}}}$."
            text = f"{prefix}<think>\nLet {agent} see.\n</think>\n\nSo $\\frac{{84}}{{2}}$ it is.\n{boxed}\n"
            turns.append(
                Turn(agent, f"<|user|>{asked}<|end|>", 60, Response(text, answer, 120, "length" if is_cut else "end"))
            )
        shared = [prompts.shared(turn.response) for turn in turns]
        debate = debate.with_round("critic" if number else "generator", turns)
    last = [answer for answer in answers[-1] if answer is not None]
    votes = sorted({answer: last.count(answer) for answer in last}.items(), key=lambda vote: -vote[1])
    tie = len(votes) > 1 and votes[0][1] == votes[1][1]
    first = max(set(answers[0]), key=answers[0].count)
    verdict = Verdict(votes[0][0], tuple(Votes(*vote) for vote in votes), tie=tie, unanswered=answers[-1].count(None))
    score = score_of(
        system,
        [[answer == "42" for answer in given] for given in answers],
        benchmark=benchmark,
        seed=seed,
        problem=problem,
        tokens=120,
        prompts=60,
        answers=answers,
        groups=(groups, groups) if groups else tuple(map(_numbers, answers)),
        verdict_correct=verdict.answer == "42",
        first_vote_correct=first == "42",
        tie=tie,
    )
    score = replace(score, agents=agents)
    return Transcript(system, benchmark, seed, problem, "42", debate.with_verdict(verdict)), score


def _numbers(answers):
    return tuple(None if answer is None else int(answer) for answer in answers)


def plan_of(*names, titles=None):
    systems = [
        PlannedSystem(name=name, title=(titles or {}).get(name, name), generators=GENERATORS, critics=CRITICS, rounds=2)
        for name in names
    ]
    return EvaluationPlan(systems=tuple(systems), reference=names[0])


def kept(title, plan, pairs) -> Any:
    """A run as far as packing needs it."""
    transcripts, scores = zip(*pairs, strict=True)
    return SimpleNamespace(title=title, grid=Grid.of(scores, plan), transcripts=lambda: iter(transcripts))


def written(folder, sources, *, title="A run", lead="Which run this is."):
    path = folder / "report.html"
    with TemporaryFile() as file:
        pieces = page_pieces(title, [SECTION], debates=pack_debates(sources, file), lead=[paragraph(lead)])
        path.write_text("".join(pieces), encoding="utf-8", errors="backslashreplace")
    return path


@pytest.fixture(scope="module")
def making():
    """How pages are made, for tests that need another one."""
    return SimpleNamespace(held=held, kept=kept, plan_of=plan_of, written=written, patterns=PATTERNS)


@pytest.fixture(scope="module")
def browser():
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no Chromium here")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield launched
        launched.close()


@pytest.fixture
def watched(browser):
    """Open pages that may neither fail nor ask for anything but themselves."""
    contexts, troubles, requests = [], [], []

    def open_page(address, **context) -> Page:
        made = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
        contexts.append(made)
        page = made.new_page()
        page.set_default_timeout(10_000)
        page.on(
            "console", lambda message: troubles.append(message.text) if message.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        return page

    yield open_page
    for one in contexts:
        one.close()
    assert troubles == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in requests if url.startswith("file:")]) == len(contexts)


@dataclass(frozen=True)
class Known:
    """A debate of the small page: where it is, and what it is known to be."""

    system: str
    benchmark: str
    seed: int
    problem: str
    outcome: str


def known_debates():
    places = [
        (system, benchmark, problem, seed)
        for system in ("debate", "mada")
        for benchmark in ("arithmetic", "algebra")
        for problem in ("p/2", "p/10")
        for seed in (0, 1, 2)
    ]
    outcomes = list(PATTERNS)
    return [
        Known(system, benchmark, seed, problem, outcomes[(number + number // 5) % 4])
        for number, (system, benchmark, problem, seed) in enumerate(places)
    ]


@pytest.fixture(scope="module")
def known():
    """The debates of the small page in the order of its list: benchmarks stand in alphabetical order."""
    return sorted(known_debates(), key=lambda one: (one.system, one.benchmark, len(one.problem), one.problem, one.seed))


@pytest.fixture(scope="module")
def transcripts():
    """What was said in the debates of the small page, by place."""
    return {(one.system, one.benchmark, one.seed, one.problem): one for one, _ in _small()}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The address of a page with 24 debates of two systems."""
    plan = plan_of("debate", "mada", titles={"debate": "Untrained debate", "mada": "MADA"})
    return written(tmp_path_factory.mktemp("small"), [kept("first", plan, _small())]).as_uri()


def _small():
    for one in known_debates():
        animal = (
            "quokka " if (one.system, one.benchmark, one.problem, one.seed) == ("mada", "algebra", "p/10", 1) else ""
        )
        fruit = "a wombat" if one.problem == "p/2" else "a numbat"
        yield held(
            one.system,
            (one.benchmark, one.seed, one.problem),
            PATTERNS[one.outcome],
            question=f"How many legs have {fruit} and nineteen others, halved for {one.benchmark}?",
            prefix=animal,
        )
