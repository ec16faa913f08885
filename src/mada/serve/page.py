"""The page of `mada serve` and `mada watch`: one HTML shell for all its addresses, and the files it is made of.

The shell is empty: the script looks at the address and asks the API for what belongs there. The policy lets it run
these files and talk to this server, nothing else: what a model writes can neither act nor reach anybody.
"""

import hashlib
from functools import cache
from importlib.resources import files

from fastapi import APIRouter, HTTPException, Request, Response

from mada.text import printable

ASSETS = {
    "report.css": ("mada.report.page", "page.css"),
    **{
        name: ("mada.serve", name)
        for name in ("page.css", "page.js", "dom.js", "api.js", "ask.js", "watch.js", "curves.js")
    },
}
"""By the name in the address: the package that has the file, and the file. The report's look is the page's."""
MEDIA_TYPES = {"css": "text/css", "js": "text/javascript"}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # Kept by the browser, and asked about each time: a new version of mada is seen at once.
    "Cache-Control": "no-cache",
}
SHELL = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>mada</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/assets/report.css">
<link rel="stylesheet" href="/assets/page.css">
<script type="module" src="/assets/page.js"></script>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header class="bar">
<h1>mada</h1>
<nav aria-label="Views"><ul id="views"></ul></nav>
<div class="tools"><button type="button" id="theme-button" hidden>Dark</button></div>
</header>
<main id="content" tabindex="-1"><noscript><p>This page needs JavaScript.</p></noscript></main>
<div id="announcements" class="spoken" role="log" aria-live="polite"></div>
</body>
</html>
"""


def page_routes() -> APIRouter:
    """Return the routes of the page; they need no key, as nothing in them is anybody's."""
    router = APIRouter(include_in_schema=False)

    def shell(request: Request) -> Response:
        return _cached(request, SHELL.encode(), "text/html")

    for path in ("/", "/debate/{name}", "/watch", "/watch/{name}"):
        router.add_api_route(path, shell, methods=["GET", "HEAD"])

    @router.api_route("/assets/{name}", methods=["GET", "HEAD"])
    def asset(name: str, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        if name not in ASSETS:
            raise HTTPException(404, f"there is no file {printable(name)!r} of the page", headers=HEADERS)
        return _cached(request, _content(name), MEDIA_TYPES[name.rsplit(".")[-1]])

    return router


@cache
def _content(name: str) -> bytes:
    package, file = ASSETS[name]
    return (files(package) / "assets" / file).read_bytes()


def _cached(request: Request, content: bytes, media_type: str) -> Response:
    """Return the content, or only that it has not changed since the browser asked last."""
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {**HEADERS, "ETag": tag}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=f"{media_type}; charset=utf-8", headers=headers)
