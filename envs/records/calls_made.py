"""Which tools and models the calls of an episode went to (ParaManager Figures 5, 6b, ToolOrchestra Figures 2, 4)."""

from __future__ import annotations

from typing import NamedTuple

from toolorchestra.envs.records.episode import Episode
from toolorchestra.toolscale.tools.tool import Status


class MadeCall(NamedTuple):
    """A call that was run: its tool, and the models that were asked in it, each once."""

    tool: str
    models: tuple[str, ...] = ()


def calls_made(episode: Episode, *, left_out: tuple[str, ...] = ("final_answer",)) -> tuple[MadeCall, ...]:
    """Return the calls of an episode that were run, but for those of tools that end it.

    The models are those that the record lists beneath a call; tools that a sub-agent used stand there as well, and are
    no models.
    """
    tools = set(episode.tools)
    return tuple(
        MadeCall(call.name, tuple(sorted({child.name for child in call.children} - tools)))
        for call in episode.calls
        if call.status is not Status.PARSE_ERR and call.name not in left_out
    )
