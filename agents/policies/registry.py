"""Policies by name."""

from __future__ import annotations

import importlib
import os
import sys
from types import FunctionType, ModuleType
from typing import Any

from toolorchestra.agents.policies.base import FunctionPolicy, Policy
from toolorchestra.agents.policies.baselines import (
    Cheapest,
    Direct,
    DirectWithTools,
    FixedWorkflow,
    MajorityVote,
    SelfRefine,
    Strongest,
)
from toolorchestra.agents.policies.chat_policy import ChatPolicy
from toolorchestra.agents.policies.human import HumanPolicy
from toolorchestra.agents.policies.reference import NoisyOraclePolicy, NullPolicy, OraclePolicy, RandomPolicy
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError

POLICIES: dict[str, type[Policy]] = {
    "cheapest": Cheapest,
    "direct": Direct,
    "direct+tools": DirectWithTools,
    "fixed-workflow": FixedWorkflow,
    "human": HumanPolicy,
    "llm": ChatPolicy,
    "majority-vote": MajorityVote,
    "noisy-oracle": NoisyOraclePolicy,
    "null": NullPolicy,
    "oracle": OraclePolicy,
    "random": RandomPolicy,
    "self-refine": SelfRefine,
    "strongest": Strongest,
}
"""Policies by name."""


def policy_class(name: str) -> type[Policy]:
    """Return the class of a policy: one of `POLICIES`, or one of your own, ``module:Class`` or ``module:function``.

    A function is given the observation and its info, and returns the action.

    Raises:
        UnknownNameError: There is no policy of this name.
        OptionError: There is no such module, or it has no policy of this name.
    """
    module, own, kind = name.partition(":")
    if own:
        found = getattr(own_module(module), kind, None)
        if isinstance(found, FunctionType):
            return type(kind, (FunctionPolicy,), {"function": staticmethod(found), "__doc__": found.__doc__})
        if not (isinstance(found, type) and issubclass(found, Policy)):
            raise OptionError(f"The module {module!r} has no policy {kind!r}: expected a function or a `Policy`.")
        return found
    if name not in POLICIES:
        raise UnknownNameError("policy", name, POLICIES)
    return POLICIES[name]


def own_module(name: str) -> ModuleType:
    """Return a module that may be in the current folder: a program has only its own folder in the path.

    Raises:
        OptionError: There is no such module.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        if all(part.isidentifier() for part in name.split(".")):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not f"{name}.".startswith(f"{error.name}."):
            raise
    raise OptionError(f"There is no module {name!r}, neither installed nor in {os.getcwd()}.")


def make_policy(name: str, **options: Any) -> Policy:
    """Return a policy by name (see `policy_class`), made with `options`.

    Raises `UnknownNameError` for another name, and `OptionError` for options that the policy does not have.
    """
    make = policy_class(name)
    try:
        return make(**options)
    except TypeError as error:
        raise OptionError(f"The policy {name!r} cannot be made so: {error}.") from None
