"""The command `toolorchestra serve`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from toolorchestra.cli.options import Env, NamedValues, SourceOptions, UsageError, option_values, require_at_least


@dataclass
class ServeCommand(SourceOptions):
    """Serve an environment, one session a connection: by OpenEnv's protocol (extra `openenv`), or by MCP (`mcp`)."""

    env: Env
    """Id of an environment, folder of a domain, or JSONL file of tasks."""
    protocol: Literal["openenv", "mcp", "mcp-stdio"] = "openenv"
    """`openenv`; `mcp`: the Model Context Protocol over HTTP, at `/mcp`; `mcp-stdio`: the same over stdin and stdout,
    for one client."""
    host: str = "127.0.0.1"
    """Address to listen at; `0.0.0.0` for all. Whoever reaches it can play: there is no login."""
    port: int = 8000
    """Port to listen at."""
    max_sessions: int = 256
    """Maximum number of sessions at the same time; a further client is refused."""
    idle_seconds: float = 600.0
    """Seconds without a message after which a session is over and its state is freed."""
    env_options: NamedValues = field(default_factory=dict)
    """Arguments of the environment, e.g. `tools full`."""

    def run(self) -> int:
        """Serve until stopped."""
        require_at_least(self, max_sessions=1, idle_seconds=0.1)
        options = {**self._source(self.env), **option_values(self.env_options)}
        try:
            self._serve(options)
        except ImportError as error:
            extra = self.protocol.partition("-")[0]
            raise UsageError(f"The extra {extra} is needed: pip install 'toolorchestra[{extra}]' ({error}).") from None
        return 0

    def _serve(self, options: dict[str, Any]) -> None:
        limits: Any = {"max_sessions": self.max_sessions, "idle_seconds": self.idle_seconds}
        if self.protocol == "openenv":
            from toolorchestra.envs.bridges import openenv

            app = openenv.make_app(self.env, options, **limits)
            self._announce("")
            openenv.serve(app, self.host, self.port, self.idle_seconds)
            return
        from toolorchestra.envs.bridges import mcp

        if self.protocol == "mcp-stdio":
            mcp.serve_stdio(self.env, options)
            return
        app = mcp.make_app(self.env, options, host=self.host, **limits)
        self._announce("/mcp")
        mcp.serve(app, self.host, self.port)

    def _announce(self, path: str) -> None:
        print(f"Serving {self.env} at http://{self.host}:{self.port}{path} (stop with Ctrl-C)", flush=True)
