"""The rollout engine: plays many environments in lockstep with one policy and yields rows to train on.

Token-in-token-out: a row's ids are the prompt, then in turns the ids that the policy sampled and the ids of what
the environment answered, each encoded once and only ever appended. The mask is 1 exactly on the policy's ids.
Works for any Gymnasium environment whose observations are text, or whose ``info`` has OpenAI-style ``messages``
and ``tools``; a `Renderer` stands between messages and ids. What a reward is worth to a group of rows, and how a
policy learns from them, is elsewhere (`toolorchestra.algos.grpo`).
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from toolorchestra.agents.builtin.renderer import Message, Renderer, check_prefix
from toolorchestra.algos.length_batching import bundles
from toolorchestra.envs.episode import Episode
from toolorchestra.envs.play import Play
from toolorchestra.toolscale.errors import OptionError

_LEAST_ROWS = 16  # of a bundle that is sampled: each has its own forward pass for every id
INVALID_OUTCOMES = ("infra_error", "judge_error")
"""Outcomes that say nothing about the policy: retried, and never part of a group."""


class Sample(NamedTuple):
    """What a policy wrote in one turn: ids, and the log-probability of each when it was drawn."""

    ids: list[int]
    logprobs: list[float]


class Sampler(Protocol):
    """Anything that continues sequences of ids, a batch at a time."""

    def __call__(self, prompts: Sequence[Sequence[int]], limits: Sequence[int]) -> list[Sample]:
        """Continue each prompt by at most its limit of ids."""


class ModelSampler:
    """Samples from a causal language model, one forward pass per token and bundle, with a key-value cache.

    Args:
        model: A Hugging Face causal language model.
        codec: Says which ids stop a turn and which one pads.
        temperature: 0 means greedy; log-probabilities are then those at temperature 1.
        seed: Same seed and same calls give the same ids.
    """

    def __init__(self, model: nn.Module, renderer: Renderer, *, temperature: float = 1.0, seed: int = 0) -> None:
        self.model, self.renderer, self.temperature = model, renderer, temperature
        self.device = next(model.parameters()).device
        self.stops = torch.tensor(renderer.stop_ids, device=self.device)
        self.generator = torch.Generator(self.device).manual_seed(seed)

    @torch.no_grad()
    def __call__(self, prompts: Sequence[Sequence[int]], limits: Sequence[int]) -> list[Sample]:
        """Continue each prompt until a stop id or its limit; a row's luck does not depend on its bundle."""
        training = self.model.training
        self.model.eval()
        samples: dict[int, Sample] = {}
        luck: list[Tensor] = []
        for rows in bundles(list(map(len, prompts)), _LEAST_ROWS):

            def chances(step: int, rows: list[int] = rows) -> Tensor:
                if step == len(luck):
                    luck.append(torch.rand((len(prompts), 1), generator=self.generator, device=self.device))
                return luck[step][rows]

            several = self._continue([prompts[row] for row in rows], [limits[row] for row in rows], chances)
            samples.update(zip(rows, several, strict=True))
        self.model.train(training)
        return [samples[row] for row in range(len(prompts))]

    def _continue(
        self, prompts: Sequence[Sequence[int]], limits: Sequence[int], chances: Callable[[int], Tensor]
    ) -> list[Sample]:
        width = max(map(len, prompts))
        ids = torch.full((len(prompts), width), self.renderer.pad_id, device=self.device)
        attention = torch.zeros((len(prompts), width), dtype=torch.long, device=self.device)
        for row, prompt in enumerate(prompts):  # left padding: all rows end in the same column
            ids[row, width - len(prompt) :] = torch.tensor(prompt, device=self.device)
            attention[row, width - len(prompt) :] = 1
        limit = torch.tensor(limits, device=self.device)
        positions = (attention.cumsum(1) - 1).clamp(min=0)
        output = self.model(
            input_ids=ids, attention_mask=attention, position_ids=positions, use_cache=True, logits_to_keep=1
        )
        position, one = positions[:, -1:], attention.new_ones((len(prompts), 1))
        drawn_ids: list[Tensor] = []
        drawn_logprobs: list[Tensor] = []
        alive = limit > 0
        while bool(alive.any()):
            token, logprob = self._draw(output.logits[:, -1], chances, len(drawn_ids))
            drawn_ids.append(token)
            drawn_logprobs.append(logprob)
            alive &= ~torch.isin(token[:, 0], self.stops) & (limit > len(drawn_ids))
            if not bool(alive.any()):
                break
            position, attention = position + 1, torch.cat([attention, one], 1)
            output = self.model(
                input_ids=token,
                attention_mask=attention,
                position_ids=position,
                past_key_values=output.past_key_values,
                use_cache=True,
            )
        rows = zip(torch.cat(drawn_ids, 1).tolist(), torch.cat(drawn_logprobs, 1).tolist(), limits, strict=True)
        return [self._cut(row, logprobs, most) for row, logprobs, most in rows]

    def _draw(self, logits: Tensor, chances: Callable[[int], Tensor], step: int) -> tuple[Tensor, Tensor]:
        logprobs = torch.log_softmax(logits.float() / (self.temperature or 1.0), -1)  # (B, V)
        if self.temperature == 0:
            token = logprobs.argmax(-1, keepdim=True)
        else:
            cumulated = logprobs.exp().cumsum(-1)  # inverting it is several times faster than torch.multinomial
            token = torch.searchsorted(cumulated, chances(step) * cumulated[:, -1:])  # (B, 1)
        return token, logprobs.gather(1, token)

    def _cut(self, ids: list[int], logprobs: list[float], limit: int) -> Sample:
        stops = self.renderer.stop_ids
        length = min(next((n for n, i in enumerate(ids, 1) if i in stops), len(ids)), limit)
        return Sample(ids[:length], logprobs[:length])


