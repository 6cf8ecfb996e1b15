"""MCP: any environment of one agent as a server of the Model Context Protocol; what `toolorchestra serve` can run.

A client lists the environment's tools and calls them. One more begins an episode (``reset``), and where no tool of the
environment gives the final answer (``submit``), another one does (``answer``). A connection is a session with a
database of its own: over streamable HTTP the session that the handshake (``initialize``) opens, over stdio the process.
The protocol of 2026 has no sessions over HTTP, so there its requests are refused, with the versions that have them, and
clients of both fall back.

A session ends when its client ends it, or sends nothing for `idle_seconds`. No stream is kept open for a client, so one
that vanished looks like one that is idle. The other side, servers of tools for an environment, is
`toolorchestra.envs.tools.mcp`.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
from collections.abc import Mapping
from typing import Any

from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.server.stdio import stdio_server
from mcp.types import (
    UNSUPPORTED_PROTOCOL_VERSION,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
)
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

from toolorchestra.agents.messages.model_message import MAX_MESSAGE_CHARACTERS
from toolorchestra.envs.bridges.mcp_tools import RESET, about, episode_tools, listed, result, shown, taken
from toolorchestra.envs.bridges.served import Observed, Served
from toolorchestra.envs.step_threads import StepThreads
from toolorchestra.toolscale.common.errors import OptionError, ToolOrchestraError

MAX_SESSIONS, IDLE_SECONDS, THREADS = 256, 600.0, 32
MAX_BODY = 4 * MAX_MESSAGE_CHARACTERS
"""Bytes of one message of a client; a longer one is refused."""
_LOG = logging.getLogger(__name__)
_CHANGED = "(This episode has other tools than those listed before: list them again.)"
_INSTRUCTIONS = (
    "Call `reset` to begin an episode: it returns a request of a user and the rules of the place. Call the other tools "
    "to do what is asked, and give the final answer with `submit`, or with `answer` where there is no such tool: that "
    "ends the episode and returns its outcome."
)


class McpSession:
    """One connection: an environment of its own, made at the first reset.

    Args:
        shared: What all sessions of a server share.
    """

    def __init__(self, shared: EnvironmentServer) -> None:
        self._shared = shared
        self._game: Served | None = None
        self._busy = asyncio.Lock()
        self.tools = shared.tools

    async def call(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Answer a call; calls of one session are run one after another. Never raises for what a client sends."""
        async with self._busy:
            try:
                if self._game is None and name == RESET:
                    self._game = Served(self._shared.name, self._shared.options)
                if self._game is None:
                    raise OptionError(f"There is no episode: call `{RESET}` first.")
                step = functools.partial(taken, self._game, name, arguments)
                observed: Observed = await self._shared.threads.run(self._game.env, step)
            except ToolOrchestraError as error:  # says what is wrong with the call
                return result(str(error), failed=True)
            except Exception:
                _LOG.exception("A session of %s failed", self._shared.name)
                return result("The server failed; its log says why. Reset to begin another episode.", failed=True)
        if name != RESET:
            return shown(observed)
        before, self.tools = self.tools, listed([tool["function"] for tool in observed.tools])
        changed = [tool.name for tool in before] != [tool.name for tool in self.tools]
        text = "\n\n".join(str(message["content"]) for message in observed.messages)
        return result(f"{text}\n\n{_CHANGED}" if changed else text, about(observed))

    def close(self) -> None:
        """Free the environment."""
        game, self._game = self._game, None
        if game is not None:
            game.close()


