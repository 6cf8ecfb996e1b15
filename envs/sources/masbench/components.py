"""Components: drafts with names, distractors and numbers.

Each answer is uniform over 0…22: a value is drawn first, then a number on the way to it is set so that it comes out. A
component is drawn again until its template belongs to the split.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from toolorchestra.envs.sources.masbench.drafts import Draft, depth_for, draw_draft
from toolorchestra.envs.sources.masbench.graph import MODULUS, Axes, Node, calculate, needed, split_of, template
from toolorchestra.envs.sources.masbench.naming import Namer, draw_distractor
from toolorchestra.envs.sources.masbench.vocabulary import Hierarchy, vocabulary
from toolorchestra.toolscale.errors import OptionError

_MOST_SUBS = 160
_ATTEMPTS = 2_000


@dataclass
class Component:
    """An independent part of a problem.

    Attributes:
        nodes: Its sub-tasks.
        roots: Positions of those whose answers are reported, in order.
        states: Positions of what the problem of each states.
        carried: Of those, the ones stated as earlier answers.
        template: Its template; a needle has none.
    """

    nodes: list[Node]
    roots: list[int]
    states: list[list[int]]
    carried: list[list[int]]
    template: str = ""


def draw_needle(rng: random.Random, key: str) -> Component:
    """Return the component of a magic number."""
    needle = Node("needle", name=key, constant=rng.randrange(10**6, 10**7))
    return Component([needle], [0], [[0]], [[]])


def needle_keys(rng: random.Random, count: int) -> list[str]:
    """Return what so many magic numbers are for."""
    words = vocabulary().needles
    first, second = rng.sample(words.first, count), rng.sample(words.second, count)
    return [f"{a}-{b}" for a, b in zip(first, second, strict=True)]


def draw_component(
    rng: random.Random, axes: Axes, split: str, hierarchy: Hierarchy, distractors: int, usual: int | None = None
) -> Component:
    """Return a component whose template belongs to a split.

    Args:
        rng: Draws it.
        axes: Its depth, horizon and breadth.
        split: The split.
        hierarchy: Where its names are from.
        distractors: Distractors in each of its problems.
        usual: Depth, where that is left to chance and has a usual value.

    Raises:
        OptionError: There is none in this split.
    """
    horizon = axes.horizon or 1
    for _ in range(_ATTEMPTS):
        depth = axes.depth or usual or depth_for(rng, axes.breadth, horizon)
        draft = draw_draft(rng, depth, axes.breadth, horizon)
        if len(draft.subs) > _MOST_SUBS:
            continue
        nodes = [sub.node() for sub in draft.subs]
        if depth > 1 and split_of(template(nodes, draft.roots[-1])) != split:
            continue
        try:
            component = _named(rng, draft, hierarchy, distractors, axes.breadth)
        except LookupError:  # too many sub-tasks for the names that there are
            continue
        component.template = template(component.nodes, component.roots[-1])
        if split_of(component.template) == split and _numbered(rng, component):
            return component
    raise OptionError(
        f"No instance of {axes} was found in the split {split}, in which too few templates are of that shape: leave "
        f"an axis to chance, or ask for the other split{'' if distractors else ' or for distractors'}."
    )


def _named(rng: random.Random, draft: Draft, hierarchy: Hierarchy, distractors: int, breadth: int | None) -> Component:
    """Return a component with names and distractors; its numbers are still missing."""
    subs, roots = draft.subs, draft.roots
    namer = Namer(rng, hierarchy, draft, more=2 * distractors * len(roots))
    nodes = [Node(sub.kind, *name, tuple(sub.needs), sub.change) for sub, name in zip(subs, namer.names, strict=True)]
    component = Component(nodes, roots, [], [])
    for number, root in enumerate(roots):
        known = roots[:number]
        way = needed(nodes, [root], known)
        members = {need for at in way if at not in known and subs[at].category for need in nodes[at].needs}
        carried = [at for at in way if at in known and at in members]
        states = carried + [at for at in way if at not in known and _is_stated(nodes[at])]
        seen = [at for at in way if at != root and at not in roots[number:]]
        for _ in range(distractors):
            try:
                most = min(3, breadth or 3)
                new = draw_distractor(rng, namer, nodes, seen, most, closing=len(roots) == 1)
            except LookupError:  # every name is taken
                break
            nodes += new
            seen += range(len(nodes) - len(new), len(nodes))
            states.append(len(nodes) - 1)
        rng.shuffle(states)
        component.states.append(states)
        component.carried.append(carried)
    return component


def _is_stated(node: Node) -> bool:
    """Return whether a statement says how a sub-task's value comes about."""
    return node.kind in ("given", "same", "sum", "difference")


def _numbered(rng: random.Random, component: Component) -> bool:
    """Put numbers in, so that each answer is uniform; False if an answer can not take every value."""
    nodes = component.nodes
    values = [0] * len(nodes)
    done = set[int]()
    for root in component.roots:
        way = [at for at in needed(nodes, [root], done) if at not in done]
        done.update(way)
        for at in way:
            if nodes[at].kind == "given" or nodes[at].change == "more":
                nodes[at] = msgspec.structs.replace(nodes[at], constant=rng.randrange(MODULUS))
            elif nodes[at].change == "times":
                nodes[at] = msgspec.structs.replace(nodes[at], constant=rng.randrange(2, MODULUS))
        free = [at for at in way if nodes[at].kind == "given" or nodes[at].change == "more"]
        if not _aim(rng, nodes, values, way, free):
            return False
    return True


def _aim(rng: random.Random, nodes: list[Node], values: list[int], way: Sequence[int], free: list[int]) -> bool:
    """Set one of the free numbers on the way to an answer so that the answer is a value drawn for it."""
    target, root = rng.randrange(MODULUS), way[-1]

    def answer(at: int, constant: int) -> int:
        nodes[at] = msgspec.structs.replace(nodes[at], constant=constant)
        for place in way:
            values[place] = calculate(nodes[place], values)
        return values[root]

    for at in rng.sample(free, len(free)):
        before = nodes[at].constant
        offset = answer(at, 0)
        slope = answer(at, 1) - offset
        # an answer is linear in nearly every number; what is not is seen when the answer misses
        if slope % MODULUS and answer(at, (target - offset) * pow(slope, -1, MODULUS) % MODULUS) == target:
            return True
        nodes[at] = msgspec.structs.replace(nodes[at], constant=before)
    return False
