"""MCP servers by name: the common form of their files, and what a simulator adds to it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.yaml_reader import read_yaml


class McpServerSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A server of tools, as the common form ``{"mcpServers": {NAME: …}}`` has it, with what a simulator adds.

    Attributes:
        url: Where it speaks streamable HTTP; or else
        command: the program that speaks over stdin and stdout, started for each episode with `args`, `env` and `cwd`.
        headers: Headers of requests over HTTP; ``$NAME`` as a value stands for an environment variable.
        tools: Names of the tools that are taken; all by default.
        timeout: Seconds of real time that connecting, and each call, may take.
        price: US dollars of a call.
        latency: Seconds of a call on the virtual clock.
        stateless: Whether it keeps nothing between calls, so that an episode can go on from a snapshot.
    """

    url: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    headers: dict[str, str] = {}
    tools: tuple[str, ...] | None = None
    timeout: float = 30.0
    price: float = 0.0
    latency: float = 1.0
    stateless: bool = False

    @property
    def sent_headers(self) -> dict[str, str]:
        """The headers, with the values of environment variables in place of their names.

        `OptionError` if one is not set.
        """
        return {name: _from_environment(value) for name, value in self.headers.items()}

    def __post_init__(self) -> None:
        if (self.url is None) == (self.command is None):
            raise ValueError("Expected either the `url` of a server or the `command` that starts one")
        if not self.timeout > 0 or not self.price >= 0 or not self.latency >= 0:
            raise ValueError("Expected a `timeout` above 0, and a `price` and a `latency` of at least 0")


Given = str | Path | Mapping[str, Any]
"""A URL, a file of servers (JSON or YAML), or what stands in one."""


def read_servers(given: Given) -> dict[str, McpServerSpec]:
    """Return servers by name.

    Raises:
        OptionError: The file cannot be read, or does not hold servers.

    >>> read_servers("http://localhost:8000/mcp")["mcp"].url
    'http://localhost:8000/mcp'
    """
    if isinstance(given, str) and given.startswith(("http://", "https://")):
        given = {"mcp": {"url": given}}
    where = "`mcp`" if isinstance(given, Mapping) else str(given)
    found: Any = given if isinstance(given, Mapping) else read_yaml(Path(given))
    if isinstance(found, Mapping) and "mcpServers" in found:
        found = found["mcpServers"]
    try:
        servers = msgspec.convert(found, dict[str, McpServerSpec])
    except (msgspec.ValidationError, TypeError) as error:
        raise OptionError(f"{where}: expected servers by name, each with a `url` or a `command`: {error}.") from None
    if not servers:
        raise OptionError(f"{where} names no server.")
    return servers


def _from_environment(value: str) -> str:
    if not value.startswith("$"):
        return value
    if value[1:] not in os.environ:
        raise OptionError(f"The environment variable {value[1:]} of an MCP server's headers is not set.")
    return os.environ[value[1:]]