class EnvironmentServer:
    """An environment as an MCP server: what all its sessions share.

    Args:
        env: Id of an environment of one agent, folder of a domain, or JSONL file of tasks.
        options: Arguments of the environment.

    Raises:
        OptionError: The environment cannot be made, has several agents, or has a tool called ``reset`` or ``answer``.
    """

    def __init__(self, env: str, options: Mapping[str, Any] | None = None) -> None:
        self.name, self.options = env, dict(options or {})
        self.threads = StepThreads(THREADS)
        self.tools = episode_tools(env, self.options)
        self._sessions: dict[str, McpSession] = {}

    def server(self) -> Server[Any]:
        """Return the server of the official package, which a transport drives."""
        server: Server[Any] = Server(
            "toolorchestra",
            title=self.name,
            instructions=_INSTRUCTIONS,
            get_tool_input_schema=lambda _: None,  # arguments are checked by the environment
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        server.middleware.append(_with_sessions)
        return server

    async def _list(self, context: ServerRequestContext[Any], _: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=self._session(context).tools)

    async def _call(self, context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        return await self._session(context).call(params.name, params.arguments or {})

    def _session(self, context: ServerRequestContext[Any]) -> McpSession:
        """Return the session of a connection: made at its first call, and closed at its end."""
        key = "" if context.request is None else context.request.headers["mcp-session-id"]
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = McpSession(self)
            if key:  # handlers are not handed the connection otherwise
                context.session._connection.exit_stack.callback(functools.partial(self._end, key))
        return session

    def _end(self, key: str) -> None:
        self._sessions.pop(key).close()

    def close(self) -> None:
        """Free all sessions."""
        for key in list(self._sessions):
            self._end(key)
        self.threads.close()


async def _with_sessions(ctx: ServerRequestContext[Any], call_next: CallNext) -> HandlerResult:
    """Refuse requests over HTTP of a version of the protocol that has no sessions."""
    if ctx.request is not None and ctx.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
        raise MCPError(
            UNSUPPORTED_PROTOCOL_VERSION,
            "An episode needs a session: connect by the handshake of an earlier version of the protocol.",
            {"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": ctx.protocol_version},
        )
    return await call_next(ctx)


def make_app(
    env: str,
    options: Mapping[str, Any] | None = None,
    *,
    host: str = "127.0.0.1",
    max_sessions: int = MAX_SESSIONS,
    idle_seconds: float = IDLE_SECONDS,
) -> Any:
    """Return the server as an ASGI application that speaks streamable HTTP at ``/mcp``.

    Args:
        env: Id of an environment of one agent, folder of a domain, or JSONL file of tasks.
        options: Arguments of the environment.
        host: Address that it will listen at; at a local one it refuses requests for other hosts (DNS rebinding).
        max_sessions: Maximum number of sessions at the same time; a further client is refused.
        idle_seconds: Seconds without a request after which a session is over.

    Raises:
        OptionError: The environment cannot be served, or a number is not positive.
    """
    if max_sessions < 1 or not idle_seconds > 0:
        raise OptionError(f"Sessions and idle seconds must be positive, got {max_sessions} and {idle_seconds:g}.")
    app = (
        EnvironmentServer(env, options)
        .server()
        .streamable_http_app(
            json_response=True,
            host=host,
            max_sessions=max_sessions,
            session_idle_timeout=idle_seconds,
            max_request_body_size=MAX_BODY,
        )
    )
    return _WithoutStreams(app)


class _WithoutStreams:
    """An application that refuses streams from the server.

    It sends nothing of itself, and an open stream would keep alive the session of a client that vanished.
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        headers = [(b"allow", b"POST, DELETE"), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 405, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def serve(app: Any, host: str, port: int) -> None:
    """Run the application until it is stopped."""
    import uvicorn

    gc.collect()
    gc.freeze()  # tasks and tools stay: no collection need look at them
    uvicorn.run(app, host=host, port=port, log_level="warning", timeout_graceful_shutdown=2)


def serve_stdio(env: str, options: Mapping[str, Any] | None = None) -> None:
    """Serve one client over stdin and stdout, until it closes them."""
    shared = EnvironmentServer(env, options)

    async def run() -> None:
        server = shared.server()
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    try:
        asyncio.run(run())
    finally:
        shared.close()
