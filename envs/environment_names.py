"""Environments by the names that users give: an id, the folder of a domain, or a JSONL file of tasks.

Commands and learners take the same names. What an id stands for is in `toolorchestra.envs.registration`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium

from toolorchestra.envs.registration import environment_ids, is_multiagent, multiagent_ids
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError


def resolve(name: str) -> tuple[str, dict[str, str]]:
    """Return the environment id and its arguments that a name stands for.

    Raises:
        UnknownNameError: There is no such environment, folder or file.

    >>> resolve("ToolOrchestra-Restaurant-v0")
    ('ToolOrchestra-Restaurant-v0', {})
    >>> resolve("my_tasks.jsonl")
    ('ToolOrchestra-Custom-v0', {'tasks': 'my_tasks.jsonl'})
    """
    if name in gymnasium.registry or ":" in name or is_multiagent(name):
        return name, {}
    if Path(name).is_dir():
        return "ToolOrchestra-Custom-v0", {"domain": name}
    if Path(name).suffix == ".jsonl":
        return "ToolOrchestra-Custom-v0", {"tasks": name}
    raise UnknownNameError("environment", name, [*environment_ids(), *multiagent_ids()])


def make_named(name: str, **options: Any) -> gymnasium.Env[Any, Any]:
    """Make a Gymnasium environment by its name, without Gymnasium's checker, which would look at every observation.

    Raises:
        UnknownNameError: There is no such environment.
        OptionError: It cannot be made with these options.
    """
    env_id, arguments = resolve(name)
    try:
        return gymnasium.make(env_id, disable_env_checker=True, **{**arguments, **options})
    except (gymnasium.error.Error, ModuleNotFoundError, TypeError) as error:
        if isinstance(error, TypeError) and not options:  # a bug of the environment, not a wrong argument
            raise
        raise OptionError(f"The environment {name!r} cannot be made: {str(error).rstrip('.')}.") from None
