"""The registry of environments: every id, what it stands for, and how it is made.

Ids are ``{Protocol}-{Source}-v0``. Every protocol is registered with every source that it can be played on, and once as
``{Protocol}-Custom-v0`` for tasks or domains of your own. Environments of one agent, the views of one agent on
environments of several (``MSARLSingle-Math-v0``), and those of numbers in place of text (``Routing-Math-v0``) are made
by `gymnasium.make`; PettingZoo has no registry, so those of several agents are made by `make_multiagent`, and
`gymnasium.make` says so.

Registering imports neither the environments nor their tasks: an entry point is a string until it is followed.
"""

from __future__ import annotations

import functools
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import gymnasium

from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError

if TYPE_CHECKING:
    from toolorchestra.envs.multiagent.base import MultiAgentEnv

_DOMAINS = Path(__file__).parent.parent / "toolscale" / "domains"
_EXTERNAL = f"{__name__.rpartition('.')[0]}.external"
_AXES = ("Depth", "Horizon", "Breadth", "Parallel", "Robustness")
QUESTION_SOURCES = ("Math", "MultiHopQA", *(f"MASBench{axis}" for axis in _AXES))
"""Sources of questions, which have no database."""
TAU2_SOURCES = ("Tau2Airline", "Tau2Retail")
"""Worlds of τ²-bench, whose packages the extra ``tau2`` installs."""
_OWN = re.compile(r"([\w.]+):([A-Za-z]\w*)")  # what stands after the colon of a Gymnasium id has hyphens


Kind = Literal["one", "several", "view", "numbers"]
"""An environment of one agent, of several, the view of one agent on one of several, or one of numbers, not text."""


class _Protocol(NamedTuple):
    """A protocol in the registry: where it is, what it is played on, and of which kind it is.

    `tau2`: it is registered with the worlds of τ²-bench as well.
    """

    entry_point: str
    domains: bool = True
    questions: bool = True
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed
    kind: Kind = "one"
    tau2: bool = False


PROTOCOLS = {
    "ToolOrchestra": _Protocol("toolorchestra.envs.toolorchestra.env:ToolOrchestraEnv", tau2=True),
    "ParaManager": _Protocol("toolorchestra.envs.paramanager.env:ParaManagerEnv"),
    "MASOrchestra-Low": _Protocol(
        "toolorchestra.envs.masorchestra.env:MASOrchestraEnv", domains=False, options={"dom": "low"}
    ),
    "MASOrchestra-High": _Protocol(
        "toolorchestra.envs.masorchestra.env:MASOrchestraEnv", domains=False, options={"dom": "high"}
    ),
    "MSARL": _Protocol("toolorchestra.envs.msarl", domains=False, kind="several"),
    "TMATR": _Protocol("toolorchestra.envs.tmatr", domains=False, kind="several"),
    "Dialogue": _Protocol("toolorchestra.envs.dialogue", questions=False, kind="several", tau2=True),
    "MSARLSingle": _Protocol("toolorchestra.envs.msarl:single_env", domains=False, kind="view"),
    "TMATRSingle": _Protocol("toolorchestra.envs.tmatr:single_env", domains=False, kind="view"),
    "DialogueSingle": _Protocol("toolorchestra.envs.dialogue:single_env", questions=False, kind="view", tau2=True),
    "Routing": _Protocol("toolorchestra.envs.bridges.routing:RoutingEnv", kind="numbers"),
}
"""Protocols by the first part of their ids. The entry point of one with several agents is a package with `raw_env`,
`env`, `parallel_env`, `single_env` and `random_message`."""


class EnvironmentEntry(NamedTuple):
    """An environment in the registry.

    Attributes:
        env_id: Its id.
        protocol: First part of the id.
        source: Name of the task source, or ``Custom``.
        kind: Whether it has one agent, several, is the view of one of several, or is made of numbers.
    """

    env_id: str
    protocol: str
    source: str
    kind: Kind


@functools.cache
def registry() -> dict[str, EnvironmentEntry]:
    """Return every environment by id."""
    found = {}
    for name, protocol in PROTOCOLS.items():
        sources = [*(domain_sources() if protocol.domains else ()), *(QUESTION_SOURCES if protocol.questions else ())]
        if protocol.domains and protocol.questions:
            sources.append("All")
        for source in (*sources, *(TAU2_SOURCES if protocol.tau2 else ()), "Custom"):
            env_id = f"{name}-{source}-v0"
            found[env_id] = EnvironmentEntry(env_id, name, source, protocol.kind)
    return found


def domain_sources() -> list[str]:
    """Return the sources that are a shipped domain, by name."""
    return [path.parent.name.title().replace("_", "") for path in sorted(_DOMAINS.glob("*/domain.yaml"))]


def environment_ids() -> list[str]:
    """Return the ids of all environments of one agent that come with tasks; `gymnasium.make` makes them."""
    return sorted(_ids("one"))


