"""OpenEnv: a server of an environment, one session a connection; what `toolorchestra serve` runs.

Clients are OpenEnv's own (`openenv.core.GenericEnvClient`), and through it what else speaks OpenEnv: verifiers,
NeMo-Gym, TRL. A message of the client is text (or OpenAI tool calls), an observation is text with the same as messages
and tools. Rewards are differences, since these clients sum them.

A client that sends nothing for `idle_seconds` loses its session, and so does one that vanished without closing its
connection. It can choose a task, but not files: see `toolorchestra.envs.bridges.served.CHOICES`.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import logging
from collections.abc import Mapping
from typing import Any

from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, ConcurrencyConfig, EnvironmentMetadata, Observation, State
from pydantic import Field, field_validator

from toolorchestra.agents.messages.model_message import MAX_MESSAGE_CHARACTERS
from toolorchestra.envs.bridges.served import Observed, Served, served_environment, task_at, tasks_of
from toolorchestra.envs.step_threads import StepThreads
from toolorchestra.toolscale.common.errors import OptionError, ToolOrchestraError
from toolorchestra.toolscale.domain import SPLITS

MAX_SESSIONS, IDLE_SECONDS, THREADS = 256, 600.0, 32
MAX_FRAME = 4 * MAX_MESSAGE_CHARACTERS
"""Bytes of one message of a client over its connection; a longer one ends the connection."""
_LOG = logging.getLogger(__name__)


class OrchestrationAction(Action):  # type: ignore[misc]  # there are no types where OpenEnv is not installed
    """A message of the orchestrator."""

    message: str = Field(description="The message as text; calls stand in it as <tool_call>{…}</tool_call>.")
    tool_calls: list[dict[str, Any]] | None = Field(
        default=None, description="Calls beside the text, as in an OpenAI assistant message."
    )

    @field_validator("message", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        """Return what is not text as JSON: verifiers decodes a reply that is JSON, such as the answer 42."""
        return value if isinstance(value, str) else json.dumps(value)


class OrchestrationObservation(Observation):  # type: ignore[misc]
    """What the orchestrator observes."""

    text: str = Field(description="The observation as text.")
    messages: list[dict[str, Any]] = Field(default_factory=list, description="The same, as OpenAI messages.")
    tools: list[dict[str, Any]] = Field(default_factory=list, description="OpenAI schemas of the tools, after a reset.")


class ServedEnvironment:
    """What all sessions of a server share.

    Args:
        env: Name of the environment.
        options: Its arguments.
        idle_seconds: Seconds without a message after which a session's state is freed.

    Raises:
        OptionError: The environment cannot be made.
    """

    def __init__(self, env: str, options: Mapping[str, Any], idle_seconds: float) -> None:
        self.name, self.options, self.idle_seconds = env, dict(options), idle_seconds
        self.threads = StepThreads(THREADS)
        self.listed = served_environment(env, self.options)


class OrchestrationServer(Environment):  # type: ignore[misc]
    """One session: a player of an environment, which is made at the first reset.

    Args:
        shared: What all sessions share.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True
    REQUIRES_SINGLE_THREAD_EXECUTOR = True  # one thread begins and ends all sessions, in place of one for each

    def __init__(self, shared: ServedEnvironment) -> None:
        super().__init__()
        self._shared = shared
        self._game: Served | None = None
        self._episode_id: str | None = None
        self._steps = 0
        self._busy = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def reset(self, seed: int | None = None, episode_id: str | None = None, **options: Any) -> OrchestrationObservation:
        """Begin an episode; `options` are some of `toolorchestra.envs.bridges.served.CHOICES`."""
        if self._closed:
            raise OptionError("The session was idle for too long and is over. Connect again.")
        if self._game is None:
            self._game = Served(self._shared.name, self._shared.options)
        told = self._game.reset(seed, **options)
        self._episode_id, self._steps = episode_id, 0
        return _observation(told)

    def step(self, action: OrchestrationAction, timeout_s: float | None = None, **_: Any) -> OrchestrationObservation:
        """Take a message; `timeout_s` is not used: what a call may take is the environment's own."""
        if self._game is None or self._closed:
            raise OptionError("There is no episode: reset first, or connect again if it was idle for too long.")
        sent: Any = action.message
        if action.tool_calls:
            sent = {"content": action.message, "tool_calls": action.tool_calls}
        told = self._game.step(sent)
        self._steps += 1
        return _observation(told)

    async def reset_async(
        self, seed: int | None = None, episode_id: str | None = None, **options: Any
    ) -> OrchestrationObservation:
        """Begin an episode, without holding up other sessions if that may block."""
        told: OrchestrationObservation = await self._taken(functools.partial(self.reset, seed, episode_id, **options))
        return told

    async def step_async(
        self, action: OrchestrationAction, timeout_s: float | None = None, **_: Any
    ) -> OrchestrationObservation:
        """Take a message, likewise."""
        told: OrchestrationObservation = await self._taken(functools.partial(self.step, action, timeout_s))
        return told

    async def _taken(self, step: Any) -> Any:
        async with self._busy:
            if self._timer is not None:
                self._timer.cancel()
            try:
                game = self._game
                return step() if game is None else await self._shared.threads.run(game.env, step)
            except ToolOrchestraError:
                raise  # says what is wrong with the request
            except Exception:
                _LOG.exception("A session of %s failed", self._shared.name)
                raise RuntimeError("The server failed; its log says why. Reset to begin another episode.") from None
            finally:
                if not self._closed:
                    loop = asyncio.get_running_loop()
                    self._timer = loop.call_later(self._shared.idle_seconds, self.close)

    @property
    def state(self) -> State:
        """The client's own name of the episode and the number of its messages; nothing of the task."""
        return State(episode_id=self._episode_id, step_count=self._steps)

    def get_metadata(self) -> EnvironmentMetadata:
        """Return what the environment is."""
        about = "Orchestration of tools and experts, one task an episode."
        return EnvironmentMetadata(name=self._shared.name, description=about, version="0")

    def list_splits(self) -> list[dict[str, str]]:
        """Return the splits."""
        return [{"name": split, "type": "train" if split == "train" else "test"} for split in SPLITS]

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """Return ids and difficulties of the tasks of a split."""
        return tasks_of(self._shared.listed, split)

    def num_tasks(self, split: str) -> int:
        """Return the number of tasks of a split."""
        return len(self.list_tasks(split))

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Return one of them."""
        try:
            return task_at(self._shared.listed, split, index)
        except OptionError as error:
            raise IndexError(str(error)) from None

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """Return those of a range."""
        return self.list_tasks(split)[start:stop]

    def close(self) -> None:
        """Free the state of the session."""
        self._closed = True
        game, self._game = self._game, None
        if game is not None:
            game.close()


def make_app(
    env: str,
    options: Mapping[str, Any] | None = None,
    *,
    max_sessions: int = MAX_SESSIONS,
    idle_seconds: float = IDLE_SECONDS,
) -> Any:
    """Return the server as an ASGI application (FastAPI).

    Args:
        env: Id of an environment, folder of a domain, or JSONL file of tasks.
        options: Arguments of the environment.
        max_sessions: Maximum number of sessions at the same time; a further client is refused.
        idle_seconds: Seconds without a message after which a session is over.

    Raises:
        OptionError: The environment cannot be made, or a number is not positive.
    """
    if max_sessions < 1 or not idle_seconds > 0:
        raise OptionError(f"Sessions and idle seconds must be positive, got {max_sessions} and {idle_seconds:g}.")
    factory = functools.partial(OrchestrationServer, ServedEnvironment(env, options or {}, idle_seconds))
    limits = ConcurrencyConfig(max_concurrent_envs=max_sessions, session_timeout=idle_seconds)
    app = create_fastapi_app(
        factory, OrchestrationAction, OrchestrationObservation, concurrency_config=limits, env_name=env
    )
    app.add_exception_handler(ToolOrchestraError, _refusal)
    return app


def _refusal(request: Any, error: Exception) -> Any:
    """Tell a client over HTTP what was wrong with its request, as one over a connection is told."""
    from starlette.responses import JSONResponse

    return JSONResponse({"detail": str(error)}, status_code=400)


def serve(app: Any, host: str, port: int, idle_seconds: float = IDLE_SECONDS) -> None:
    """Run the application until it is stopped. A connection whose client vanished ends within `idle_seconds`."""
    import uvicorn

    beat = min(20.0, idle_seconds / 2)
    gc.collect()
    gc.freeze()  # tasks and tools stay: no collection need look at them
    uvicorn.run(
        app,
        host=host,
        port=port,
        log_level="warning",
        ws="wsproto",  # takes less time for a message than uvicorn's default
        ws_ping_interval=beat,
        ws_ping_timeout=beat,
        ws_max_size=MAX_FRAME,
        ws_per_message_deflate=False,
    )


def _observation(told: Observed) -> OrchestrationObservation:
    shown = {"text": told.text, "messages": told.messages, "tools": told.tools}
    return OrchestrationObservation(**shown, done=told.done, reward=told.reward, metadata=told.info)
