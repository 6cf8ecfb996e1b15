"""TMATR: a tree of atomic actions of a planner and an inferencer, as PettingZoo environments.

`env`, `raw_env` and `parallel_env` are as in PettingZoo's own modules; `toolorchestra.envs.make_multiagent` makes
environments by id. In the parallel form every step is one message of the current agent; what the others send is
ignored.

`single_env` has one agent for all actions and is a Gymnasium environment: ``gymnasium.make("TMATRSingle-Math-v0")``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
