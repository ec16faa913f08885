"""How requests are answered: chats with a team, which debates, and completions of one agent or of the bare base."""

import secrets
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mada.concurrency import gather_or_cancel
from mada.debate.prompts import render_conversation
from mada.debate.protocol import check_question
from mada.models.chat import check_chat_template, encode_in_thread, encoder_of, prompt_ids
from mada.models.engines import Sampling
from mada.seeds import SEED_BITS, seed_for
from mada.serve.admission import Place
from mada.serve.protocol import ChatRequest, CompletionRequest, RequestError, SamplingRequest, question_of
from mada.serve.replies import (
    AnswerGroups,
    Envelope,
    Json,
    ReasoningText,
    logprobs_json,
    mada_json,
    reasoning_of,
    started_json,
    verdict_event,
    verdict_text,
    with_html,
)
from mada.serve.service import Service
from mada.serve.store import HeldDebate
from mada.serve.streams import Choice, LiveCompletions, LiveDebate
from mada.serve.teams import ServedAgent, ServedModel, ServedTeam, changed

if TYPE_CHECKING:
    import asyncio


@dataclass(frozen=True, slots=True)
class Answer:
    """How a request is answered: `work` does it, under a time limit; `reply` or `stream` then tell the client.

    It needs `count` places of the model, each of so many `rows` of the engine's batch.
    """

    name: str
    model: ServedModel
    count: int
    rows: int
    work: Callable[[Sequence[Place]], Coroutine[Any, Any, None]]
    reply: Callable[[], Json]
    stream: Callable[["asyncio.Task[None]"], AsyncGenerator[Json]] | None
    usage: Callable[[], tuple[int, int]]
    """Prompt tokens and generated tokens so far."""


# --- chats


async def chat_answer(service: Service, request: ChatRequest) -> Answer:
    """Answer a chat with a debate, or with one agent's completions."""
    target = service.catalogue.find(request.model)
    if isinstance(target, ServedTeam):
        return _debate_answer(service, target, request)
    if request.mada.events or request.mada.rounds is not None:
        raise RequestError(400, f"{target.name} is one agent, and does not debate", param="mada")
    loaded = target.model.loaded
    tokenizer = loaded.chat.tokenizer
    check_chat_template(tokenizer)
    characters = sum(len(message.content) for message in request.messages)
    if target.team is None:
        conversation = [{"role": _template_role(one.role), "content": one.content} for one in request.messages]
        ids = await encode_in_thread(
            lambda: prompt_ids(render_conversation(conversation, tokenizer=tokenizer), tokenizer),  # type: ignore[arg-type]
            characters=characters,
        )
    else:
        question = question_of(request.messages)
        check_question(question)
        text = target.settings.prompts.ask(question)
        _, ids = await encode_in_thread(lambda: encoder_of(tokenizer)(text), characters=characters)
    return _sampled_answer(service, target, request, [ids], is_chat=True, with_logprobs=bool(request.logprobs))


def _template_role(role: str) -> str:
    return "system" if role == "developer" else role


