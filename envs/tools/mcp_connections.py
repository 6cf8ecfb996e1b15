"""Connections to MCP servers, each held open by a task of its own on an event loop in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from toolorchestra.envs.tools.mcp_results import cut, plain
from toolorchestra.envs.tools.mcp_servers import McpServerSpec
from toolorchestra.toolscale.common.errors import ExpertError

if TYPE_CHECKING:
    from mcp import Client

MAX_BODY = 4 << 20
"""Maximum bytes of a response over HTTP, or of an event in a stream."""
_LEAVING = 5.0  # seconds that a server may take to say goodbye


class McpConnections:
    """The connections of one episode; the thread is started by the first."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._held: dict[str, tuple[asyncio.Task[None], asyncio.Future[Client], asyncio.Event]] = {}

    def start(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Start a coroutine on the loop, and return its future of `concurrent.futures`."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="mcp", daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the loop to its end."""
        return self.start(work).result()

    async def client(self, server: str, spec: McpServerSpec) -> Client:
        """Return the client of a server, connected now if it is not yet."""
        if server not in self._held:
            opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
            leave = asyncio.Event()
            self._held[server] = asyncio.create_task(_hold(server, spec, opened, leave)), opened, leave
        return await asyncio.shield(self._held[server][1])

    def close(self) -> None:
        """Close all, and stop the thread."""
        if self._loop is None or self._thread is None:
            return
        self.run(self._leave())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = None

    async def _leave(self) -> None:
        held = [task for task, _, _ in self._held.values()]
        for _, _, leave in self._held.values():
            leave.set()
        self._held.clear()
        others = asyncio.all_tasks() - {*held, asyncio.current_task()}
        if held:
            await asyncio.wait(held, timeout=_LEAVING)
        for task in (*held, *others):
            task.cancel()
        await asyncio.gather(*held, *others, return_exceptions=True)


async def _hold(server: str, spec: McpServerSpec, opened: asyncio.Future[Client], leave: asyncio.Event) -> None:
    """Hold a connection open until `leave`: what opens it must close it, in one task."""
    try:
        async with outage(server, spec.timeout):
            entered = await _connected(spec)
        opened.set_result(entered)
        try:
            await leave.wait()
        finally:
            await entered.__aexit__(None, None, None)
    except Exception as error:  # an outage; one at the end changes nothing any more
        if not opened.done():
            opened.set_exception(error)
            opened.exception()  # it may be that nobody asks for it


async def _connected(spec: McpServerSpec) -> Client:
    """Return a client that is connected: by the handshake that opens a session, where the server has it."""
    from mcp import Client, MCPError
    from mcp.types import CONNECTION_CLOSED

    limits: Any = {"cache": None, "read_timeout_seconds": spec.timeout + 1}
    try:
        return await Client(_target(spec), mode="legacy", **limits).__aenter__()
    except MCPError as error:
        if error.code == CONNECTION_CLOSED:
            raise
    return await Client(_target(spec), **limits).__aenter__()  # only the protocol of 2026, which has no sessions


@asynccontextmanager
async def outage(server: str, seconds: float) -> AsyncIterator[None]:
    """Bound the time of what is done with a server, and raise as an outage whatever goes wrong with it."""
    from mcp import MCPError

    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise ExpertError(f"The MCP server {server} has not answered within {seconds:g} s.") from None
    except Exception as error:  # of its transport, of validation; groups of them
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        said = error.message if isinstance(error, MCPError) else str(error) or type(error).__name__
        raise ExpertError(f"The MCP server {server} cannot be used: {cut(plain(said), 300)}") from None


def _target(spec: McpServerSpec) -> Any:
    """Return what the package's client connects to."""
    if spec.url is None:
        from mcp import StdioServerParameters

        return StdioServerParameters(command=str(spec.command), args=list(spec.args), env=spec.env, cwd=spec.cwd)
    from mcp.client.streamable_http import streamable_http_client

    from toolorchestra.envs.tools.mcp_http import bounded_client

    http = bounded_client(spec.sent_headers, spec.timeout + 1, MAX_BODY)
    return _closing(http, streamable_http_client(spec.url, http_client=http, max_sse_event_size=MAX_BODY))


@asynccontextmanager
async def _closing(http: Any, transport: Any) -> AsyncIterator[Any]:
    """Close the client of HTTP after the transport that uses it."""
    async with http, transport as streams:
        yield streams
