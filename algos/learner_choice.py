"""Which learner is for which kind of environment: one agent, or several.

A learner that is given an environment of the wrong kind refuses it by naming the right one.
"""

from __future__ import annotations

from toolorchestra.envs.registration import is_multiagent
from toolorchestra.toolscale.errors import OptionError

OWN_LEARNERS = {"MSARL": "msarl", "TMATR": "tmatr"}
"""The learner of a protocol of several agents that has one of its own; `multi_grpo` trains any."""


def learners_of(env_id: str) -> str:
    """Return the commands that train the agents of a game together, as a message names them.

    >>> learners_of("Dialogue-Restaurant-v0")
    '`python algos/multi_grpo.py --env Dialogue-Restaurant-v0`'
    """
    names = [name for name in (OWN_LEARNERS.get(env_id.split("-")[0]), "multi_grpo") if name]
    return " or ".join(f"`python algos/{name}.py --env {env_id}`" for name in names)


def require_one_agent(env_id: str) -> None:
    """Refuse a game of several agents in the name of a learner of one.

    Raises:
        OptionError: It is one; names the learners for it.

    >>> require_one_agent("ToolOrchestra-Restaurant-v0")
    """
    if is_multiagent(env_id):
        raise OptionError(
            f"{env_id!r} is a game of several agents, and this learner trains the policy of one. "
            f"Train its agents together: {learners_of(env_id)}."
        )


def require_several_agents(env_id: str) -> None:
    """Refuse an environment of one agent in the name of a learner of several.

    Raises:
        OptionError: It is one; names the learner for it.
    """
    if not is_multiagent(env_id):
        raise OptionError(
            f"{env_id!r} is no game of several agents, which this learner trains together. Environments of one agent "
            f"are trained by GRPO: `python algos/grpo.py --env {env_id}`."
        )
