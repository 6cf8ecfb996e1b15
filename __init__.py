"""toolorchestra: the Gymnasium for LLM orchestration.

Importing the package registers its environments with Gymnasium::

    import gymnasium as gym
    import toolorchestra

    env = gym.make("ToolOrchestra-Restaurant-v0")

Its packages are layers; each imports only those before it::

    toolscale    worlds: databases, domains, tools and tasks as data, verification, synthesis
    agents       chat models, priced experts, sub-agents, policies, the built-in model
    envs         environments: episodes, rules of the protocols, task sources, sandboxes
    algos        learners: SFT, GRPO, nested GRPO, alternating online DPO
    cli          the command ``toolorchestra``

It imports neither torch nor transformers: learners are in `toolorchestra.algos`.
"""

import lazy_loader

from toolorchestra.envs.registration import register_all

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]

register_all()
