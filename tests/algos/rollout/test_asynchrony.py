"""Rollouts in which some wait: orders and counts of waits, not times."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium as gym
import pytest

from toolorchestra.agents.builtin.compact_renderer import CompactRenderer
from toolorchestra.agents.builtin.model import build_model
from toolorchestra.algos.rollout.engine import RolloutEngine, RolloutRequest, Row
from toolorchestra.algos.rollout.sampling import ModelSampler, Sample, draw_key
from toolorchestra.envs.starts import EpisodeStart

TURNS = 3
RENDERER = CompactRenderer.build([], ["go on stop"], {"word": ["a", "b", "c", "d"]})
WORDS = [RENDERER.index[word] for word in "abcd"]


class Talk(gym.Env[str, Any]):
    """Goes on for three turns; a step may wait for a gate that another episode opens."""

    gates: ClassVar[dict[int, threading.Event]] = {}
    opens: ClassVar[dict[int, threading.Event]] = {}
    may_block = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self.seed, self.turns = seed, 0
        return "go", {}

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turns += 1
        if gate := self.gates.get(int(self.seed or 0)):
            assert gate.wait(20)
        if self.turns == TURNS and (gate := self.opens.get(int(self.seed or 0))):
            gate.set()
        return "on", 1.0, self.turns == TURNS, False, {"text": json.dumps(str(action))}


class Blocking(Talk):
    may_block = True


class Drawing:
    """A sampler of batches that draws one word by the key alone, and keeps the sizes of its batches."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def __call__(self, prompts: Sequence[Sequence[int]], limits: Sequence[int], keys: Sequence[int]) -> list[Sample]:
        self.batches.append(len(prompts))
        return [drawn(key) for key in keys]


class Shuffled:
    """A server: asked for each episode by itself, and answers in a random order."""

    def __init__(self, seed: int) -> None:
        self.rng, self.order = random.Random(seed), list[int]()

    async def sample(self, prompt: Sequence[int], limit: int, key: int) -> Sample:
        for _ in range(self.rng.randrange(20)):
            await asyncio.sleep(0)
        self.order.append(key)
        return drawn(key)


def drawn(key: int) -> Sample:
    ids = [RENDERER.index["<answer>"], random.Random(key).choice(WORDS), RENDERER.end_id]
    return Sample(ids, [-1.0, -1.5, -0.5])


def ask(count: int) -> list[RolloutRequest]:
    return [RolloutRequest(n, EpisodeStart(n)) for n in range(count)]


def shown(rows: Sequence[Row]) -> list[Any]:
    return [(row.group, row.prompt_ids, row.completion_ids, row.logprobs, row.reward) for row in rows]


def test_without_waits_every_batch_is_full() -> None:
    sampler = Drawing()
    RolloutEngine(Talk, RENDERER, in_flight=8).play(sampler, ask(20))
    assert sampler.batches == [8] * TURNS * 2 + [4] * TURNS


def test_rows_do_not_depend_on_timing() -> None:
    expected = shown(RolloutEngine(Talk, RENDERER, in_flight=64).play(Drawing(), ask(24)))
    orders = []
    for seed, in_flight in ((0, 24), (1, 24), (2, 5), (3, 1)):
        sampler = Shuffled(seed)
        assert shown(RolloutEngine(Talk, RENDERER, in_flight=in_flight).play(sampler, ask(24))) == expected
        orders.append(sampler.order)
    assert len({tuple(order) for order in orders}) == 4
    assert len({tuple(row[2]) for row in expected}) > 12  # draws differ by request
    assert shown(RolloutEngine(Blocking, RENDERER, in_flight=8).play(Drawing(), ask(24))) == expected


def test_two_halves_played_apart_are_the_whole() -> None:
    requests = [request._replace(seed=draw_key("run", request.group)) for request in ask(12)]
    engine = RolloutEngine(Talk, RENDERER, in_flight=4)
    halves = [*engine.play(Drawing(), requests[:6]), *engine.play(Drawing(), requests[6:])]
    assert shown(halves) == shown(engine.play(Drawing(), requests))


def test_a_model_writes_the_same_ids_whoever_it_samples_beside() -> None:
    model = build_model(len(RENDERER.tokens), seed=1)
    played = [
        RolloutEngine(Talk, RENDERER, in_flight=in_flight, max_turn_ids=6).play(ModelSampler(model, RENDERER), ask(10))
        for in_flight in (10, 3, 1)
    ]
    ids = [[row.completion_ids for row in rows] for rows in played]
    assert ids[0] == ids[1] == ids[2]
    assert len({tuple(row) for row in ids[0]}) == 10


def test_a_slow_tool_holds_up_no_other_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    last = threading.Event()
    monkeypatch.setattr(Talk, "gates", {0: last})  # the first episode's tool answers when the last episode is over
    monkeypatch.setattr(Talk, "opens", {11: last})
    done: list[int] = []
    rows = RolloutEngine(Blocking, RENDERER, in_flight=4).play(Drawing(), ask(12), done.append)
    assert [row.group for row in rows] == list(range(12))
    assert all(row.turns == TURNS for row in rows)
    assert done[-1] == 12


def test_a_failing_environment_ends_its_episodes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Talk, action: Any) -> Any:
        raise OSError("no disk")

    monkeypatch.setattr(Talk, "step", fail)
    for kind in (Talk, Blocking):
        rows = RolloutEngine(kind, RENDERER, in_flight=4).play(Drawing(), ask(12))
        assert [row.unjudged for row in rows] == ["infra_error: OSError: no disk"] * 12