def make_env(env_id: str, options: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """Return an environment by id, without Gymnasium's checker, which would look at every observation.

    Options may come from a command line: a text that is a number, a list, an object, true, false or null in JSON is
    taken for what it says.
    """
    return gym.make(env_id, disable_env_checker=True, **{name: _meant(value) for name, value in options.items()})


def _meant(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


@dataclass(frozen=True)
class Start:
    """Where an episode begins: the seed and options of a reset."""

    seed: int | None = None
    options: tuple[tuple[str, Any], ...] = ()

    def reset_options(self) -> dict[str, Any] | None:
        """Return the options as `reset` takes them."""
        return dict(self.options) or None

    def another(self, rng: random.Random) -> Start:
        """Return a start of the same task with a seed of its own; one that is known by its seed stays as it is."""
        return replace(self, seed=rng.getrandbits(31)) if self.options else self


def starts(env: gym.Env[Any, Any], split: str, levels: Sequence[int], count: int = 256) -> dict[int, list[Start]]:
    """Return where episodes of a split can begin, by difficulty level.

    An environment with a task source gives one start per task. Any other is started by seed (all of level 0):
    `count` seeds, and different ones for each split.

    Raises:
        OptionError: The split has no task of these levels.
    """
    source = getattr(env.unwrapped, "source", None)
    if source is None:
        first = 1_000_000 * (1 + sorted(("train", "test", "test_intents", split)).index(split))
        return {0: [Start(first + n) for n in range(count)]}
    found: dict[int, list[Start]] = {}
    for task in source.tasks(split):
        if not levels or task.difficulty in levels:
            found.setdefault(task.difficulty, []).append(Start(0, (("task_id", task.id),)))
    if not found:
        there = sorted({task.difficulty for task in source.tasks(split)})
        raise OptionError(
            f"{source.name} has no task of split {split!r} with difficulty {list(levels)}; it has {there}."
        )
    return dict(sorted(found.items()))


class RolloutRequest(NamedTuple):
    """One episode to play, and the number of the group that its row belongs to."""

    group: int
    start: Start


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
        well_formed: Every turn kept to the codec's format (and no call was a PARSE_ERR).
        answered: The episode ended because the policy ended it, not by running out of turns or ids.
        turns: Number of the policy's turns.
        cost: US dollars.
        seconds: Virtual seconds.
        parts: Parts of the reward by name, where the environment has parts.
        M: The vector M(τ) of the environment, if it has one.
        preference: The vector P of the task, if it has one.
        task_id: Of the task, if the environment names it.
        difficulty: Of the task, if the environment names it.
        messages: The conversation.
        episode: The environment's record with the policy's tokens in it, if the environment keeps one.
        design: The multi-agent system that the policy wrote, or the rule that it broke, if that is what it writes.
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


@dataclass(slots=True)
class _Slot:
    """An environment at the table and the episode being played on it."""

    env: gym.Env[Any, Any]
    request: RolloutRequest
    row: Row
    tools: Sequence[Mapping[str, Any]]
    attempt: int
    seen: list[int] = field(default_factory=list)  # every id so far, to prove that prompts only grow
    over: bool = False

    def ids(self) -> list[int]:
        return self.row.prompt_ids + self.row.completion_ids


class RolloutEngine:
    """Plays episodes in lockstep: all environments at the table move together, and a free slot is filled at once.

    Args:
        make_env: Makes one environment.
        codec: Between messages and ids.
        slots: Environments played at the same time.
        max_turns: Policy turns after which an episode is broken off as failed.
        max_turn_ids: Most ids of one turn.
        max_ids: Most ids of an episode.
        retries: How often an episode that ended in one of `INVALID_OUTCOMES` is played again.
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

    def play(self, sampler: Sampler, requests: Iterable[RolloutRequest]) -> list[Row]:
        """Play every request and return its row, in the order of the requests."""
        start = time.perf_counter()
        waiting = iter(list(enumerate(requests)))
        rows: dict[int, Row] = {}
        table: list[tuple[int, _Slot]] = []
        while True:
            for number, request in _take(waiting, self.slots - len(table)):
                table.append((number, self._sit(request)))
            if not table:
                break
            self._turn(sampler, [slot for _, slot in table])
            staying = []
            for number, slot in table:
                if not slot.over:
                    staying.append((number, slot))
                elif not slot.row.valid and slot.attempt < self.retries:
                    self._free.append(slot.env)
                    staying.append((number, self._sit(slot.request, slot.attempt + 1)))
                else:
                    self._free.append(slot.env)
                    rows[number] = slot.row
                    self._tokens += len(slot.row.prompt_ids) + len(slot.row.completion_ids)
            table = staying
        self._seconds += time.perf_counter() - start
        return [rows[number] for number in sorted(rows)]

    def speed(self) -> float:
        """Return ids read and written per second of play since it was last asked."""
        tokens, seconds, self._tokens, self._seconds = self._tokens, self._seconds, 0, 0.0
        return tokens / seconds if seconds else 0.0

    def close(self) -> None:
        """Close the environments."""
        while self._free:
            self._free.pop().close()

    def _sit(self, request: RolloutRequest, attempt: int = 0) -> _Slot:
        env = self._free.pop() if self._free else self.make_env()
        observation, info = env.reset(seed=request.start.seed, options=request.start.reset_options())
        messages = list(info.get("messages") or [{"role": "user", "content": str(observation)}])
        tools = list(info.get("tools") or ())
        row = Row(
            group=request.group,
            agent=self.agent,
            prompt_ids=self.renderer.encode_prompt(messages, tools),
            preference=info.get("preference"),
            task_id=str(info.get("task_id", request.start.seed)),
            difficulty=int(info.get("difficulty") or 0),
            messages=messages,
        )
        return _Slot(env, request, row, tools, attempt)

    def _turn(self, sampler: Sampler, table: Sequence[_Slot]) -> None:
        prompts = [slot.ids() for slot in table]
        for slot, prompt in zip(table, prompts, strict=True):
            check_prefix(slot.seen, prompt)
        limits = [min(self.max_turn_ids, max(1, self.max_ids - len(prompt))) for prompt in prompts]
        for slot, prompt, sample in zip(table, prompts, sampler(prompts, limits), strict=True):
            slot.seen = prompt + sample.ids
            self._step(slot, sample)

    def _step(self, slot: _Slot, sample: Sample) -> None:
        row = slot.row
        row.completion_ids += sample.ids
        row.mask += [1] * len(sample.ids)
        row.logprobs += sample.logprobs
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
        answers = [message for message in new if message["role"] != "assistant"]
        if not (terminated or truncated):
            results = self.renderer.encode_results(answers, sample.ids)
            if row.turns < self.max_turns and len(slot.seen) + len(results) < self.max_ids:
                row.completion_ids += results
                row.mask += [0] * len(results)
                row.logprobs += [0.0] * len(results)
                return
        row.answered = bool(terminated)
        row.outcome = str(info.get("outcome") or ("solved" if row.reward > 0 else "failed"))
        row.M, row.parts = info.get("M"), info.get("rewards", {})
        if not row.valid:
            row.reward = float("nan")
        slot.over = True


def _take(waiting: Iterator[tuple[int, RolloutRequest]], most: int) -> Iterator[tuple[int, RolloutRequest]]:
    for _ in range(most):
        item = next(waiting, None)
        if item is None:
            return
        yield item


def _parse_error(info: Mapping[str, Any]) -> bool:
    return any(str(getattr(call, "status", None) or "") == "PARSE_ERR" for call in info.get("calls") or ())


def _new_messages(info: Mapping[str, Any], known: int, action: Any, observation: Any) -> list[Message]:
    """Return the messages of one step; environments that keep none get an assistant and a user message."""
    if "messages" in info:
        return list(info["messages"][known:])
    text = action if isinstance(action, str) else str(action)
    return [{"role": "assistant", "content": text}, {"role": "user", "content": str(observation)}]