def multiagent_ids() -> list[str]:
    """Return the ids of all environments with several agents that come with tasks; `make_multiagent` makes them."""
    return _ids("several")


def view_ids() -> list[str]:
    """Return the ids of the single-agent views of environments with several agents; `gymnasium.make` makes them."""
    return _ids("view")


def routing_ids() -> list[str]:
    """Return the ids of the environments whose observations and actions are numbers; `gymnasium.make` makes them."""
    return _ids("numbers")


def _ids(kind: Kind) -> list[str]:
    apart = ("Custom", *TAU2_SOURCES)
    return [entry.env_id for entry in registry().values() if entry.source not in apart and entry.kind == kind]


def register_all() -> None:
    """Register every environment with Gymnasium (again is harmless)."""
    for env_id, entry in registry().items():
        if env_id in gymnasium.registry:
            continue
        protocol = PROTOCOLS[entry.protocol]
        options = dict(protocol.options)
        if entry.kind == "numbers":
            options["env"] = f"ToolOrchestra-{entry.source}-v0"
        elif entry.source != "Custom":
            options["source"] = entry.source
        elif entry.kind == "view":
            options["source"] = None
        # `check_environment` is the thorough checker, and the environment itself demands a reset before a step
        gymnasium.register(
            env_id,
            entry_point=f"{__name__}:_several_agents" if entry.kind == "several" else protocol.entry_point,
            kwargs={"env_id": env_id} if entry.kind == "several" else options,
            disable_env_checker=True,
            order_enforce=False,
        )


def _several_agents(env_id: str, **_: Any) -> Any:
    """Raise an error that says how to make an environment with several agents; `gymnasium.make` calls this.

    Raises:
        OptionError: Always.
    """
    protocol, rest = env_id.split("-", 1)
    raise OptionError(
        f"{env_id} has several agents, and gymnasium.make makes environments of one. "
        f"Use toolorchestra.envs.make_multiagent({env_id!r}), a PettingZoo environment, or the view of one of its "
        f"agents: gymnasium.make('{protocol}Single-{rest}')."
    )


def is_multiagent(env_id: str) -> bool:
    """Return whether an id is of the form of an environment with several agents."""
    if _OWN.fullmatch(env_id) is not None:
        return True
    name = env_id.split("-")[0]
    return env_id.count("-") == 2 and env_id.endswith("-v0") and name in PROTOCOLS and PROTOCOLS[name].kind == "several"


def protocol_module(env_id: str) -> ModuleType:
    """Return the module of an environment with several agents, which may have `random_message` and ``teacher``.

    Raises:
        UnknownNameError: There is no such environment.
        OptionError: There is no such module.

    >>> protocol_module("MSARL-Math-v0").__name__
    'toolorchestra.envs.msarl'
    """
    if own := _OWN.fullmatch(env_id):
        from toolorchestra.agents.policies.registry import own_module

        return own_module(own[1])
    if not is_multiagent(env_id):
        raise UnknownNameError("environment with several agents", env_id, multiagent_ids())
    return import_module(PROTOCOLS[env_id.split("-")[0]].entry_point)


def make_multiagent(env_id: str, **options: Any) -> MultiAgentEnv:
    """Return an environment with several agents by its id.

    Args:
        env_id: E.g. ``MSARL-Math-v0``, or ``MSARL-Custom-v0`` with `source`, `tasks` or `domain` among the options; or
            ``module:function``, a function that returns an environment of your own: a `MultiAgentEnv`, or a PettingZoo
            environment whose agents read and write text (`toolorchestra.envs.external`). The module is
            looked for in the current folder too.
        options: Arguments of the environment; a `source` among them takes the place of the id's, as with `gym.make`.

    Raises:
        UnknownNameError: There is no such environment.
        OptionError: It does not take these options, or is no such environment.

    >>> env = make_multiagent("MSARL-Math-v0")
    >>> env.possible_agents
    ['reasoner', 'helper']
    """
    home, own = protocol_module(env_id), _OWN.fullmatch(env_id)
    if own is None:
        make = home.raw_env
        source = env_id.split("-")[1]
        if source != "Custom" and options.get("source") is None:
            options["source"] = source
        options.setdefault("source", None)
    else:
        make = getattr(home, own[2], None)
        if make is None:
            raise OptionError(f"The module {own[1]!r} has no {own[2]!r}: name a function that returns an environment.")
    try:
        made = make(**options)
    except TypeError as error:
        raise OptionError(f"{env_id} cannot be made so: {error}.") from None
    from toolorchestra.envs.multiagent.base import MultiAgentEnv

    env: MultiAgentEnv = made if isinstance(made, MultiAgentEnv) else import_module(_EXTERNAL).ExternalEnv(made)
    env.home = home.__name__
    return env
