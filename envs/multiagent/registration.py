"""Ids of the environments with several agents: ``{Protocol}-{Source}-v0``, made by `make_multiagent`.

They are PettingZoo environments, which has no registry of its own. Neither the games nor their sources are imported
before they are asked for.
"""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from types import ModuleType
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
_OWN = re.compile(r"([\w.]+):([A-Za-z]\w*)")  # what stands after the colon of a Gymnasium id has hyphens


def multiagent_ids() -> list[str]:
    """Return the ids of all environments with several agents that come with tasks."""
    from toolorchestra.envs.sources.base import QUESTIONS

    return [
        f"{protocol}-{source}-v0"
        for protocol in PROTOCOLS
        for source in (domain_sources() if protocol in DOMAIN_PROTOCOLS else QUESTIONS)
    ]


def is_multiagent(env_id: str) -> bool:
    """Return whether an id is of the form of an environment with several agents."""
    found = _ID.fullmatch(env_id)
    return _OWN.fullmatch(env_id) is not None or (found is not None and found[1] in PROTOCOLS)


def game_module(env_id: str) -> ModuleType:
    """Return the module of a game, which may have `random_message` and ``teacher`` (`toolorchestra.algos.warm_start`).

    Raises:
        UnknownNameError: There is no such environment.
        OptionError: There is no such module.

    >>> game_module("MSARL-Math-v0").__name__
    'toolorchestra.envs.msarl'
    """
    if own := _OWN.fullmatch(env_id):
        return _own_module(own[1])
    found = _ID.fullmatch(env_id)
    if found is None or found[1] not in PROTOCOLS:
        raise UnknownNameError("environment with several agents", env_id, multiagent_ids())
    return import_module(PROTOCOLS[found[1]])


def make_multiagent(env_id: str, **options: Any) -> MultiAgentEnv:
    """Return an environment with several agents by its id.

    Args:
        env_id: E.g. ``MSARL-Math-v0``, or ``MSARL-Custom-v0`` with `tasks` or `domain` among the options; or
            ``module:function``, a function that returns a game of your own: a `MultiAgentEnv`, or a PettingZoo
            environment whose agents read and write text (`toolorchestra.envs.multiagent.external`). The module is
            looked for in the current folder too.
        options: Arguments of the environment.

    Raises:
        UnknownNameError: There is no such environment.
        OptionError: It does not take these options, or is no such game.

    >>> env = make_multiagent("MSARL-Math-v0")
    >>> env.possible_agents
    ['reasoner', 'helper']
    """
    home, own = game_module(env_id), _OWN.fullmatch(env_id)
    if own is None:
        make = home.raw_env
        source = env_id.split("-")[1]
        options["source"] = None if source == "Custom" else source
    else:
        make = getattr(home, own[2], None)
        if make is None:
            raise OptionError(f"The module {own[1]!r} has no {own[2]!r}: name a function that returns a game.")
    try:
        made = make(**options)
    except TypeError as error:
        raise OptionError(f"{env_id} cannot be made so: {error}.") from None
    from toolorchestra.envs.multiagent.base import MultiAgentEnv

    if isinstance(made, MultiAgentEnv):
        env: MultiAgentEnv = made
    else:
        from toolorchestra.envs.multiagent.external import ExternalEnv

        env = ExternalEnv(made)
    env.home = home.__name__
    return env


def _own_module(name: str) -> ModuleType:
    """Return a module that may be in the current folder: a program has only its own folder in the path."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if not f"{name}.".startswith(f"{error.name}."):
            raise
        raise OptionError(f"There is no module {name!r}, neither installed nor in {os.getcwd()}.") from None
