"""What is kept of earlier turns changes how much is read, and nothing else."""

from __future__ import annotations

import gc
import random
import weakref
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from toolorchestra.agents.builtin.compact_renderer import CompactRenderer
from toolorchestra.agents.builtin.model import build_model
from toolorchestra.algos.hardware import memory
from toolorchestra.algos.rollout.engine import RolloutEngine, RolloutRequest
from toolorchestra.algos.rollout.generation import Generation
from toolorchestra.algos.rollout.sampling import ModelSampler, Sample
from toolorchestra.envs.starts import EpisodeStart

RENDERER: Any = SimpleNamespace(stop_ids=(3,), pad_id=0)
Prompts = list[list[int]]


def qwen(vocabulary: int = 50) -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    return Qwen3ForCausalLM(Qwen3Config(vocab_size=vocabulary, num_hidden_layers=2, head_dim=8, **sizes)).eval()


def require_near(found: list[Sample], expected: list[Sample]) -> None:
    for a, b in zip(found, expected, strict=True):
        assert a.ids == b.ids
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-5)


class Counted:
    """A sampler.

    Attributes:
        ids: How many ids its model was given, those that pad included.
        ended: How many ids the prompts of the last call had, with what was written after them.
    """

    def __init__(self, model: Any, **options: Any) -> None:
        self.sampler, self.ids, self.ended = ModelSampler(model, RENDERER, seed=1, **options), 0, 0
        self.model = model

    def __call__(self, prompts: Prompts, limit: int) -> list[Sample]:
        def count(module: Any, given: Any, named: Any) -> None:
            self.ids += named["input_ids"].numel()

        hook = self.model.register_forward_pre_hook(count, with_kwargs=True)
        try:
            found = self.sampler(prompts, [limit] * len(prompts), [sum(prompt) for prompt in prompts])
        finally:
            hook.remove()
        self.ended = sum(map(len, prompts)) + sum(len(sample.ids) for sample in found)
        return found


def play(sampler: Any, turns: int, starts: Prompts, limit: int = 6, seed: int = 0) -> list[list[Sample]]:
    """Return what is written in each turn of episodes, whose results after a turn have 5 to 20 ids."""
    rng, prompts, found = random.Random(seed), [list(start) for start in starts], []
    for _ in range(turns):
        samples = sampler(prompts, limit)
        found.append(samples)
        for prompt, sample in zip(prompts, samples, strict=True):
            prompt += [*sample.ids, *(rng.randrange(4, 50) for _ in range(rng.randrange(5, 21)))]
    return found


def starts(count: int, length: int = 40) -> Prompts:
    rng = random.Random(count)
    return [[rng.randrange(4, 50) for _ in range(length + rng.randrange(8))] for _ in range(count)]


def test_ten_turns_read_each_id_once_and_write_the_same() -> None:
    model, given = qwen(), starts(1)
    kept, anew = Counted(model), Counted(model, keep=False)
    expected = play(anew, 10, given)
    for found, wanted in zip(play(kept, 10, given), expected, strict=True):
        require_near(found, wanted)
    cache = kept.sampler.cache
    assert cache is not None
    written = sum(len(turn[0].ids) for turn in expected)
    total = kept.ids - written + 10  # an id that ends a turn is read in the next, with what follows it
    assert cache.counts["read"] <= total <= cache.counts["read"] + 10
    assert anew.ids == cache.counts["asked"] + written - 10
    assert cache.counts["asked"] > 5 * cache.counts["read"]
    assert kept.ids <= 1.2 * kept.ended < anew.ids / 4


def test_episodes_of_different_lengths_are_continued_together_as_alone() -> None:
    model, given = qwen(), [*starts(20), *starts(7, 200), [5], [5, 6]]
    expected = play(Counted(model, keep=False), 5, given)
    for found, wanted in zip(play(Counted(model), 5, given), expected, strict=True):
        require_near(found, wanted)


def test_rollouts_of_one_task_read_its_prompt_once() -> None:
    model, (prompt,) = qwen(), starts(1, 100)
    kept = Counted(model)
    keys = range(8)
    found = kept.sampler([prompt] * 8, [5] * 8, keys)
    require_near(found, ModelSampler(model, RENDERER, seed=1, keep=False)([prompt] * 8, [5] * 8, keys))
    assert kept.sampler.cache is not None
    assert kept.sampler.cache.counts["read"] == len(prompt) + 7  # each reads its last id, to draw the next


