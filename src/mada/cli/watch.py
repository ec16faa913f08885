"""`mada watch`: runs in progress on a page, from the files that they write."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mada.errors import MadaError, RunError

if TYPE_CHECKING:
    from fastapi import FastAPI

LOOPBACK = ("127.0.0.1", "localhost")


def watch(
    places: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUNS]…", help="Folders of runs, or folders that hold runs; without any, runs/."),
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="NAME", help="Address to listen on; 0.0.0.0 lets everybody in your network watch.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8760,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Serve a page that shows runs in progress: curves, rollouts, memory and the time left.

    It reads the files of runs, whichever process writes them, and changes nothing.
    """
    try:
        import sse_starlette  # noqa: F401 # pyright: ignore[reportUnusedImport]
        import uvicorn  # noqa: F401 # pyright: ignore[reportUnusedImport]

        from mada.serve.watch import RunFolders, check_places, watch_app
    except ModuleNotFoundError as error:
        raise MadaError(f"this needs the package {error.name}; install it: pip install 'mada-rl[serve]'") from error
    check_places(places or [])
    hosts = LOOPBACK if host in LOOPBACK else ("*",)
    _serve(watch_app(RunFolders(places or [Path("runs")]), hosts=hosts), host=host, port=port, open_it=open_it)


def _serve(app: "FastAPI", *, host: str, port: int, open_it: bool) -> None:
    """Serve until Ctrl-C."""
    import socket

    import uvicorn

    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise RunError(f"cannot listen on {host}, port {port}: {error.strerror}; choose another --port") from error
    port = listening.getsockname()[1]
    shown = "localhost" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{port}/watch"
    typer.echo(f"{address} (Ctrl-C ends it)")
    if open_it:
        import webbrowser

        if not webbrowser.open(address):
            typer.echo("mada: found no browser to open", err=True)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])
