"""toolorchestra: the Gymnasium for LLM orchestration.

Importing the package registers its environments with Gymnasium::

    import gymnasium as gym
    import toolorchestra

    env = gym.make("ToolOrchestra-Restaurant-v0")

Its packages are floors; each imports only those before it::

    toolscale    worlds: databases, domains, tools and tasks as data, verification, synthesis
    agents       chat models, priced experts, sub-agents, policies, the built-in model
    envs         environments: episodes, rules of the protocols, task sources, sandboxes
    algos        learners: SFT, GRPO, nested GRPO, alternating online DPO, studies
    cli          the command ``toolorchestra``

It imports neither torch nor transformers: learners are in `toolorchestra.algos`.
"""

from typing import TYPE_CHECKING, Any

from toolorchestra.envs.registration import environment_ids, make_multiagent, multiagent_ids, register_all

if TYPE_CHECKING:
    from toolorchestra.envs.checks import check_environment
    from toolorchestra.envs.episode import Episode

__version__ = "0.1.0"
__all__ = ["Episode", "__version__", "check_environment", "environment_ids", "make_multiagent", "multiagent_ids"]

register_all()


def __getattr__(name: str) -> Any:
    """Import what is public but heavy when it is first used."""
    if name == "check_environment":
        from toolorchestra.envs.checks import check_environment

        return check_environment
    if name == "Episode":
        from toolorchestra.envs.episode import Episode

        return Episode
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
