"""Guests: tools that are not the world's own, and what they see of the episode in which they are called.

A world's tool works on the world's session. Search, Python, experts and sub-agents come to every world: as
`ContextTool`s they are given the `ToolContext` instead, and change nothing.
"""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from toolorchestra.toolscale.tool import Tool, ToolResult

if TYPE_CHECKING:
    from toolorchestra.envs.episode import CallRecord, Episode
    from toolorchestra.envs.play import World
    from toolorchestra.toolscale.task import Task


class ToolContext(msgspec.Struct, frozen=True, gc=False):
    """The episode as a guest sees it when it is called.

    Attributes:
        task: What is asked. Its reference trajectory and answer are the truth about which simulated minds err; a real
            one must not be shown it.
        world: Where it takes place.
        episode: The record so far, without the turn in progress.
        messages: The conversation so far, the orchestrator's message in progress not included.
        tools: Tools on offer, by name.
        said: What the orchestrator says beside its calls in the message in progress.
        earlier: Calls of the same message that had ended before this one began (what came before a barrier).
        number: Number of the call in the episode, from 1.
    """

    task: Task
    world: World
    episode: Episode
    messages: Sequence[Mapping[str, Any]]
    tools: Mapping[str, Tool]
    said: str = ""
    earlier: tuple[CallRecord, ...] = ()
    number: int = 1

    @property
    def seed(self) -> int:
        """The luck of this call: it follows from the episode's and the call's number."""
        return zlib.crc32(f"{self.episode.noise_seed}/{self.number}".encode())

    @property
    def calls(self) -> list[CallRecord]:
        """All calls that have ended before this one began."""
        return [*self.episode.calls, *self.earlier]


class ContextTool(Tool):
    """A tool that comes to every world: it is shown the scene, and has no hand in the session."""

    guest = True

    @abstractmethod
    def run(self, arguments: dict[str, Any], session: ToolContext) -> ToolResult:
        """Carry out a call with valid `arguments`; `session` is the scene.

        An `ExpertError` that it raises becomes the call's EXEC_ERR; any other exception is the library's own fault.
        """
