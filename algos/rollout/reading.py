"""How prompts are read: the forward passes before the first id of a turn is drawn, and the layout of their cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from toolorchestra.algos.activity import TOKENS
from toolorchestra.algos.rollout.turn_cache import KnownPrefix, TurnCache

Prompts = Sequence[Sequence[int]]


@dataclass
class Reading:
    """What the first pass that draws is given.

    Attributes:
        inputs: Ids, and the cache of what was read before them.
        attention: Mask of the columns of each row.
        positions: Of the ids.
        prompts: What is read, if it is kept for later turns.
        known: What was known of each prompt.
        spans: The columns of the cache in which each row has its ids.
        columns: Of the cache, without those of the ids.
        rows: Numbers of the prompts that the rows of the cache are of.
    """

    inputs: dict[str, Any]
    attention: Tensor
    positions: Tensor
    prompts: Prompts = ()
    known: Sequence[KnownPrefix | None] = ()
    spans: list[list[tuple[int, int]]] = field(default_factory=list)
    columns: int = 0

    rows: list[int] = field(default_factory=list)

    def keep(self, cache: TurnCache, written: Mapping[int, Sequence[int]], limit: int) -> None:
        """Keep what was read, and what was written then but for the last id of each row, which no pass has read.

        At most `limit` bytes are kept.

        Args:
            cache: Where it is kept.
            written: What was written after prompts, by their number.
            limit: Bytes.
        """
        for place, row in enumerate(self.rows):
            if row not in written:
                continue
            prompt, ids = self.prompts[row], written[row]
            spans = [*self.spans[row], (self.columns, self.columns + len(ids))]
            states = [layer.select(place, spans) for layer in self.inputs["past_key_values"].layers]
            cache.keep([*prompt, *ids][:-1], states, self.known[row], len(prompt) - 1)
            cache.shrink(limit)

    def keep_rows(self, places: Sequence[int]) -> None:
        """Go on with some of the rows, by their places among those that there still are."""
        self.rows = [self.rows[place] for place in places]
        for layer in self.inputs["past_key_values"].layers:
            layer.keep_rows(places)


def left_padded(prompts: Prompts, pad: int, device: torch.device) -> Reading:
    """Return the pass that reads prompts from their first id; all rows end in the same column."""
    width = max(map(len, prompts))
    TOKENS["read"] += sum(map(len, prompts))
    ids = torch.full((len(prompts), width), pad, device=device)
    attention = torch.zeros((len(prompts), width), dtype=torch.long, device=device)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(prompt, device=device)
        attention[row, width - len(prompt) :] = 1
    return Reading({"input_ids": ids, "logits_to_keep": 1}, attention, (attention.cumsum(1) - 1).clamp(min=0))


def right_padded(
    model: Any, layers: int, prompts: Prompts, known: Sequence[KnownPrefix | None], pad: int, more: int
) -> Reading:
    """Read all but the last id of each prompt, and return the pass that reads that.

    The cache has room for `more` ids. It has first what is known of the prompts, then what is read now, both padded on
    the right. If nothing is known, this takes no mask of every id for every other, since nothing attends to padding
    after it; passes of one id leave the padding out by a mask of one line per row.
    """
    from toolorchestra.algos.rollout.reserved_cache import reserved_cache  # transformers takes seconds to import

    device = next(model.parameters()).device
    lengths = [found.length if found else 0 for found in known]
    new = [list(prompt[length:-1]) for prompt, length in zip(prompts, lengths, strict=True)]
    start, width = max(lengths), max(map(len, new))
    before = torch.tensor(lengths, device=device)[:, None]
    ids = torch.full((len(prompts), width), pad, device=device)
    attention = torch.zeros((len(prompts), start + width + 1), dtype=torch.long, device=device)
    attention[:, :start] = torch.arange(start, device=device) < before
    for row, several in enumerate(new):
        ids[row, : len(several)] = torch.tensor(several, dtype=torch.long, device=device)
        attention[row, start : start + len(several)] = 1
    attention[:, -1] = 1
    cache = reserved_cache(layers, start + width + more)
    places: dict[str, Tensor] = {}
    if start:
        kept_layers: list[Any] = cache.layers
        for number, layer in enumerate(kept_layers):
            layer.begin([found.kept.states[number][:, :, : found.length] for found in known if found], start)
        places = {"attention_mask": attention[:, :-1], "position_ids": before + torch.arange(width, device=device)}
    TOKENS["read"] += sum(map(len, new))
    if width:
        model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1, **places)
    inputs = {"input_ids": torch.tensor([prompt[-1:] for prompt in prompts], device=device), "past_key_values": cache}
    positions = torch.tensor([len(prompt) - 1 for prompt in prompts], device=device)[:, None]
    spans = [[(0, length), (start, start + len(several))] for length, several in zip(lengths, new, strict=True)]
    rows = list(range(len(prompts)))
    return Reading(inputs, attention, positions, prompts, known, spans, start + width, rows)
