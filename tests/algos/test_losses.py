from __future__ import annotations

import math
import warnings

import pytest
import torch
from torch.testing import assert_close

from toolorchestra.algos.loss.losses import aggregate, clipped_policy_loss, dpo_loss, k3, log_ratio, token_logps
from toolorchestra.toolscale.common.errors import OptionError

OLD = torch.zeros(2, 3)
NEW = torch.log(torch.tensor([[1.1, 2.0, 5.0], [0.5, 1.0, 0.9]]))
MASK = torch.tensor([[1, 1, 0], [1, 1, 1]])
ADVANTAGES = torch.tensor([1.0, -2.0])


def test_log_probabilities_are_those_of_the_ids_given():
    logits = torch.log(torch.tensor([[[1.0, 3.0], [1.0, 1.0]]]))
    assert_close(token_logps(logits, torch.tensor([[1, 0]])).exp(), torch.tensor([[0.75, 0.5]]))


def test_ratios_by_hand():
    assert_close(log_ratio(NEW, OLD, MASK).exp(), torch.tensor([[1.1, 2.0, 1.0], [0.5, 1.0, 0.9]]))
    assert_close(log_ratio(NEW, OLD, MASK, "sequence").exp(), torch.tensor([[2.2], [0.45]]))
    assert_close(log_ratio(NEW, OLD, MASK, "sequence_mean").exp(), torch.tensor([[math.sqrt(2.2)], [0.45 ** (1 / 3)]]))


def test_tokens_off_the_mask_cannot_spoil_a_ratio():
    spoilt = NEW.masked_fill(MASK == 0, -math.inf)
    for level in ("token", "sequence", "sequence_mean"):
        assert_close(log_ratio(spoilt, spoilt, MASK, level), torch.zeros(2, 3 if level == "token" else 1))
        assert_close(log_ratio(spoilt, OLD, MASK, level), log_ratio(NEW, OLD, MASK, level))


def test_token_level_loss_by_hand():
    # row 1, A = 1:  min(1.1, 1.1) = 1.1, min(2, 1.28) = 1.28        -> -(1.1 + 1.28)/2 = -1.19
    # row 2, A = -2: min(-1, -1.6) = -1.6, min(-2, -2) = -2, -1.8    -> 5.4/3 = 1.8
    got = clipped_policy_loss(NEW, OLD, ADVANTAGES, MASK, eps_low=0.2, eps_high=0.28)
    assert_close(got.loss, torch.tensor((-1.19 + 1.8) / 2))
    assert_close(got.clipped, torch.tensor(2 / 5))  # 2.0 above with A > 0, 0.5 below with A < 0
    assert_close(got.ratio, torch.tensor((1.1 + 2.0 + 0.5 + 1.0 + 0.9) / 5))
    assert got.kl == 0.0


def test_sequence_level_loss_by_hand():
    # row 1: min(2.2, 1.2); row 2: min(-2·0.45, -2·0.8)
    got = clipped_policy_loss(NEW, OLD, ADVANTAGES, MASK, level="sequence")
    assert_close(got.loss, torch.tensor((-1.2 + 1.6) / 2))
    assert_close(got.clipped, torch.tensor(1.0))


@pytest.mark.parametrize(
    ("how", "normalizer", "expected"),
    [
        ("grpo", None, (1.5 + 5.0) / 2),
        ("bnpo", None, 18.0 / 5),
        ("dapo", None, 18.0 / 5),
        ("dapo", 10.0, 18.0 / 10),
        ("dr_grpo", 6.0, 18.0 / 12),
    ],
)
def test_aggregations_by_hand(how, normalizer, expected):
    per_token = torch.tensor([[1.0, 2.0, 99.0], [4.0, 5.0, 6.0]])
    assert_close(aggregate(per_token, MASK, how, normalizer), torch.tensor(expected))


def test_one_loss_per_sequence_stands_for_each_of_its_tokens():
    per_sequence = torch.tensor([[2.0], [3.0]])
    for how in ("grpo", "bnpo", "dapo"):
        assert_close(aggregate(per_sequence.expand(2, 3), MASK, how), aggregate(per_sequence, MASK, how))


def test_kl_by_hand_and_in_the_loss():
    assert_close(k3(torch.tensor(0.0), torch.tensor(math.log(2.0))), torch.tensor(2 - math.log(2) - 1))
    reference = NEW + math.log(2.0)
    with_kl = clipped_policy_loss(NEW, OLD, ADVANTAGES, MASK, ref_logps=reference, beta=0.5, weigh_kl=False)
    without = clipped_policy_loss(NEW, OLD, ADVANTAGES, MASK)
    assert_close(with_kl.kl, torch.tensor(1 - math.log(2)))
    assert_close(with_kl.loss, without.loss + 0.5 * (1 - math.log(2)))
    weighed = clipped_policy_loss(NEW, OLD, ADVANTAGES, MASK, ref_logps=reference, beta=0.5)
    mean_ratio = (1.55 + (0.5 + 1.0 + 0.9) / 3) / 2  # of each row, then of the rows
    assert_close(weighed.loss, without.loss + 0.5 * (1 - math.log(2)) * mean_ratio)


