"""The rollout engine: plays many environments in lockstep with one policy and yields rows to train on.

Token-in-token-out: a row's ids are the prompt, then in turns the ids that the policy sampled and the ids of the
environment's answers, each encoded once and only ever appended (`TokenTrajectory`); the mask is 1 exactly on the
policy's ids. Works for any Gymnasium environment whose observations are text, or whose ``info`` has OpenAI-style
``messages`` and ``tools``; a `Renderer` turns messages into ids. Not here: how rewards are compared within a group, and
how a policy learns from rows (`toolorchestra.algos.group_rollouts`, `toolorchestra.algos.grpo`).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from toolorchestra.agents.builtin.renderer import Message, Renderer, check_prefix
from toolorchestra.algos.rollout.sampling import Sample, Sampler
from toolorchestra.algos.rollout.starts import Start
from toolorchestra.algos.rollout.trajectory import TokenTrajectory
from toolorchestra.envs.episode import Episode
from toolorchestra.envs.play import Play
from toolorchestra.envs.unjudged import unjudged_reason

INVALID_OUTCOMES = ("infra_error", "judge_error")
"""Outcomes that say nothing about the policy: retried, and never part of a group."""


class RolloutRequest(NamedTuple):
    """One episode to play, and the number of the group that its row belongs to.

    With a `name` of its own, its samples do not depend on the episodes that are played at the same time.
    """

    group: int
    start: Start
    name: str | None = None


@dataclass(slots=True)
class Row:
    """One episode of one trained agent.

    Attributes:
        group: Number of the group (same task) it belongs to.
        agent: Name of the agent that wrote the ids under the mask.
        prompt_ids: Ids before the policy's first.
        completion_ids: All ids after, the environment's included.
        mask: 1 on the policy's ids, 0 on the environment's.
        logprobs: Log-probability of each of the policy's ids when drawn; 0 where the mask is 0.
        reward: Sum of the environment's rewards; NaN if `outcome` is invalid.
        outcome: ``solved``, ``failed``, or one of `INVALID_OUTCOMES`.
        well_formed: Every turn kept to the renderer's format (and no call was a PARSE_ERR).
        answered: The episode ended because the policy ended it, not by running out of turns or ids.
        turns: Number of the policy's turns.
        cost: US dollars.
        seconds: Virtual seconds.
        parts: Parts of the reward by name, where the environment has parts.
        M: The vector M(τ) of the environment, if it has one.
        preference: The vector P of the task, if it has one.
        task_id: Of the task, if the environment names it.
        difficulty: Likewise.
        messages: The conversation.
        episode: The environment's record with the policy's tokens in it, if the environment keeps one.
        design: The multi-agent system that the policy wrote, or the rule that it broke, where designs are its task.
    """

    group: int
    agent: str
    prompt_ids: list[int]
    completion_ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    reward: float = 0.0
    outcome: str = "failed"
    well_formed: bool = True
    answered: bool = False
    turns: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict)
    M: NDArray[np.float64] | None = None
    preference: NDArray[np.float64] | None = None
    task_id: str = ""
    difficulty: int = 0
    messages: list[Message] = field(default_factory=list)
    episode: Episode | None = None
    design: Any = None

    @property
    def valid(self) -> bool:
        """Whether the episode says something about the policy."""
        return self.outcome not in INVALID_OUTCOMES

    @property
    def unjudged(self) -> str | None:
        """Why it was not judged; None if it was."""
        return None if self.valid else unjudged_reason(self.episode) if self.episode else self.outcome


@dataclass(slots=True)
class _Slot:
    """An environment and the episode being played in it."""

    env: gym.Env[Any, Any]
    request: RolloutRequest
    row: Row
    trajectory: TokenTrajectory
    tools: Sequence[Mapping[str, Any]]
    attempt: int
    seen: list[int] = field(default_factory=list)  # every id so far, to check that prompts only grow
    over: bool = False


class RolloutEngine:
    """Plays episodes in lockstep: all environments take a turn together, and a free slot is filled at once.

    Args:
        make_env: Makes one environment.
        renderer: Turns messages into ids and back.
        slots: Environments played at the same time.
        max_turns: Turns of the policy after which an episode counts as failed.
        max_turn_ids: Maximum of ids of one turn.
        max_ids: Maximum of ids of an episode.
        retries: How often an episode with one of `INVALID_OUTCOMES` is played again.
        agent: Name given to the rows.
    """

    def __init__(
        self,
        make_env: Callable[[], gym.Env[Any, Any]],
        renderer: Renderer,
        *,
        slots: int = 64,
        max_turns: int = 50,
        max_turn_ids: int = 512,
        max_ids: int = 32_000,
        retries: int = 2,
        agent: str = "orchestrator",
    ) -> None:
        self.make_env, self.renderer, self.slots, self.agent = make_env, renderer, slots, agent
        self.max_turns, self.max_turn_ids, self.max_ids, self.retries = max_turns, max_turn_ids, max_ids, retries
        self._free: list[gym.Env[Any, Any]] = []
        self._tokens, self._seconds = 0, 0.0

    def play(
        self, sampler: Sampler, requests: Iterable[RolloutRequest], progress: Callable[[int], None] = lambda done: None
    ) -> list[Row]:
        """Play every request and return its row, in the order of the requests.

        After each turn `progress` is called with the number of episodes that have ended.
        """
        begun = time.perf_counter()
        waiting = iter(list(enumerate(requests)))
        rows: dict[int, Row] = {}
        playing: dict[int, _Slot] = {}
        while True:
            free = self.slots - len(playing)
            playing |= {number: self._start(request) for number, request in itertools.islice(waiting, free)}
            if not playing:
                break
            self._turn(sampler, list(playing.values()))
            for number, slot in [(number, slot) for number, slot in playing.items() if slot.over]:
                self._free.append(slot.env)
                if not slot.row.valid and slot.attempt < self.retries:
                    playing[number] = self._start(slot.request, slot.attempt + 1)
                else:
                    rows[number] = playing.pop(number).row
                    self._tokens += len(slot.trajectory.ids)
            progress(len(rows))
        self._seconds += time.perf_counter() - begun
        return [rows[number] for number in sorted(rows)]

    def speed(self) -> float:
        """Return ids read and written per second of play since the last call."""
        tokens, seconds, self._tokens, self._seconds = self._tokens, self._seconds, 0, 0.0
        return tokens / seconds if seconds else 0.0

    def close(self) -> None:
        """Close the environments."""
        while self._free:
            self._free.pop().close()

    def _start(self, request: RolloutRequest, attempt: int = 0) -> _Slot:
        env = self._free.pop() if self._free else self.make_env()
        observation, info = env.reset(seed=request.start.seed, options=request.start.reset_options())
        messages = list(info.get("messages") or [{"role": "user", "content": str(observation)}])
        tools = list(info.get("tools") or ())
        trajectory = TokenTrajectory()
        trajectory.read(self.renderer.encode_prompt(messages, tools))
        row = Row(
            group=request.group,
            agent=self.agent,
            prompt_ids=trajectory.ids.copy(),
            preference=info.get("preference"),
            task_id=str(info.get("task_id", request.start.seed)),
            difficulty=int(info.get("difficulty") or 0),
            messages=messages,
        )
        return _Slot(env, request, row, trajectory, tools, attempt)

    def _turn(self, sampler: Sampler, slots: Sequence[_Slot]) -> None:
        prompts = [slot.trajectory.ids for slot in slots]
        for slot, prompt in zip(slots, prompts, strict=True):
            check_prefix(slot.seen, prompt)
        limits = [min(self.max_turn_ids, max(1, self.max_ids - len(prompt))) for prompt in prompts]
        if all(slot.request.name is not None for slot in slots):
            turns = [f"{slot.request.name}/{slot.attempt}/{slot.row.turns}" for slot in slots]
            samples = sampler(prompts, limits, turns)
        else:
            samples = sampler(prompts, limits)
        for slot, prompt, sample in zip(slots, prompts, samples, strict=True):
            slot.seen = prompt + sample.ids
            self._step(slot, sample)

    def _step(self, slot: _Slot, sample: Sample) -> None:
        row = slot.row
        slot.trajectory.write(sample)
        decoded = self.renderer.decode_action(sample.ids, slot.tools, row.messages)
        observation, reward, terminated, truncated, info = slot.env.step(decoded.action)
        play = getattr(slot.env.unwrapped, "play", None)
        if isinstance(play, Play):
            play.sampled(sample.ids, sample.logprobs)
            row.episode, row.design = play.episode, getattr(play, "design", None)
        row.turns += 1
        row.reward += float(reward or 0.0)
        row.well_formed &= decoded.well_formed and not _parse_error(info)
        row.cost, row.seconds = float(info.get("cost", 0.0)), float(info.get("clock", 0.0))
        new = _new_messages(info, len(row.messages), decoded.action, observation)
        row.messages += new
        if not (terminated or truncated):
            results = self.renderer.encode_results([m for m in new if m["role"] != "assistant"], sample.ids)
            if row.turns < self.max_turns and len(slot.trajectory.ids) + len(results) < self.max_ids:
                slot.trajectory.read(results)
                return
        row.answered = bool(terminated)
        row.outcome = str(info.get("outcome") or ("solved" if row.reward > 0 else "failed"))
        row.M, row.parts = info.get("M"), info.get("reward_parts", {})
        if not row.valid:
            row.reward = float("nan")
        written, start = slot.trajectory, len(row.prompt_ids)
        row.completion_ids, row.mask, row.logprobs = written.ids[start:], written.mask[start:], written.logprobs[start:]
        slot.over = True


def _parse_error(info: Mapping[str, Any]) -> bool:
    return any(str(getattr(call, "status", None) or "") == "PARSE_ERR" for call in info.get("calls") or ())


def _new_messages(info: Mapping[str, Any], known: int, action: Any, observation: Any) -> list[Message]:
    """Return the messages of one step; environments that keep none get an assistant and a user message."""
    if "messages" in info:
        return list(info["messages"][known:])
    return [{"role": "assistant", "content": str(action)}, {"role": "user", "content": str(observation)}]
