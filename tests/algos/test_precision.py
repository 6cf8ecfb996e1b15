"""Precision, adapters, optimisers and schedules: the same options for every learner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from toolorchestra.agents.builtin.adapters import AdapterReference
from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.algos import grpo, sft
from toolorchestra.algos.group_rollouts import Curriculum, divergence
from toolorchestra.algos.hardware.autocast import autocast
from toolorchestra.algos.hardware.logits import hidden_states
from toolorchestra.algos.options import precision
from toolorchestra.algos.options.one_agent import TrainGRPO, TrainSFT
from toolorchestra.algos.options.optimizers import make_optimizer, rate_factor
from toolorchestra.algos.options.several_agents import TrainMultiGRPO
from toolorchestra.algos.rollout.engine import Row
from toolorchestra.algos.rollout.generation import Generation
from toolorchestra.algos.rollout.sampling import ModelSampler
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.toolscale.common.errors import OptionError

IDS = [[5, 6, 7, 8, 9, 10]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a random model of plain attention that reads and writes bytes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|pad|>")
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m.role + ':' + m.content + '<|im_end|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
    )
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    torch.manual_seed(0)
    config = Qwen3Config(vocab_size=len(tokenizer), num_hidden_layers=2, head_dim=8, pad_token_id=257, **sizes)
    folder = tmp_path_factory.mktemp("model")
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


class Rewarded:
    """Rollouts whose rewards are by chance: groups of two, without an environment."""

    def __init__(self, config: TrainGRPO, start: Any = None) -> None:
        self.config, self.start, self.metrics = config, start, {"reward": 0.0}
        self.curriculum, self.generation = Curriculum({1: [EpisodeStart(0)]}), Generation()

    def close(self) -> None: ...

    def __call__(self, prompts: Any, trainer: Any) -> dict[str, list[Any]]:
        generator = torch.Generator().manual_seed(trainer.state.global_step)
        found: list[list[int]] = torch.randint(5, 200, (len(prompts), 9), generator=generator).tolist()
        return {
            "prompt_ids": [[5, 6, 7]] * len(prompts),
            "completion_ids": found,
            "logprobs": [[0.0] * 9 for _ in found],
            "env_mask": [[1] * 9 for _ in found],
            "advantage": [(-1.0) ** n for n in range(len(found))],
        }


def train(config: TrainGRPO, policy: TokenPolicy, reference: Any = None) -> list[dict[str, float]]:
    seen: list[dict[str, float]] = []
    rollouts: Any = Rewarded(config, reference)
    grpo.fit(policy, rollouts, config, lambda step, metrics: seen.append(metrics))
    return seen


def options(model: str, output: Path, **changes: Any) -> TrainGRPO:
    given = {"steps": 2, "groups": 2, "group_size": 2, "threads": 1, "save_every": 0, "learning_rate": 1e-2}
    return TrainGRPO(model=model, output=output, **(given | changes))


def states(model: Any) -> Tensor:
    with torch.no_grad(), autocast(model):
        return hidden_states(model, IDS, 0)


@pytest.mark.parametrize("lora_rank", [0, 2])
def test_trained_weights_are_of_32_bits_and_frozen_ones_of_the_precision(
    model: str, tmp_path: Path, lora_rank: int
) -> None:
    config = options(model, tmp_path, precision="bf16", lora_rank=lora_rank)
    policy = precision.start_policy(config, model)
    config.set_up(policy.model)
    kinds = {parameter.dtype for parameter in policy.model.parameters()}
    assert kinds == {torch.float32}
    base = policy.model.host.get_base_model() if lora_rank else policy.model
    assert base.get_input_embeddings().weight.dtype == (torch.bfloat16 if lora_rank else torch.float32)
    before = [parameter.clone() for parameter in policy.model.parameters()]
    assert all(torch.isfinite(torch.tensor(list(metrics.values()))).all() for metrics in train(config, policy))
    assert any(not torch.equal(a, b) for a, b in zip(before, policy.model.parameters(), strict=True))
    with autocast(policy.model):
        assert torch.is_autocast_enabled("cpu")
    sampler = ModelSampler(policy.model, policy.renderer)
    assert len(sampler([[5, 6, 7]], [3], [0])[0].ids) <= 3


def test_only_an_adapter_learns_and_it_is_saved_loaded_and_resumed(model: str, tmp_path: Path) -> None:
    config = options(model, tmp_path / "a", lora_rank=2, lora_alpha=8, lora_targets=("q_proj",), beta=0.1, steps=3)

    def run(config: TrainGRPO) -> TokenPolicy:
        policy = precision.start_policy(config, model)
        config.set_up(policy.model)
        train(config, policy, policy.model.reference())
        return policy

    policy = run(config)
    assert policy.model.host.peft_config["default"].lora_alpha == 8
    assert list(policy.model.host.peft_config) == ["default"]  # no copy of it for the divergence
    assert all("q_proj" in name for name, part in policy.model.host.named_parameters() if part.requires_grad)
    untaught = TokenPolicy.load(model).model
    precision.save_policy(policy, tmp_path / "final")
    loaded = TokenPolicy.load(tmp_path / "final")
    torch.testing.assert_close(states(loaded.model), states(policy.model))
    assert not torch.allclose(states(loaded.model), states(untaught))
    assert loaded.renderer.stop_ids == policy.renderer.stop_ids

    run(options(model, tmp_path / "b", **_of(config, save_every=2, steps=2)))
    resumed = run(options(model, tmp_path / "b", **_of(config, save_every=2, resume=True)))
    torch.testing.assert_close(states(resumed.model), states(policy.model), rtol=0, atol=0)


def _of(config: TrainGRPO, **changes: Any) -> dict[str, Any]:
    names = ("lora_rank", "lora_alpha", "lora_targets", "beta", "steps")
    return {name: getattr(config, name) for name in names} | changes


def test_the_reference_is_the_base_alone_until_there_is_an_adapter_to_copy(model: str, tmp_path: Path) -> None:
    config = options(model, tmp_path, lora_rank=2)
    policy = precision.start_policy(config, model)
    first = policy.model.reference()
    assert isinstance(first, AdapterReference)
    assert first.key is None
    rows = [Row(0, "a", [5, 6], [7, 8, 9], [1, 1, 1])]
    assert divergence(policy.model.host, first, rows, 0) == pytest.approx(0.0, abs=1e-7)
    train(config, policy)
    assert divergence(policy.model.host, first, rows, 0) > 1e-6
    second = policy.model.reference()
    assert second.key is not None
    now = states(policy.model)
    assert divergence(policy.model.host, second, rows, 0) == pytest.approx(0.0, abs=1e-7)
    train(config, policy)
    torch.testing.assert_close(states(second), now)
    torch.testing.assert_close(states(first), states(TokenPolicy.load(model).model))
    assert policy.model.host.active_adapter == "default"
    assert all(parameter.requires_grad for parameter in policy.model.parameters())


def test_gradient_checkpointing_changes_nothing_of_an_adapter(model: str, tmp_path: Path) -> None:
    found = []
    for checkpointing in (False, True):
        config = options(model, tmp_path, lora_rank=2, gradient_checkpointing=checkpointing, optimizer="sgd")
        policy = precision.start_policy(config, model)
        config.set_up(policy.model)
        train(config, policy)
        found.append(states(policy.model))
    torch.testing.assert_close(*found)
    assert not torch.allclose(found[0], states(TokenPolicy.load(model).model))


@pytest.mark.parametrize("aggregation", ["grpo", pytest.param("dapo", marks=pytest.mark.long)])
def test_accumulation_gives_the_gradient_of_the_whole_batch(model: str, tmp_path: Path, aggregation: Any) -> None:
    weights = []
    for micro_batch in (None, 1, 3):
        config = options(
            model, tmp_path, micro_batch=micro_batch, groups=4, steps=1, optimizer="sgd", learning_rate=1.0
        )
        config.aggregation = aggregation
        policy = precision.start_policy(config, model)
        before = [parameter.clone() for parameter in policy.model.parameters()]
        train(config, policy)
        steps = [now.detach() - then.detach() for now, then in zip(policy.model.parameters(), before, strict=True)]
        weights.append(torch.cat([step.flatten() for step in steps]))
    assert float(weights[0].abs().max()) > 1e-2
    for found in weights[1:]:
        assert float((found - weights[0]).abs().max()) < 1e-7


def test_sft_teaches_an_adapter_and_refuses_one_without_a_model(model: str, tmp_path: Path) -> None:
    config = TrainSFT(
        model=model,
        output=tmp_path,
        lora_rank=2,
        threads=1,
        precision="bf16",
        lr_scheduler_type="linear",
        warmup_steps=1,
    )
    policy = precision.start_policy(config, model)
    config.set_up(policy.model)
    rates: list[float] = []
    rows = [([5, 6, 7, 8, 9], [-100, 6, 7, 8, 9])] * 40
    sft.fit(
        policy,
        rows,
        config,
        output=tmp_path,
        batch=2,
        learning_rate=config.rate,
        report=lambda step, metrics: rates.append(metrics["learning_rate"]),
    )
    assert config.rate == pytest.approx(1e-4)
    assert rates[1] < rates[0] < config.rate
    with pytest.raises(OptionError, match="an adapter needs a model"):
        TrainSFT(output=tmp_path, lora_rank=2)


def test_the_optimiser_and_the_schedule_of_several_agents_are_those_of_the_options(tmp_path: Path) -> None:
    config = TrainMultiGRPO(
        env="Dialogue-Restaurant-v0",
        output=tmp_path,
        optimizer="sgd",
        lr_scheduler_type="linear",
        warmup_steps=2,
        learning_rate=1.0,
    )
    assert isinstance(make_optimizer([torch.nn.Parameter(torch.zeros(2))], config), torch.optim.SGD)
    factor = rate_factor(config, 10)
    assert [factor(step) for step in (0, 1, 2, 6)] == [0.0, 0.5, 1.0, 0.5]
    plain = rate_factor(TrainMultiGRPO(env="Dialogue-Restaurant-v0", output=tmp_path), 10)
    assert {plain(step) for step in range(10)} == {1.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lora_rank": -1}, "`lora_rank`"),
        ({"lora_alpha": 2.0}, "give `lora_rank`"),
        ({"quantize": "4bit"}, "give `lora_rank`"),
        ({"warmup_steps": -1}, "`warmup_steps`"),
    ],
)
def test_impossible_options_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        TrainGRPO(model="x", output=tmp_path, **change)


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what a machine without a GPU lacks")
def test_what_this_machine_lacks_is_said_before_anything_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="`optimizer` adamw_8bit needs a GPU"):
        grpo.SingleAgentTrainer(TrainGRPO(model="x/y", output=tmp_path, optimizer="adamw_8bit"))


def test_4_bits_need_bitsandbytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match="`quantize` needs bitsandbytes"):
        grpo.SingleAgentTrainer(TrainGRPO(model="x/y", output=tmp_path, lora_rank=2, quantize="4bit"))


def test_targets_that_a_model_does_not_have_are_refused(model: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="nothing_like_it"):
        precision.start_policy(options(model, tmp_path, lora_rank=2, lora_targets=("nothing_like_it",)), model)
