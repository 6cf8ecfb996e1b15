"""Policies by name."""

from __future__ import annotations

import importlib
from typing import Any

from toolorchestra.agents.policies.base import Policy
from toolorchestra.agents.policies.chat_policy import ChatPolicy
from toolorchestra.agents.policies.human import HumanPolicy
from toolorchestra.agents.policies.reference import NoisyOraclePolicy, NullPolicy, OraclePolicy, RandomPolicy
from toolorchestra.toolscale.errors import OptionError, UnknownNameError

POLICIES: dict[str, type[Policy]] = {
    "human": HumanPolicy,
    "llm": ChatPolicy,
    "noisy-oracle": NoisyOraclePolicy,
    "null": NullPolicy,
    "oracle": OraclePolicy,
    "random": RandomPolicy,
}
"""Policies by name."""
BASELINES: dict[str, str] = {
    "cheapest": "baselines.Cheapest",
    "direct": "baselines.Direct",
    "direct+tools": "baselines.DirectWithTools",
    "fixed-workflow": "baselines.FixedWorkflow",
    "knn-router": "routing.KNNRouter",
    "majority-vote": "baselines.MajorityVote",
    "self-refine": "baselines.SelfRefine",
    "strongest": "baselines.Strongest",
}
"""Further policies by name, imported on first use: see `toolorchestra.agents.policies.baselines`."""


def make_policy(name: str, **options: Any) -> Policy:
    """Return a policy by name (one of `POLICIES` or `BASELINES`), made with `options`.

    Raises `UnknownNameError` for another name, and `OptionError` for options that the policy does not have.
    """
    if name in BASELINES:
        module, _, kind = BASELINES[name].partition(".")
        make: type[Policy] = getattr(importlib.import_module(f"toolorchestra.agents.policies.{module}"), kind)
    elif name in POLICIES:
        make = POLICIES[name]
    else:
        raise UnknownNameError("policy", name, {**POLICIES, **BASELINES})
    try:
        return make(**options)
    except TypeError as error:
        raise OptionError(f"The policy {name!r} cannot be made so: {error}.") from None
