"""Work that can be read while it is done: a debate turn by turn, completions token by token.

The engine writes tokens where readers find them (`Live`); readers come by now and then. So nothing is sent for a token,
and a slow reader holds nobody up.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mada.debate.protocol import RoundStarted, TurnFinished, run_debate
from mada.debate.transcript import Debate
from mada.debate.verdict import vote
from mada.events import Event, Events
from mada.grading import Grader
from mada.models.chat import text_of
from mada.models.engines import Completion, Engine, Live, Sampling
from mada.seeds import seed_for
from mada.serve.replies import Json, turn_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from mada.agents import DebateSettings
    from mada.models.engine_agent import EngineAgent
    from mada.serve.teams import ServedTeam

_INTERVAL = 0.05
_STREAMS = 16
"""So many streams are read every `_INTERVAL` seconds; more are read more rarely, so that reading stays a trifle."""
_HALF_CHARACTER = "\ufffd"


class Readers:
    """How many streams are being read, and so how often each is."""

    def __init__(self) -> None:
        self.count = 0

    @property
    def interval(self) -> float:
        """Seconds between two looks at a stream."""
        return _INTERVAL * max(1.0, self.count / _STREAMS)

    async def looks(self, task: "asyncio.Task[Any]") -> AsyncGenerator[None]:
        """Yield whenever it is time to look, and once after the end, even if that was before the first look."""
        self.count += 1
        try:
            has_ended = False
            while not has_ended:
                await asyncio.wait({task}, timeout=self.interval)
                has_ended = task.done()
                yield
        finally:
            self.count -= 1


class TextSoFar:
    """The text of tokens that keep coming, without characters of which only a part is there."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", *, special: bool = False) -> None:
        self.text = ""
        self._tokenizer, self._special = tokenizer, special
        # The text of tokens depends on the one before, so each piece is decoded with the piece before it.
        self._before = self._read = 0

    def read(self, token_ids: Sequence[int], *, final: bool = False) -> str:
        """Return what has been added to the text; the `final` tokens may end in the middle of a character."""
        known = self._decode(token_ids[self._before : self._read])
        now = self._decode(token_ids[self._before :])
        if len(now) <= len(known) or (now.endswith(_HALF_CHARACTER) and not final):
            return ""
        self._before, self._read = self._read, len(token_ids)
        self.text += now[len(known) :]
        return now[len(known) :]

    def _decode(self, token_ids: Sequence[int]) -> str:
        if self._special:
            return str(self._tokenizer.decode(list(token_ids), skip_special_tokens=False))
        return text_of(token_ids, self._tokenizer)


