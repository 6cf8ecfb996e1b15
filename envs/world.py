"""The protocol of a world, which has tasks and tools, and of its state in one episode.

`toolorchestra.toolscale.domain.Domain` is a world with a database, and a
`toolorchestra.envs.sources.questions.QuestionWorld` one without.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from toolorchestra.toolscale.database.database import Changes
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tasks.verify import Verdict
from toolorchestra.toolscale.tools.tool import Tool, ToolResult


class WorldSession(Protocol):
    """The state of a world in one episode. `toolorchestra.toolscale.tasks.session.Session` is one, with a database."""

    def reset(self) -> None:
        """Return to the initial state."""

    def call(self, tool: Tool, arguments: dict[str, Any]) -> ToolResult:
        """Run `tool` with valid `arguments`; a call that does not end OK leaves nothing behind."""

    def touched(self) -> Changes:
        """Return what was written since the reset."""

    def snapshot(self) -> Any:
        """Return the state, to be restored in this or any other session of the world."""

    def restore(self, snapshot: Any) -> None:
        """Put the session into the state of `snapshot`."""

    def close(self) -> None:
        """Release what it holds."""


@runtime_checkable
class FollowsUp(Protocol):
    """What the session of a world has beside it whose user makes several requests, one after another."""

    @property
    def asked(self) -> int:
        """How many requests the user has made so far. A task's reference calls of stage n are for request n, from 0."""

    def follow_up(self) -> str | None:
        """Return the user's next request, once the present one is answered; None if there is no other."""


class World(Protocol):
    """Where tasks take place."""

    @property
    def name(self) -> str:
        """Unique name."""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Tools by name, in a fixed order."""

    @property
    def rules(self) -> str:
        """What an orchestrator must know of the place: part of its prompt."""

    def session(self) -> WorldSession:
        """Return a new session in the initial state."""

    def verify(self, task: Task, session: Any, answer: str) -> Verdict:
        """Judge an episode by its effects in `session` (one of the world's) and its final answer."""
