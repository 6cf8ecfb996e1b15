"""SFT data: demonstrations as rows of ids and labels, augmented so that a built-in model learns to *copy*.

- `thin` leaves out fields of a tool's result that nothing depends on, fewer and fewer of them (a curriculum): the model
  first learns to copy the only value there is, then to choose among ever more.
- `drop_words` leaves out words of a request that are no values, so that the model does not rely on whole phrasings.
- `ValueShuffler` exchanges names, ids and numbers, consistently within an episode, for others, so that a value in no
  demonstration is copied as well as any other. `exchange_numbers` does so for numbers in text.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from typing import Any

from toolorchestra.agents.builtin.compact_renderer import CompactRenderer
from toolorchestra.agents.builtin.renderer import Renderer
from toolorchestra.agents.builtin.tool_messages import read_result
from toolorchestra.agents.messages.model_message import Message
from toolorchestra.algos.activity import Count
from toolorchestra.algos.data.demonstrations import Demonstration, encode

_DROPPED = (0.0, 0.15, 0.3)  # shares of the words of a request that are left out
_ANY_KIND = 0.5  # chance that a value which a result shows is exchanged for one of any kind

LabelledRow = tuple[list[int], list[int]]
"""Ids, and their labels: -100 on what the policy does not learn."""


def labelled(ids: list[int], mask: Sequence[int]) -> LabelledRow:
    """Return a row with a label on each id that the mask marks as the policy's own."""
    return ids, [i if own else -100 for i, own in zip(ids, mask, strict=True)]


def thin(demonstration: Demonstration, share: float, rng: random.Random) -> Demonstration:
    """Leave out fields of tool results that no later message of the policy mentions; each stays with chance `share`."""
    written = "".join(json.dumps(m, ensure_ascii=False) for m in demonstration.messages if m["role"] == "assistant")

    def needed(value: Any) -> bool:
        if isinstance(value, dict):
            return any(needed(item) for item in value.values())
        if isinstance(value, list):
            return any(needed(item) for item in value)
        return value is not None and str(value) in written

    def cut(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: cut(v) for k, v in value.items() if needed(v) or rng.random() < share}
        if isinstance(value, list):
            return [cut(item) for item in value if needed(item) or rng.random() < share]
        return value

    def thinned(message: Message) -> Message:
        record = read_result(message) if message["role"] == "tool" else {}
        if "result" not in record:
            return message
        return {**message, "content": json.dumps({**record, "result": cut(record["result"])}, ensure_ascii=False)}

    return replace(demonstration, messages=tuple(map(thinned, demonstration.messages)))


def drop_words(
    ids: Sequence[int], mask: Sequence[int], droppable: Set[int], share: float, rng: random.Random
) -> tuple[list[int], list[int]]:
    """Leave out each of the `droppable` ids before the policy's first with this chance; return ids and mask."""
    start = next((n for n, m in enumerate(mask) if m), len(ids))
    kept = [n for n, i in enumerate(ids) if n >= start or i not in droppable or rng.random() >= share]
    return [ids[n] for n in kept], [mask[n] for n in kept]


class ValueShuffler:
    """Exchanges values for others, consistently within a row of ids.

    Exchanged are ids that the policy *copies* (they occur in the environment's part before the policy first
    writes them) and ids that only tool results show. What the policy writes without copying (a computed date, say),
    and words of the instruction that it never repeats, stay.

    A value of the request is exchanged for one of its kind, as its kind may say what it is for. One that a result shows
    is exchanged for a value of any kind every other time: its place says what it is, and each value of the vocabulary
    is then copied about as often as any other.
    """

    def __init__(self, renderer: CompactRenderer) -> None:
        self._kind = {renderer.index[token]: kind for token, kind in renderer.kinds.items()}
        self._members: dict[str, list[int]] = {}
        for i, kind in self._kind.items():
            self._members.setdefault(kind, []).append(i)
        self._every = sorted(self._kind)

    def __call__(self, ids: Sequence[int], mask: Sequence[int], rng: random.Random) -> list[int]:
        """Return the ids with values exchanged."""
        start = next((n for n, m in enumerate(mask) if m), len(ids))
        written = {i for i, m in zip(ids, mask, strict=True) if m}
        first = {i: n for n, i in reversed(list(enumerate(ids)))}
        exchange, taken = {}, set(ids)
        for i in dict.fromkeys(ids):
            kind, n = self._kind.get(i), first[i]
            if kind is None or mask[n] or (n < start and i not in written):
                continue
            others = self._every if n >= start and rng.random() < _ANY_KIND else self._members[kind]
            tries = (rng.choice(others) for _ in range(9))
            other = next((one for one in tries if one not in taken), None)
            if other is not None:
                exchange[i] = other
                taken.add(other)
        return [exchange.get(i, i) for i in ids]


def sft_rows(
    renderer: Renderer,
    demonstrations: Sequence[Demonstration],
    *,
    rows: int,
    rng: random.Random,
    curriculum: bool,
    full_from: float = 0.6,
    pick: Callable[[float], Sequence[Demonstration]] | None = None,
    count: Count = lambda done: None,
) -> list[LabelledRow]:
    """Return rows of (ids, labels) in the order in which they are trained on.

    Args:
        renderer: The policy's renderer.
        demonstrations: Episodes to draw from.
        rows: How many.
        rng: Source of randomness.
        curriculum: Thin tool results, shuffle values and leave out words, if the renderer is a `CompactRenderer`.
        full_from: Share of the rows after which tool results are complete.
        pick: Demonstrations to draw from at a point (0 to 1) of the rows; all if None.
        count: Called with the number of rows so far.
    """
    shuffler, words = None, frozenset[int]()
    if curriculum and isinstance(renderer, CompactRenderer):
        shuffler, words = ValueShuffler(renderer), renderer.plain_words()
    encoded: dict[int, tuple[list[int], list[int]]] = {}  # those that were drawn, by the demonstration's id()

    def plain(demonstration: Demonstration) -> tuple[list[int], list[int]]:
        if id(demonstration) not in encoded:
            encoded[id(demonstration)] = encode(renderer, demonstration)
        return encoded[id(demonstration)]

    made = []
    for n in range(rows):
        at = n / rows
        demonstration = rng.choice(pick(at) if pick else demonstrations)
        if shuffler is None:
            ids, mask = plain(demonstration)
        else:
            share = at / full_from
            whole = share >= 1 or rng.random() < 0.1
            ids, mask = plain(demonstration) if whole else encode(renderer, thin(demonstration, share, rng))
            ids, mask = drop_words(shuffler(ids, mask, rng), mask, words, rng.choice(_DROPPED), rng)
        made.append(labelled(ids, mask))
        count(n + 1)
    return made


def exchange_numbers(ids: Sequence[int], mask: Sequence[int], numbers: Sequence[int], rng: random.Random) -> list[int]:
    """Return a row with the numbers that the policy copies exchanged for others, so that any number is copied as well.

    `mask` is 1 on the ids that the policy writes; `numbers` are the ids that are numbers.
    """
    first = dict(reversed(list(zip(ids, mask, strict=True))))
    written = {i for i, own in zip(ids, mask, strict=True) if own}
    known = set(numbers)
    copied = [i for i in dict.fromkeys(ids) if not first[i] and i in written and i in known]
    others = [i for i in numbers if i not in first]
    copied = copied[: len(others)]  # if noise has used up the numbers, the rest stay
    exchange = dict(zip(copied, rng.sample(others, len(copied)), strict=True))
    return [exchange.get(i, i) for i in ids]
