"""Components: drafts with names, distractors and numbers.

Each answer is uniform over 0…22: a value is drawn first, then a number on the way to it is set so that it comes out. A
component is drawn again until its template belongs to the split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolorchestra.envs.sources.masbench.dice import Dice
from toolorchestra.envs.sources.masbench.drafts import Draft, depth_for, draw_draft
from toolorchestra.envs.sources.masbench.graph import MODULUS, Axes, Node, calculate, needed, split_of, template
from toolorchestra.envs.sources.masbench.naming import Namer, draw_distractor
from toolorchestra.envs.sources.masbench.vocabulary import Hierarchy, vocabulary
from toolorchestra.toolscale.errors import OptionError

_MOST_SUBS = 160
_ATTEMPTS = 2_000
_STATED = frozenset({"given", "same", "sum", "difference"})
"""How the value of a sub-task comes about when a statement says it."""


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


def draw_needle(rng: Dice, key: str) -> Component:
    """Return the component of a magic number."""
    needle = Node("needle", name=key, constant=rng.between(10**6, 10**7 - 1))
    return Component([needle], [0], [[0]], [[]])


def needle_keys(rng: Dice, count: int) -> list[str]:
    """Return what so many magic numbers are for."""
    words = vocabulary().needles
    first, second = rng.sample(words.first, count), rng.sample(words.second, count)
    return [f"{a}-{b}" for a, b in zip(first, second, strict=True)]


def draw_component(
    rng: Dice, axes: Axes, split: str, hierarchy: Hierarchy, distractors: int, usual: int | None = None
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
        # without a way to the answer, the distractors are part of the template
        drafted = template(draft.subs, draft.roots[-1]) if depth > 1 else None
        if drafted is not None and split_of(drafted) != split:
            continue
        try:
            component = _named(rng, draft, hierarchy, distractors, axes.breadth)
        except LookupError:  # too many sub-tasks for the names that there are
            continue
        component.template = drafted or template(component.nodes, component.roots[-1])
        if split_of(component.template) == split and _numbered(rng, component):
            return component
    raise OptionError(
        f"No instance of {axes} was found in the split {split}, in which too few templates are of that shape: leave "
        f"an axis to chance, or ask for the other split{'' if distractors else ' or for distractors'}."
    )


def _named(rng: Dice, draft: Draft, hierarchy: Hierarchy, distractors: int, breadth: int | None) -> Component:
    """Return a component with names and distractors; its numbers are still missing."""
    subs, roots = draft.subs, draft.roots
    namer = Namer(rng, hierarchy, draft, more=2 * distractors * len(roots))
    nodes = [Node(sub.kind, *name, tuple(sub.needs), sub.change) for sub, name in zip(subs, namer.names, strict=True)]
    component = Component(nodes, roots, [], [])
    known, later = set[int](), set(roots)
    most, closing = min(3, breadth or 3), len(roots) == 1
    for root in roots:
        way = needed(nodes, [root], known)
        fresh = [at for at in way if at not in known]
        members = {need for at in fresh if subs[at].category for need in subs[at].needs}
        carried = [at for at in way if at in known and at in members]
        states = carried + [at for at in fresh if subs[at].kind in _STATED]
        seen = [at for at in way if at not in later]
        for _ in range(distractors):
            try:
                new = draw_distractor(rng, namer, nodes, seen, most, closing=closing)
            except LookupError:  # every name is taken
                break
            nodes += new
            seen += range(len(nodes) - len(new), len(nodes))
            states.append(len(nodes) - 1)
        rng.shuffle(states)
        component.states.append(states)
        component.carried.append(carried)
        known.add(root)
        later.remove(root)
    return component


def _numbered(rng: Dice, component: Component) -> bool:
    """Put numbers in, so that each answer is uniform; False if an answer can not take every value."""
    nodes = component.nodes
    values = [0] * len(nodes)
    done = set[int]()
    for root in component.roots:
        way = [at for at in needed(nodes, [root], done) if at not in done]
        done.update(way)
        free = []
        for at in way:
            node = nodes[at]
            if node.kind == "given" or node.change == "more":
                nodes[at] = _with(node, rng.below(MODULUS))
                free.append(at)
            elif node.change == "times":
                nodes[at] = _with(node, rng.between(2, MODULUS - 1))
        if not _aim(rng, nodes, values, way, free):
            return False
    return True


def _with(node: Node, constant: int) -> Node:
    """Return a sub-task with another number."""
    return Node(node.kind, node.owner, node.name, node.needs, node.change, constant)


def _aim(rng: Dice, nodes: list[Node], values: list[int], way: Sequence[int], free: list[int]) -> bool:
    """Set one of the free numbers on the way to an answer so that the answer is a value drawn for it."""
    target, root = rng.below(MODULUS), way[-1]
    for place in way:
        values[place] = calculate(nodes[place], values)

    def answer(at: int, constant: int) -> int:
        nodes[at] = _with(nodes[at], constant)
        for place in way[way.index(at) :]:  # nothing before it changes
            values[place] = calculate(nodes[place], values)
        return values[root]

    for at in rng.sample(free, len(free)):
        before = nodes[at].constant
        offset = answer(at, 0)
        slope = answer(at, 1) - offset
        # an answer is linear in nearly every number; what is not is seen when the answer misses
        if slope % MODULUS and answer(at, (target - offset) * pow(slope, -1, MODULUS) % MODULUS) == target:
            return True
        answer(at, before)
    return False
