"""How a debate is shown: live panels in a terminal, plain lines in a file or a pipe."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from mada.cli.terminal import View
from mada.debate.protocol import RoundStarted, TurnFinished
from mada.events import Event
from mada.text import counted, excerpt, sanitize

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.panel import Panel
    from rich.text import Text

    from mada.debate.transcript import Debate, Turn, Verdict

SIDE_BY_SIDE = 100
NARROWEST_COLUMN = 45
FEWEST_LINES = 3
MOST_LINES = 16
TIE_RULE = "tie: more votes in the round before, then the shorter spelling, then alphabetical order"


@dataclass(slots=True)
class _Round:
    """A round, and what agents have said in it, after how many seconds."""

    title: str
    started: float
    agents: list[str]
    said: "dict[int, tuple[Turn, float]]" = field(default_factory=dict[int, "tuple[Turn, float]"])


class DebateView(View):
    """A subscriber to a debate's events that shows rounds side by side, a panel per agent, or a line per turn.

    with DebateView(question, rounds=team.rounds) as view:
        view.finish(await team.debate(question, events=Events(view)))
    """

    def __init__(
        self,
        question: str,
        *,
        rounds: int,
        console: "Console | None" = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(console, clock=clock)
        self._question = sanitize(question)
        self._expected_rounds = rounds
        self._rounds: list[_Round] = []
        self._debate: Debate | None = None
        self._right: frozenset[str] | None = None
        self._started = clock()
        self._cost = ""

    def __call__(self, event: Event) -> None:
        """Show an event."""
        match event:
            case RoundStarted(number, role, agents):
                title = f"round {number}: {role}s"
                self._rounds.append(_Round(title, self.clock(), [sanitize(agent) for agent in agents]))
                self.line(title)
            case TurnFinished(number, index, turn):
                current = self._rounds[number - 1]
                seconds = self.clock() - current.started
                current.said[index] = turn, seconds
                self.line(f"  {current.agents[index]}: {_said(turn)} ({_details(turn, seconds)})")
            case _:
                pass

    def finish(self, debate: "Debate", *, right: frozenset[str] | None = None) -> None:
        """Show the verdict; `right` holds the answers that equal the reference, where there is one."""
        self._debate, self._right = debate, right
        self._cost = f"{debate.generated_tokens:,} tokens generated, {self.clock() - self._started:.1f} s"
        verdict, *facts = self._outcome(debate)
        for line in (f"verdict: {verdict}", *map(str, facts)):
            self.line(line)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # A message follows that says what went wrong; agents that will never speak would only distract from it.
        self.close(erase=kind is not None and issubclass(kind, Exception))

    def render(self) -> "RenderableType":
        """Return the current state as rich renderables."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        side_by_side = self.console.width >= max(SIDE_BY_SIDE, NARROWEST_COLUMN * self._expected_rounds)
        width = self.console.width // self._expected_rounds - 1 if side_by_side else self.console.width
        # While the view moves it must fit the screen; at the end all of it may be read.
        rounds = self._rounds if side_by_side or self._debate else self._rounds[-1:]
        panels = max((len(one.agents) for one in rounds), default=1)
        lines = max(FEWEST_LINES, min(MOST_LINES, (self.console.height - 4) // panels - 2))
        columns = [
            Group(
                Text(one.title, style="cyan"),
                *(
                    self._panel(one, index, width=width, lines=MOST_LINES if self._debate else lines)
                    for index in range(len(one.agents))
                ),
            )
            for one in rounds
        ]
        parts: list[RenderableType] = [Text(excerpt(self._question, 400), style="bold")]
        if side_by_side:
            table = Table.grid(expand=True, padding=(0, 1))
            for _ in range(self._expected_rounds):
                table.add_column(ratio=1)
            table.add_row(*columns)
            parts.append(table)
        else:
            parts += columns
        if self._debate is not None:
            verdict = Group(*self._outcome(self._debate))
            parts.append(Panel(verdict, title=Text("verdict"), title_align="left", border_style="green"))
        return Group(*parts)

    def _panel(self, one: _Round, index: int, *, width: int, lines: int) -> "Panel":
        from rich.panel import Panel
        from rich.spinner import Spinner
        from rich.text import Text

        agent = one.agents[index]
        if index not in one.said:
            waiting = Spinner("dots", Text(f"{self.clock() - one.started:.1f} s", style="dim"))
            return Panel(waiting, title=Text(agent), title_align="left", border_style="dim")
        turn, seconds = one.said[index]
        title = Text.assemble(f"{agent}: ", self._marked(_said(turn), turn.response.answer))
        title.truncate(max(10, width - 6), overflow="ellipsis")
        return Panel(
            _cut(styled_response(turn), console=self.console, width=width - 4, lines=lines),
            title=title,
            title_align="left",
            subtitle=Text(_details(turn, seconds), style="dim"),
            subtitle_align="right",
        )

    def _outcome(self, debate: "Debate") -> "list[Text]":
        """Return the verdict, the rule for a tie, and the cost."""
        from rich.text import Text

        assert debate.verdict is not None
        facts = [TIE_RULE, self._cost] if debate.verdict.tie else [self._cost]
        verdict = self._marked(verdict_line(debate.verdict), debate.verdict.answer)
        return [verdict, *(Text(fact, style="dim") for fact in facts)]

    def _marked(self, said: str, answer: str | None) -> "Text":
        """Return what was said, marked as right or wrong where there is a reference."""
        from rich.text import Text

        text = Text.assemble((said, "yellow" if answer is None else "bold green"))
        if self._right is not None:
            text.append(*((" – right", "green") if answer in self._right else (" – wrong", "red")))
        return text


def styled_response(turn: "Turn") -> "Text":
    """Return a response with its reasoning dim and its answer highlighted."""
    from rich.text import Text

    # A tab is as wide as the terminal likes, which would break the panel's frame.
    said = sanitize(turn.response.text).strip().expandtabs(4)
    answer = sanitize(turn.response.answer or "")
    start = said.rfind(answer, max(0, said.rfind("\\boxed"))) if answer else -1
    text = Text(said)
    text.stylize("dim", 0, len(said) if start < 0 else said.rfind("\n", 0, start) + 1)
    if start >= 0:
        text.stylize("bold green", start, start + len(answer))
    if turn.response.truncated:
        text.append(" [cut off at the token limit]", style="yellow")
    return text


def verdict_line(verdict: "Verdict") -> str:
    """Return the verdict with its votes: `42 (2 of 3 votes; 41: 1)`."""
    if verdict.answer is None:
        return f"no answer ({counted(verdict.unanswered, 'agent')} without one)"
    first, *others = verdict.votes
    counts = [f"{excerpt(one.answer, 30)}: {one.count}" for one in others]
    counts += [f"no answer: {verdict.unanswered}"] if verdict.unanswered else []
    return f"{excerpt(verdict.answer, 60)} ({'; '.join([f'{first.count} of {verdict.voters} votes', *counts])})"


def _said(turn: "Turn") -> str:
    return "no answer" if turn.response.answer is None else excerpt(turn.response.answer, 60)


def _details(turn: "Turn", seconds: float) -> str:
    facts = [counted(turn.response.token_count, "token"), f"{seconds:.1f} s"]
    if turn.response.truncated:
        facts.append("cut off")
    if turn.shortened_responses:
        facts.append(f"saw {counted(turn.shortened_responses, 'response')} shortened")
    return ", ".join(facts)


def _cut(text: "Text", *, console: "Console", width: int, lines: int) -> "RenderableType":
    """Shorten a long text to its beginning and more of its end, which holds the answer."""
    from rich.console import Group
    from rich.text import Text

    wrapped = text.wrap(console, max(10, width))
    left_out = len(wrapped) - lines
    if left_out <= 0:
        return text
    head = (lines - 1) // 3
    middle = Text(f"… {counted(left_out + 1, 'line')} left out …", style="dim italic")
    return Group(*wrapped[:head], middle, *wrapped[head + left_out + 1 :])
