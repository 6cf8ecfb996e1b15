"""The local server of the page: it answers this machine only, and only who knows the address that was printed.

Every path begins with a random token, as others may use the machine. Requests under another name of host than the
machine's own are refused (DNS rebinding), and the page may load and send nothing but what is here.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
import sys
import webbrowser
from collections.abc import AsyncIterator, Callable
from pathlib import PurePath
from typing import Any

import msgspec

from toolorchestra.cli.viewer.pages import CONTENT_TYPES, Answers, static_files
from toolorchestra.toolscale.common.errors import OptionError, install_line

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route
except ModuleNotFoundError as error:
    raise ImportError(f"`view` needs {error.name}: {install_line('view')}") from None

HOST = "127.0.0.1"
NEWS_SECONDS = 0.5
"""Seconds between two looks whether there is something new to tell the page."""
_SWITCH = 0.0005  # seconds that a question may have to wait for the thread that fills the index
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


async def news(answers: Answers, ending: Callable[[], bool]) -> AsyncIterator[str]:
    """Yield an event of the server whenever a recording or a run has grown, until the server is `ending`."""
    told = None
    while not ending():
        found = await run_in_threadpool(answers.news)
        if found != told:
            told = found
            yield f"data: {msgspec.json.encode(found).decode()}\n\n"
        await asyncio.sleep(NEWS_SECONDS)


def make_app(answers: Answers, token: str, ending: Callable[[], bool] = lambda: False) -> Starlette:
    """Return the application, whose paths begin with ``/TOKEN/``; `ending` says that it is to end its answers."""
    static = static_files()

    def page(request: Request) -> Response:
        name = request.path_params.get("name") or "index.html"
        if name not in static:
            return _answer(b"There is no such page.", "text/plain", 404)
        return _answer(static[name], CONTENT_TYPES[PurePath(name).suffix])

    def query(request: Request) -> dict[str, str]:
        return dict(request.query_params)

    def number(request: Request) -> int:
        return int(request.path_params["number"])

    asked: dict[str, Callable[[Request], Any]] = {
        "state": lambda request: answers.state(),
        "episodes": lambda request: answers.episodes(query(request)),
        "outcomes": lambda request: answers.outcomes(query(request)),
        "episodes/{number:int}": lambda request: answers.episode(number(request)),
        "episodes/{number:int}/reference": lambda request: answers.reference(number(request)),
        "metrics": lambda request: answers.metrics(query(request)),
        "rollouts": lambda request: answers.rollouts(query(request).get("run", "")),
        "comparison/{number:int}/{second:int}": lambda request: answers.comparison(
            number(request), int(request.path_params["second"])
        ),
    }

    def checked(endpoint: Callable[[Request], Response]) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            if not hmac.compare_digest(request.path_params["token"].encode(), token.encode()):
                return _answer(b"Open the address that `toolorchestra view` printed.", "text/plain", 403)
            return endpoint(request)

        return answer

    def data(ask: Callable[[Request], Any]) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            try:
                return _answer(msgspec.json.encode(ask(request)), "application/json")
            except OptionError as error:
                return _answer(msgspec.json.encode({"error": str(error)}), "application/json", 400)

        return answer

    def events(request: Request) -> Response:
        del request
        return StreamingResponse(news(answers, ending), headers=_HEADERS, media_type="text/event-stream")

    routes = [Route("/{token}/api/news", checked(events), methods=["GET"])]
    routes += [Route(f"/{{token}}/api/{path}", checked(data(ask)), methods=["GET"]) for path, ask in asked.items()]
    routes += [Route("/{token}/", checked(page), methods=["GET"])]
    routes += [Route("/{token}/{name}", checked(page), methods=["GET"])]
    return Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])])


def _answer(content: bytes, kind: str, status: int = 200) -> Response:
    return Response(content, status, headers=_HEADERS, media_type=kind)


def serve(answers: Answers, *, port: int = 0, browser: bool = False, say: Callable[[str], None] = print) -> None:
    """Serve the page until the process is interrupted; `say` is given its address.

    Raises:
        OptionError: The port is taken, or may not be used.
    """
    sys.setswitchinterval(_SWITCH)
    token = secrets.token_urlsafe(16)
    server: uvicorn.Server
    app = make_app(answers, token, lambda: server.should_exit)
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port))
        except OSError as error:
            raise OptionError(f"Port {port} cannot be used: {error.strerror}. Give another --port, or none.") from None
        listening.listen(128)
        address = f"http://{HOST}:{listening.getsockname()[1]}/{token}/"
        say(address)
        if browser:
            webbrowser.open(address)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off"))
        server.run(sockets=[listening])