def test_prompts_that_begin_alike_read_their_beginning_once() -> None:
    model, (rules, other) = qwen(), starts(2, 300)
    tasks = [[4 + n, *range(5, 45)] for n in range(4)]
    prompts = [[*rules, *task] for task in (*tasks, tasks[0])] + [[*other, *task] for task in tasks[:2]] + [[7, 8]]
    kept = Counted(model)
    require_near(kept(prompts, 5), Counted(model, keep=False)(prompts, 5))
    cache = kept.sampler.cache
    assert cache is not None
    # the first task is that of two prompts: all but its last id is read once
    own = 2 * 1 + 40 + (3 + 2) * 41 + 2
    assert cache.counts["read"] == len(rules) + len(other) + own
    before = cache.counts["read"]
    kept([[*rules, 30, 31, 32]], 5)
    assert cache.counts["read"] - before == 3


def test_branches_go_on_from_any_turn() -> None:
    model, (first,) = qwen(), starts(1)
    sampler = Counted(model)
    (one,) = sampler([first], 6)
    second = [*first, *one.ids, *range(4, 14)]
    (two,) = sampler([second], 6)
    third = [*second, *two.ids, 7, 8, 9]
    cache = sampler.sampler.cache
    assert cache is not None
    before = cache.counts["read"]
    branches = [[*first, 9, 8, 7], [*second, 11, 12], third]
    require_near(sampler(branches, 6), Counted(model, keep=False)(branches, 6))
    # from the prompts of the turns, whose last ids are read anew, and from the end of what was written last
    assert cache.counts["read"] - before == (1 + 3) + (1 + 2) + (1 + 3)


def test_no_more_is_kept_than_memory_is_given_for() -> None:
    model, given = qwen(), starts(12)
    per_id = memory.ModelShape.of(model.config).cache_bytes(4)
    gib = 2 * 500 * per_id / memory.GIB
    sampler = Counted(model, gib=gib)
    cache = sampler.sampler.cache
    assert cache is not None
    expected = play(Counted(model, keep=False), 4, given)
    for found, wanted in zip(play(sampler, 4, given), expected, strict=True):
        require_near(found, wanted)
    assert 0 < cache.held <= 500 * per_id
    assert cache.counts["read"] < cache.counts["asked"]


def test_what_was_read_with_other_weights_is_forgotten() -> None:
    model, (prompt,) = qwen(), starts(1)
    sampler = Counted(model)
    sampler([prompt], 4)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    sampler.sampler.forget()
    longer = [*prompt, 5, 6]
    require_near(sampler([longer], 4), Counted(model, keep=False)([longer], 4))


def test_models_with_other_layers_than_plain_attention_read_everything_again() -> None:
    assert ModelSampler(build_model(50, hidden=32), RENDERER).cache is None


def test_what_is_kept_goes_with_its_sampler_and_is_counted_by_who_generates() -> None:
    model, given = qwen(), starts(3)
    generation = Generation()
    samplers: list[Any] = [generation.sampler(model, RENDERER, seed=1)]
    gc.collect()
    gc.disable()
    try:
        play(lambda prompts, limit: samplers[0](prompts, [limit] * 3, range(3)), 6, given)
        kept = weakref.ref(next(iter(samplers[0].cache._kept.values())))
        samplers.clear()
        assert kept() is None  # at once: the memory is needed for training
    finally:
        gc.enable()
    assert generation.metrics() == {"prefix_hits": pytest.approx(0.8, abs=0.05)}
    assert generation.metrics() == {}


class Talk(gym.Env[str, str]):
    """Says `go on` ten times."""

    observation_space = action_space = gym.spaces.Text(64)

    def reset(self, **_: Any) -> tuple[str, dict[str, Any]]:
        self.turns = 0
        return "go on " * 5, {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turns += 1
        return "go on", 0.0, self.turns == 10, False, {}


def test_episodes_of_the_engine_read_each_id_once() -> None:
    renderer = CompactRenderer.build([], ["go on stop"], {"word": ["a", "b", "c", "d"]})
    model = qwen(len(renderer.tokens))
    found = []
    for keep in (True, False):
        sampler = ModelSampler(model, renderer, seed=1, keep=keep)
        engine = RolloutEngine(Talk, renderer, in_flight=4, max_turn_ids=6)
        found.append(engine.play(sampler, [RolloutRequest(n, EpisodeStart(n)) for n in range(6)]))
        if sampler.cache:
            last = sum(len(row.prompt_ids) + len(row.completion_ids) for row in found[0])
            assert sampler.cache.counts["read"] < last
            assert sampler.cache.counts["asked"] > 4 * last
    for one, other in zip(*found, strict=True):
        assert one.completion_ids == other.completion_ids
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
