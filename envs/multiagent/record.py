"""The record of an episode that several agents play: who said what, and what each was told.

It is an `Episode` with more in it, so that whatever reads episodes reads these too: a `Move` is a turn with its agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.envs.episode import Episode, Turn
from toolorchestra.toolscale.jsonl import read_jsonl


class Move(Turn, frozen=True, omit_defaults=True, gc=False):
    """One message of one agent and what came of it.

    Attributes:
        agent: Who said it.
        told: What agents were told in consequence, by name: a message each, or none.
    """

    agent: str = ""
    told: dict[str, str] = msgspec.field(default_factory=dict)


class JointEpisode(Episode, omit_defaults=True, kw_only=True):
    """An episode of several agents, in progress or over.

    `prompt` is the system message of the first agent, `reward` the team's. An agent's private history is its opening,
    its own messages, and what it was told; `history` puts it together.

    Attributes:
        agents: Names of the agents; the first one moves first.
        openings: For each agent, the messages that it begins with.
        turns: The moves, in order.
        paid: Reward of each agent, once over and judged.
    """

    agents: tuple[str, ...]
    openings: dict[str, tuple[dict[str, Any], ...]]
    turns: list[Move] = msgspec.field(default_factory=list)  # type: ignore[assignment]  # a list of turns that are all moves
    paid: dict[str, float] = msgspec.field(default_factory=dict)

    def history(self, agent: str) -> list[dict[str, Any]]:
        """Return the private history of an agent, as OpenAI messages."""
        messages = list(self.openings[agent])
        for move in self.turns:
            if move.agent == agent:
                messages.append(move.message)
            if agent in move.told:
                messages.append({"role": "user", "content": move.told[agent]})
        return messages

    def copied(self) -> JointEpisode:
        """Return a copy that can grow on its own (moves themselves never change)."""
        copy = msgspec.structs.replace(self)
        copy.turns = list(self.turns)
        return copy


class _Kind(msgspec.Struct):
    agents: tuple[str, ...] = ()


def holds_joint_episodes(file: Path) -> bool:
    """Return whether the first line of a file is the episode of several agents."""
    with file.open("rb") as stream:
        try:
            return bool(msgspec.json.decode(stream.readline(), type=_Kind).agents)
        except msgspec.DecodeError:
            return False


def read_joint_episodes(file: Path) -> Iterator[JointEpisode]:
    """Yield the episodes of a JSONL file that `toolorchestra.envs.episode.write_episodes` wrote.

    Raises:
        OptionError: A line is not the episode of several agents; names file and line.
    """
    for _, episode in read_jsonl(file, JointEpisode, "an episode of several agents"):
        yield episode
