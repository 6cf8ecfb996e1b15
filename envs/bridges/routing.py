"""Classical reinforcement learning: which expert is asked next, and when to stop, with numbers in and out.

`RoutingEnv` puts an environment of text whose tools include experts behind a `Discrete` action space and a `Box` of
features, so that learners which know neither text nor tools (Stable-Baselines3, CleanRL) run on it unmodified. Experts
are asked, calls made and answers judged by the environment underneath; nothing of the ground truth is a feature.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.policies.baselines import NO_ANSWER
from toolorchestra.agents.policies.expert_roles import ExpertRole, expert_roles, proposal
from toolorchestra.envs.base import OrchestrationEnv
from toolorchestra.envs.bridges.routing_features import Asked, Progress, RoutingFeatures, leading_proposal, picture
from toolorchestra.envs.environment_names import make_named
from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.rewards import COMPONENTS, Preference
from toolorchestra.envs.task_env import RENDER_MODES
from toolorchestra.envs.tools.experts import ExpertTool
from toolorchestra.envs.tools.toolkit import DRAWN_FROM, RANDOM
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.task import Call
from toolorchestra.toolscale.tools.tool import Status

STOP = "stop"
"""The first action: ask no more, and follow the most frequent proposal."""
DEFAULT_PREFERENCE: Mapping[str, float] = {"outcome": 1.0, "compute": 0.5}
PICTURE = "rgb_array"
_QUESTION_ASKS, _DOMAIN_ASKS = 4, 24  # typical calls of the dearest expert in a budget


class RoutingEnv(gymnasium.Env[NDArray[np.float32], np.int64]):
    """Routing among experts: each action asks one of them, or stops and follows what was proposed.

    **Action**: ``Discrete(1 + experts)``; `actions` names them. 0 stops: the most frequent proposal about the present
    step (the first of them in a tie) is followed. For a question it is the answer, which ends the episode; in a domain
    it may be a call, which is made, and then the experts are asked about the next step. Action i asks expert i about
    the present step; asked again, it thinks again.

    **Observation**: ``Box(0, 1)``, `float32`; `features` names its entries. Of the task: words and numbers in the
    request, words hashed into a fixed number of counts. Of the episode: turns, calls, whether the last call failed, the
    shares left of budget and time, how many proposals there are, how many agree with the most frequent one and whether
    it is an answer. The preference. Of each expert: whether it is there, price and time of its typical call as shares
    of budget and time, how often it was asked about this step, and whether it proposed the most frequent proposal.

    **Reward**: paid step by step, so that an episode's sum is ``outcome · solved - compute · cost / budget -
    latency · time / seconds`` with the weights of the preference.

    **End**: terminated by an answer, and where turns or budget are spent, which the observation shows; truncated by an
    infrastructure error only.

    **Info**: ``action_mask`` (experts that are there; stopping once something was proposed), ``task_id``, ``split``,
    ``difficulty``, ``cost``, ``clock``, and at the end ``outcome``.

    Args:
        env: Environment of one agent whose tools include experts, as of `make_named`; a ToolOrchestra environment is
            made with ``tools="full"``.
        experts: Names of the experts to choose among, as in `actions`; all by default.
        budget: US dollars that an episode may cost, of which the weight of compute is spent; by default 4 typical calls
            of the dearest expert for questions, 24 in a domain.
        seconds: Virtual seconds of which the weight of latency is spent; by default as many calls of the slowest.
        preference: Weights in [0, 1] of ``outcome``, ``compute`` and ``latency``, or ``random``: those of compute and
            latency are drawn at each reset.
        word_counts: Number of counts that the words of the request are hashed into; 0 for none.
        render_mode: ``ansi`` or ``human``, as of other environments, or ``rgb_array``: a picture of the features.
        options: Arguments of the environment underneath. The router's decisions are free by default
            (``orchestrator=None``), since no model writes them.

    Reset options: ``preference``, and those of the environment underneath.

    Raises:
        OptionError: The environment has no experts, or an option has a value that cannot be used.

    >>> import gymnasium as gym, toolorchestra
    >>> env = gym.make("Routing-Math-v0")
    >>> observation, info = env.reset(seed=0)
    >>> env.unwrapped.actions[:3]
    ('stop', 'query_gpt_5', 'query_gpt_5_mini')
    >>> observation, reward, terminated, truncated, info = env.step(env.unwrapped.actions.index("ask_gpt_5"))
    >>> terminated, reward < 0
    (False, True)
    >>> observation, reward, terminated, truncated, info = env.step(0)
    >>> terminated, info["outcome"]
    (True, 'solved')
    """

    metadata = {"render_modes": [*RENDER_MODES, PICTURE], "render_fps": 4}  # noqa: RUF012 - Gymnasium's declaration

    def __init__(
        self,
        env: str = "ToolOrchestra-Math-v0",
        *,
        experts: Sequence[str] | None = None,
        budget: float | None = None,
        seconds: float | None = None,
        preference: Mapping[str, float] | str = DEFAULT_PREFERENCE,
        word_counts: int = 16,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        for name, value in {"budget": budget, "seconds": seconds}.items():
            if value is not None and not 0 < value < math.inf:
                raise OptionError(f"`{name}` must be a positive number, got {value!r}.")
        if isinstance(word_counts, bool) or not isinstance(word_counts, int) or not 0 <= word_counts <= 4096:
            raise OptionError(f"`word_counts` must be an integer from 0 to 4096, got {word_counts!r}.")
        self._weights_of(preference, None)
        self._default_preference = preference
        self.render_mode = render_mode
        self.env = _text_environment(env, {**options, "render_mode": None if render_mode == PICTURE else render_mode})
        self._catalog = _catalog(options.get("catalog"))
        found = self._possible_experts(env, drawn=options.get("tool_config") == RANDOM)
        if wrong := [name for name in experts or () if name not in found]:
            raise UnknownNameError("expert", str(wrong[0]), found)
        self.experts: tuple[str, ...] = tuple(found if experts is None else experts)
        if not self.experts:
            raise OptionError("`experts` is empty: name at least one, or leave it out for all.")
        self.actions: tuple[str, ...] = (STOP, *self.experts)
        many = _DOMAIN_ASKS if isinstance(self.env.play.world, Domain) else _QUESTION_ASKS
        typical = [self._typical(found[name]) for name in self.experts]
        self.budget = budget or many * max(usd for usd, _ in typical) or 1.0
        self.seconds = seconds or many * max(time for _, time in typical) or 1.0
        self.env.limits = dataclasses.replace(self.env.limits, cost=self.budget)
        self._features = RoutingFeatures(self.experts, word_counts)
        self.features: tuple[str, ...] = self._features.names
        self.observation_space = spaces.Box(0.0, 1.0, (len(self.features),), np.float32)
        self.action_space = spaces.Discrete(len(self.actions))
        self._roles: dict[str, ExpertRole] = {}
        self._asked: list[Asked] = []
        self._fixed = self._of_task = np.zeros(0, np.float32)
        self._weights: tuple[float, ...] = (1.0, 0.0, 0.0)
        self._calls, self._failed = 0, False
        self._over = True

    @property
    def episode(self) -> Episode:
        """The record of the current or last episode."""
        return self.env.episode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode.

        Raises:
            OptionError: An option is unknown or has a value that cannot be used.
        """
        super().reset(seed=seed)
        chosen = dict(options or {})
        self._weights = self._weights_of(chosen.pop("preference", self._default_preference), self.np_random)
        _, info = self.env.reset(seed=seed, options=chosen)
        self._roles = {_name(role): role for role in expert_roles(info["tools"])}
        self._asked, self._calls, self._failed, self._over = [], 0, False, False
        self._of_task = self._features.of_task(str(info["messages"][-1]["content"]))
        shown = [self._shown(name) for name in self.experts]
        self._fixed = np.array(shown, np.float32).clip(0.0, 1.0)
        return self._observation(), self._info(info)

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Ask an expert, or stop and follow what was proposed.

        Raises:
            OptionError: The action is none of the space, or the episode is over.
        """
        if self._over:
            raise OptionError("The episode is over, or none was begun: call reset() first.")
        number = int(action)
        if not 0 <= number < len(self.actions):
            raise OptionError(f"Expected an action from 0 to {len(self.actions) - 1}, got {action!r}.")
        cost, clock = self.episode.cost, self.episode.clock
        info = self._ask(number - 1) if number else self._follow()
        episode = self.episode
        outcome, compute, latency = self._weights
        spent, passed = (episode.cost - cost) / self.budget, (episode.clock - clock) / self.seconds
        reward = 0.0 - compute * spent - latency * passed
        self._over = episode.outcome is not None
        if episode.outcome == "solved":
            reward += outcome
        truncated = episode.outcome in ("infra_error", "judge_error")
        return self._observation(), float(reward), self._over and not truncated, truncated, self._info(info)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which actions can be of use, under the name that sb3-contrib's `MaskablePPO` looks for."""
        return np.array([bool(self._asked), *(name in self._roles for name in self.experts)])

    def render(self) -> Any:
        """Return the transcript so far (mode ``ansi``), or a picture: one bar for each feature (``rgb_array``)."""
        if self.render_mode != PICTURE:
            return self.env.render()
        return picture(self._observation())

    def close(self) -> None:
        """Release what the environment underneath holds."""
        self.env.close()

    # ------------------------------------------------------------------------------------------------- what is done

    def _ask(self, expert: int) -> dict[str, Any]:
        """Ask an expert about the present step; one that is not there costs a turn."""
        name = self.experts[expert]
        role = self._roles.get(name)
        call = Call(name, {}) if role is None else role.shown(self.env.play.messages).call()
        *_, info = self.env.step([{"name": call.name, "arguments": call.arguments}])
        record = next(iter(info["calls"]), None)
        answered = record is not None and record.status is Status.OK
        self._asked.append(Asked(expert, proposal(record.value) if answered and record is not None else None))
        return info

    def _follow(self) -> dict[str, Any]:
        """Follow the most frequent proposal."""
        leading = leading_proposal(self._asked)
        self._asked = []
        if not isinstance(leading, Call):
            *_, info = self.env.step(self.env.final(leading or NO_ANSWER))
            return info
        *_, info = self.env.step([{"name": leading.name, "arguments": leading.arguments}])
        self._calls += 1
        self._failed = any(call.status is not Status.OK for call in info["calls"])
        return info

    # ------------------------------------------------------------------------------------------------ what is shown

    def _observation(self) -> NDArray[np.float32]:
        episode = self.episode
        turns, cost = len(episode.turns) / self.env.limits.turns, episode.cost / self.budget
        progress = Progress(turns, cost, episode.clock / self.seconds, self._calls, self._failed)
        return self._features.observation(self._of_task, self._fixed, self._weights, progress, self._asked)

    def _shown(self, name: str) -> tuple[float, float, float]:
        """Return what is shown of an expert for the whole episode."""
        if name not in self._roles:
            return 0.0, 0.0, 0.0
        usd, seconds = self._typical(self._roles[name])
        return 1.0, usd / self.budget, seconds / self.seconds

    def _info(self, info: Mapping[str, Any]) -> dict[str, Any]:
        names = ("task_id", "split", "difficulty", "cost", "clock", "outcome")
        shown = {name: info[name] for name in names if name in info}
        return {**shown, "action_mask": self.action_masks().astype(np.int8)}

    # -------------------------------------------------------------------------------------------------- experts

    def _possible_experts(self, env: str, *, drawn: bool) -> dict[str, ExpertRole]:
        """Return the experts that an episode may have, by name; `drawn`: each has some of them only."""
        _, info = self.env.reset(options={"tool_config": DRAWN_FROM} if drawn else None)
        found = {_name(role): role for role in expert_roles(info["tools"])}
        if not found:
            raise OptionError(
                f"{env} has no experts to choose among. Make it with tools='full', or name a ParaManager environment."
            )
        return found

    def _typical(self, role: ExpertRole) -> tuple[float, float]:
        """Return US dollars and seconds of a typical call; zeros for a model that no catalogue knows."""
        tool = self.env.play.tools[role.tool]
        if isinstance(tool, ExpertTool):
            return tool.mean_price, tool.mean_latency
        if role.expert not in self._catalog.experts:
            return 0.0, 0.0
        spec = self._catalog.experts[role.expert]
        return spec.typical_cost, spec.latency.mean

    def _weights_of(self, value: Any, draw: np.random.Generator | None) -> tuple[float, ...]:
        """Return the weights of outcome, compute and latency."""
        if value != RANDOM:
            if not isinstance(value, Mapping):
                raise OptionError(f"Expected weights of {', '.join(COMPONENTS)}, or {RANDOM!r}; got {value!r:.80}.")
            return Preference.of(value, ()).weights
        compute, latency = (0.0, 0.0) if draw is None else draw.random(2)
        return 1.0, float(compute), float(latency)


def _text_environment(name: str, options: dict[str, Any]) -> OrchestrationEnv:
    """Return the environment underneath, with experts among its tools where it has to be asked for them."""
    given = {"orchestrator": None, **options}
    if name.startswith("ToolOrchestra-"):
        given.setdefault("tools", "full")
    made = make_named(name, **given).unwrapped
    if not isinstance(made, OrchestrationEnv) or not made.schemas_read:
        raise OptionError(f"{name} is no environment of one agent that calls tools, so there is nothing to route.")
    return made


def _catalog(given: Any) -> Catalog:
    return given if isinstance(given, Catalog) else Catalog.load(*([given] if given else []))


def _name(role: ExpertRole) -> str:
    """Return the name of an expert: its tool, and its model where the tool takes several."""
    return ".".join((role.tool, *map(str, role.fixed.values())))
