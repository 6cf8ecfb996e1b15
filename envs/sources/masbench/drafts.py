"""Drafts of a component: sub-tasks without names and numbers, of exact depth, breadth and horizon.

A draft begins as one chain as long as the depth. Sub-tasks on it are given more operands (a wide one, as many as the
breadth says), chains are added beside it until there are enough answers to report, and then each sub-task is told how
it follows from its operands. Everything leads to the last answer; distractors come later, with the names.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from toolorchestra.envs.sources.masbench.dice import Dice
from toolorchestra.envs.sources.masbench.graph import Change, Kind, needed
from toolorchestra.toolscale.errors import OptionError

USUAL_BREADTH = 4
"""Most operands of a sub-task when the axis breadth is left to chance."""
_MOST_TOTALS = 8
_LARGEST_TOTAL = 12
# weights, each the sum of those up to it
_OPERANDS = (9, 16, 19, 20)  # of 1, 2, 3 and 4 operands
_CHANGES: tuple[Change, ...] = ("", "more", "times")
_OF_ONE = (3, 12, 20)  # of the changes to one operand
_OF_SEVERAL = (2, 3, 4)  # of those to several


@dataclass(slots=True)
class Sub:
    """A sub-task of a draft; the fields are those of a `Node`."""

    kind: Kind
    needs: list[int]
    change: Change = ""
    category: bool = False
    """Whether what is counted is a category: a total, or one with no members."""


@dataclass
class Draft:
    """A component without names and numbers.

    Attributes:
        subs: Its sub-tasks, each after those that it needs.
        roots: Positions of those whose answers are reported, in order; the last one needs all others.
    """

    subs: list[Sub]
    roots: list[int]


@functools.cache
def capacity(depth: int, breadth: int) -> int:
    """Return how many computed sub-tasks can lead to one answer (it included) within a depth and breadth.

    >>> capacity(4, 1), capacity(4, 2)
    (3, 7)
    """
    return sum(breadth**level for level in range(depth - 1))


def depth_for(rng: Dice, breadth: int | None, horizon: int) -> int:
    """Return a depth that suits a breadth and a horizon when the axis is left to chance."""
    most = USUAL_BREADTH if breadth is None else breadth
    least = 2
    while capacity(least, most) < 1.5 * horizon and least <= horizon:
        least += 1
    return rng.between(least, max(least, min(least + 3, 4 if horizon == 1 else horizon + 2)))


def check_shape(depth: int | None, breadth: int | None, horizon: int | None) -> None:
    """Check that there are graphs of a shape.

    Raises:
        OptionError: There are none.
    """
    if depth == 1 and breadth is not None:
        raise OptionError(f"An answer of depth 1 needs nothing: expected depth 2 or more with breadth {breadth}.")
    if depth is None or horizon is None or horizon == 1:
        return
    room = capacity(depth, USUAL_BREADTH if breadth is None else breadth)
    if horizon > room:
        raise OptionError(
            f"Expected a horizon of at most {room} with depth {depth} and "
            f"{'breadth left to chance' if breadth is None else f'breadth {breadth}'}, got {horizon}: "
            f"give a larger depth or breadth."
        )


def draw_draft(rng: Dice, depth: int, breadth: int | None, horizon: int) -> Draft:
    """Return a draft of a shape that passes `check_shape`."""
    shape = _Shape(rng, USUAL_BREADTH if breadth is None else breadth)
    top = shape.chain(depth)
    if breadth is not None:
        shape.widen(rng.between(1, top), breadth, missing=horizon - (depth - 1))
    if horizon > depth - 1 > 0:
        shape.add_chains(horizon)
    shape.add_operands()
    levels, needs = shape.levels, shape.needs
    order = sorted(range(len(levels)), key=levels.__getitem__)
    place = [0] * len(order)
    for new, old in enumerate(order):
        place[old] = new
    subs = [Sub("given", [place[need] for need in needs[old]]) for old in order]
    inner = [place[at] for at, level in enumerate(levels) if level > 1 and at != top]
    roots = [*sorted(rng.sample(inner, horizon - 1)), place[top]]
    _choose_kinds(rng, subs, roots)
    return Draft(subs, roots)


class _Shape:
    """Which sub-task needs which, with the length of the longest chain that ends in each."""

    def __init__(self, rng: Dice, most: int) -> None:
        self.rng = rng
        self.most = most
        self.levels: list[int] = []
        self.needs: list[list[int]] = []

    def chain(self, length: int) -> int:
        """Add a chain and return its end."""
        for level in range(1, length + 1):
            self.needs.append([len(self.needs) - 1] if level > 1 else [])
            self.levels.append(level)
        return len(self.levels) - 1

    def widen(self, at: int, width: int, missing: int) -> None:
        """Give a sub-task more operands, with chains of computed ones while some are `missing`."""
        below = self.levels[at] - 1
        while len(self.needs[at]) < width:
            if missing > 0 and below > 1:
                length = min(below, missing + 1)
                missing -= length - 1
                self.needs[at].append(self.chain(length))
            else:
                self._operand(at)

    def add_chains(self, computed: int) -> None:
        """Add chains until there are so many computed sub-tasks."""
        levels, rng = self.levels, self.rng
        missing = computed - len(levels) + levels.count(1)
        while missing > 0:
            places = [at for at, level in enumerate(levels) if level > 2 and len(self.needs[at]) < self.most]
            room = sum(self.most - len(self.needs[at]) for at in places)  # for chains with one computed sub-task each
            at = rng.choice(places)
            longest = min(levels[at] - 1, missing + 1)
            length = rng.between(2, longest) if room >= missing else longest
            self.needs[at].append(self.chain(length))
            missing -= length - 1

    def add_operands(self) -> None:
        """Give each computed sub-task up to four operands."""
        for at, level in enumerate(self.levels.copy()):
            if level > 1:
                width = min(self.most, 1 + self.rng.weighted(_OPERANDS))
                while len(self.needs[at]) < width:
                    self._operand(at)

    def _operand(self, at: int) -> None:
        """Add an operand: one that is there, or a new one, mostly a number that is given."""
        rng, below, needs = self.rng, self.levels[at] - 1, self.needs[at]
        if rng.random() < 0.5:
            other = rng.below(len(self.levels))
            if self.levels[other] <= below and other not in needs:
                needs.append(other)
                return
        needs.append(self.chain(2 if below > 1 and rng.random() < 0.15 else 1))


# ------------------------------------------------------------------------------------------------------- kinds


def _choose_kinds(rng: Dice, subs: list[Sub], roots: Sequence[int]) -> None:
    """Say of each sub-task how it follows from its operands.

    A member belongs to one total only, and what is counted by category belongs to none, so that names can be found.
    Every answer has a number of its own that it depends on, so that it can take any value.
    """
    taken = set[int]()
    totals = 0
    for at, sub in enumerate(subs):
        if not sub.needs:
            if rng.random() < 0.06 and at not in roots:
                sub.kind = "undefined"
                sub.category = rng.random() < 0.3 and totals < _MOST_TOTALS
                totals += sub.category
            continue
        rng.shuffle(sub.needs)
        luck = rng.random()
        pairs = _pairs(subs, sub.needs, taken) if luck > 0.75 and totals < _MOST_TOTALS else None
        if pairs is not None:
            sub.kind, sub.needs, sub.category = "nested", pairs, True
        elif (
            luck < 0.25
            and totals < _MOST_TOTALS
            and len(sub.needs) <= _LARGEST_TOTAL
            and all(_can_be_member(subs, need, taken) for need in sub.needs)
        ):
            sub.kind, sub.category = "total", True
        else:
            _combine(rng, sub)
            continue
        totals += 1
        taken.update(sub.needs)
    seen = set[int]()
    for root in roots:
        fresh = [at for at in needed(subs, [root], seen) if at not in seen]
        if not any(subs[at].kind == "given" or subs[at].change == "more" for at in fresh):
            _combine(rng, subs[root])
            subs[root].change, subs[root].category = "more", False
        seen.update(fresh)


def _can_be_member(subs: Sequence[Sub], at: int, taken: set[int]) -> bool:
    """Return whether a statement mentions a sub-task, so that a total can count it, and none does yet."""
    return at not in taken and not subs[at].category and subs[at].kind != "undefined"


def _pairs(subs: Sequence[Sub], needs: Sequence[int], taken: set[int]) -> list[int] | None:
    """Return members and their totals in turn, if operands can be seen as such."""
    if len(needs) not in (2, 4) or any(need in taken for need in needs):
        return None
    inner = [need for need in needs if subs[need].kind == "total"]
    members = [need for need in needs if _can_be_member(subs, need, taken)]
    if len(inner) != len(needs) // 2 or len(members) != len(inner):
        return None
    return [at for pair in zip(members, inner, strict=True) for at in pair]


def _combine(rng: Dice, sub: Sub) -> None:
    """Have a statement say how a sub-task follows from its operands."""
    if len(sub.needs) == 1:
        sub.kind = "same"
        sub.change = _CHANGES[rng.weighted(_OF_ONE)]
    else:
        sub.kind = "difference" if len(sub.needs) == 2 and rng.random() < 0.4 else "sum"
        sub.change = _CHANGES[rng.weighted(_OF_SEVERAL)]