def _debate_answer(service: Service, team: ServedTeam, request: ChatRequest) -> Answer:
    if request.logprobs:
        raise RequestError(400, "a debate has no logprobs; ask one agent for them", param="logprobs")
    if request.stop_token_ids or request.return_token_ids:
        raise RequestError(400, "a debate is text, without tokens; ask one agent for them", param="return_token_ids")
    if request.mada.events and (request.n > 1 or not request.stream):
        raise RequestError(400, "events are those of one streamed debate: set stream, and leave n out", param="mada")
    question = question_of(request.messages)
    check_question(question)
    settings = team.settings_for(request, rounds=request.mada.rounds)
    seed = _seed(request)
    debates = [
        LiveDebate(team, settings, question, seed=seed, number=number, grader=service.grader)
        for number in range(request.n)
    ]
    ids = [secrets.token_urlsafe(9) for _ in debates]
    envelope = Envelope(request.model, f"chatcmpl-{ids[0]}", "chat.completion")
    admission = team.model.admission

    async def hold(live: LiveDebate, debate_id: str, place: Place) -> None:
        async with admission.turn(place):
            debate = await live.run()
        # Stored first: what a client was told can be looked up, whatever happens next.
        held = HeldDebate.of(
            debate, debate_id, time=time.time(), team=team.name, seconds=round(live.seconds, 3), seed=live.seed
        )
        live.is_kept = await service.store.add(held, debate)
        service.metrics.debates.labels(team.name, "unanimous" if held.unanimous else "split").inc()

    async def work(places: Sequence[Place]) -> None:
        await gather_or_cancel([hold(*one) for one in zip(debates, ids, places, strict=True)])

    def usage() -> tuple[int, int]:
        done = [live.debate for live in debates if live.debate is not None]
        return sum(one.prompt_tokens for one in done), sum(live.tokens for live in debates)

    def final(index: int) -> Json:
        return {"finish_reason": "stop", "mada": mada_json(debates[index], ids[index])}

    def reply() -> Json:
        choices = [
            {
                "index": index,
                "message": {
                    "role": "assistant",
                    "content": verdict_text(live.debate, request.stop),
                    "reasoning_content": reasoning_of(live.debate),
                },
                "logprobs": None,
                **final(index),
            }
            for index, live in enumerate(debates)
        ]
        return envelope.reply(choices, usage())

    async def stream(task: "asyncio.Task[None]") -> AsyncGenerator[Json]:
        texts = [ReasoningText() for _ in debates]
        for index in range(len(debates)):
            yield envelope.chunk(index, {"role": "assistant", "content": ""})
        groups = AnswerGroups(service.grader)
        if request.mada.events:
            yield envelope.events([started_json(team, settings.rounds, ids[0])])
            if admission.waiting:
                yield envelope.events([{"type": "queued", "ahead": admission.waiting - 1}])
        async for _ in service.readers.looks(task):
            for index, live in enumerate(debates):
                news = live.news()
                if request.mada.events:
                    shown = [await with_html(one, groups) if one["type"] == "turn" else one for one in news]
                    if shown:
                        yield envelope.events(shown)
                elif text := "".join(texts[index].add(one) for one in news):
                    yield envelope.chunk(index, {"reasoning_content": text})
        task.result()
        for index, live in enumerate(debates):
            assert live.debate is not None
            if request.mada.events:
                yield envelope.events([await verdict_event(live, groups)])
            yield envelope.chunk(index, {"content": verdict_text(live.debate, request.stop)})
            yield envelope.chunk(index, {}, **final(index))
        if request.stream_options.include_usage:
            yield envelope.usage(usage())

    return Answer(
        request.model, team.model, request.n, team.width, work, reply, stream if request.stream else None, usage
    )


# --- completions


async def completion_answer(service: Service, request: CompletionRequest) -> Answer:
    """Continue prompts as they stand, without a chat template."""
    target = service.catalogue.find(request.model)
    if isinstance(target, ServedTeam):
        raise RequestError(400, f"{request.model} is a team, which debates: use /v1/chat/completions", param="model")
    if request.n * len(request.prompts) > 1024:
        raise RequestError(400, f"got {len(request.prompts)} prompts of {request.n} choices, wanted at most 1,024")
    tokenizer = target.model.loaded.chat.tokenizer

    async def encoded(prompt: str | list[int]) -> Sequence[int]:
        if not isinstance(prompt, str):
            return prompt
        return await encode_in_thread(
            lambda: tokenizer.encode(prompt, add_special_tokens=request.add_special_tokens), characters=len(prompt)
        )

    prompts = [await encoded(prompt) for prompt in request.prompts]
    return _sampled_answer(service, target, request, prompts, is_chat=False, with_logprobs=request.logprobs is not None)


