"""Making problems: a graph of the axis values wanted, with names, numbers, distractors, needles and notes.

All is drawn from one seed. Each answer is uniform over 0…22: a value is drawn first, then a number on the way to it
is set so that it comes out. A component is drawn again until its template belongs to the split.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from toolorchestra.envs.sources.masbench.drafts import Draft, check_shape, depth_for, draw_draft
from toolorchestra.envs.sources.masbench.graph import (
    MODULUS,
    Asked,
    Axes,
    Graph,
    Node,
    calculate,
    needed,
    split_of,
    template,
    values_of,
)
from toolorchestra.envs.sources.masbench.mistakes import mistakes
from toolorchestra.envs.sources.masbench.naming import Namer, draw_distractor
from toolorchestra.envs.sources.masbench.text import Wording, write
from toolorchestra.envs.sources.masbench.vocabulary import Hierarchy, vocabulary
from toolorchestra.toolscale.errors import OptionError, UnknownNameError

NOTED_DEPTH = 4
"""Depth of the computed sub-tasks of the axis robustness (MAS-Orchestra §4.2)."""
MOST_DISTRACTORS = 8
_MOST_SUBS = 160
_ATTEMPTS = 2_000


@dataclass(frozen=True)
class Settings:
    """How hard instances are beside their axes.

    Attributes:
        distractors: Statements in each problem that lead to no answer, 0 to 8.
        haystack: Filler sentences about each needle.
        notes: Whether the axis robustness writes its notes; without them, the same instance is without attacks.
    """

    distractors: int = 4
    haystack: int = 40
    notes: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.distractors <= MOST_DISTRACTORS:
            raise OptionError(f"Expected 0 to {MOST_DISTRACTORS} distractors, got {self.distractors}.")
        if not 0 <= self.haystack <= 2_000:
            raise OptionError(f"Expected 0 to 2,000 filler sentences of a haystack, got {self.haystack}.")


class Instance(msgspec.Struct, frozen=True):
    """A problem: its graph, and what follows from it.

    Attributes:
        axes: The axis values it was made for.
        split: ``train`` or ``test``.
        graph: Its sub-tasks.
        values: The value of each.
        templates: The template of each computed component.
        text: What is asked, in full.
        problems: What is asked, problem by problem, each with what it states.
        wording: How it is put.
        noted: Whether it was made with notes where the axis robustness asks for them.
    """

    axes: Axes
    split: str
    graph: Graph
    values: tuple[int, ...]
    templates: tuple[str, ...]
    text: str
    problems: tuple[str, ...]
    wording: Wording
    noted: bool = True

    @property
    def answers(self) -> tuple[str, ...]:
        """The answers to report, in order."""
        return tuple(str(self.values[asked.node]) for asked in self.graph.asked)


def make_instance(axes: Axes, split: str, seed: int | str, settings: Settings | None = None) -> Instance:
    """Return the instance of a seed.

    >>> instance = make_instance(Axes(depth=3), "train", 7)
    >>> instance.answers, len(instance.problems)
    (('3',), 1)

    Args:
        axes: The axis values wanted. Combinations are possible.
        split: ``train`` or ``test``; they share no template.
        seed: All follows from it and the other arguments.
        settings: How hard it is otherwise.

    Raises:
        OptionError: No instance has these values, or none in this split.
    """
    if split not in ("train", "test"):
        raise UnknownNameError("split of MASBench", split, ("train", "test"))
    settings = settings or Settings()
    check_axes(axes)
    rng = random.Random(f"masbench:{seed}")
    count, needles = _components(axes)
    hierarchies = iter(rng.sample(vocabulary().hierarchies, count))
    keys = iter(_needle_keys(rng, needles))
    drawn = [
        _draw_component(rng, axes, split, next(hierarchies), settings) if computed else _draw_needle(rng, next(keys))
        for computed in _alternated(count, needles, rng.random() < 0.5)
    ]
    graph = _joined(rng, drawn)
    values = values_of(graph.nodes)
    if axes.robustness is not None and settings.notes:
        graph = _noted(random.Random(f"masbench-notes:{seed}"), graph, values, axes.robustness)
    wording = _wording(axes)
    text, problems = write(graph, wording, rng, settings.haystack)
    templates = tuple(component.template for component in drawn if component.template)
    return Instance(axes, split, graph, tuple(values), templates, text, problems, wording, settings.notes)


def check_axes(axes: Axes) -> None:
    """Check that there are instances of some axis values.

    Raises:
        OptionError: There are none.
    """
    check_shape(axes.depth, axes.breadth, axes.horizon)
    if axes.robustness is not None and (axes.horizon is not None or axes.parallel is not None):
        answers = (axes.horizon or 1) * (axes.parallel or 1)
        if axes.robustness > answers:
            raise OptionError(
                f"Expected a robustness of at most {answers}, one note about each of {answers} answers (horizon × "
                f"parallel), got {axes.robustness}: give a larger horizon or parallel, or leave out both."
            )


def _components(axes: Axes) -> tuple[int, int]:
    """Return the numbers of computed components and of needles."""
    if _in_passages(axes):
        notes = axes.robustness or 0
        return notes - notes // 2, notes // 2
    return axes.parallel or 1, 0


def _in_passages(axes: Axes) -> bool:
    """Return whether sub-tasks with notes are mixed with needles: where nothing else says how many there are."""
    return axes.robustness is not None and axes.parallel is None and axes.horizon is None


def _wording(axes: Axes) -> Wording:
    if _in_passages(axes):
        return "passages"
    return "problems" if axes.parallel is not None or axes.horizon is not None else "single"


def _alternated(count: int, needles: int, needle_first: bool) -> list[bool]:
    """Return which of the components are computed: all, or every other one."""
    if not needles:
        return [True] * count
    first = not (needle_first and needles == count)
    return [first is (number % 2 == 0) for number in range(count + needles)]


# --------------------------------------------------------------------------------------------------- components


@dataclass
class _Component:
    """Sub-tasks of a component, and for each of its problems what is asked and stated."""

    nodes: list[Node]
    roots: list[int]
    states: list[list[int]]
    carried: list[list[int]]
    template: str = ""


def _draw_needle(rng: random.Random, key: str) -> _Component:
    needle = Node("needle", name=key, constant=rng.randrange(10**6, 10**7))
    return _Component([needle], [0], [[0]], [[]])


def _needle_keys(rng: random.Random, count: int) -> list[str]:
    words = vocabulary().needles
    first, second = rng.sample(words.first, count), rng.sample(words.second, count)
    return [f"{a}-{b}" for a, b in zip(first, second, strict=True)]


def _draw_component(rng: random.Random, axes: Axes, split: str, hierarchy: Hierarchy, settings: Settings) -> _Component:
    """Return a component whose template belongs to a split."""
    horizon = axes.horizon or 1
    usual = NOTED_DEPTH if _in_passages(axes) and axes.breadth is None else None
    for _ in range(_ATTEMPTS):
        depth = axes.depth or usual or depth_for(rng, axes.breadth, horizon)
        draft = draw_draft(rng, depth, axes.breadth, horizon)
        if len(draft.subs) > _MOST_SUBS:
            continue
        nodes = [sub.node() for sub in draft.subs]
        if depth > 1 and split_of(template(nodes, draft.roots[-1])) != split:
            continue
        try:
            component = _named(rng, draft, hierarchy, settings.distractors, axes.breadth)
        except LookupError:  # too many sub-tasks for the names that there are
            continue
        component.template = template(component.nodes, component.roots[-1])
        if split_of(component.template) == split and _numbered(rng, component):
            return component
    raise OptionError(
        f"No instance of {axes} was found in the split {split}, in which too few templates are of that shape: leave "
        f"an axis to chance, or ask for the other split{'' if settings.distractors else ' or for distractors'}."
    )


def _named(rng: random.Random, draft: Draft, hierarchy: Hierarchy, distractors: int, breadth: int | None) -> _Component:
    """Return a component with names and distractors; its numbers are still missing."""
    subs, roots = draft.subs, draft.roots
    namer = Namer(rng, hierarchy, draft, more=2 * distractors * len(roots))
    nodes = [Node(sub.kind, *name, tuple(sub.needs), sub.change) for sub, name in zip(subs, namer.names, strict=True)]
    component = _Component(nodes, roots, [], [])
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


def _numbered(rng: random.Random, component: _Component) -> bool:
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


# --------------------------------------------------------------------------------------------------- the whole


def _joined(rng: random.Random, components: Sequence[_Component]) -> Graph:
    """Return one graph of all components; problems of a component are in their order, but not in a row."""
    nodes: list[Node] = []
    asked: list[list[Asked]] = []
    for number, component in enumerate(components):
        first = len(nodes)
        nodes += [
            msgspec.structs.replace(node, needs=tuple([need + first for need in node.needs]))
            for node in component.nodes
        ]
        problems = zip(component.roots, component.states, component.carried, strict=True)
        asked.append(
            [
                Asked(root + first, number, tuple([s + first for s in states]), tuple([c + first for c in carried]))
                for root, states, carried in problems
            ]
        )
    turns = [number for number, problems in enumerate(asked) for _ in problems]
    if any(len(problems) > 1 for problems in asked):
        rng.shuffle(turns)
    waiting = [iter(problems) for problems in asked]
    return Graph(tuple(nodes), tuple([next(waiting[number]) for number in turns]))


def _noted(rng: random.Random, graph: Graph, values: Sequence[int], count: int) -> Graph:
    """Return the graph with notes about so many of its answers."""
    asked = list(graph.asked)
    for number in rng.sample(range(len(asked)), count):
        found = mistakes(graph.nodes[asked[number].node], values, asked[number].node)
        wrong = [claim for claim in found if not claim.startswith("-")]  # nobody would believe less than none
        asked[number] = msgspec.structs.replace(asked[number], note=rng.choice(wrong))
    return Graph(graph.nodes, tuple(asked))
