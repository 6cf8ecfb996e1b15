"""Environments of several agents that write in turns.

- `base`: `MultiAgentEnv`, PettingZoo's interface to an episode.
- `views`: views of one agent, or of the current agent, with Gymnasium's interface.

The protocols are packages of their own (`toolorchestra.envs.msarl`, `toolorchestra.envs.tmatr`,
`toolorchestra.envs.dialogue`); `toolorchestra.envs.external` makes a `MultiAgentEnv` of any PettingZoo environment of
text.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