def _sampled_answer(
    service: Service,
    target: ServedAgent,
    request: SamplingRequest,
    prompts: Sequence[Sequence[int]],
    *,
    is_chat: bool,
    with_logprobs: bool,
) -> Answer:
    loaded = target.model.loaded
    settings = changed(target.settings, request)
    seed = _seed(request)
    ends = tuple(dict.fromkeys((*loaded.chat.stop_tokens, *request.stop_token_ids)))

    def sampling(number: int, prompt: Sequence[int]) -> Sampling:
        _check_prompt(prompt, window=loaded.window, vocabulary=len(loaded.chat.tokenizer))
        own = settings.sampling(loaded.chat, window=loaded.window)
        return Sampling(
            max_tokens=min(own.max_tokens, loaded.window - len(prompt)),
            temperature=own.temperature,
            top_p=own.top_p,
            top_k=own.top_k,
            stop_tokens=ends,
            # The first prompt's seed is the request's: so a server behind which mada serves samples as mada does.
            seed=seed if number == 0 else seed_for(seed, "prompt", number),
        )

    groups = [
        LiveCompletions(
            loaded.engine,
            target.adapter,
            prompt,
            sampling(number, prompt),
            loaded.chat.tokenizer,
            n=request.n,
            stops=request.stop,
            special=not request.skip_special_tokens,
            readers=service.readers,
        )
        for number, prompt in enumerate(prompts)
    ]
    choices = [choice for group in groups for choice in group.choices]
    kind = ("chatcmpl", "chat.completion") if is_chat else ("cmpl", "text_completion")
    envelope = Envelope(request.model, f"{kind[0]}-{secrets.token_urlsafe(9)}", kind[1])

    async def complete(group: LiveCompletions, place: Place) -> None:
        async with target.model.admission.turn(place):
            await group.run()

    async def work(places: Sequence[Place]) -> None:
        await gather_or_cancel([complete(*one) for one in zip(groups, places, strict=True)])

    def usage() -> tuple[int, int]:
        return sum(len(group.prompt_ids) for group in groups), sum(group.tokens for group in groups)

    def details(choice: Choice, *, since: int = 0) -> Json:
        fields: Json = {"logprobs": None}
        if with_logprobs:
            fields["logprobs"] = logprobs_json(choice, loaded.chat.tokenizer, is_chat=is_chat, since=since)
        if request.return_token_ids:
            fields["token_ids"] = list(choice.token_ids[since:])
        return fields

    def ending(choice: Choice) -> Json:
        last = choice.token_ids[-1] if choice.token_ids else None
        ended_by = last if choice.finish_reason == "stop" and last in ends and choice.stopped_at is None else None
        return {"finish_reason": choice.finish_reason, "stop_reason": ended_by}

    def reply() -> Json:
        made: list[Json] = []
        for index, choice in enumerate(choices):
            choice.read()
            said = {"message": {"role": "assistant", "content": choice.text}} if is_chat else {"text": choice.text}
            made.append({"index": index, **said, **details(choice), **ending(choice)})
        return envelope.reply(made, usage())

    async def stream(task: "asyncio.Task[None]") -> AsyncGenerator[Json]:
        told = [0] * len(choices)
        if is_chat:
            for index in range(len(choices)):
                yield envelope.chunk(index, {"role": "assistant", "content": ""})

        def piece(index: int) -> Json | None:
            choice, since = choices[index], told[index]
            text = choice.read()
            told[index] = len(choice.token_ids)
            if not text and told[index] == since:
                return None
            return _piece(envelope, index, text, is_chat=is_chat, **details(choice, since=since))

        async for _ in service.readers.looks(task):
            for index in range(len(choices)):
                if (made := piece(index)) is not None:
                    yield made
        task.result()
        for index, choice in enumerate(choices):
            yield _piece(envelope, index, "", is_chat=is_chat, **ending(choice))
        if request.stream_options.include_usage:
            yield envelope.usage(usage())

    return Answer(
        request.model, target.model, len(groups), request.n, work, reply, stream if request.stream else None, usage
    )


def _piece(envelope: "Envelope", index: int, text: str, *, is_chat: bool, **fields: Any) -> Json:
    if is_chat:
        return envelope.chunk(index, {"content": text} if text else {}, **fields)
    return envelope.text_chunk(index, text, **fields)


def _check_prompt(prompt: Sequence[int], *, window: int, vocabulary: int) -> None:
    if not prompt:
        raise RequestError(400, "the prompt is empty", param="prompt")
    if not 0 <= min(prompt) <= max(prompt) < vocabulary:
        raise RequestError(400, f"the prompt has token ids outside of 0 to {vocabulary - 1}", param="prompt")
    if len(prompt) >= window:
        raise RequestError(
            400,
            f"the prompt has {len(prompt):,} tokens, and the window is {window:,}",
            code="context_length_exceeded",
            param="messages",
        )


def _seed(request: SamplingRequest) -> int:
    return secrets.randbits(31) if request.seed is None else request.seed % 2**SEED_BITS
