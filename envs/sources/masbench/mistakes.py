"""Plausible wrong results, which simulated models give by mistake and adversarial notes claim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from toolorchestra.envs.sources.masbench.graph import MODULUS, ProblemNode, calculate

MAX_MISTAKES = 5


def mistakes(node: ProblemNode, values: Sequence[int], position: int) -> tuple[str, ...]:
    """Return wrong results of the sub-task at a position, the likeliest first.

    They are off by one, or come of what is done with the constant, of operands left out or mixed up, and of numbers
    that were not reduced.

    >>> mistakes(ProblemNode("difference", needs=(0, 1)), [3, 5, 21], 2)
    ('2', '22', '20', '3', '8')
    """
    truth = values[position]
    found = _misread(truth) if node.kind == "needle" else _miscounted(node, values, truth)
    return tuple(str(value) for value in dict.fromkeys(found) if value != truth)[:MAX_MISTAKES]


def _misread(truth: int) -> Iterator[int]:
    """Yield numbers of as many digits that look like a needle."""
    digits = str(truth)
    for at in (2, 4, 1):
        yield int(digits[:at] + digits[at + 1] + digits[at] + digits[at + 2 :])
    yield truth + 1 if truth % 10 < 9 else truth - 1
    yield int(digits[:3] + str((int(digits[3]) + 5) % 10) + digits[4:])


def _miscounted(node: ProblemNode, values: Sequence[int], truth: int) -> Iterator[int]:
    def otherwise(**changes: object) -> int:
        return calculate(msgspec.structs.replace(node, **changes), values)

    operands = [values[need] for need in node.needs]
    if node.kind == "difference":
        yield otherwise(needs=node.needs[::-1])
    if node.change:
        yield otherwise(change="")
        yield otherwise(change="times" if node.change == "more" else "more")
    yield (truth + 1) % MODULUS
    yield (truth - 1) % MODULUS
    if node.kind == "nested":
        yield sum(operands[1::2]) % MODULUS
        yield sum(operands[::2]) % MODULUS
    elif len(operands) > 1:
        yield otherwise(kind="sum", needs=node.needs[:-1])
        yield otherwise(kind="sum")
    if operands:
        whole = operands[0] - operands[1] if node.kind == "difference" else sum(operands)
        yield {"": whole, "more": whole + node.constant, "times": whole * node.constant}[node.change]
    yield (truth + 10) % MODULUS
