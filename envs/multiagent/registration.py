"""Ids of the environments with several agents: ``{Protocol}-{Source}-v0``, made by `make_multiagent`.

They are PettingZoo environments, which has no registry of its own. Neither the games nor their sources are imported
before they are asked for.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

from toolorchestra.envs.registration import domain_sources
from toolorchestra.toolscale.errors import OptionError, UnknownNameError

if TYPE_CHECKING:
    from toolorchestra.envs.multiagent.base import MultiAgentEnv

PROTOCOLS = {
    "MSARL": "toolorchestra.envs.msarl",
    "TMATR": "toolorchestra.envs.tmatr",
    "Dialogue": "toolorchestra.envs.dialogue",
}
"""Package of each protocol; it has `raw_env`, `env` and `parallel_env`, and `random_message`."""
DOMAIN_PROTOCOLS = frozenset({"Dialogue"})
"""Protocols that are played in domains; the others are about questions."""
_ID = re.compile(r"(\w+)-(\w+)-v0")


def multiagent_ids() -> list[str]:
    """Return the ids of all environments with several agents that come with tasks."""
    from toolorchestra.envs.sources import QUESTIONS

    return [
        f"{protocol}-{source}-v0"
        for protocol in PROTOCOLS
        for source in (domain_sources() if protocol in DOMAIN_PROTOCOLS else QUESTIONS)
    ]


def is_multiagent(env_id: str) -> bool:
    """Return whether an id is of the form of an environment with several agents."""
    found = _ID.fullmatch(env_id)
    return found is not None and found[1] in PROTOCOLS


def make_multiagent(env_id: str, **options: Any) -> MultiAgentEnv:
    """Return an environment with several agents by its id.

    Args:
        env_id: E.g. ``MSARL-Math-v0``, or ``MSARL-Custom-v0`` with `tasks` or `domain` among the options.
        options: Arguments of the environment.

    Raises:
        UnknownNameError: There is no such environment.
        OptionError: It does not take these options.

    >>> env = make_multiagent("MSARL-Math-v0")
    >>> env.possible_agents
    ['reasoner', 'helper']
    """
    found = _ID.fullmatch(env_id)
    if found is None or found[1] not in PROTOCOLS:
        raise UnknownNameError("environment with several agents", env_id, multiagent_ids())
    source = None if found[2] == "Custom" else found[2]
    try:
        env: MultiAgentEnv = import_module(PROTOCOLS[found[1]]).raw_env(source=source, **options)
    except TypeError as error:
        raise OptionError(f"{env_id} cannot be made so: {error}.") from None
    return env
