"""Policies: what plays an environment.

::

    Policy                          reset(env, observation, info), act(observation, info)
      ├ NullPolicy, RandomPolicy
      ├ OraclePolicy                plays the reference trajectory (privileged)
      │   └ NoisyOraclePolicy       makes mistakes
      │       └ QueryingOraclePolicy    also asks experts
      ├ ChatPolicy, HumanPolicy
      ├ ConsensusPolicy, ExplorerPolicy     ask several experts
      └ Baseline                    fixed rules to compare with
          ├ Direct ─ Strongest, Cheapest, KNNRouter
          └ DirectWithTools, MajorityVote, SelfRefine, FixedWorkflow

`make_policy` makes a policy by name, and `play_episode` plays an episode with one.
"""

from toolorchestra.agents.policies.base import Policy, play_episode, write_calls
from toolorchestra.agents.policies.baselines import (
    Baseline,
    Cheapest,
    Direct,
    DirectWithTools,
    FixedWorkflow,
    MajorityVote,
    SelfRefine,
    Strongest,
)
from toolorchestra.agents.policies.chat_policy import ChatPolicy
from toolorchestra.agents.policies.consensus import ConsensusPolicy
from toolorchestra.agents.policies.exploration import ExplorerPolicy, QueryingOraclePolicy
from toolorchestra.agents.policies.human import HumanPolicy
from toolorchestra.agents.policies.reference import NoisyOraclePolicy, NullPolicy, OraclePolicy, RandomPolicy
from toolorchestra.agents.policies.registry import BASELINES, POLICIES, make_policy
from toolorchestra.agents.policies.routing import EvaluationBank, KNNRouter, RoutingEvaluation

__all__ = [
    "BASELINES",
    "POLICIES",
    "Baseline",
    "ChatPolicy",
    "Cheapest",
    "ConsensusPolicy",
    "Direct",
    "DirectWithTools",
    "EvaluationBank",
    "ExplorerPolicy",
    "FixedWorkflow",
    "HumanPolicy",
    "KNNRouter",
    "MajorityVote",
    "NoisyOraclePolicy",
    "NullPolicy",
    "OraclePolicy",
    "Policy",
    "QueryingOraclePolicy",
    "RandomPolicy",
    "RoutingEvaluation",
    "SelfRefine",
    "Strongest",
    "make_policy",
    "play_episode",
    "write_calls",
]


def __dir__() -> list[str]:
    return __all__
