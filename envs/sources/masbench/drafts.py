"""Drafts of a component: sub-tasks of a given depth, breadth and horizon, whose names and numbers are still missing.

A draft begins as one chain as long as the depth. Sub-tasks on it are given more operands (a wide one, as many as the
breadth says), chains are added beside it until there are enough answers to report, and then it is drawn how each
sub-task follows from its operands. Everything leads to the last answer; distractors come later, with the names.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import msgspec

from toolorchestra.envs.ground_truth.parts import needed
from toolorchestra.envs.sources.masbench.fast_random import FastRandom, repeated
from toolorchestra.envs.sources.masbench.graph import Change, Kind
from toolorchestra.toolscale.common.errors import OptionError

USUAL_BREADTH = 4
"""Maximum number of operands of a sub-task when breadth is not set."""
_MAX_TOTALS = 8
_LARGEST_TOTAL = 12
_OPERANDS = repeated({1: 9, 2: 7, 3: 3, 4: 1})  # how many a sub-task has
_OF_ONE: tuple[Change, ...] = repeated({"": 3, "more": 9, "times": 8})  # changes to one operand
_OF_SEVERAL: tuple[Change, ...] = repeated({"": 2, "more": 1, "times": 1})  # those to several


class DraftSubTask(msgspec.Struct, gc=False):
    """A `ProblemNode` in the making, without a name and a number at first.

    `category` says whether what is counted is a category: a total, or one with no members.
    """

    kind: Kind
    needs: list[int]
    change: Change = ""
    category: bool = False
    owner: str = ""
    name: str = ""
    constant: int = 0


class Component(msgspec.Struct):
    """An independent part of a problem; a draft has no statements and no template yet.

    Attributes:
        subs: Its sub-tasks, each after those that it needs.
        roots: Positions of those whose answers are reported, in order; the last one needs all others.
        ways: Positions of those that each root needs and none before it does, itself the last.
        states: Positions of what the problem of each root states.
        carried: Of those, the ones stated as earlier answers.
        template: Its template; a needle has none.
    """

    subs: list[DraftSubTask]
    roots: list[int]
    ways: list[list[int]]
    states: list[list[int]] = []
    carried: list[list[int]] = []
    template: str = ""


@functools.cache
def capacity(depth: int, breadth: int) -> int:
    """Return how many computed sub-tasks can lead to one answer (it included) within a depth and breadth.

    >>> capacity(4, 1), capacity(4, 2)
    (3, 7)
    """
    return sum(breadth**level for level in range(depth - 1))


def depth_for(rng: FastRandom, breadth: int | None, horizon: int) -> int:
    """Return a depth that suits a breadth and a horizon when the axis is left to chance."""
    return rng.between(*_usual_depths(USUAL_BREADTH if breadth is None else breadth, horizon))


@functools.cache
def _usual_depths(breadth: int, horizon: int) -> tuple[int, int]:
    """Return the least and the largest depth that suit."""
    least = next(depth for depth in itertools.count(2) if capacity(depth, breadth) >= 1.5 * horizon or depth > horizon)
    return least, max(least, min(least + 3, 4 if horizon == 1 else horizon + 2))


def check_shape(depth: int | None, breadth: int | None, horizon: int | None) -> None:
    """Raise an `OptionError` if there are no graphs of a shape."""
    if depth == 1 and breadth is not None:
        raise OptionError(f"An answer of depth 1 needs nothing: expected depth 2 or more with breadth {breadth}.")
    if depth is None or horizon is None or horizon == 1:
        return
    room = capacity(depth, USUAL_BREADTH if breadth is None else breadth)
    if horizon > room:
        known = "breadth left to chance" if breadth is None else f"breadth {breadth}"
        raise OptionError(
            f"Expected a horizon of at most {room} with depth {depth} and {known}, got {horizon}: give a larger depth "
            f"or breadth."
        )


def draw_draft(rng: FastRandom, depth: int, breadth: int | None, horizon: int) -> Component:
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
    place = {old: new for new, old in enumerate(order)}
    subs = [DraftSubTask("given", [place[need] for need in needs[old]]) for old in order]
    roots = [place[top]]
    if horizon > 1:
        inner = [place[at] for at, level in enumerate(levels) if level > 1 and at != top]
        roots = [*sorted(rng.sample(inner, horizon - 1)), *roots]
    _choose_kinds(rng, subs, roots)
    return Component(subs, roots, _find_ways(rng, subs, roots))


class _Shape:
    """Which sub-task needs which, with the length of the longest chain that ends in each."""

    def __init__(self, rng: FastRandom, max_operands: int) -> None:
        self.rng = rng
        self.max_operands = max_operands
        self.levels: list[int] = []
        self.needs: list[list[int]] = []

    def chain(self, length: int) -> int:
        """Add a chain and return its end."""
        end = len(self.levels) + length - 1
        self.needs.append([])
        if length > 1:
            self.needs += [[at] for at in range(end - length + 1, end)]
        self.levels += range(1, length + 1)
        return end

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
            places = [at for at, level in enumerate(levels) if level > 2 and len(self.needs[at]) < self.max_operands]
            # for chains with one computed sub-task each
            room = sum(self.max_operands - len(self.needs[at]) for at in places)
            at = rng.choice(places)
            longest = min(levels[at] - 1, missing + 1)
            length = rng.between(2, longest) if room >= missing else longest
            self.needs[at].append(self.chain(length))
            missing -= length - 1

    def add_operands(self) -> None:
        """Give each computed sub-task up to four operands."""
        for at, level in enumerate(self.levels.copy()):
            if level > 1:
                width = min(self.max_operands, self.rng.weighted(_OPERANDS))
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


def _choose_kinds(rng: FastRandom, subs: Sequence[DraftSubTask], roots: Sequence[int]) -> None:
    """Draw for each sub-task how it follows from its operands.

    A member belongs to one total only, and what is counted by category belongs to none, so that names can be found.
    """
    taken: set[int] = set()
    totals = 0
    for at, sub in enumerate(subs):
        if not sub.needs:
            if rng.random() < 0.06 and at not in roots:
                sub.kind = "undefined"
                sub.category = rng.random() < 0.3 and totals < _MAX_TOTALS
                totals += sub.category
            continue
        if len(sub.needs) > 1:
            rng.shuffle(sub.needs)
        draw = rng.random()
        pairs = _pairs(subs, sub.needs, taken) if draw > 0.75 and totals < _MAX_TOTALS else None
        if pairs is not None:
            sub.kind, sub.needs, sub.category = "nested", pairs, True
        elif (
            draw < 0.25
            and totals < _MAX_TOTALS
            and len(_members(subs, sub.needs, taken)) == len(sub.needs) <= _LARGEST_TOTAL
        ):
            sub.kind, sub.category = "total", True
        else:
            _combine(rng, sub)
            continue
        totals += 1
        taken.update(sub.needs)


def _find_ways(rng: FastRandom, subs: Sequence[DraftSubTask], roots: Sequence[int]) -> list[list[int]]:
    """Return the way to each root, on which there is a number of its own, so that it can take any value."""
    seen: set[int] = set()
    ways = []
    for root in roots:
        whole = needed(subs, [root], seen) if root != roots[-1] else range(len(subs))  # all lead to the last
        way = [at for at in whole if at not in seen]
        if not any(subs[at].kind == "given" or subs[at].change == "more" for at in way):
            _combine(rng, subs[root])
            subs[root].change, subs[root].category = "more", False
        seen.update(way)
        ways.append(way)
    return ways


def _members(subs: Sequence[DraftSubTask], needs: Sequence[int], taken: set[int]) -> list[int]:
    """Return the operands that a statement mentions, so that a total can count them, and none does yet."""
    return [at for at in needs if at not in taken and not subs[at].category and subs[at].kind != "undefined"]


def _pairs(subs: Sequence[DraftSubTask], needs: Sequence[int], taken: set[int]) -> list[int] | None:
    """Return members and their totals in turn, if operands can be seen as such."""
    if len(needs) not in (2, 4) or any(need in taken for need in needs):
        return None
    inner = [need for need in needs if subs[need].kind == "total"]
    members = _members(subs, needs, taken)
    if len(inner) != len(needs) // 2 or len(members) != len(inner):
        return None
    return [at for pair in zip(members, inner, strict=True) for at in pair]


def _combine(rng: FastRandom, sub: DraftSubTask) -> None:
    """Have a statement say how a sub-task follows from its operands."""
    if len(sub.needs) == 1:
        sub.kind, sub.change = "same", rng.weighted(_OF_ONE)
    else:
        sub.kind = "difference" if len(sub.needs) == 2 and rng.random() < 0.4 else "sum"
        sub.change = rng.weighted(_OF_SEVERAL)
