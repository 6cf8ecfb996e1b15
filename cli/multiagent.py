"""What the command line does with games of several agents: their sources, and one policy that speaks for all.

The commands themselves are in `toolorchestra.cli.main`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolorchestra.toolscale.errors import OptionError

if TYPE_CHECKING:
    from toolorchestra.agents.policies.base import Policy
    from toolorchestra.envs.multiagent.views import CurrentAgentEnv


def mover_env(env_id: str, **options: Any) -> CurrentAgentEnv:
    """Return a game of several agents as one policy plays it that speaks for all."""
    from toolorchestra.envs.multiagent.views import CurrentAgentEnv
    from toolorchestra.envs.registration import make_multiagent

    return CurrentAgentEnv(make_multiagent(env_id, **options))


def mover_policy(env_id: str, name: str, seed: int) -> Policy:
    """Return the policy of a name that speaks for all agents of a game; a chat model is made as for one agent.

    Raises:
        OptionError: The policy knows environments of one agent only.
    """
    from toolorchestra.agents.policies.reference import NullPolicy
    from toolorchestra.envs.checks.several_agents import random_messages
    from toolorchestra.envs.multiagent.views import RandomMessages

    if name not in ("null", "random"):
        raise OptionError(
            f"The policy {name!r} plays environments of one agent; {env_id} has several. "
            "One policy can speak for all of them: --policy llm, random or null."
        )
    return RandomMessages(random_messages(env_id), seed) if name == "random" else NullPolicy(seed)
