"""How long a GPU waits for tools while episodes are played, which `gpu.py` measures."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym

from toolorchestra.agents.builtin.renderer import Decoded
from toolorchestra.algos.rollout.engine import RolloutEngine, RolloutRequest
from toolorchestra.algos.rollout.sampling import ModelSampler, Sample
from toolorchestra.envs.starts import EpisodeStart


class SlowTool(gym.Env[str, Any]):
    """An environment of so many turns, each of which waits for a tool: `seconds` on average (lognormal, σ 0.5)."""

    observation_space = gym.spaces.Text(100)
    action_space = gym.spaces.Text(100)
    may_block = True

    def __init__(self, turns: int, seconds: float) -> None:
        self.turns, self.seconds = turns, seconds

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin with turn 0."""
        super().reset(seed=seed)
        self.rng, self.turn = random.Random(seed), 0
        return "begin", {}

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Wait for the tool."""
        del action
        time.sleep(self.seconds * self.rng.lognormvariate(-0.125, 0.5))  # whose mean is 1
        self.turn += 1
        return "result", 1.0, self.turn == self.turns, False, {}


class Ids:
    """Renders prompts and results as so many random ids."""

    stop_ids: tuple[int, ...] = ()
    pad_id = 0

    def __init__(self, prompt: int, result: int, vocabulary: int) -> None:
        self.prompt, self.result, self.vocabulary = prompt, result, vocabulary
        self.rng = random.Random(0)

    def _ids(self, count: int) -> list[int]:
        return [self.rng.randrange(4, self.vocabulary) for _ in range(count)]

    def encode_prompt(self, messages: Any, tools: Any) -> list[int]:
        """Return the ids of a prompt."""
        del messages, tools
        return self._ids(self.prompt)

    def encode_results(self, messages: Any, last: Any) -> list[int]:
        """Return the ids of a result."""
        del messages, last
        return self._ids(self.result)

    def decode_action(self, ids: Any, tools: Any, messages: Any = ()) -> Decoded:
        """Return an action."""
        del ids, tools, messages
        return Decoded("act", True)


@dataclass
class Busy:
    """A sampler that adds up the seconds for which its model computes."""

    sampler: ModelSampler
    seconds: float = 0.0

    def __call__(self, prompts: Sequence[Any], limits: Sequence[int], keys: Sequence[int]) -> list[Sample]:
        """Continue prompts."""
        began = time.perf_counter()
        found = self.sampler(prompts, limits, keys)  # it reads what it draws, so the GPU has ended
        self.seconds += time.perf_counter() - began
        return found


def idle_shares(
    model: Any, *, environments: int, turns: int, prompt: int, written: int, result: int, seconds: float
) -> dict[str, float]:
    """Return the share of time for which the model computes nothing, while environments wait for their tools.

    Blocking, all environments wait for the slowest tool of a turn; asynchronously (the rollout engine), each goes on
    when its own tool has answered, with twice as many episodes as play at a time.
    """
    vocabulary = model.config.vocab_size
    found: dict[str, float] = {}

    def busy(renderer: Any) -> Busy:
        return Busy(ModelSampler(model, renderer))

    renderer = Ids(prompt, result, vocabulary)
    sampler, began = busy(renderer), time.perf_counter()
    with ThreadPoolExecutor(environments) as threads:
        for first in range(0, 2 * environments, environments):
            envs = [SlowTool(turns, seconds) for _ in range(environments)]
            for number, env in enumerate(envs):
                env.reset(seed=first + number)
            rows = [renderer.encode_prompt((), ()) for _ in envs]
            for turn in range(turns):
                samples = sampler(rows, [written] * len(rows), [turn * 10_000 + first + n for n in range(len(rows))])
                list(threads.map(lambda env: env.step("act"), envs))
                for row, sample in zip(rows, samples, strict=True):
                    row += sample.ids + renderer.encode_results((), ())
    found["blocking_seconds"] = time.perf_counter() - began
    found["blocking_idle"] = 1 - sampler.seconds / found["blocking_seconds"]

    another: Any = Ids(prompt, result, vocabulary)
    engine = RolloutEngine(
        partial(SlowTool, turns, seconds), another, in_flight=environments, max_turns=turns, max_turn_ids=written
    )
    sampler, began = busy(another), time.perf_counter()
    engine.play(sampler, [RolloutRequest(n, EpisodeStart(n)) for n in range(2 * environments)])
    found["asynchronous_seconds"] = time.perf_counter() - began
    found["asynchronous_idle"] = 1 - sampler.seconds / found["asynchronous_seconds"]
    return {name: round(value, 4) for name, value in found.items()}
