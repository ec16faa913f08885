"""`mada debate`: debate a question, or every question of a file, and print the responses and the verdict."""

import asyncio
import json
import math
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mada.cli.terminal import console, silence_libraries
from mada.errors import DataError, MadaError
from mada.text import counted, excerpt, sanitize

if TYPE_CHECKING:
    from mada.debate.transcript import Debate, Verdict
    from mada.team import Team

DEFAULT_MODEL = "mada-nano"


@dataclass(frozen=True, slots=True)
class Question:
    """A question, with its reference answer and id where they are known."""

    text: str
    reference: str | None = None
    id: str | None = None


def debate(
    question: Annotated[str | None, typer.Argument(help="The question; - or nothing reads standard input.")] = None,
    run: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of a run: the team it has trained.")] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"Base model of every agent, untrained; without --run {DEFAULT_MODEL}."),
    ] = None,
    generators: Annotated[int | None, typer.Option(min=1, help="Agents of round 1 (untrained: 3).")] = None,
    critics: Annotated[int | None, typer.Option(min=0, help="Agents of later rounds (untrained: 3).")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds (untrained: 2).")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same debate.")] = 0,
    temperature: Annotated[float | None, typer.Option(min=0.0, help="0 takes the likeliest token.")] = None,
    share: Annotated[
        Literal["full", "answer"] | None, typer.Option(help="What the next round sees of a response.")
    ] = None,
    max_new_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens after which a reply is cut off.")] = None,
    window: Annotated[int | None, typer.Option(min=2, help="Longest prompt and reply together, in tokens.")] = None,
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="An OpenAI-compatible server that samples, such as vLLM's.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Questions: text with one a line, or a file of problems.")
    ] = None,
    reference: Annotated[str | None, typer.Option(metavar="ANSWER", help="The right answer, to mark replies.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print complete transcripts, one JSON object per line.")
    ] = False,
) -> None:
    """Debate: generators answer, critics answer after reading all responses, and the last round votes."""
    own = {"model": model, "generators": generators, "critics": critics}
    shared = {
        "rounds": rounds,
        "temperature": temperature,
        "share": share,
        "max_new_tokens": max_new_tokens,
        "window": window,
        "server": server,
    }
    own, shared = ({key: value for key, value in given.items() if value is not None} for given in (own, shared))
    if run is not None and own:
        names = " and ".join(f"--{name}" for name in own)
        raise MadaError(f"got --run and {names}: a run has its own model and agents; leave one of the two out")
    if file is not None and question is not None:
        raise MadaError("got a question and --file; give one of them")
    if file is not None and reference is not None:
        raise MadaError("got --file and --reference: a file of problems brings its own references; leave one out")
    if temperature is not None and not math.isfinite(temperature):
        raise MadaError(f"got --temperature {temperature}, wanted a number from 0 up, such as 0.7")
    if critics == 0 and (rounds or 2) > 1:
        raise MadaError("got --critics 0 and more than 1 round: critics speak from round 2 on; add --rounds 1")
    try:
        questions = _questions_in(file) if file else [Question(_question_given(question), reference)]
        screen = console()
        name = sanitize(str(run or model or DEFAULT_MODEL))
        with screen.status(f"loading {name}") if screen.is_terminal else nullcontext():
            team = _team(run, own, shared)
        if as_json or file:
            asyncio.run(_print_all(team, questions, seed=seed, as_json=as_json))
        else:
            asyncio.run(_show_one(team, questions[0], seed=seed))
    except KeyboardInterrupt:
        typer.echo("mada: stopped", err=True)
        raise typer.Exit(130) from None


def _team(run: Path | None, own: dict[str, Any], shared: dict[str, Any]) -> "Team":
    if run is not None:
        from mada.runs import StoredRun

        StoredRun.read(run)  # before PyTorch is loaded, which takes seconds
    silence_libraries()
    from mada.debate.prompts import Prompts
    from mada.team import Team

    if run is not None:
        return Team.load(run, **shared)
    prompts = Prompts(share=shared.pop("share", "full"))
    return Team.untrained(prompts=prompts, **own, **shared)


