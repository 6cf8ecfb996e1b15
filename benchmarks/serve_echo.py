"""Serve an environment of OpenEnv's own classes that returns each message: what `benchmarks/serve.py` compares with.

python benchmarks/serve_echo.py PORT                   by uvicorn's defaults
python benchmarks/serve_echo.py PORT --our-settings    as `toolorchestra serve` runs its own application

It needs the extra `openenv`, as that does.
"""

from __future__ import annotations

from typing import Any

import tyro
import uvicorn
from harness import cli
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

from toolorchestra.envs.bridges import openenv


class EchoAction(Action):
    """A message."""

    message: str


class EchoObservation(Observation):
    """The same message."""

    message: str


class Echo(Environment):
    """Returns the message."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed: int | None = None, episode_id: str | None = None, **options: Any) -> EchoObservation:
        """Begin."""
        return EchoObservation(message="", reward=0.0)

    def step(self, action: EchoAction, timeout_s: float | None = None, **options: Any) -> EchoObservation:
        """Return the message."""
        return EchoObservation(message=action.message, reward=0.0)

    @property
    def state(self) -> State:
        """There is none."""
        return State()


def main(port: tyro.conf.Positional[int], our_settings: bool = False) -> None:
    """Serve until stopped."""
    app = create_fastapi_app(Echo, EchoAction, EchoObservation, max_concurrent_envs=openenv.MAX_SESSIONS)
    if our_settings:
        openenv.serve(app, "127.0.0.1", port)
    else:
        uvicorn.run(app, port=port)


if __name__ == "__main__":
    cli(main)
