"""MCP: the tools of any server of the Model Context Protocol as tools of an environment (extra `mcp`).

`gymnasium.make(…, mcp="http://localhost:8000/mcp")` adds them to the world's own. Each episode has a connection of its
own to every server that it calls, opened at the first call and closed at the end, so that what a server keeps for a
connection belongs to one episode. What a server sends is not trusted: names, descriptions, schemas and results are
bounded in number and size, results in time, and text cannot pass for the environment's own marks.

The state of a server cannot be copied: an episode that called one cannot go on from a snapshot, unless the server is
said to be `stateless`. The other side, an environment as a server, is `toolorchestra.envs.bridges.mcp`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from toolorchestra.envs.tools.mcp_connections import McpConnections, outage
from toolorchestra.envs.tools.mcp_results import (
    MAX_DESCRIPTION,
    arguments_schema,
    cut,
    plain,
    result_text,
    result_value,
)
from toolorchestra.envs.tools.mcp_servers import Given, McpServerSpec, read_servers
from toolorchestra.toolscale.common.errors import ExpertError, OptionError, unknown_name
from toolorchestra.toolscale.tools.tool import ArgumentError, Tool, ToolContext, ToolResult

if TYPE_CHECKING:
    from mcp import types

MAX_TOOLS, MAX_PAGES = 256, 64
"""Maximum number of tools of a server, and of pages of its list."""
_ODD = re.compile(r"[^A-Za-z0-9_-]")


class McpTool(Tool):
    """A tool of a server.

    Args:
        name: Its name in the environment.
        server: Name of the server.
        listed: What the server says of it.
        spec: What is said of the server.
        call: Calls it: of its arguments and the context of the call.
    """

    uses_episode = True

    def __init__(
        self,
        name: str,
        server: str,
        listed: types.Tool,
        spec: McpServerSpec,
        call: Callable[[McpTool, dict[str, Any], ToolContext], ToolResult],
    ) -> None:
        described = cut(plain(listed.description or listed.title or listed.name), MAX_DESCRIPTION)
        super().__init__(name, described, {}, price=spec.price, latency=spec.latency)
        self.server, self.listed_name, self.timeout = server, listed.name, spec.timeout
        self.blocking = True
        reads = listed.annotations is not None and listed.annotations.read_only_hint
        self.effect = "read" if reads else "write"
        self.arguments: dict[str, Any] = arguments_schema(server, listed)
        self._call = call

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Call it.

        Raises:
            ExpertError: The server cannot be reached or does not answer, or the episode cannot go on with it.
        """
        return self._call(self, arguments, context)

    def decode(self, raw: bytes | msgspec.Raw) -> dict[str, Any]:
        """Return the arguments; that they fit their schema the server checks.

        Raises:
            ArgumentError: They are no JSON object, or a required one is missing.
        """
        try:
            arguments = msgspec.json.decode(raw, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            raise ArgumentError(f"Arguments of {self.name} are not a valid JSON object: {error}.") from None
        required = self.arguments.get("required", ())
        if missing := [str(name) for name in required if name not in arguments]:
            raise ArgumentError(f"{self.name} needs the argument {missing[0]!r}. {self.signature()}")
        return arguments

    def signature(self) -> str:
        """Return the schema of the arguments in one line."""
        return cut(f"Expected arguments: {msgspec.json.encode(self.arguments).decode()}.", 1_000)

    @property
    def schema(self) -> dict[str, Any]:
        """The tool as an OpenAI function schema (a fresh dictionary)."""
        function = {"name": self.name, "description": self.description, "parameters": self.arguments}
        return {"type": "function", "function": msgspec.json.decode(msgspec.json.encode(function))}


class McpTools:
    """The tools of servers, and the connections of the current episode of one environment.

    Args:
        given: The servers; see `read_servers`. Their tools are listed now.

    Attributes:
        tools: The tools, by their names in the environment.

    Raises:
        OptionError: A server cannot be reached, lists what is beyond the bounds, or the extra is not installed.
    """

    def __init__(self, given: Given) -> None:
        self._servers = read_servers(given)
        self._connections = McpConnections()
        self._episode: Any = None
        self._lock = threading.Lock()
        self.tools: dict[str, McpTool] = {}
        try:
            for server, spec in self._servers.items():
                for listed in self._list(server, spec):
                    name = _ODD.sub("_", listed.name)[:64]
                    if name in self.tools:  # of another server
                        name = _ODD.sub("_", f"{server}_{listed.name}")[:64]
                    if name in self.tools:
                        raise OptionError(f"The servers list two tools called {name!r}: leave one out with `tools`.")
                    self.tools[name] = McpTool(name, server, listed, spec, self._call)
        finally:
            self.end_episode()

    def end_episode(self) -> None:
        """Close the connections of the episode."""
        with self._lock:
            self._episode = None
            self._connections.close()

    def __getstate__(self) -> dict[str, Any]:
        """Leave the connections behind: a copy opens its own."""
        return {"_servers": self._servers, "tools": self.tools}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _connections=McpConnections(), _episode=None, _lock=threading.Lock())

    def _list(self, server: str, spec: McpServerSpec) -> list[types.Tool]:
        try:
            found: list[types.Tool] = self._connections.run(self._listed(server, spec))
        except ImportError as error:
            raise OptionError(
                f"`mcp` needs the extra of this name: pip install 'toolorchestra[mcp]' ({error})."
            ) from None
        except ExpertError as error:
            raise OptionError(str(error)) from None
        if spec.tools is None:
            return found
        known = {tool.name: tool for tool in found}
        if wrong := [name for name in spec.tools if name not in known]:
            raise OptionError(unknown_name(f"tool of the MCP server {server}", wrong[0], known))
        return [known[name] for name in spec.tools]

    async def _listed(self, server: str, spec: McpServerSpec) -> list[types.Tool]:
        client = await self._connections.client(server, spec)
        found: list[types.Tool] = []
        cursor = None
        for _ in range(MAX_PAGES):
            async with outage(server, spec.timeout):
                page = await client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if cursor is None or len(found) > MAX_TOOLS:
                break
        if cursor is not None or len(found) > MAX_TOOLS:
            raise OptionError(f"The MCP server {server} lists more than {MAX_TOOLS} tools in {MAX_PAGES} pages.")
        return found

    def _call(self, tool: McpTool, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        spec = self._servers[tool.server]
        with self._lock:
            episode = context.episode
            if self._episode is not episode or episode is None:
                if not spec.stateless and any(call.name in self.tools for call in context.calls):
                    raise ExpertError(
                        f"The episode is a copy, and the state of the MCP server {tool.server} cannot be copied: play "
                        "it from its beginning, or say that the server is `stateless`."
                    )
                self._connections.close()
                self._episode = episode
            done = self._connections.start(self._called(tool, spec, arguments))
        result: ToolResult = done.result()
        return result

    async def _called(self, tool: McpTool, spec: McpServerSpec, arguments: dict[str, Any]) -> ToolResult:
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        client = await self._connections.client(tool.server, spec)
        async with outage(tool.server, spec.timeout + 1):  # the executor gives it up at the timeout
            try:
                found = await client.call_tool(tool.listed_name, arguments)
            except MCPError as error:
                if error.code in (CONNECTION_CLOSED, REQUEST_TIMEOUT):
                    raise
                return ToolResult.failed(cut(plain(error.message), MAX_DESCRIPTION))
        if found.is_error:
            return ToolResult.failed(cut(result_text(found), MAX_DESCRIPTION) or f"{tool.name} failed.")
        return ToolResult.ok(result_value(found))