def test_kl_can_be_watched_without_entering_the_loss():
    got = clipped_policy_loss(NEW, OLD, ADVANTAGES, MASK, ref_logps=NEW + 1.0)
    assert got.kl > 0
    assert_close(got.loss, clipped_policy_loss(NEW, OLD, ADVANTAGES, MASK).loss)


def test_on_policy_the_gradient_is_that_of_reinforce():
    logps = torch.full((2, 3), -1.0, requires_grad=True)
    clipped_policy_loss(logps, logps.detach(), ADVANTAGES, MASK).loss.backward()
    assert_close(logps.grad, -torch.tensor([[1 / 2, 1 / 2, 0], [-2 / 3, -2 / 3, -2 / 3]]) / 2)


def test_a_clipped_ratio_has_no_gradient():
    logps = torch.log(torch.tensor([[2.0]])).requires_grad_()
    clipped_policy_loss(logps, torch.zeros(1, 1), torch.tensor([1.0]), torch.ones(1, 1)).loss.backward()
    assert logps.grad.item() == 0.0


def test_advantages_may_differ_from_token_to_token():
    per_token = ADVANTAGES.unsqueeze(1).expand(2, 3)
    for level in ("token", "sequence", "sequence_mean"):
        assert_close(
            clipped_policy_loss(NEW, OLD, per_token, MASK, level=level).loss,
            clipped_policy_loss(NEW, OLD, ADVANTAGES, MASK, level=level).loss,
        )


def test_an_empty_mask_gives_no_loss_and_a_finite_gradient():
    logps = NEW.clone().requires_grad_()
    loss = clipped_policy_loss(logps, OLD, ADVANTAGES, torch.zeros(2, 3)).loss
    loss.backward()
    assert loss.item() == 0.0
    assert logps.grad.eq(0).all()


def test_options_that_cannot_be_are_refused():
    with pytest.raises(OptionError, match="needs ref_logps"):
        clipped_policy_loss(NEW, OLD, ADVANTAGES, MASK, beta=0.1)
    with pytest.raises(OptionError, match="dr_grpo needs normalizer"):
        aggregate(NEW, MASK, "dr_grpo")
    with pytest.raises(OptionError, match="level must be"):
        log_ratio(NEW, OLD, MASK, "word")
    with pytest.raises(OptionError, match="aggregation must be"):
        aggregate(NEW, MASK, "sum")


def test_preference_loss_by_hand():
    # margins: 0.5·((-1 + 3) - (-4 + 2)) = 2, 0.5·((-2 + 1) - (-1 + 2)) = -1
    chosen, ref_chosen = torch.tensor([-1.0, -2.0]), torch.tensor([-3.0, -1.0])
    rejected, ref_rejected = torch.tensor([-4.0, -1.0]), torch.tensor([-2.0, -2.0])
    losses, margins = dpo_loss(chosen, rejected, ref_chosen, ref_rejected, beta=0.5)
    assert_close(margins, torch.tensor([2.0, -1.0]))
    assert_close(losses, torch.tensor([math.log(1 + math.exp(-2)), math.log(1 + math.exp(1))]))


def test_where_policy_and_reference_agree_the_preference_loss_is_log_2_and_pulls_them_apart():
    chosen, rejected = torch.tensor([-3.0], requires_grad=True), torch.tensor([-5.0], requires_grad=True)
    losses, _ = dpo_loss(chosen, rejected, chosen.detach(), rejected.detach(), beta=0.1)
    losses.sum().backward()
    assert_close(losses.detach(), torch.tensor([math.log(2)]))
    assert_close((chosen.grad, rejected.grad), (torch.tensor([-0.05]), torch.tensor([0.05])))


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    """A saved tiny model and its tokenizer, as TRL wants them."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    words = {word: i for i, word in enumerate(["<pad>", "<eos>", *"abcdefghijklmnopqrstuv"])}
    inner = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>")
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(words),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
        initializer_range=0.5,  # far from uniform, so that probabilities differ
    )
    folder = tmp_path_factory.mktemp("policy")
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder, tokenizer


@pytest.fixture(scope="module")
def batch():
    """Hand-made inputs of TRL's loss: left-padded prompts, right-padded completions, a tool's tokens inside."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(2, 24, (4, 9), generator=generator)
    noise = torch.randn(2, 4, 6, generator=generator)
    return {
        "prompt_ids": ids[:, :3],
        "prompt_mask": torch.tensor([[1, 1, 1], [0, 1, 1], [0, 0, 1], [1, 1, 1]]),
        "completion_ids": ids[:, 3:],
        "completion_mask": torch.tensor(
            [[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0], [1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 0]]
        ),
        "tool_mask": torch.tensor([[1, 1, 0, 0, 1, 1], [1, 0, 1, 1, 1, 1], [1] * 6, [1, 1, 1, 0, 1, 1]]),
        "advantages": torch.tensor([1.2, -0.7, 0.4, -0.9]),
        "num_items_in_batch": torch.tensor(13.0),
        "old_noise": 0.3 * noise[0],
        "ref_noise": 0.3 * noise[1],
    }


