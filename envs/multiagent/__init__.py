"""Environments of several agents that write in turns.

- `base`: `MultiAgentEnv`, PettingZoo's interface to an episode.
- `views`: such an environment as one agent sees it, or as whoever has the turn, with Gymnasium's interface.
- `external`: any PettingZoo environment of text as a `MultiAgentEnv`.
- `checks`: what must hold for training on one to mean anything.

The protocols are packages of their own (`toolorchestra.envs.msarl`, `toolorchestra.envs.tmatr`,
`toolorchestra.envs.dialogue`).
"""

from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.multiagent.views import AgentView, CurrentAgentEnv, SingleAgentEnv

__all__ = ["AgentView", "CurrentAgentEnv", "MultiAgentEnv", "SingleAgentEnv"]


def __dir__() -> list[str]:
    return __all__
