"""The option `tool_view`: what a task needs among other tools, few enough for the prompt of a small model."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from toolorchestra.toolscale.answers.typed_answers import SUBMIT
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tools.tool import Tool


def check_tool_view(count: Any) -> None:
    """Raise an `OptionError` unless a value of the option is None or a number of tools."""
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
        raise OptionError(
            f"`tool_view` must be an integer of at least 1, the number of tools to show, got {count!r}. Leave it out "
            "to show all tools."
        )


def viewed(tools: Mapping[str, Tool], task: Task, count: int, seed: int) -> dict[str, Tool]:
    """Return what a task needs of the tools and others, `count` in all or as many as it needs, in a random order.

    Args:
        tools: All tools.
        task: It needs the tools of its look-ups and of all its reference trajectories, and the call `submit`.
        count: Number of tools.
        seed: With the task it decides about the others and the order.

    Raises:
        OptionError: `count` is no number of tools, or the task has no reference calls.
    """
    check_tool_view(count)
    needed = {call.name for path in (task.whole_path, *task.alternatives) for call in path}
    if not needed:
        raise OptionError(
            f"`tool_view` shows the tools of a task's reference calls among others, and {task.id} has no such calls. "
            "Leave out `tool_view`, and name tools by `tools` to have fewer."
        )
    rng = random.Random(f"{seed}/{task.id}")
    shown = [name for name in tools if name in needed or name == SUBMIT]
    others = [name for name in tools if name not in shown]
    shown += rng.sample(others, min(len(others), max(0, count - len(shown))))
    rng.shuffle(shown)
    return {name: tools[name] for name in shown}
