"""toolorchestra: the Gymnasium for LLM orchestration.

Importing the package registers its environments with Gymnasium::

    import gymnasium as gym
    import toolorchestra

    env = gym.make("ToolOrchestra-Restaurant-v0")

It imports neither torch nor transformers: learners are in `toolorchestra.algos`.
"""

from typing import TYPE_CHECKING, Any

from toolorchestra.envs.registration import environment_ids, register_all

if TYPE_CHECKING:
    from toolorchestra.envs.checks.environment import check_environment

__version__ = "0.1.0"
__all__ = ["__version__", "check_environment", "environment_ids"]

register_all()


def __getattr__(name: str) -> Any:
    """Import what is public but heavy when it is first used."""
    if name == "check_environment":
        from toolorchestra.envs.checks.environment import check_environment

        return check_environment
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
