"""Runs in progress, as routes: the list, one run as it is now, and a stream of what changes.

    app.include_router(watch_routes({"quickstart": Path("runs/quickstart")}))

`watch_app` is the server of `mada watch`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, HTTPException
from fastapi.responses import JSONResponse
from sse_starlette.sse import EventSourceResponse

from mada import __version__
from mada.errors import RunError
from mada.runs.manifest import FILE as MANIFEST
from mada.serve.following import Changes, FollowedRun
from mada.serve.page import page_routes
from mada.text import printable

SECONDS = 0.5
"""Between two looks at a run's files, for each reader."""
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class RunFolders(Mapping[str, Path]):
    """Runs by name: folders that are runs, and runs in folders that hold some, also those that are made later.

    A name is its folder's; of several with one name the later ones have a number.
    """

    def __init__(self, places: Sequence[Path]) -> None:
        self._places = [place.absolute() for place in places]
        self._names: dict[Path, str] = {}

    def __getitem__(self, name: str) -> Path:
        return self._found()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())

    def _found(self) -> dict[str, Path]:
        # A folder keeps the name that it was given.
        for folder in (one for place in self._places for one in _runs_in(place)):
            if folder not in self._names:
                name, number = printable(folder.name) or "run", 1
                while (unique := name if number == 1 else f"{name}-{number}") in self._names.values():
                    number += 1
                self._names[folder] = unique
        return {name: folder for folder, name in self._names.items() if (folder / MANIFEST).is_file()}


def _runs_in(place: Path) -> list[Path]:
    if (place / MANIFEST).is_file():
        return [place]
    return sorted(path.parent for path in place.glob(f"*/{MANIFEST}"))


def watch_routes(folders: Mapping[str, Path], *, is_ending: Callable[[], bool]) -> APIRouter:
    """Return the routes of runs. A name in an address is looked up, and never becomes part of a path.

    Streams go on until the server `is_ending`.
    """
    router = APIRouter(prefix="/api/runs", include_in_schema=False)
    followed: dict[str, FollowedRun] = {}

    def follow(name: str) -> FollowedRun:
        folder = folders.get(name)
        if folder is None:
            raise HTTPException(404, f"there is no run {printable(name)!r} here")
        if name not in followed:
            followed[name] = FollowedRun(name, folder)
        return followed[name]

    def row(name: str) -> dict[str, Any]:
        run = follow(name)
        with run.lock:
            return run.row()

    # Functions that are not asynchronous have threads of their own.
    @router.get("")
    def runs() -> JSONResponse:  # pyright: ignore[reportUnusedFunction]
        rows = [row(name) for name in list(folders)]
        order = {"running": 0, "stopped": 1, "finished": 1}
        rows.sort(key=lambda one: (order[one["state"]], -(one["started"] or 0.0)))
        return JSONResponse({"runs": rows}, headers=HEADERS)

    @router.get("/{name}")
    def one(name: str) -> JSONResponse:  # pyright: ignore[reportUnusedFunction]
        return JSONResponse(Changes(follow(name)).look(), headers=HEADERS)

    @router.get("/{name}/events")
    async def events(name: str) -> EventSourceResponse:  # pyright: ignore[reportUnusedFunction]
        run = await asyncio.to_thread(follow, name)
        return EventSourceResponse(_changes(run, is_ending), headers=HEADERS, ping=15)

    return router


async def _changes(run: FollowedRun, is_ending: Callable[[], bool]) -> AsyncIterator[dict[str, str]]:
    """Yield everything, so that no change is lost between two requests, and then what changes."""
    changes = Changes(run)
    while not is_ending():
        changed = await asyncio.to_thread(changes.look)
        if changed:
            yield {"data": json.dumps(changed, allow_nan=False)}
        await asyncio.sleep(SECONDS)


def watch_app(folders: Mapping[str, Path], *, is_ending: Callable[[], bool] = lambda: False) -> FastAPI:
    """Return the server of `mada watch`."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.include_router(page_routes())
    app.include_router(watch_routes(folders, is_ending=is_ending))

    @app.get("/api/info")
    def info() -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return {"teams": [], "can_ask": False, "can_watch": True, "version": __version__}

    @app.exception_handler(HTTPException)
    async def refuse(_: object, error: HTTPException) -> JSONResponse:  # pyright: ignore[reportUnusedFunction]
        return JSONResponse({"error": {"message": error.detail}}, error.status_code, headers=error.headers)

    return app


def check_places(places: Sequence[Path]) -> None:
    """Raise RunError for a place that is no folder."""
    for place in places:
        if not place.is_dir():
            raise RunError(f"{place} is not a folder; give the folder of a run, or one that holds runs, such as runs")
