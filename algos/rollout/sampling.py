"""Sampling: continues token ids with a causal language model, a batch at a time or one sequence by itself.

What is drawn depends on the prompt and on its key alone, never on which other prompts are continued beside it, or when.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from toolorchestra.agents.batch_calls import BatchCalls
from toolorchestra.agents.builtin.renderer import Renderer
from toolorchestra.algos.activity import TOKENS
from toolorchestra.algos.hardware import memory
from toolorchestra.algos.hardware.autocast import autocast
from toolorchestra.algos.hardware.batching import bundles, common_prefix, sharing_bundles
from toolorchestra.algos.hardware.grouped_attention import grouped_attention
from toolorchestra.algos.rollout.reading import Reading, left_padded, right_padded
from toolorchestra.algos.rollout.turn_cache import KnownPrefix, TurnCache

_FEWER = 0.75  # share of the rows of a bundle that are still written, at which the others are no longer computed
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

    Where all layers are attention to everything before, the cache is kept from one turn of an episode to the next
    (`toolorchestra.algos.rollout.turn_cache`): only what is new is read. The weights must not change meanwhile, or
    `forget` has to be called.

    Args:
        model: A Hugging Face causal language model.
        renderer: Says which ids stop a turn and which one pads.
        temperature: 0 means greedy; log-probabilities are then those at temperature 1.
        seed: With the key of a prompt, that of what is drawn for it.
        gib: GiB that the rows continued at once, and what is kept of earlier turns, may take beside the weights; None:
            see `memory.budget`.
        keep: Whether keys and values are kept for later turns, in at most half of these bytes.

    Attributes:
        cache: What is kept.
    """

    def __init__(
        self,
        model: nn.Module,
        renderer: Renderer,
        *,
        temperature: float = 1.0,
        seed: int = 0,
        gib: float | None = None,
        keep: bool = True,
    ) -> None:
        self.model, self.renderer, self.temperature, self.gib = model, renderer, temperature, gib
        self.device = next(model.parameters()).device
        self.shape = memory.ModelShape.of(model.config)
        self.stops = torch.tensor(renderer.stop_ids, device=self.device)
        self.seed = seed
        self.cache = TurnCache() if keep and self.shape.causal else None

    def forget(self) -> None:
        """Forget what was read in earlier turns, since the weights have changed."""
        if self.cache is not None:
            self.cache.clear()

    @torch.no_grad()
    def __call__(self, prompts: Sequence[Sequence[int]], limits: Sequence[int], keys: Sequence[int]) -> list[Sample]:
        """Continue each prompt until a stop id or its limit."""
        training = self.model.training
        self.model.eval()
        with autocast(self.model), grouped_attention(self.model):
            samples = self._sample(prompts, limits, keys)
        self.model.train(training)
        return samples

    def _sample(self, prompts: Sequence[Sequence[int]], limits: Sequence[int], keys: Sequence[int]) -> list[Sample]:
        samples: dict[int, Sample] = {}
        drawing = np.array([draw_key(self.seed, key) for key in keys], np.uint64)
        budget, more = memory.budget(self.device, self.gib), max(limits, default=0)
        known = self._known(prompts, budget)
        for rows in self._bundles(prompts, known, budget, more):
            reading = self._read([prompts[row] for row in rows], [known[row] for row in rows], more)
            uniform = _Uniform(drawing[rows], self.device)
            found = self._continue(reading, [limits[row] for row in rows], uniform, budget // 2)
            samples.update(zip(rows, found, strict=True))
        return [samples[row] for row in range(len(prompts))]

    def _known(self, prompts: Sequence[Sequence[int]], budget: int) -> list[KnownPrefix | None]:
        """Return what is known of each prompt, when what several of them have in common has been read.

        That is a long beginning, such as rules and tools, then whole prompts, such as those of a group.
        """
        cache, limit = self.cache, budget // 2
        if cache is None:
            return [None] * len(prompts)
        cache.shrink(limit)
        known = cache.find(prompts)
        counts = Counter(tuple(prompt) for prompt, found in zip(prompts, known, strict=True) if found is None)
        unknown = [list(prompt) for prompt in counts]
        alike = [[unknown[row] for row in rows] for rows in sharing_bundles(unknown, room=sys.maxsize)]
        beginnings = [several[0][: common_prefix(several) + 1] for several in alike]
        repeated = [prompt for prompt, count in counts.items() if count > 1 and len(prompt) > 1]
        for several in (beginnings, repeated):
            self._learn(cache, several, budget)
        if beginnings or repeated:
            known = cache.find(prompts)
        asked = sum(map(len, prompts))
        cache.counts.update(asked=asked, read=asked - sum(found.length for found in known if found))
        return known

    def _learn(self, cache: TurnCache, prompts: Sequence[Sequence[int]], budget: int) -> None:
        """Read all but the last id of some prompts, and keep what was read."""
        known = cache.find(prompts)
        for rows in self._bundles(prompts, known, budget, 1):
            several, before = [prompts[row] for row in rows], [known[row] for row in rows]
            self._read(several, before, 1).keep(cache, dict.fromkeys(range(len(rows)), ()), budget // 2)
            cache.counts["read"] += sum(len(prompt) - 1 for prompt in several)
            cache.counts["read"] -= sum(found.length for found in before if found)

    def _bundles(
        self, prompts: Sequence[Sequence[int]], known: Sequence[KnownPrefix | None], budget: int, more: int
    ) -> Iterator[list[int]]:
        """Yield the rows of each bundle: those of which something is known need a mask of every id, and are apart."""
        shape, size = self.shape, memory.number_size(self.model)
        available = budget - (self.cache.held if self.cache else 0)
        for masked in sorted({found is not None for found in known}):
            several = [row for row, found in enumerate(known) if (found is not None) is masked]
            per_id, per_row, whole = shape.read_bytes(size), shape.draw_bytes(), not shape.causal
            if masked:  # only what is not known is read, each id of it with a mask of all
                unread = max(len(prompt) - found.length for prompt, found in zip(prompts, known, strict=True) if found)
                per_row += unread * per_id
                per_id, whole = shape.write_bytes(size) + memory.PAIR_BYTES * unread, False
            fitting = memory.padded_rows(available, per_id, masked=whole, more=more, per_row=per_row)
            for rows in bundles([len(prompts[row]) for row in several], _MIN_ROWS, fitting):
                yield [several[row] for row in rows]

    def _read(self, prompts: Sequence[Sequence[int]], known: Sequence[KnownPrefix | None], more: int) -> Reading:
        if self.shape.causal:
            return right_padded(self.model, self.shape.layers, prompts, known, self.renderer.pad_id, more)
        return left_padded(prompts, self.renderer.pad_id, self.device)

    def _continue(
        self, reading: Reading, limits: Sequence[int], uniform: Callable[[int], Tensor], kept: int
    ) -> list[Sample]:
        """Continue the rows that were read; of those that have ended, at most `kept` bytes are kept for later turns."""
        limit = torch.tensor(limits, device=self.device)
        inputs, attention, positions = reading.inputs, reading.attention, reading.positions
        drawn = [Sample([], []) for _ in limits]
        rows = torch.arange(len(limits), device=self.device)  # those that are continued
        new: list[tuple[Tensor, Tensor]] = []  # what was drawn for them since they are these
        alive = limit > 0
        step = 0

        def end(places: list[int]) -> None:
            """Take over what was drawn, and keep what was read and written in rows that have ended."""
            if new:
                ids, logprobs = (torch.cat(several, 1).tolist() for several in zip(*new, strict=True))
                for row, more, their in zip(rows.tolist(), ids, logprobs, strict=True):
                    drawn[row].ids.extend(more)
                    drawn[row].logprobs.extend(their)
                new.clear()
            ended = [rows.tolist()[place] for place in places]
            for row in ended:
                drawn[row] = self._cut(drawn[row].ids, drawn[row].logprobs, limits[row])
            if self.cache is not None:
                reading.keep(self.cache, {row: drawn[row].ids for row in ended}, kept)

        while going := int(alive.sum()):
            if reading.rows and going <= _FEWER * len(rows):
                end((~alive).nonzero()[:, 0].tolist())
                places = alive.nonzero()[:, 0]
                reading.keep_rows(places.tolist())
                rows, limit, attention, positions = rows[places], limit[places], attention[places], positions[places]
                inputs, alive = {**inputs, "input_ids": inputs["input_ids"][places]}, alive[places]
            output = self.model(**inputs, attention_mask=attention, position_ids=positions, use_cache=True)
            token, logprob = self._draw(output.logits[:, -1], uniform(step)[rows])
            new.append((token, logprob))
            step += 1
            TOKENS["written"] += going
            alive &= ~torch.isin(token[:, 0], self.stops) & (limit > step)
            positions = positions[:, -1:] + 1
            attention = torch.cat([attention, attention.new_ones((len(rows), 1))], 1)
            inputs = {"input_ids": token, "past_key_values": output.past_key_values}
        end(list(range(len(rows))))
        return drawn

    def _draw(self, logits: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        logprobs = torch.log_softmax(logits.float() / (self.temperature or 1.0), -1)  # (B, V)
        if self.temperature == 0:
            token = logprobs.argmax(-1, keepdim=True)
        else:
            cumulated = logprobs.exp().cumsum(-1)  # inverting it is several times faster than torch.multinomial
            token = torch.searchsorted(cumulated, uniform * cumulated[:, -1:])  # (B, 1)
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
