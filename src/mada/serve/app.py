"""The server's routes: OpenAI's endpoints of teams, agents and bases, the debates held, health and metrics.

Every request is a task of its own. It holds its place in the queue until it ends, and it is cancelled, which frees its
rows in the engine's batch, when its client goes away or its time is over.
"""

import asyncio
import hmac
import json
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from sse_starlette.sse import EventSourceResponse
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from mada.errors import DataError, EngineError, GradingError, MadaError
from mada.serve.admission import Place
from mada.serve.answers import Answer, chat_answer, completion_answer
from mada.serve.protocol import ChatRequest, CompletionRequest, RequestError, parse
from mada.serve.replies import Json, held_json, model_json, team_json
from mada.serve.service import Service
from mada.text import shortened

_log = logging.getLogger("mada.serve")
_BODY_SECONDS = 30.0
_SEND_SECONDS = 60.0
"""A reader that takes nothing for so long has gone."""
_PING_SECONDS = 15
CLIENT_GONE = 499


def make_app(service: Service, watch: APIRouter | None = None) -> FastAPI:
    """Return the application, without the page; `watch` are the routes of runs."""
    # The documentation pages of FastAPI load scripts from elsewhere.
    app = FastAPI(title="mada", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.service = service

    @app.exception_handler(RequestError)
    async def refuse(request: Request, error: RequestError) -> JSONResponse:
        if request.method == "POST":
            service.metrics.requests.labels("", str(error.status)).inc()
            _log.info("refused", extra={"fields": {"status": error.status, "reason": str(error)}})
        return error_response(error)

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> JSONResponse:
        return error_response(RequestError(error.status_code, str(error.detail)))

    app.include_router(_open_routes(service))
    for routes in (_routes(service, can_watch=watch is not None), watch):
        if routes is not None:
            app.include_router(routes, dependencies=[Depends(_key_check(service))])
    return app


def error_response(error: RequestError) -> JSONResponse:
    """Return an error in OpenAI's form."""
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(error.body, error.status, headers)


def _key_check(service: Service) -> Callable[[Request], Awaitable[None]]:
    async def check(request: Request) -> None:
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        known = [hmac.compare_digest(given.strip().encode(), key) for key in service.keys]
        if service.keys and not (scheme.lower() == "bearer" and any(known)):
            raise RequestError(
                401, "this server wants an API key: send `Authorization: Bearer KEY`", code="invalid_api_key"
            )

    return check


def _open_routes(service: Service) -> APIRouter:
    """Return the routes that need no key."""
    router = APIRouter()

    @router.get("/health")
    async def health() -> JSONResponse:
        down = [model.name for model in service.catalogue.models if not model.is_ready]
        state = "ending" if service.is_closing else "starting" if down else "ok"
        return JSONResponse({"status": state}, 200 if state == "ok" else 503)

    @router.get("/metrics")
    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router


def _routes(service: Service, *, can_watch: bool) -> APIRouter:
    router = APIRouter()

    @router.get("/v1/models")
    async def models() -> Json:
        return {"object": "list", "data": [model_json(service.catalogue, name) for name in service.catalogue.names]}

    @router.get("/v1/models/{name:path}")
    async def model(name: str) -> Json:
        service.catalogue.find(name)
        return model_json(service.catalogue, name)

    @router.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        return await _answer(service, request, lambda body: chat_answer(service, parse(ChatRequest, body)))

    @router.post("/v1/completions")
    async def completions(request: Request) -> Response:
        return await _answer(service, request, lambda body: completion_answer(service, parse(CompletionRequest, body)))

    @router.get("/api/info")
    async def info() -> Json:
        from mada import __version__

        teams = [team_json(team) for team in service.catalogue.teams]
        return {"teams": teams, "can_ask": True, "can_watch": can_watch, "version": __version__}

    @router.get("/api/debates")
    async def debates(limit: int = 50) -> Json:
        return {"debates": [asdict(held) for held in await service.store.newest(max(1, min(limit, 1000)))]}

    @router.get("/api/debates/{name}")
    async def debate(name: str) -> Json:
        found = await service.store.get(name)
        if found is None:
            raise RequestError(404, "there is no debate of that id here", code="not_found")
        return await held_json(*found, grader=service.grader)

    return router


# --- a request from its body to its answer


async def _answer(service: Service, request: Request, read: Callable[[bytes], Awaitable[Answer]]) -> Response:
    started = time.monotonic()
    if service.is_closing:
        raise RequestError(503, "the server is ending; ask another, or later", retry_after=10)
    try:
        answer = await read(await _body(request, service.limits.body_bytes))
    except DataError as error:
        raise RequestError(400, str(error), param="messages") from None
    except MadaError as error:
        raise RequestError(400, str(error)) from None
    admission = answer.model.admission
    places = admission.reserve(answer.count, rows=answer.rows)
    task = asyncio.create_task(_work(service, answer, places))
    # Whatever becomes of the task, even if it is cancelled before it begins.
    task.add_done_callback(lambda _: [admission.release(place) for place in places])

    def finish(status: int) -> None:
        _record(service, answer, status=status, seconds=time.monotonic() - started, client=request.client)

    if answer.stream is not None:
        return _Stream(answer.stream(task), task, finish)
    gone = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            finish(CLIENT_GONE)
            return Response(status_code=CLIENT_GONE)
        try:
            task.result()
        except RequestError as error:
            finish(error.status)
            return error_response(error)
        finish(200)
        return JSONResponse(answer.reply())
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _work(service: Service, answer: Answer, places: Sequence[Place]) -> None:
    """Do the work; whatever goes wrong becomes a RequestError."""
    limit = service.limits.seconds
    try:
        async with asyncio.timeout(limit):
            await answer.work(places)
    except TimeoutError:
        raise RequestError(504, f"not done within {limit:g} s, the server's limit", code="timeout") from None
    except RequestError:
        raise
    except EngineError as error:
        _log.warning("%s: %s", answer.name, error)
        answer.model.check_health()
        raise RequestError(502, f"the engine cannot do it: {shortened(str(error), 300)}", retry_after=5) from None
    except GradingError as error:
        _log.warning("%s: %s", answer.name, error)
        raise RequestError(500, f"the answers cannot be compared: {error}", retry_after=5) from None
    except MadaError as error:
        raise RequestError(400, str(error)) from None
    except Exception as error:
        _log.exception("%s: the engine has failed", answer.name)
        answer.model.check_health()
        raise RequestError(500, f"the engine has failed ({type(error).__name__})", retry_after=5) from None


class _Stream(EventSourceResponse):
    """Server-sent events of a task, which ends with the response, however that ends."""

    def __init__(self, chunks: AsyncGenerator[Json], task: "asyncio.Task[None]", finish: Callable[[int], None]) -> None:
        self._task, self._finish = task, finish
        self._status = CLIENT_GONE
        super().__init__(self._written(chunks), ping=_PING_SECONDS, send_timeout=_SEND_SECONDS, sep="\n")

    async def _written(self, chunks: AsyncGenerator[Json]) -> AsyncGenerator[dict[str, str]]:
        try:
            async for chunk in chunks:
                yield {"data": json.dumps(chunk, ensure_ascii=False, separators=(",", ":"))}
            self._status = 200
        except RequestError as error:
            self._status = error.status
            yield {"data": json.dumps(error.body)}
        yield {"data": "[DONE]"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            # A reader that has gone, or takes nothing, is no error of the server.
            with suppress(TimeoutError):
                await super().__call__(scope, receive, send)
        finally:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._finish(self._status)


async def _body(request: Request, limit: int) -> bytes:
    """Return the body; raise RequestError if it is too large, too slow, or no JSON by its own word."""
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # A page from elsewhere may send forms, text and what has no type to a server on this machine, but no JSON.
        raise RequestError(415, f"got the content type {shortened(kind, 60)!r}, wanted application/json")
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > limit:
                    raise RequestError(413, f"the body is larger than {limit:,} bytes", code="body_too_large")
    except TimeoutError:
        raise RequestError(408, f"the body did not come within {_BODY_SECONDS:g} s") from None
    return bytes(body)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _record(service: Service, answer: Answer, *, status: int, seconds: float, client: Any) -> None:
    """Count a request, and write a line about it."""
    prompt_tokens, tokens = answer.usage()
    metrics = service.metrics
    metrics.requests.labels(answer.name, str(status)).inc()
    metrics.seconds.labels(answer.name).observe(seconds)
    metrics.prompt_tokens.labels(answer.name).inc(prompt_tokens)
    metrics.tokens.labels(answer.name).inc(tokens)
    fields = {
        "model": answer.name,
        "status": status,
        "seconds": round(seconds, 3),
        "prompt_tokens": prompt_tokens,
        "tokens": tokens,
        "client": client.host if client else None,
    }
    _log.info("request", extra={"fields": fields})
