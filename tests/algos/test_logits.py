"""What rows begin with is computed once, with the values and gradients of rows that are computed alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from toolorchestra.algos.hardware.grouped_attention import grouped_attention
from toolorchestra.algos.hardware.logits import hidden_states, shared_prefix
from toolorchestra.algos.trl_trainers import MicroBatchGRPOTrainer, MicroBatchSFTTrainer

PREFIX = 300


def rows() -> list[list[int]]:
    generator = torch.Generator().manual_seed(3)
    begin, *ends = (torch.randint(1, 90, (n,), generator=generator).tolist() for n in (PREFIX, 40, 5, 23))
    return [begin + end for end in ends]


def tiny_model(**options: Any) -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=97, num_key_value_heads=1, **sizes, **options)).double()


def gradients(model: Any, value: Tensor) -> Tensor:
    model.zero_grad()
    value.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def test_hidden_states_and_their_gradients_are_those_of_each_row_alone() -> None:
    model, several = tiny_model(), rows()
    together = hidden_states(model, several, 0)
    alone = [hidden_states(model, [row], 0)[0] for row in several]
    assert shared_prefix(model, several) == PREFIX
    for found, expected in zip(together, alone, strict=True):
        torch.testing.assert_close(found[: len(expected)], expected)
    kept = torch.cat([found[: len(row)] for found, row in zip(together, several, strict=True)])
    weights = torch.linspace(-1, 1, kept.numel()).reshape(kept.shape)
    shared = gradients(model, (weights * kept).sum())
    torch.testing.assert_close(shared, gradients(model, (weights * torch.cat(alone)).sum()), rtol=1e-4, atol=1e-5)


def test_the_beginning_is_read_by_one_pass() -> None:
    model, shapes = tiny_model(), []
    model.model.register_forward_pre_hook(
        lambda module, args, options: shapes.append(tuple(options["input_ids"].shape)), with_kwargs=True
    )
    hidden_states(model, rows(), 0)
    assert shapes == [(1, PREFIX), (3, 40)]


@pytest.mark.parametrize("several", [rows()[:1], [row[PREFIX - 100 :] for row in rows()]])
def test_a_single_row_or_a_short_beginning_is_not_shared(several: list[list[int]]) -> None:
    assert shared_prefix(tiny_model(), several) == 0


def test_gradient_checkpointing_keeps_rows_apart() -> None:
    model = tiny_model()
    model.gradient_checkpointing_enable()
    assert shared_prefix(model, rows()) == 0


def test_a_model_with_sliding_attention_keeps_rows_apart() -> None:
    model = tiny_model()
    model.config.layer_types = ["full_attention", "sliding_attention"]
    assert shared_prefix(model, rows()) == 0


def trainer(kind: Any, model: Any, micro_batch: int | None) -> Any:
    made = object.__new__(kind)
    made.accelerator, made.model, made.micro_batch, made.temperature = Accelerator(cpu=True), model, micro_batch, 0.7
    return made


def padded(several: Sequence[Sequence[int]], *, left: bool = False, value: int = 0) -> Tensor:
    tensors = [torch.tensor(row) for row in several]
    return torch.nn.utils.rnn.pad_sequence(
        tensors, batch_first=True, padding_value=value, padding_side="left" if left else "right"
    )


def test_supervised_loss_is_the_same_whether_rows_share_or_not() -> None:
    found = []
    for micro_batch in (None, 1):  # 1: each row has a pass of its own
        model, several = tiny_model(), rows()
        labels = padded([[-100] * (PREFIX + 2) + row[PREFIX + 2 :] for row in several], value=-100)
        inputs = {"input_ids": padded(several), "labels": labels, "attention_mask": (padded(several) > 0).long()}
        model.zero_grad()
        loss = trainer(MicroBatchSFTTrainer, model, micro_batch).compute_loss(model, inputs)
        loss.backward()  # of the last pass; those before it were made
        found.append((loss.detach(), torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])))
    torch.testing.assert_close(found[0], found[1])


def test_log_probabilities_and_entropies_of_rollouts_are_those_of_the_whole_model() -> None:
    model, several = tiny_model(), rows()
    prompts, ends = [row[: PREFIX + 1] for row in several], [row[PREFIX + 1 :] for row in several]
    ids = torch.cat([padded(prompts, left=True), padded(ends)], 1)
    made = trainer(MicroBatchGRPOTrainer, model, None)
    logps, entropies, _ = made._get_per_token_logps_and_entropies(
        model, ids, (ids > 0).long(), padded(ends).size(1), compute_entropy=True
    )
    for n, row in enumerate(several):
        logits = model(input_ids=torch.tensor([row])).logits[0, PREFIX:-1] / 0.7
        expected = torch.distributions.Categorical(logits=logits)
        torch.testing.assert_close(logps[n, : len(ends[n])].double(), expected.log_prob(torch.tensor(ends[n])))
        torch.testing.assert_close(entropies[n, : len(ends[n])].double(), expected.entropy())


def test_attention_without_copies_of_keys_is_the_same() -> None:
    model = tiny_model()
    ids, mask = padded(rows()), (padded(rows()) > 0).long()
    expected = model(input_ids=ids, attention_mask=mask).logits
    with grouped_attention(model):
        assert model.config._attn_implementation != "sdpa"
        found = model(input_ids=ids, attention_mask=mask).logits
    assert model.config._attn_implementation == "sdpa"
    torch.testing.assert_close(found[mask.bool()], expected[mask.bool()])


def test_attention_of_one_id_for_the_heads_of_a_group_together_is_the_same() -> None:
    model = tiny_model(attention_dropout=0.0)
    ids, mask = padded(rows()), (padded(rows()) > 0).long()
    expected = model(input_ids=ids, attention_mask=mask).logits[:, -1]
    places = (mask.cumsum(1) - 1).clamp(min=0)
    before = model(input_ids=ids[:, :-1], attention_mask=mask[:, :-1], use_cache=True).past_key_values
    with grouped_attention(model):
        found = model(
            input_ids=ids[:, -1:], attention_mask=mask, position_ids=places[:, -1:], past_key_values=before
        ).logits[:, 0]
    torch.testing.assert_close(found[mask[:, -1].bool()], expected[mask[:, -1].bool()])


def test_attention_is_left_as_it_is_where_no_keys_are_copied() -> None:
    model = tiny_model()
    model.config.num_key_value_heads = model.config.num_attention_heads
    with grouped_attention(model):
        assert model.config._attn_implementation == "sdpa"
