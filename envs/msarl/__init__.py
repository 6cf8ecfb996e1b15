"""MSARL: a reasoner that writes code, and helpers that read its output (MSARL §3.2), as PettingZoo environments.

`env`, `raw_env` and `parallel_env` are as in PettingZoo's own modules; `toolorchestra.envs.make_multiagent` makes
environments by id. In the parallel form every step is one message of the current agent; what the others send is
ignored.

`single_env` is the view of one agent, for learners of one agent: ``gymnasium.make("MSARLSingle-Math-v0")``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
