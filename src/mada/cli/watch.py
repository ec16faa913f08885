"""`mada watch`: runs in progress on a page, from the files that they write."""

import asyncio
import webbrowser
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from mada.cli.serve import check_extra


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
    check_extra()
    from mada.serve.http import listen, serve_app, url_of
    from mada.serve.watch import RunFolders, check_places, watch_app

    check_places(places or [])
    listening = listen(host, port)
    address = f"{url_of(listening)}/watch"
    ended = Event()

    def ready() -> None:
        typer.echo(f"{address} (Ctrl-C ends it)")
        if open_it and not webbrowser.open(address):
            typer.echo("mada: found no browser to open", err=True)

    app = watch_app(RunFolders(places or [Path("runs")]), is_ending=ended.is_set)
    asyncio.run(serve_app(app, listening, grace=1, ending=ended.set, ready=ready))
