"""What is computed at once fits into the memory that it is given, and nothing else comes of it."""

from __future__ import annotations

import random
import resource
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import pytest
import torch
from transformers import LlamaConfig, MistralConfig, Qwen3Config, Qwen3ForCausalLM

from toolorchestra.agents.builtin.model import build_model
from toolorchestra.agents.builtin.renderer import Decoded
from toolorchestra.algos.hardware import logits, memory
from toolorchestra.algos.hardware.memory import ModelShape
from toolorchestra.algos.loss.losses import token_logps
from toolorchestra.algos.rollout.engine import RolloutEngine, RolloutRequest
from toolorchestra.algos.rollout.reserved_cache import ReservedLayer
from toolorchestra.algos.rollout.sampling import ModelSampler, Sample
from toolorchestra.algos.rollout.trajectory import TrainRow, row_logps
from toolorchestra.envs.starts import EpisodeStart

CPU = torch.device("cpu")
RENDERER: Any = SimpleNamespace(stop_ids=(3,), pad_id=0)


def qwen(**changes: Any) -> Any:
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    torch.manual_seed(0)
    config = Qwen3Config(vocab_size=50, num_hidden_layers=2, head_dim=8, **(sizes | changes))
    return Qwen3ForCausalLM(config).eval()


def prompts(count: int, seed: int = 0) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(4, 50) for _ in range(rng.choice((1, 2, 5, 30, 31)))] for _ in range(count)]


def near(found: list[Sample], expected: list[Sample]) -> bool:
    return all(
        a.ids == b.ids and a.logprobs == pytest.approx(b.logprobs, abs=1e-5)
        for a, b in zip(found, expected, strict=True)
    )


def test_the_budget_is_what_is_given_or_half_of_what_is_free_and_at_most_a_gibibyte() -> None:
    assert memory.budget(CPU, 0.25) == memory.GIB // 4
    assert 0 < memory.budget(CPU) <= min(memory.CPU_BUDGET, memory.free(CPU))
    assert memory.peak(CPU) > 100 * 2**20


def test_a_limit_of_the_address_space_counts() -> None:
    limits = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + memory.GIB // 4, limits[1]))
    try:
        left = memory.free(CPU)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    assert memory.GIB // 8 < left <= memory.GIB // 4


def test_padding_on_the_right_is_for_models_of_plain_attention() -> None:
    assert ModelShape.of(qwen().config).causal
    assert ModelShape.of(LlamaConfig()).causal
    assert not ModelShape.of(MistralConfig(sliding_window=16)).causal
    assert not ModelShape.of(build_model(20).config).causal


@pytest.mark.parametrize("make", [qwen, lambda: build_model(50, hidden=32).eval()])
def test_how_many_rows_are_sampled_at_once_does_not_change_them(make: Any) -> None:
    model, given = make(), prompts(40)
    limits = [1 + n % 7 for n in range(len(given))]
    expected = ModelSampler(model, RENDERER, seed=1, gib=1.0)(given, limits, range(len(given)))
    for gib in (1e-9, 2e-5):
        assert near(ModelSampler(model, RENDERER, seed=1, gib=gib)(given, limits, range(len(given))), expected)


def test_rows_that_have_ended_are_no_longer_computed_and_are_kept_for_the_next_turn() -> None:
    model, given = qwen(), prompts(12)
    limits = [1, 2, 3, 40, 4, 5, 6, 7, 30, 8, 9, 10]
    widths: list[int] = []
    model.register_forward_pre_hook(
        lambda module, args, named: widths.append(len(named["input_ids"])), with_kwargs=True
    )
    sampler = ModelSampler(model, RENDERER, seed=1, gib=1.0)
    found = sampler(given, limits, range(12))
    assert sum(widths[1:]) < 1.4 * sum(limits)  # all rows to the end of the longest would be 480
    apart = [
        ModelSampler(model, RENDERER, seed=1, gib=1.0)([prompt], [limit], [row])[0]
        for row, (prompt, limit) in enumerate(zip(given, limits, strict=True))
    ]
    assert near(found, apart)
    longer = [[*prompt, *sample.ids, 7] for prompt, sample in zip(given, found, strict=True)]
    again = ModelSampler(model, RENDERER, seed=1, keep=False)(longer, [5] * 12, range(12))
    assert near(sampler(longer, [5] * 12, range(12)), again)
    assert sampler.cache is not None
    assert sampler.cache.counts["read"] < sum(map(len, given)) + 60


def test_rows_of_which_most_is_known_are_written_together() -> None:
    model, begin = qwen(), prompts(1)[0] * 400
    given = [[*begin[:400], n + 4, 5] for n in range(8)]
    sampler = ModelSampler(model, RENDERER, seed=1, gib=4e6 / memory.GIB)  # 1.8 MB if all of a row were to be read
    first = sampler(given, [4] * 8, range(8))
    widths: list[int] = []
    model.register_forward_pre_hook(
        lambda module, args, named: widths.append(len(named["input_ids"])), with_kwargs=True
    )
    assert near(sampler(given, [4] * 8, range(8)), first)
    assert widths[0] == 8


