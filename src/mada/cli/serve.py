"""`mada serve`: an OpenAI-compatible server of trained teams, with a page to ask them."""

import asyncio
import logging
import os
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mada.cli.terminal import silence_libraries
from mada.errors import MadaError

if TYPE_CHECKING:
    from mada.serve.service import Service
    from mada.team import TeamSpec

KEYS = "MADA_SERVE_KEYS"
DEFAULT_MODEL = "mada-nano"


class LogFormat(StrEnum):
    """How the log is written."""

    text = "text"
    json = "json"


def serve(
    runs: Annotated[list[Path] | None, typer.Argument(metavar="[RUN]...", help="Folders of runs with teams.")] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"An untrained team on this model; without a run {DEFAULT_MODEL}."),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 is every one.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8750,
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="An OpenAI-compatible server that samples, such as vLLM's.")
    ] = None,
    window: Annotated[int | None, typer.Option(min=2, help="Longest prompt and reply together, in tokens.")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens after which a reply is cut off.")] = None,
    rows: Annotated[
        int | None,
        typer.Option(min=1, help="Rows of the engine's batch; many clients gain from more than 64 on a CPU."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of an engine on a CPU; by default 1 for a small model.")
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where debates are kept; by default in the first run, if it is no export."),
    ] = None,
    no_store: Annotated[bool, typer.Option("--no-store", help="Forget debates when the server ends.")] = False,
    at_once: Annotated[
        int | None, typer.Option(min=1, help="Debates at work at a time; by default as many as fill the batch.")
    ] = None,
    queue: Annotated[int, typer.Option(min=0, help="Requests that may wait; others get 429.")] = 1024,
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds after which a request gets 504.")] = 600.0,
    max_body: Annotated[int, typer.Option(min=1, help="Largest request, in KiB.")] = 1024,
    grace: Annotated[float, typer.Option(min=0, help="Seconds that running requests have when it ends.")] = 60.0,
    log: Annotated[LogFormat, typer.Option(help="How the log is written.")] = LogFormat.text,
) -> None:
    """Serve teams, their agents and their base with OpenAI's protocol, and a page to watch them debate.

    Clients need one of the keys in the environment's MADA_SERVE_KEYS (separated by commas), if that is set.
    """
    check_extra()
    from mada.serve.http import LOOPBACK, listen, url_of

    folders = runs or []
    if folders and model:
        raise MadaError("got runs and --model: a run has its own model; leave one of the two out")
    if store is not None and no_store:
        raise MadaError("got --store and --no-store; leave one of the two out")
    keys = _keys()
    from mada.runs import StoredRun

    for folder in folders:
        StoredRun.read(folder)
    listening = listen(host, port)  # a port that is taken is said before PyTorch is loaded, which takes seconds
    silence_libraries()
    from mada.serve.server import JsonLines, TextLines, serve_teams
    from mada.serve.service import ServerLimits

    _log_to_stderr(JsonLines() if log is LogFormat.json else TextLines())
    specs = _specs(folders, model=model, server=server, window=window, max_new_tokens=max_new_tokens)
    specs = {name: spec.with_engine(rows=rows, threads=threads) for name, spec in specs.items()}
    kept = None if no_store else store or _own_store(folders)

    def ready(service: "Service") -> None:
        url = url_of(listening)
        typer.echo(f"serving {', '.join(specs)} at {url}/v1, with a page at {url}/ (Ctrl-C ends)", err=True)
        if kept is None:
            typer.echo("debates are forgotten when the server ends; --store FILE keeps them", err=True)
        if not keys and host not in LOOPBACK:
            typer.echo(f"anybody who reaches {host} may use it: set {KEYS} to ask for a key", err=True)

    limits = ServerLimits(seconds=time_limit, body_bytes=max_body * 1024, queue=queue, at_once=at_once)
    typer.echo(f"loading {', '.join(specs)}", err=True)
    try:
        watched = dict(zip(specs, folders, strict=False))
        asyncio.run(
            serve_teams(specs, listening, runs=watched, store=kept, limits=limits, keys=keys, grace=grace, ready=ready)
        )
    except KeyboardInterrupt:
        typer.echo("mada: stopped", err=True)
        raise typer.Exit(130) from None
    finally:
        listening.close()


def check_extra() -> None:
    """Raise where the packages of the extra `serve` are not installed."""
    missing = [name for name in ("fastapi", "prometheus_client", "sse_starlette", "uvicorn") if not _is_there(name)]
    if missing:
        raise MadaError(f"this needs {' and '.join(missing)}; install the extra: pip install 'mada-rl[serve]'")


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # somebody has put something else in its place
        return False


def _own_store(folders: list[Path]) -> Path | None:
    """Return where the first run keeps its debates; an export is passed on, so it keeps none."""
    from mada.runs import StoredRun
    from mada.runs.folder import EXPORT

    if not folders or StoredRun.read(folders[0]).mark(EXPORT):
        return None
    return folders[0] / "served" / "debates.sqlite"


def _specs(
    folders: list[Path], *, model: str | None, server: str | None, window: int | None, max_new_tokens: int | None
) -> dict[str, "TeamSpec"]:
    from mada.agents import DebateSettings
    from mada.recipe.schema import EngineSection, ModelSection
    from mada.serve.teams import names_of
    from mada.team import TeamSpec, engine_section

    if folders:
        return {
            name: TeamSpec.of_run(folder, server=server, window=window, max_new_tokens=max_new_tokens)
            for name, folder in zip(names_of(folders), folders, strict=True)
        }
    spec = TeamSpec.untrained(
        ModelSection(name=model or DEFAULT_MODEL, window=window),
        generators=3,
        critics=3,
        settings=DebateSettings(max_new_tokens=max_new_tokens),
        engine=engine_section(EngineSection(kind="local"), server=server),
    )
    return {"untrained": spec}


def _keys() -> list[str]:
    keys = [key.strip() for key in os.environ.get(KEYS, "").split(",") if key.strip()]
    if not all("!" <= letter <= "~" for key in keys for letter in key):
        raise MadaError(f"{KEYS} holds a key with a space or a letter that is not ASCII, which no client can send")
    return keys


def _log_to_stderr(lines: logging.Formatter) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(lines)
    logger = logging.getLogger("mada")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
