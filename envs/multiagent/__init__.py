"""Environments of several agents that write in turns.

- `base`: `MultiAgentEnv`, PettingZoo's interface to an episode.
- `views`: views of one agent, or of the current agent, with Gymnasium's interface.

The protocols are packages of their own (`toolorchestra.envs.msarl`, `toolorchestra.envs.tmatr`,
`toolorchestra.envs.dialogue`); `toolorchestra.envs.external` makes a `MultiAgentEnv` of any PettingZoo environment of
text.
"""

from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.multiagent.views import AgentView, CurrentAgentEnv, SingleAgentEnv

__all__ = ["AgentView", "CurrentAgentEnv", "MultiAgentEnv", "SingleAgentEnv"]


def __dir__() -> list[str]:
    return __all__
