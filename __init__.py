"""toolorchestra: the Gymnasium for LLM orchestration.

Importing the package registers its environments with Gymnasium::

    import gymnasium as gym
    import toolorchestra

    env = gym.make("ToolOrchestra-Restaurant-v0")

It imports neither torch nor transformers: learners are in `toolorchestra.algos`.
"""

from toolorchestra.envs.registration import environment_ids, register_all

__version__ = "0.1.0"
__all__ = ["__version__", "environment_ids"]

register_all()
