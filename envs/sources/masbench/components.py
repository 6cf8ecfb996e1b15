"""Components: drafts with names, distractors and numbers.

Each answer is uniform over 0…22: a value is drawn first, then a number on the way to it is set so that it comes out. A
component is drawn again until its template belongs to the split.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolorchestra.envs.ground_truth.parts import needed
from toolorchestra.envs.sources.masbench.drafts import Component, DraftSubTask, depth_for, draw_draft
from toolorchestra.envs.sources.masbench.fast_random import FastRandom
from toolorchestra.envs.sources.masbench.graph import MODULUS, Axes, calculate, split_of, template
from toolorchestra.envs.sources.masbench.naming import Namer, draw_distractor
from toolorchestra.envs.sources.masbench.vocabulary import Hierarchy, vocabulary
from toolorchestra.toolscale.common.errors import OptionError

_MAX_SUBS = 160
_ATTEMPTS = 2_000
_STATED = frozenset({"given", "same", "sum", "difference"})
"""How the value of a sub-task comes about when a statement says it."""


def draw_needle(rng: FastRandom, key: str) -> Component:
    """Return the component of a magic number."""
    needle = DraftSubTask("needle", [], name=key, constant=rng.between(10**6, 10**7 - 1))
    return Component([needle], roots=[0], ways=[[0]], states=[[0]], carried=[[]])


def needle_keys(rng: FastRandom, count: int) -> list[str]:
    """Return what so many magic numbers are for."""
    words = vocabulary().needles
    return [f"{a}-{b}" for a, b in zip(rng.sample(words.first, count), rng.sample(words.second, count), strict=True)]


def draw_component(
    rng: FastRandom,
    axes: Axes,
    split: str,
    hierarchy: Hierarchy,
    distractors: int,
    usual: int | None = None,
    others: Sequence[DraftSubTask] | None = None,
) -> Component:
    """Return a component of the depth, horizon and breadth of `axes`, whose template belongs to a split.

    Its names are from a hierarchy, and each of its problems has so many `distractors`. `usual` is the depth, where that
    is left to chance and has a usual value. `others` are the sub-tasks of the components before it, if all share a
    world.

    Raises:
        OptionError: There is none in this split.
    """
    horizon = axes.horizon or 1
    for _ in range(_ATTEMPTS):
        depth = axes.depth or usual or depth_for(rng, axes.breadth, horizon)
        draft = draw_draft(rng, depth, axes.breadth, horizon)
        if len(draft.subs) > _MAX_SUBS:
            continue
        # without a way to the answer, the distractors are part of the template
        drafted = template(draft.subs, draft.roots[-1]) if depth > 1 else None
        if drafted is not None and split_of(drafted) != split:
            continue
        try:
            _name(rng, draft, hierarchy, distractors, axes.breadth, others)
        except LookupError:  # too many sub-tasks for the names that there are
            continue
        draft.template = drafted or template(draft.subs, draft.roots[-1])
        if drafted is None and split_of(draft.template) != split:
            continue
        if _numbered(rng, draft.subs, draft.ways):
            return draft
    raise OptionError(
        f"No instance of {axes} was found in the split {split}, in which too few templates are of that shape: leave "
        f"an axis to chance, or ask for the other split{'' if distractors else ' or for distractors'}."
    )


def _name(
    rng: FastRandom,
    draft: Component,
    hierarchy: Hierarchy,
    distractors: int,
    breadth: int | None,
    others: Sequence[DraftSubTask] | None,
) -> None:
    """Give a draft names and distractors; its numbers are still missing."""
    subs, roots = draft.subs, draft.roots
    namer = Namer(rng, hierarchy, subs, more=2 * distractors * len(roots), others=others or ())
    known: set[int] = set()
    later = set(roots)
    max_operands, closing = min(3, breadth or 3), len(roots) == 1 and others is None
    for root in roots:
        way = needed(subs, [root], known) if known else draft.ways[0]
        own = [at for at in way if at not in known]
        members = {need for at in own if subs[at].category for need in subs[at].needs}
        carried = [at for at in way if at in known and at in members]
        states = carried + [at for at in own if subs[at].kind in _STATED]
        seen = [at for at in way if at not in later]
        for _ in range(distractors):
            try:
                new = draw_distractor(rng, namer, subs, seen, max_operands, closing=closing)
            except LookupError:  # every name is taken
                break
            subs += new
            seen += range(len(subs) - len(new), len(subs))
            states.append(len(subs) - 1)
        rng.shuffle(states)
        draft.states.append(states)
        draft.carried.append(carried)
        known.add(root)
        later.remove(root)


def _numbered(rng: FastRandom, subs: Sequence[DraftSubTask], ways: Sequence[Sequence[int]]) -> bool:
    """Put numbers in, so that each answer is uniform; False if an answer can not take every value."""
    values = [0] * len(subs)
    for way in ways:
        free = []
        for at in way:
            sub = subs[at]
            if sub.kind == "given" or sub.change == "more":
                sub.constant = rng.below(MODULUS)
                free.append(at)
            elif sub.change == "times":
                sub.constant = rng.between(2, MODULUS - 1)
        if not _aim(rng, subs, values, way, free):
            return False
    return True


def _aim(
    rng: FastRandom, subs: Sequence[DraftSubTask], values: list[int], way: Sequence[int], free: Sequence[int]
) -> bool:
    """Set one of the free numbers on the way to an answer so that the answer is a value drawn for it."""
    target = rng.below(MODULUS)

    def answer(sub: DraftSubTask, constant: int, places: Sequence[int]) -> int:
        sub.constant = constant
        for place in places:
            values[place] = calculate(subs[place], values)
        return values[way[-1]]

    for at in rng.sample(free, len(free)):
        sub, rest = subs[at], way[way.index(at) :]  # what depends on it is in the rest
        before = sub.constant
        offset = answer(sub, 0, way)
        slope = answer(sub, 1, rest) - offset
        # an answer is linear in nearly every number; what is not is seen when the answer misses
        if slope % MODULUS and answer(sub, (target - offset) * pow(slope, -1, MODULUS) % MODULUS, rest) == target:
            return True
        sub.constant = before
    return False