def test_both_ways_of_padding_give_the_same_samples() -> None:
    model, given = qwen(), prompts(20)
    right = ModelSampler(model, RENDERER, seed=1)
    left = ModelSampler(model, RENDERER, seed=1, keep=False)
    left.shape = ModelShape.of(build_model(50).config)
    assert right.shape.causal
    assert not left.shape.causal
    assert near(right(given, [6] * 20, range(20)), left(given, [6] * 20, range(20)))


def test_prompts_of_unequal_length_are_read_without_a_mask_of_every_id_for_every_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, seen = qwen(), []
    attend = torch.nn.functional.scaled_dot_product_attention

    def watch(query: torch.Tensor, *given: Any, attn_mask: Any = None, **others: Any) -> torch.Tensor:
        seen.append(0 if attn_mask is None else attn_mask.numel() // attn_mask.shape[-1])
        return attend(query, *given, attn_mask=attn_mask, **others)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watch)
    given = prompts(16)
    ModelSampler(model, RENDERER, gib=1.0)(given, [3] * 16, range(16))
    assert seen
    assert max(seen) <= 16  # one line for each row


def test_log_probabilities_and_their_gradients_are_the_same_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    model = qwen().double()
    rows = [TrainRow(ids, [*ids[::-1], 7], [1] * (len(ids) + 1), [0.0] * (len(ids) + 1)) for ids in prompts(12)]
    sizes: list[int] = []
    model.lm_head.register_forward_hook(lambda module, given, out: sizes.append(out.numel()))

    def gradient() -> tuple[torch.Tensor, list[torch.Tensor]]:
        model.zero_grad()
        logps, _, mask = row_logps(model, rows, 0)
        (logps * mask).sum().backward()
        return logps.detach(), [parameter.grad.clone() for parameter in model.parameters()]

    expected, gradients = gradient()
    sizes.clear()
    monkeypatch.setattr(logits, "CHUNK", 50 * 4)
    found, others = gradient()
    assert max(sizes) <= 200
    torch.testing.assert_close(found, expected)
    for a, b in zip(others, gradients, strict=True):
        torch.testing.assert_close(a, b)
    whole = model(torch.tensor([rows[0].prompt_ids + rows[0].completion_ids])).logits[
        0, len(rows[0].prompt_ids) - 1 : -1
    ]
    mine = token_logps(whole, torch.tensor(rows[0].completion_ids))
    torch.testing.assert_close(found[0, : len(mine)], mine)


def test_the_cache_takes_its_memory_once() -> None:
    layer = ReservedLayer(10)
    parts = [torch.randn(2, 3, count, 4) for count in (5, 1, 4)]
    places = set()
    for part in parts:
        keys, values = layer.update(part, 2 * part)
        places.add((keys.data_ptr(), values.data_ptr()))
    assert len(places) == 1
    assert layer.get_seq_length() == 10
    torch.testing.assert_close(keys, torch.cat(parts, 2))
    torch.testing.assert_close(values, 2 * torch.cat(parts, 2))


class OneTurn(gym.Env[str, Any]):
    """An environment that ends after one message."""

    may_block = False  # so one after the other, and not in threads

    observation_space = gym.spaces.Text(100)
    action_space = gym.spaces.Text(100)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        return "Speak.", {}

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "", 1.0, True, False, {}


def test_as_many_episodes_are_played_at_once_as_memory_has_room_for() -> None:
    renderer: Any = SimpleNamespace(
        encode_prompt=lambda messages, tools: [5] * 90, decode_action=lambda ids, tools, messages: Decoded("x", True)
    )
    sizes: list[int] = []
    done: list[int] = []

    def sampler(given: Any, limits: Any, keys: Any) -> list[Sample]:
        sizes.append(len(given))
        return [Sample([3], [0.0])] * len(given)

    for token_budget, expected in ((None, [8, 2]), (450, [4, 4, 2]), (1, [1] * 10), (10**6, [8, 2])):
        engine = RolloutEngine(OneTurn, renderer, in_flight=8, max_turn_ids=10, token_budget=token_budget)
        sizes.clear()
        done.clear()
        rows = engine.play(sampler, [RolloutRequest(n, EpisodeStart(n)) for n in range(10)], done.append)
        assert sizes == expected
        assert done == sorted(done)
        assert done[-1] == 10
        assert [row.group for row in rows] == list(range(10))


def test_the_budget_of_tokens_does_not_depend_on_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    model = qwen()
    found = memory.token_budget(model)
    monkeypatch.setattr(memory, "free", lambda device: 1)
    assert memory.token_budget(model) == found == memory.token_budget(model, 1.0)
    assert memory.token_budget(model, 0.5) == found // 2


def test_half_of_the_room_keeps_the_keys_and_values_of_the_episodes_that_are_played() -> None:
    kept = 2 * 2 * 2 * 8 * 4  # keys and values, layers, heads, width, bytes
    assert memory.token_budget(qwen(), 1.0) == memory.GIB // (2 * kept)
    read = ModelShape.of(build_model(20).config).read_bytes(4)
    assert memory.token_budget(build_model(20), 1.0) == memory.GIB // read  # which keeps nothing