def _question_given(question: str | None) -> str:
    from mada.debate.protocol import check_question

    if question is None and sys.stdin.isatty():
        raise DataError('got no question; write `mada debate "What is 2 + 2?"`, pipe one in, or give --file')
    text = _text(sys.stdin.buffer.read(), "standard input") if question is None or question == "-" else question
    check_question(text.strip())
    return text.strip()


def _text(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: not UTF-8 (at byte {error.start + 1}); save or send it as UTF-8") from None


def _questions_in(path: Path) -> list[Question]:
    from mada.problems import load_problems
    from mada.problems.files import is_problem_file

    if is_problem_file(path.name):
        return [Question(one.question, one.answer, one.id) for one in load_problems(path)]
    try:
        text = _text(path.read_bytes(), str(path))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); give a text file or a file of problems") from None
    questions = [Question(line.strip()) for line in text.split("\n") if line.strip()]
    if not questions:
        raise DataError(f"{path}: holds no questions; wanted one a line")
    return questions


async def _show_one(team: "Team", question: Question, *, seed: int) -> None:
    from mada.cli.debate_view import DebateView
    from mada.events import Events

    async with team:
        with DebateView(question.text, rounds=team.rounds) as view:
            debate = await team.debate(question.text, seed=seed, events=Events(view))
            view.finish(debate, right=await _right_answers(team, debate, question.reference))


async def _print_all(team: "Team", questions: Sequence[Question], *, seed: int, as_json: bool) -> None:
    started, right_verdicts = time.monotonic(), 0
    async with team:
        debates = team.debates([question.text for question in questions], seed=seed)
        for number, question in enumerate(questions, start=1):
            try:
                debate = await anext(debates)
            except MadaError as error:
                where = f"question {number} ({excerpt(question.text, 60)!r}): " if len(questions) > 1 else ""
                raise MadaError(f"{where}{error}") from error
            right = await _right_answers(team, debate, question.reference)
            assert debate.verdict is not None
            is_right = right is not None and debate.verdict.answer in right
            right_verdicts += is_right
            if as_json:
                typer.echo(json.dumps(_record(debate, question, right=right)))
            else:
                _print_line(number, debate.verdict, question=question, is_right=is_right)
    if not as_json:
        known = sum(question.reference is not None for question in questions)
        share = f"{right_verdicts:,} of {known:,} right ({right_verdicts / known:.1%}), " if known else ""
        typer.echo(f"\n{counted(len(questions), 'debate')}, {share}{time.monotonic() - started:.1f} s")


async def _right_answers(team: "Team", debate: "Debate", reference: str | None) -> frozenset[str] | None:
    """Return those answers of a debate that equal the reference; `None` when there is no reference."""
    if reference is None:
        return None
    given = {response.answer for one in debate.rounds for response in one.responses}
    grades = await team.grader.compare_async([(answer, reference) for answer in sorted(given - {None}, key=str)])
    return frozenset(grade.answer for grade in grades if grade.correct and grade.answer is not None)


def _record(debate: "Debate", question: Question, *, right: frozenset[str] | None) -> dict[str, object]:
    """Return the whole transcript as plain values, with what is known about the question."""
    from pydantic import TypeAdapter

    from mada.debate.transcript import Debate

    known = {} if question.id is None else {"id": question.id}
    graded: dict[str, object] = {}
    if right is not None and debate.verdict is not None:
        last = [response.answer in right for response in debate.last.responses]
        graded = {
            "reference": question.reference,
            "correct": debate.verdict.answer in right,
            "accuracy": sum(last) / len(last),
        }
    return {**known, **TypeAdapter(Debate).dump_python(debate, mode="json"), **graded}


def _print_line(number: int, verdict: "Verdict", *, question: Question, is_right: bool) -> None:
    from mada.cli.debate_view import verdict_line

    mark = wanted = ""
    if question.reference is not None:
        mark = typer.style("right  ", fg="green") if is_right else typer.style("wrong  ", fg="red")
        wanted = "" if is_right else f"  (reference {excerpt(question.reference, 60)})"
    typer.echo(f"{number:>6}  {mark}{excerpt(question.text, 60)}  →  {verdict_line(verdict)}{wanted}")
