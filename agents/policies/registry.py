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
    "avengers": "published.routers.Avengers",
    "cheapest": "baselines.Cheapest",
    "dfs": "published.tree.DepthFirstSearch",
    "direct": "baselines.Direct",
    "direct+tools": "baselines.DirectWithTools",
    "dylan": "published.network.DyLAN",
    "fixed-workflow": "baselines.FixedWorkflow",
    "frugal-gpt": "published.cascade.FrugalGPT",
    "irt-router": "published.routers.IRTRouter",
    "knn-router": "routing.KNNRouter",
    "majority-vote": "baselines.MajorityVote",
    "puppeteer": "published.puppeteer.Puppeteer",
    "react": "published.acting.ReAct",
    "rest-gpt": "published.acting.RestGPT",
    "route-llm": "published.routers.RouteLLM",
    "router-r1": "published.router_r1.RouterR1",
    "self-refine": "baselines.SelfRefine",
    "strongest": "baselines.Strongest",
    "trinity": "published.trinity.Trinity",
}
"""Further policies by name, imported on first use: see `toolorchestra.agents.policies.baselines`."""


def policy_class(name: str) -> type[Policy]:
    """Return the class of a policy by name, or raise `UnknownNameError`."""
    if name in POLICIES:
        return POLICIES[name]
    if name not in BASELINES:
        raise UnknownNameError("policy", name, {**POLICIES, **BASELINES})
    module, _, kind = BASELINES[name].rpartition(".")
    found: type[Policy] = getattr(importlib.import_module(f"toolorchestra.agents.policies.{module}"), kind)
    return found


def make_policy(name: str, **options: Any) -> Policy:
    """Return a policy by name (one of `POLICIES` or `BASELINES`), made with `options`.

    Raises `UnknownNameError` for another name, and `OptionError` for options that the policy does not have.
    """
    make = policy_class(name)
    try:
        return make(**options)
    except TypeError as error:
        raise OptionError(f"The policy {name!r} cannot be made so: {error}.") from None
