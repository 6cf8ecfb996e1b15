"""Sampling: continues token ids with a causal language model, a batch at a time or one sequence by itself.

What is drawn depends on the prompt and on its key alone, never on which other prompts are continued beside it, or when.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from toolorchestra.agents.batch_calls import BatchCalls
from toolorchestra.agents.builtin.renderer import Renderer
from toolorchestra.algos import memory
from toolorchestra.algos.autocast import autocast
from toolorchestra.algos.batching import bundles

_MIN_ROWS = 16  # of a bundle that is sampled: each bundle has its own forward pass for every id


class Sample(NamedTuple):
    """What a policy wrote in one turn: ids, and the log-probability of each when it was drawn."""

    ids: list[int]
    logprobs: list[float]


class Sampler(Protocol):
    """Anything that continues sequences of ids a batch at a time."""

    def __call__(self, prompts: Sequence[Sequence[int]], limits: Sequence[int], keys: Sequence[int]) -> list[Sample]:
        """Continue each prompt by at most its limit of ids; same prompt and same key (see `draw_key`), same ids."""


class AsyncSampler(Protocol):
    """Anything that continues sequences of ids one by one, many at a time, such as a server that batches them."""

    async def sample(self, prompt: Sequence[int], limit: int, key: int) -> Sample:
        """Continue a prompt by at most `limit` ids; same prompt and same key (see `draw_key`), same ids."""


AnySampler = Sampler | AsyncSampler
SampleOne = Callable[[Sequence[int], int, int], Awaitable[Sample]]


def sample_one(sampler: AnySampler) -> SampleOne:
    """Return the coroutine function that continues one prompt by a sampler of either kind.

    A `Sampler` is given all prompts that wait when it is free.
    """
    if hasattr(sampler, "sample"):
        return sampler.sample
    batch: Sampler = sampler
    calls: BatchCalls[tuple[Sequence[int], int, int], Sample] = BatchCalls(
        lambda asked: batch(*map(list, zip(*asked, strict=True)))
    )
    return lambda *asked: calls.ask(asked)


def draw_key(*parts: object) -> int:
    """Return the key of what is drawn somewhere: 64 bits that say nothing of those of other parts.

    >>> draw_key(7, 0) == draw_key(7, 0) != draw_key(7, 1)
    True
    """
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


class ModelSampler:
    """Samples from a causal language model, one forward pass per token and bundle, with a key-value cache.

    Args:
        model: A Hugging Face causal language model.
        renderer: Says which ids stop a turn and which one pads.
        temperature: 0 means greedy; log-probabilities are then those at temperature 1.
        seed: With the key of a prompt, that of what is drawn for it.
        gib: GiB that the rows continued at once may take beside the weights; None: see `memory.budget`.
    """

    def __init__(
        self, model: nn.Module, renderer: Renderer, *, temperature: float = 1.0, seed: int = 0, gib: float | None = None
    ) -> None:
        self.model, self.renderer, self.temperature, self.gib = model, renderer, temperature, gib
        self.device = next(model.parameters()).device
        self.shape = memory.ModelShape.of(model.config)
        self.stops = torch.tensor(renderer.stop_ids, device=self.device)
        self.seed = seed

    @torch.no_grad()
    def __call__(self, prompts: Sequence[Sequence[int]], limits: Sequence[int], keys: Sequence[int]) -> list[Sample]:
        """Continue each prompt until a stop id or its limit."""
        with autocast(self.model):
            return self._sample(prompts, limits, keys)

    def _sample(self, prompts: Sequence[Sequence[int]], limits: Sequence[int], keys: Sequence[int]) -> list[Sample]:
        training = self.model.training
        self.model.eval()
        samples: dict[int, Sample] = {}
        drawing = np.array([draw_key(self.seed, key) for key in keys], np.uint64)
        fitting = memory.padded_rows(
            memory.budget(self.device, self.gib),
            self.shape.read_bytes(memory.number_size(self.model)),
            masked=not self.shape.causal,
            more=max(limits, default=0),
            per_row=self.shape.draw_bytes(),
        )
        for rows in bundles(list(map(len, prompts)), _MIN_ROWS, fitting):
            uniform = _Uniform(drawing[rows], self.device)
            found = self._continue([prompts[row] for row in rows], [limits[row] for row in rows], uniform)
            samples.update(zip(rows, found, strict=True))
        self.model.train(training)
        return [samples[row] for row in range(len(prompts))]

    def _continue(
        self, prompts: Sequence[Sequence[int]], limits: Sequence[int], uniform: Callable[[int], Tensor]
    ) -> list[Sample]:
        limit = torch.tensor(limits, device=self.device)
        if self.shape.causal:
            inputs, attention, positions = self._right_padded(prompts, max(limits))
        else:
            inputs, attention, positions = self._left_padded(prompts)
        drawn_ids: list[Tensor] = []
        drawn_logprobs: list[Tensor] = []
        alive = limit > 0
        while bool(alive.any()):
            output = self.model(**inputs, attention_mask=attention, position_ids=positions, use_cache=True)
            token, logprob = self._draw(output.logits[:, -1], uniform, len(drawn_ids))
            drawn_ids.append(token)
            drawn_logprobs.append(logprob)
            alive &= ~torch.isin(token[:, 0], self.stops) & (limit > len(drawn_ids))
            positions = positions[:, -1:] + 1
            attention = torch.cat([attention, attention.new_ones((len(prompts), 1))], 1)
            inputs = {"input_ids": token, "past_key_values": output.past_key_values}
        if not drawn_ids:
            return [Sample([], []) for _ in prompts]
        rows = zip(torch.cat(drawn_ids, 1).tolist(), torch.cat(drawn_logprobs, 1).tolist(), limits, strict=True)
        return [self._cut(row, logprobs, limit) for row, logprobs, limit in rows]

    def _left_padded(self, prompts: Sequence[Sequence[int]]) -> tuple[dict[str, Any], Tensor, Tensor]:
        """Return the inputs of the first forward pass, its mask and positions: all rows end in the same column."""
        width = max(map(len, prompts))
        ids = torch.full((len(prompts), width), self.renderer.pad_id, device=self.device)
        attention = torch.zeros((len(prompts), width), dtype=torch.long, device=self.device)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt) :] = torch.tensor(prompt, device=self.device)
            attention[row, width - len(prompt) :] = 1
        return {"input_ids": ids, "logits_to_keep": 1}, attention, (attention.cumsum(1) - 1).clamp(min=0)

    def _right_padded(self, prompts: Sequence[Sequence[int]], more: int) -> tuple[dict[str, Any], Tensor, Tensor]:
        """Read all but the last id of each prompt, and return the inputs of the pass that reads it.

        The cache has room for `more` ids. Nothing attends to padding after it, so this takes no mask of every id for
        every other; later passes leave the padding out by a mask of one line per row.
        """
        last = [len(prompt) - 1 for prompt in prompts]
        width = max(last)
        ids = torch.full((len(prompts), width), self.renderer.pad_id, device=self.device)
        attention = torch.zeros((len(prompts), width + 1), dtype=torch.long, device=self.device)
        for row, prompt in enumerate(prompts):
            ids[row, : last[row]] = torch.tensor(prompt[:-1], device=self.device)
            attention[row, : last[row]] = 1
        attention[:, -1] = 1
        from toolorchestra.algos.rollout.reserved_cache import reserved_cache  # transformers takes seconds to import

        cache = reserved_cache(self.shape.layers, width + more)
        if width:
            self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        token = torch.tensor([prompt[-1:] for prompt in prompts], device=self.device)
        return (
            {"input_ids": token, "past_key_values": cache},
            attention,
            torch.tensor(last, device=self.device)[:, None],
        )

    def _draw(self, logits: Tensor, uniform: Callable[[int], Tensor], step: int) -> tuple[Tensor, Tensor]:
        logprobs = torch.log_softmax(logits.float() / (self.temperature or 1.0), -1)  # (B, V)
        if self.temperature == 0:
            token = logprobs.argmax(-1, keepdim=True)
        else:
            cumulated = logprobs.exp().cumsum(-1)  # inverting it is several times faster than torch.multinomial
            token = torch.searchsorted(cumulated, uniform(step) * cumulated[:, -1:])  # (B, 1)
        return token, logprobs.gather(1, token)

    def _cut(self, ids: list[int], logprobs: list[float], limit: int) -> Sample:
        stops = self.renderer.stop_ids
        length = min(next((n for n, i in enumerate(ids, 1) if i in stops), len(ids)), limit)
        return Sample(ids[:length], logprobs[:length])


class _Uniform:
    """Numbers in [0, 1) for rows: those of a row depend on its key and the step only (SplitMix64, by step)."""

    _AHEAD = 32
    """Steps for which numbers are made at once."""

    def __init__(self, keys: NDArray[np.uint64], device: torch.device) -> None:
        self._keys, self._device = keys, device
        self._numbers: list[Tensor] = []

    def __call__(self, step: int) -> Tensor:
        """Return the numbers of a step, of shape ``(B, 1)``; steps are asked for in their order."""
        if step == len(self._numbers):
            steps = np.arange(step + 1, step + 1 + self._AHEAD, dtype=np.uint64)
            bits = self._keys + steps[:, None] * np.uint64(0x9E3779B97F4A7C15)
            bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            numbers = ((bits ^ (bits >> np.uint64(31))) >> np.uint64(40)).astype(np.float32) * np.float32(2**-24)
            self._numbers += torch.from_numpy(numbers).to(self._device)[:, :, None]
        return self._numbers[step]
