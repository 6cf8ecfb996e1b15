"""Sampling: continues batches of token ids with a causal language model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from toolorchestra.agents.builtin.renderer import Renderer
from toolorchestra.algos import memory
from toolorchestra.algos.batching import bundles

_MIN_ROWS = 16  # of a bundle that is sampled: each bundle has its own forward pass for every id


class Sample(NamedTuple):
    """What a policy wrote in one turn: ids, and the log-probability of each when it was drawn."""

    ids: list[int]
    logprobs: list[float]


class Sampler(Protocol):
    """Anything that continues sequences of ids, a batch at a time."""

    def __call__(
        self, prompts: Sequence[Sequence[int]], limits: Sequence[int], turns: Sequence[str] | None = None
    ) -> list[Sample]:
        """Continue each prompt by at most its limit of ids.

        If `turns` names the turn that each prompt belongs to, its sample does not depend on the other prompts.
        """


class ModelSampler:
    """Samples from a causal language model, one forward pass per token and bundle, with a key-value cache.

    Args:
        model: A Hugging Face causal language model.
        renderer: Says which ids stop a turn and which one pads.
        temperature: 0 means greedy; log-probabilities are then those at temperature 1.
        seed: Same seed and same calls give the same ids.
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
        self.generator = torch.Generator(self.device).manual_seed(seed)

    @torch.no_grad()
    def __call__(
        self, prompts: Sequence[Sequence[int]], limits: Sequence[int], turns: Sequence[str] | None = None
    ) -> list[Sample]:
        """Continue each prompt until a stop id or its limit; a row's draws do not depend on its bundle.

        The draws of a prompt whose turn is named depend on the seed and that name only.
        """
        training = self.model.training
        self.model.eval()
        samples: dict[int, Sample] = {}
        noise = [] if turns is None else self._noise_of(turns, max(limits, default=0))
        fitting = memory.padded_rows(
            memory.budget(self.device, self.gib),
            self.shape.read_bytes(memory.number_size(self.model)),
            masked=not self.shape.causal,
            more=max(limits, default=0),
        )
        for rows in bundles(list(map(len, prompts)), _MIN_ROWS, fitting):

            def uniform(step: int, rows: list[int] = rows) -> Tensor:
                if step == len(noise):
                    noise.append(torch.rand((len(prompts), 1), generator=self.generator, device=self.device))
                return noise[step][rows]

            found = self._continue([prompts[row] for row in rows], [limits[row] for row in rows], uniform)
            samples.update(zip(rows, found, strict=True))
        self.model.train(training)
        return [samples[row] for row in range(len(prompts))]

    def _noise_of(self, turns: Sequence[str], steps: int) -> list[Tensor]:
        """Return uniform numbers for each step of so many, of shape ``(B, 1)``, from the names of the turns alone."""
        draws = torch.empty((len(turns), steps))
        generator = torch.Generator()  # of the CPU: the same on every device
        for row, turn in enumerate(turns):
            key = hashlib.blake2b(f"{self.seed}/{turn}".encode(), digest_size=8).digest()
            generator.manual_seed(int.from_bytes(key, "big"))
            torch.rand(steps, generator=generator, out=draws[row])
        return list(draws.to(self.device).T[:, :, None])

    def _continue(
        self, prompts: Sequence[Sequence[int]], limits: Sequence[int], uniform: Callable[[int], Tensor]
    ) -> list[Sample]:
        limit = torch.tensor(limits, device=self.device)
        inputs, attention, positions = self._right_padded(prompts) if self.shape.causal else self._left_padded(prompts)
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

    def _right_padded(self, prompts: Sequence[Sequence[int]]) -> tuple[dict[str, Any], Tensor, Tensor]:
        """Read all but the last id of each prompt, and return the inputs of the pass that reads it.

        Nothing attends to padding after it, so this takes no mask of every id for every other; later passes leave the
        padding out by a mask of one line per row.
        """
        last = [len(prompt) - 1 for prompt in prompts]
        width = max(last)
        ids = torch.full((len(prompts), width), self.renderer.pad_id, device=self.device)
        attention = torch.zeros((len(prompts), width + 1), dtype=torch.long, device=self.device)
        for row, prompt in enumerate(prompts):
            ids[row, : last[row]] = torch.tensor(prompt[:-1], device=self.device)
            attention[row, : last[row]] = 1
        attention[:, -1] = 1
        cache = self.model(input_ids=ids, use_cache=True, logits_to_keep=1).past_key_values if width else None
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
