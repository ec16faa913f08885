"""How a debate is shown: live panels in a terminal, plain lines in a file or a pipe."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from mada.cli.terminal import console as plain_console
from mada.debate.protocol import RoundStarted, TurnFinished
from mada.events import Event
from mada.text import counted, excerpt, sanitize

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.panel import Panel
    from rich.text import Text

    from mada.debate.transcript import Debate, Role, Turn, Verdict

SIDE_BY_SIDE = 100
NARROWEST_COLUMN = 45
FEWEST_LINES = 3
MOST_LINES = 16
TIE_RULE = "tie: more votes in the round before, then the shorter spelling, then alphabetical order"


def debate_view(question: str, *, rounds: int, console: "Console | None" = None) -> "DebateView":
    """Return the view that suits where output goes: live in a terminal, lines in a file or a pipe."""
    console = console or plain_console()
    kind = LiveView if console.is_terminal else LineView
    return kind(question, rounds=rounds, console=console)


@dataclass(slots=True)
class _AgentTurn:
    """An agent in a round, and its turn once it has answered."""

    agent: str
    turn: "Turn | None" = None
    seconds: float = 0.0


@dataclass(slots=True)
class _Round:
    number: int
    role: "Role"
    started: float
    agents: list[_AgentTurn] = field(default_factory=list[_AgentTurn])

    @property
    def title(self) -> str:
        return f"round {self.number}: {self.role}s"


class DebateView:
    """A subscriber to a debate's events that keeps what its subclasses show.

    with debate_view(question, rounds=team.rounds) as view:
        view.finish(await team.debate(question, events=Events(view)))
    """

    def __init__(
        self, question: str, *, rounds: int, console: "Console", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.question = sanitize(question)
        self.expected_rounds = rounds
        self.console = console
        self.rounds: list[_Round] = []
        self.debate: Debate | None = None
        self.right: frozenset[str] | None = None
        self._clock = clock
        self._started = clock()
        self._seconds = 0.0

    def __call__(self, event: Event) -> None:
        """Record an event."""
        match event:
            case RoundStarted(number, role, agents):
                self.rounds.append(
                    _Round(number, role, self._clock(), [_AgentTurn(sanitize(agent)) for agent in agents])
                )
            case TurnFinished(number, index, turn):
                current = self.rounds[number - 1]
                current.agents[index].turn = turn
                current.agents[index].seconds = self._clock() - current.started
            case _:
                pass

    def finish(self, debate: "Debate", *, right: frozenset[str] | None = None) -> None:
        """Show the verdict; `right` holds the answers that equal the reference, where there is one."""
        self.debate = debate
        self.right = right
        self._seconds = self._clock() - self._started

    def mark(self, answer: str | None) -> str:
        """Return `right` or `wrong`, or nothing without a reference."""
        if self.right is None:
            return ""
        return "right" if answer in self.right else "wrong"

    def cost(self) -> str:
        """Return the debate's tokens and seconds."""
        assert self.debate is not None
        return f"{self.debate.generated_tokens:,} tokens generated, {self._seconds:.1f} s"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Do nothing; subclasses stop what they started."""


class LineView(DebateView):
    """One line per round, turn and verdict, for logs and for grep."""

    def __call__(self, event: Event) -> None:
        """Print an event."""
        super().__call__(event)
        match event:
            case RoundStarted():
                self._print(self.rounds[-1].title)
            case TurnFinished(number, index, turn):
                said = self.rounds[number - 1].agents[index]
                self._print(f"  {said.agent}: {_said(turn)} ({_details(turn, said.seconds)})")
            case _:
                pass

    def finish(self, debate: "Debate", *, right: frozenset[str] | None = None) -> None:
        """Print the verdict."""
        super().finish(debate, right=right)
        assert debate.verdict is not None
        mark = self.mark(debate.verdict.answer)
        self._print(f"verdict: {verdict_line(debate.verdict)}{f' – {mark}' if mark else ''}")
        if debate.verdict.tie:
            self._print(TIE_RULE)
        self._print(self.cost())

    def _print(self, line: str) -> None:
        # Never wrapped: one line is one line.
        self.console.print(line, soft_wrap=True)


class LiveView(DebateView):
    """Rounds side by side, a panel per agent; it stays on the screen when the debate ends."""

    _live: "Live | None" = None

    def __enter__(self) -> Self:
        from rich.live import Live

        self._live = Live(get_renderable=self.render, console=self.console, refresh_per_second=8)
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._live is not None:
            # While it moves, a view must not be taller than the screen; at the end all of it may be read.
            self._live.vertical_overflow = "visible"
            # A message follows that says what went wrong; agents that will never speak would only distract from it.
            self._live.transient = kind is not None and issubclass(kind, Exception)
            self._live.stop()

    def render(self) -> "RenderableType":
        """Return the current state as rich renderables."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        parts: list[RenderableType] = [Text(excerpt(self.question, 400), style="bold")]
        columns = Table.grid(expand=True, padding=(0, 1))
        for _ in range(self.expected_rounds):
            columns.add_column(ratio=1)
        rounds = [self._column(one) for one in self._shown()]
        columns.add_row(*rounds)
        parts += [columns] if self._side_by_side else rounds
        if self.debate is not None:
            parts.append(self._verdict())
        return Group(*parts)

    def _column(self, one: _Round) -> "RenderableType":
        from rich.console import Group
        from rich.text import Text

        return Group(Text(one.title, style="cyan"), *[self._panel(entry, one) for entry in one.agents])

    def _panel(self, entry: _AgentTurn, one: _Round) -> "Panel":
        from rich.panel import Panel
        from rich.spinner import Spinner
        from rich.text import Text

        if entry.turn is None:
            waiting = Spinner("dots", Text(f"{self._clock() - one.started:.1f} s", style="dim"))
            return Panel(waiting, title=Text(entry.agent), title_align="left", border_style="dim")
        answer = entry.turn.response.answer
        title = Text.assemble(f"{entry.agent}: ", self._marked(_said(entry.turn), answer))
        title.truncate(max(10, self._panel_width() - 6), overflow="ellipsis")
        return Panel(
            _cut(styled_response(entry.turn), console=self.console, width=self._panel_width() - 4, lines=self._lines()),
            title=title,
            title_align="left",
            subtitle=Text(_details(entry.turn, entry.seconds), style="dim"),
            subtitle_align="right",
        )

    def _marked(self, said: str, answer: str | None) -> "Text":
        from rich.text import Text

        mark = self.mark(answer)
        text = Text.assemble((said, "yellow" if answer is None else "bold green"))
        return text.append(f" – {mark}", style="green" if mark == "right" else "red") if mark else text

    @property
    def _side_by_side(self) -> bool:
        return self.console.width >= max(SIDE_BY_SIDE, NARROWEST_COLUMN * self.expected_rounds)

    def _shown(self) -> list[_Round]:
        """Return the rounds to draw: one below the other they would not fit a screen while they move."""
        return self.rounds if self._side_by_side or self.debate is not None else self.rounds[-1:]

    def _panel_width(self) -> int:
        return self.console.width // self.expected_rounds - 1 if self._side_by_side else self.console.width

    def _lines(self) -> int:
        """Lines of text in a panel: while the view moves, as many as leave all panels on the screen."""
        if self.debate is not None:
            return MOST_LINES
        panels = max(len(one.agents) for one in self._shown())
        return max(FEWEST_LINES, min(MOST_LINES, (self.console.height - 4) // panels - 2))

    def _verdict(self) -> "Panel":
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        assert self.debate is not None
        assert self.debate.verdict is not None
        verdict = self.debate.verdict
        facts = [TIE_RULE, self.cost()] if verdict.tie else [self.cost()]
        lines = [self._marked(verdict_line(verdict), verdict.answer), *[Text(fact, style="dim") for fact in facts]]
        return Panel(Group(*lines), title=Text("verdict"), title_align="left", border_style="green")


def styled_response(turn: "Turn") -> "Text":
    """Return a response with its reasoning dim and its answer highlighted."""
    from rich.text import Text

    # A tab is as wide as the terminal likes, which would break the panel's frame.
    said = sanitize(turn.response.text).strip().expandtabs(4)
    answer = None if turn.response.answer is None else sanitize(turn.response.answer)
    text = Text(said, style="dim")
    start = -1 if answer is None else said.rfind(answer, max(0, said.rfind("\\boxed")))
    if answer is not None and start >= 0:
        line = said.rfind("\n", 0, start) + 1
        text = Text.assemble(
            (said[:line], "dim"), said[line:start], (answer, "bold green"), said[start + len(answer) :]
        )
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
    tail = lines - 1 - head
    middle = Text(f"… {counted(left_out + 1, 'line')} left out …", style="dim italic")
    return Group(*wrapped[:head], middle, *wrapped[len(wrapped) - tail :])