def trl_loss(policy, batch, folder, **options):
    """Return TRL's loss and log-probabilities, those of the sampler and the reference, and gradients."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    model, tokenizer = policy
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the trainer's set-up, which is not what is tested
        trainer = GRPOTrainer(
            model=str(model),
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            args=GRPOConfig(
                output_dir=str(folder),
                per_device_train_batch_size=4,
                num_generations=4,
                max_completion_length=6,
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                report_to=[],
                model_init_kwargs={"dtype": "float32"},
                **options,
            ),
            train_dataset=Dataset.from_dict({"prompt": ["a"]}),
            processing_class=tokenizer,
        )
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    attention = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    logps, *_ = trainer._get_per_token_logps_and_entropies(trainer.model, ids, attention, 6)
    inputs = {key: value for key, value in batch.items() if not key.endswith("noise")}
    inputs["old_per_token_logps"] = (logps + batch["old_noise"]).detach()
    inputs["ref_per_token_logps"] = (logps + batch["ref_noise"]).detach()
    return trainer._compute_loss(trainer.model, inputs), logps, inputs, trainer


@pytest.mark.parametrize(("beta", "weigh_kl"), [(0.0, True), (0.04, True), (0.04, False)])
@pytest.mark.parametrize("eps_high", [0.2, 0.28])
@pytest.mark.parametrize(
    ("level", "aggregation"),
    [
        ("token", "grpo"),
        ("token", "bnpo"),
        ("token", "dapo"),
        ("token", "dr_grpo"),
        ("sequence_mean", "grpo"),
        ("sequence_mean", "dapo"),
    ],
)
def test_the_loss_and_its_gradient_are_those_of_trl(
    policy, batch, tmp_path, level, aggregation, eps_high, beta, weigh_kl
):
    theirs, logps, inputs, trainer = trl_loss(
        policy,
        batch,
        tmp_path,
        loss_type=aggregation,
        importance_sampling_level={"token": "token", "sequence_mean": "sequence"}[level],
        epsilon=0.2,
        epsilon_high=eps_high,
        beta=beta,
        use_bias_correction_kl=weigh_kl,
    )
    mask = batch["completion_mask"] * batch["tool_mask"]
    ours = clipped_policy_loss(
        logps,
        inputs["old_per_token_logps"],
        batch["advantages"],
        mask,
        eps_low=0.2,
        eps_high=eps_high,
        level=level,
        aggregation=aggregation,
        normalizer={"dapo": 13.0, "dr_grpo": 6.0}.get(aggregation),
        ref_logps=inputs["ref_per_token_logps"] if beta else None,
        beta=beta,
        weigh_kl=weigh_kl,
    )
    assert_close(ours.loss, theirs, atol=1e-6, rtol=0.0)
    metrics = trainer._metrics["train"]
    if level == "token":
        assert metrics["clip_ratio/region_mean"][-1] == pytest.approx(ours.clipped.item(), abs=1e-6)
    if beta:
        assert metrics["kl"][-1] == pytest.approx(ours.kl.item(), abs=1e-6)
    parameters = [p for p in trainer.model.parameters() if p.requires_grad]
    for mine, yours in zip(
        torch.autograd.grad(ours.loss, parameters), torch.autograd.grad(theirs, parameters), strict=True
    ):
        assert_close(mine, yours, atol=1e-6, rtol=1e-5)


def test_log_probabilities_are_those_trl_computes(policy, batch, tmp_path):
    _, logps, _, trainer = trl_loss(policy, batch, tmp_path, beta=0.0)
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(policy[0], dtype="float32")
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    attention = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    logits = model(ids, attention_mask=attention).logits[:, 2:-1]
    mask = batch["completion_mask"].bool()
    assert_close(token_logps(logits, batch["completion_ids"])[mask], logps[mask], atol=1e-5, rtol=0.0)
    assert trainer.temperature == 1.0
