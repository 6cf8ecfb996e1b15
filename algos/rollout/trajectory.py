"""Token trajectories: what an agent has read and written, as ids; rows to train on; their log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from toolorchestra.algos.hardware.autocast import autocast
from toolorchestra.algos.hardware.batching import bundles
from toolorchestra.algos.hardware.logits import hidden_states, in_chunks
from toolorchestra.algos.hardware.sharding import forward, sharded
from toolorchestra.algos.loss.losses import token_logps
from toolorchestra.algos.rollout.sampling import Sample


@dataclass(frozen=True)
class TrainRow:
    """Ids to train on, and their advantage: a prompt that is only read, and the completion after it.

    The mask is 1 on those ids of the completion that the policy wrote and is trained on; `logprobs` are their
    log-probabilities when drawn, 0 elsewhere.
    """

    prompt_ids: list[int]
    completion_ids: list[int]
    mask: list[int]
    logprobs: list[float]
    advantage: float = 0.0

    @property
    def tokens(self) -> tuple[list[int], list[int], list[int], list[float]]:
        """Ids of the prompt and of the completion, mask, log-probabilities."""
        return self.prompt_ids, self.completion_ids, self.mask, self.logprobs

    @property
    def length(self) -> int:
        """Number of ids."""
        return len(self.prompt_ids) + len(self.completion_ids)


@dataclass(slots=True)
class TokenTrajectory:
    """What one agent has read and written in an episode, as ids; `last` is what its policy wrote last.

    The mask is 1 on the ids that the policy wrote; `logprobs` are their log-probabilities when drawn, 0 elsewhere.
    """

    ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    last: list[int] = field(default_factory=list)

    def read(self, ids: Sequence[int]) -> None:
        """Append what the agent observed."""
        self.ids += ids
        self.mask += [0] * len(ids)
        self.logprobs += [0.0] * len(ids)

    def write(self, sample: Sample) -> None:
        """Append what its policy wrote."""
        self.ids += sample.ids
        self.mask += [1] * len(sample.ids)
        self.logprobs += sample.logprobs
        self.last = sample.ids

    def fork(self) -> TokenTrajectory:
        """Return an independent copy."""
        return TokenTrajectory(self.ids.copy(), self.mask.copy(), self.logprobs.copy(), self.last)

    def row(self, since: int = 0, *, first: bool = False) -> TrainRow | None:
        """Return what the policy wrote from position `since` on as a row to train on, or None if that is nothing.

        All before the first written id is the prompt. With `first`, the row ends where the policy first stopped.
        """
        start = next((n for n in range(since, len(self.ids)) if self.mask[n]), None)
        if start is None:
            return None
        end = len(self.ids) - self.mask[::-1].index(1)
        if first:
            end = next((n for n in range(start, end) if not self.mask[n]), end)
        return TrainRow(self.ids[:start], self.ids[start:end], self.mask[start:end], self.logprobs[start:end])


def has_room(budget: int | None, lengths: Sequence[int], turn: int) -> bool:
    """Return whether episodes may be in progress at once, if each becomes as long as the longest after its next turn.

    Args:
        budget: Maximum of ids of all of them; None: no such maximum.
        lengths: Ids of each so far.
        turn: Maximum of ids of one turn.
    """
    return budget is None or len(lengths) <= budget // (max(lengths) + turn)


def pad(rows: Sequence[Sequence[float]], device: torch.device, dtype: torch.dtype, value: float = 0) -> Tensor:
    """Return rows of numbers as one tensor of shape ``(B, T)``, filled up on the right."""
    tensors = [torch.tensor(row, device=device, dtype=dtype) for row in rows]
    return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=value)


def pad_ids(sequences: Sequence[list[int]], pad_id: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return sequences of ids filled up on the right with `pad_id`, and their attention mask, of shape ``(B, W)``."""
    ids = pad(sequences, device, torch.long, pad_id)
    return ids, pad([[1] * len(sequence) for sequence in sequences], device, torch.long)


def row_logps(
    model: nn.Module, rows: Sequence[TrainRow], pad_id: int, temperature: float = 1.0
) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-probabilities of the rows' completions under a model, and under the one that sampled them.

    Args:
        model: A causal language model.
        rows: B rows, the longest completion of T ids.
        pad_id: What fills up shorter ones.
        temperature: At which they were sampled.

    Returns:
        Log-probabilities with gradient, those when drawn, and the mask, each of shape ``(B, T)``.
    """
    device = next(model.parameters()).device
    found = [torch.empty(0)] * len(rows)
    # passes of a divided model are made by all processes: equally many
    found_bundles = [range(len(rows))] if sharded(model) else map(sorted, bundles([row.length for row in rows]))
    for bundle in found_bundles:
        with autocast(model):
            part = [rows[n] for n in bundle]
            several = forward(model, partial(_bundle_logps, model, part, pad_id, temperature))
        for n, logps in zip(bundle, torch.split(several, [len(row.completion_ids) for row in part]), strict=True):
            found[n] = logps
    old, mask = (pad(values, device, torch.float) for values in ([r.logprobs for r in rows], [r.mask for r in rows]))
    return nn.utils.rnn.pad_sequence(found, batch_first=True), old, mask


def _bundle_logps(model: nn.Module, rows: Sequence[TrainRow], pad_id: int, temperature: float) -> Tensor:
    """Return log-probabilities of the completions of some rows of like length, one after the other."""
    states = hidden_states(model, [row.prompt_ids + row.completion_ids for row in rows], pad_id)  # (B, W, H)
    sizes = [len(row.completion_ids) for row in rows]
    predicting = [
        states[n, row.length - size - 1 : -1][:size] for n, (row, size) in enumerate(zip(rows, sizes, strict=True))
    ]
    ids = torch.tensor([i for row in rows for i in row.completion_ids], device=states.device)
    return in_chunks(model, lambda logits, ids: token_logps(logits / temperature, ids), torch.cat(predicting), ids)
