"""Dialogue: a user with a goal and an orchestrator that has to ask for facts, as PettingZoo environments.

`env`, `raw_env` and `parallel_env` are as in PettingZoo's own modules; `toolorchestra.envs.make_multiagent` makes
environments by id. In the parallel form every step is one message of the current agent; what the other sends is
ignored.

`single_env` is the orchestrator's view, in which the user follows a script, for learners of one agent:
``gymnasium.make("DialogueSingle-Restaurant-v0")``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