class _WatchedEngine:
    """An engine for one agent of one debate, whose latest reply can be read while it is sampled."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.live = Live()

    async def sample(
        self,
        agent: str | None,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        live: Sequence[Live] | None = None,
    ) -> list[Completion]:
        """Sample, and let the first completion be read."""
        watched = live or [Live() for _ in range(n)]
        self.live = watched[0]
        return await self._engine.sample(agent, prompt_ids, sampling, n=n, live=watched)

    async def sleep(self) -> None:
        """Pass it on."""
        await self._engine.sleep()

    async def wake_up(self) -> None:
        """Pass it on."""
        await self._engine.wake_up()

    async def close(self) -> None:
        """Do nothing: the engine serves others too."""


class LiveDebate:
    """One debate of a served team. `run` holds it; `news` says what has happened since the last look.

    Its words are those of the page's events: round, delta, turn, verdict.
    """

    def __init__(
        self, team: "ServedTeam", settings: "DebateSettings", question: str, *, seed: int, number: int, grader: Grader
    ) -> None:
        self.team, self.question = team, question
        self.debate: Debate | None = None
        self.is_kept = False
        """Whether the debate can be read again."""
        self.seconds = 0.0
        self.tokens = 0
        """Generated so far, of replies that have ended."""
        # The first of several debates is the one that `mada debate --seed` holds.
        self.seed = seed
        self._seed = seed_for(seed, "debate", question, *([number] if number else []))
        self._rounds, self._grader = settings.rounds, grader
        loaded = team.model.loaded
        self._tokenizer = loaded.chat.tokenizer
        self._engines: dict[str, list[_WatchedEngine]] = {}
        self._agents: dict[str, list[EngineAgent]] = {}
        for role, names in (("generator", team.spec.generators), ("critic", team.spec.critics)):
            engines = [_WatchedEngine(loaded.engine) for _ in names]
            self._engines[role] = engines
            self._agents[role] = [
                team.agent(name, settings, engine) for name, engine in zip(names, engines, strict=True)
            ]
        self._happened: list[Event] = []
        self._round: RoundStarted | None = None
        self._texts: list[TextSoFar | None] = []

    async def run(self) -> Debate:
        """Hold the debate, and vote."""
        started = time.monotonic()
        debate = await run_debate(
            self.question,
            generators=self._agents["generator"],
            critics=self._agents["critic"] if self._rounds > 1 else (),
            rounds=self._rounds,
            seed=self._seed,
            events=Events(self._subscriber),
        )
        verdict = await vote([one.responses for one in debate.rounds], grader=self._grader)
        self.seconds = time.monotonic() - started
        self.debate = debate.with_verdict(verdict)
        return self.debate

    def news(self) -> list[Json]:
        """Return what has happened since the last call, as events of the page."""
        events: list[Json] = []
        happened, self._happened = self._happened, []
        for event in happened:
            if isinstance(event, RoundStarted):
                self._round = event
                self._texts = [TextSoFar(self._tokenizer) for _ in event.agents]
                events.append({"type": "round", "round": event.round, "role": event.role, "agents": list(event.agents)})
            elif isinstance(event, TurnFinished):
                self._texts[event.index] = None
                events.append({"type": "turn", **turn_json(event.turn, number=event.round, index=event.index)})
        if self._round is not None:
            engines = self._engines[self._round.role]
            for index, text in enumerate(self._texts):
                added = "" if text is None else text.read(engines[index].live.token_ids)
                if added:
                    events.append({"type": "delta", "round": self._round.round, "index": index, "text": added})
        return events

    def _subscriber(self, event: Event) -> None:
        self._happened.append(event)
        if isinstance(event, RoundStarted):
            for engine in self._engines[event.role]:
                engine.live = Live()
        elif isinstance(event, TurnFinished):
            self.tokens += event.turn.response.token_count


@dataclass(slots=True)
class Choice:
    """One completion as far as it may be shown: cut at the first stop text, and never in the middle of one."""

    live: Live
    so_far: TextSoFar
    stops: tuple[str, ...] = ()
    end_tokens: tuple[int, ...] = ()
    """Tokens that end a reply and are not part of its text, where special tokens are."""
    sent: int = 0
    stopped_at: int | None = None
    completion: Completion | None = None

    def look(self) -> None:
        """Read the tokens that have come, and find a stop text in them."""
        token_ids = self.token_ids
        if token_ids and token_ids[-1] in self.end_tokens:
            token_ids = token_ids[:-1]
        added = self.so_far.read(token_ids, final=self.completion is not None)
        if added and self.stopped_at is None:
            start = max(0, len(self.so_far.text) - len(added) - self._longest_stop)
            found = [self.so_far.text.find(stop, start) for stop in self.stops]
            self.stopped_at = min((at for at in found if at >= 0), default=None)

    def read(self) -> str:
        """Return the text that may be shown and has not been returned before."""
        self.look()
        end = len(self.text)
        if not self.has_ended:
            end -= max(0, self._longest_stop - 1)
        shown = self.text[self.sent : max(end, self.sent)]
        self.sent += len(shown)
        return shown

    @property
    def _longest_stop(self) -> int:
        return max(map(len, self.stops), default=0)

    @property
    def text(self) -> str:
        """The whole text, without what follows a stop text."""
        return self.so_far.text[: self.stopped_at]

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will be shown."""
        return self.completion is not None or self.stopped_at is not None

    @property
    def finish_reason(self) -> str:
        """How it ended, in OpenAI's words; a reply that a server behind this one filtered is `content_filter`."""
        if self.stopped_at is not None or self.completion is None:
            return "stop"
        return {"end": "stop", "length": "length", "failed": "content_filter"}[self.completion.stop]

    @property
    def token_ids(self) -> Sequence[int]:
        """The tokens sampled."""
        return self.live.token_ids if self.completion is None else self.completion.token_ids

    @property
    def log_probs(self) -> Sequence[float]:
        """Their log-probabilities, where the engine gives them."""
        return self.live.log_probs if self.completion is None else self.completion.log_probs


class LiveCompletions:
    """Completions of one prompt, of which the text so far can be read; stop texts end them early."""

    def __init__(
        self,
        engine: Engine,
        adapter: str | None,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        tokenizer: "PreTrainedTokenizerBase",
        *,
        n: int,
        stops: tuple[str, ...],
        special: bool,
        readers: Readers,
    ) -> None:
        self.prompt_ids = prompt_ids
        end_tokens = sampling.stop_tokens if special else ()
        self.choices = [Choice(Live(), TextSoFar(tokenizer, special=special), stops, end_tokens) for _ in range(n)]
        self._engine, self._adapter, self._sampling, self._readers = engine, adapter, sampling, readers
        self._stops = stops

    @property
    def tokens(self) -> int:
        """Generated so far."""
        return sum(len(choice.token_ids) for choice in self.choices)

    async def run(self) -> None:
        """Sample all completions, or until each has come to a stop text."""
        lives = [choice.live for choice in self.choices]
        sampling = asyncio.ensure_future(
            self._engine.sample(self._adapter, self.prompt_ids, self._sampling, n=len(lives), live=lives)
        )
        try:
            if self._stops:
                async for _ in self._readers.looks(sampling):
                    for choice in self.choices:
                        choice.look()
                    if not sampling.done() and all(choice.stopped_at is not None for choice in self.choices):
                        return
            for choice, completion in zip(self.choices, await sampling, strict=True):
                choice.completion = completion
        finally:
            sampling.cancel()
            await asyncio.gather(sampling, return_exceptions=True)
