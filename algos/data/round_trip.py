"""Before training: what a teacher writes must earn the same once it was rendered, made ids, decoded and read.

A chat template can lose calls, texts or the ends of turns. Then a model would be taught, and rewarded for, messages
that it never wrote; so the teacher of an environment plays an episode with its words as they are, and one with what
comes back of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym

from toolorchestra.agents.builtin.chat_template_renderer import ChatTemplateRenderer
from toolorchestra.agents.builtin.renderer import Renderer
from toolorchestra.agents.messages.model_message import Message
from toolorchestra.agents.policies.base import Info, play_episode
from toolorchestra.agents.policies.reference import OraclePolicy
from toolorchestra.algos.data.demonstrations import structured
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.envs.teachers import teacher_of
from toolorchestra.toolscale.common.errors import OptionError

_SAME = 0.01
"""Rewards that differ less are the same: a space that a template drops changes the cost of a message."""
_REMEDY = (
    "The model would learn messages that are not read as it writes them. Give `call_format` hermes, or the model "
    "another template, such as one of TRL (trl.chat_template_utils.get_training_chat_template)."
)


def returned(
    renderer: ChatTemplateRenderer, action: Any, before: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()
) -> Any:
    """Return the action that is read of a policy's action, once it was rendered and made ids.

    Raises:
        OptionError: Other calls come back, or the turn has no end.
    """
    said = {"content": action} if isinstance(action, str) else action
    message = structured({"role": "assistant", **said})
    written = renderer.encode_action(message, before)
    renderer.check_action(message, written, tools)
    read, well_formed = renderer.decode_action(written, tools, before)
    if not well_formed:
        raise OptionError(
            f"What the chat template makes of {str(action)[:200]!r} has no end, or is not read. {_REMEDY}"
        )
    return read


def require_round_trip(env: gym.Env[Any, Any], renderer: Renderer, start: EpisodeStart) -> None:
    """Raise an `OptionError` if the oracle earns something else where what it writes goes through a chat template.

    Renderers of built-in models are ours, and environments of others have no oracle: these pass.
    """
    if not isinstance(renderer, ChatTemplateRenderer) or not hasattr(type(env.unwrapped), "task"):
        return

    _require_same(oracle_reward(env, start), oracle_reward(env, start, renderer))


def oracle_reward(env: gym.Env[Any, Any], start: EpisodeStart, renderer: ChatTemplateRenderer | None = None) -> float:
    """Return what the oracle earns with its words as they are, or with those that come back from a renderer."""
    policy = OraclePolicy() if renderer is None else _RenderedOracle(renderer)
    play_episode(env, policy, **start.arguments)
    return _reward(env.unwrapped.episode)  # type: ignore[attr-defined]  # an environment of ours


class _RenderedOracle(OraclePolicy):
    """An oracle whose messages are those that come back from a renderer."""

    def __init__(self, renderer: ChatTemplateRenderer) -> None:
        super().__init__()
        self._renderer = renderer
        self._tools: list[Mapping[str, Any]] = []

    def reset(self, env: gym.Env[Any, Any], observation: str, info: Info) -> None:
        super().reset(env, observation, info)
        self._tools = list(info["tools"])

    def act(self, observation: str, info: Info) -> Any:
        return returned(self._renderer, super().act(observation, info), list(info["messages"]), self._tools)


def _reward(episode: Episode) -> float:
    return float(sum(episode.rewards.values()))


def require_team_round_trip(env: MultiAgentEnv, renderers: Mapping[str, Renderer]) -> None:
    """Raise an `OptionError` if the protocol's teacher earns something else through the chat templates of its agents.

    The teacher plays the first task that it knows; an environment whose protocol has none passes.

    Args:
        env: The environment.
        renderers: The renderer of each agent, by the agent's name.
    """
    if not any(isinstance(renderer, ChatTemplateRenderer) for renderer in renderers.values()):
        return
    try:
        teacher = teacher_of(env)
    except OptionError:
        return
    known = next((task.id for task in env.source.tasks("train") if teacher.knows(task)), None)
    if known is None:
        return

    def earned(*, rendered: bool) -> float:
        env.reset(seed=0, options={"task_id": known})
        play = env.play
        while not play.over:
            agent, action = play.current_agent, teacher.teach(play)
            if rendered and isinstance(renderer := renderers[agent], ChatTemplateRenderer):
                action = returned(renderer, action, list(play.histories[agent]))
            play.act(action)
        return _reward(play.episode)

    _require_same(earned(rendered=False), earned(rendered=True))


def _require_same(plain: float, back: float) -> None:
    if not math.isclose(plain, back, abs_tol=_SAME):
        raise OptionError(
            f"The teacher earns {plain:g} with its words as they are, and {back:g} with what is read of them once the "
            f"chat template has rendered them. {_REMEDY}"
        )
