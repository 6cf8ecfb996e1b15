"""Generation of problems from a seed: components with given axis values, needles and notes, as graph and as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import msgspec

from toolorchestra.agents.problems import Load
from toolorchestra.envs.sources.masbench.components import draw_component, draw_needle, needle_keys
from toolorchestra.envs.sources.masbench.drafts import Component, check_shape
from toolorchestra.envs.sources.masbench.fast_random import FastRandom
from toolorchestra.envs.sources.masbench.graph import LARGEST, Axes, Graph, ProblemNode, Target, values_of
from toolorchestra.envs.sources.masbench.mistakes import mistakes
from toolorchestra.envs.sources.masbench.text import Wording, write
from toolorchestra.envs.sources.masbench.vocabulary import vocabulary
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError

NOTED_DEPTH = 4
"""Depth of the computed sub-tasks of the axis robustness (MAS-Orchestra §4.2)."""
USUAL_DEPTH = 3
"""Depth where another axis is varied alone; it is the middle of those that are drawn where depth is left to chance."""
HORIZON_DEPTH = 9
"""Depth where horizon is varied alone: a chain with room for 8 answers, the paper's largest value."""
MAX_DISTRACTORS = 8


@dataclass(frozen=True)
class InstanceSettings:
    """How hard instances are beside their axes.

    Attributes:
        distractors: Statements in each problem that lead to no answer, 0 to 8.
        haystack: Filler sentences about each needle.
        notes: Whether the axis robustness writes its notes; without them, the same instance is without attacks.
        alone: Whether an axis that has no value stays put instead of being drawn: sub-tasks have one operand each, and
            the depth is `USUAL_DEPTH`, on the axis horizon `HORIZON_DEPTH`, with notes `NOTED_DEPTH`.
        shared_world: Whether independent components are about the same things, so that they are easily mixed up.
        variables: Whether problems of a horizon say which earlier answers they use, as ``[variable2] = [answer1]``.
        load: What makes problems harder for simulated models, the more of it there is.
        difficulty: Of every step, in logits, for simulated models.
    """

    distractors: int = 4
    haystack: int = 40
    notes: bool = True
    alone: bool = False
    shared_world: bool = False
    variables: bool = False
    load: Load = "kept"
    difficulty: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.distractors <= MAX_DISTRACTORS:
            raise OptionError(f"Expected 0 to {MAX_DISTRACTORS} distractors, got {self.distractors}.")
        if not 0 <= self.haystack <= 2_000:
            raise OptionError(f"Expected 0 to 2,000 filler sentences of a haystack, got {self.haystack}.")
        if self.load not in get_args(Load):
            raise UnknownNameError("load", str(self.load), get_args(Load))


class Instance(msgspec.Struct, frozen=True, gc=False):
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
        return tuple(str(self.values[target.node]) for target in self.graph.targets)


def make_instance(axes: Axes, split: str, seed: int | str, settings: InstanceSettings | None = None) -> Instance:
    """Return the instance of a seed, with all of some axis values; the splits ``train`` and ``test`` share no template.

    >>> instance = make_instance(Axes(depth=3), "train", 7)
    >>> instance.answers, len(instance.problems)
    (('3',), 1)

    Raises:
        OptionError: No instance has these values, or none in this split.
    """
    if split not in ("train", "test"):
        raise UnknownNameError("split of MASBench", split, ("train", "test"))
    settings = settings or InstanceSettings()
    shape = _alone(axes) if settings.alone else axes
    check_axes(shape)
    rng = FastRandom(f"masbench:{seed}")
    wording, notes = _wording(axes), axes.robustness or 0
    in_passages = wording == "passages"  # where the sub-tasks with notes are mixed with needles
    count, needles = (notes - notes // 2, notes // 2) if in_passages else (axes.parallel or 1, 0)
    shared = settings.shared_world and not in_passages
    hierarchies = iter(
        rng.sample(vocabulary().hierarchies, 1) * count if shared else rng.sample(vocabulary().hierarchies, count)
    )
    keys = iter(needle_keys(rng, needles))
    usual = NOTED_DEPTH if in_passages and shape.breadth is None else None
    needle_first = rng.random() < 0.5 and needles == count
    drawn: list[Component] = []
    for number in range(count + needles):  # with needles, every other component is one
        if needles and (number % 2 == 0) is needle_first:
            drawn.append(draw_needle(rng, next(keys)))
        else:
            others = [sub for component in drawn for sub in component.subs] if shared else None
            drawn.append(draw_component(rng, shape, split, next(hierarchies), settings.distractors, usual, others))
    graph = _joined(rng, drawn)
    values = values_of(graph.nodes)
    if notes and settings.notes:
        graph = _noted(FastRandom(f"masbench-notes:{seed}"), graph, values, notes)
    text, problems = write(graph, wording, rng, settings.haystack, variables=settings.variables)
    templates = tuple(component.template for component in drawn if component.template)
    return Instance(axes, split, graph, tuple(values), templates, text, problems, wording, settings.notes)


def check_axes(axes: Axes) -> None:
    """Raise an `OptionError` if there are no instances of some axis values."""
    check_shape(axes.depth, axes.breadth, axes.horizon)
    if axes.robustness is not None and (axes.horizon is not None or axes.parallel is not None):
        answers = (axes.horizon or 1) * (axes.parallel or 1)
        if axes.robustness > answers:
            raise OptionError(
                f"Expected a robustness of at most {answers}, one note about each of {answers} answers (horizon × "
                f"parallel), got {axes.robustness}: give a larger horizon or parallel, or leave out both."
            )


def _alone(axes: Axes) -> Axes:
    """Return axis values with those that are missing put where they stay."""
    depth, breadth = axes.depth, axes.breadth
    if depth is None and axes.horizon not in (None, 1):
        depth = max(HORIZON_DEPTH, (axes.horizon or 0) + 1)
    elif depth is None:
        depth = NOTED_DEPTH if _wording(axes) == "passages" else USUAL_DEPTH
    if breadth is None and depth > 1:
        breadth = 1
    return msgspec.structs.replace(axes, depth=min(depth, LARGEST), breadth=breadth)


def _wording(axes: Axes) -> Wording:
    if axes.parallel is not None or axes.horizon is not None:
        return "problems"
    return "single" if axes.robustness is None else "passages"


def _joined(rng: FastRandom, components: Sequence[Component]) -> Graph:
    """Return one graph of all components; problems of a component are in their order, but not in a row."""
    nodes: list[ProblemNode] = []
    targets: list[list[Target]] = []
    for number, component in enumerate(components):
        first = len(nodes)
        for sub in component.subs:
            needs = tuple([need + first for need in sub.needs]) if sub.needs else ()
            nodes.append(ProblemNode(sub.kind, sub.owner, sub.name, needs, sub.change, sub.constant))
        problems = zip(component.roots, component.states, component.carried, strict=True)
        targets.append(
            [
                Target(root + first, number, tuple([s + first for s in states]), tuple([c + first for c in carried]))
                for root, states, carried in problems
            ]
        )
    turns = [problems for problems in targets for _ in problems]
    if len(turns) > len(targets):
        rng.shuffle(turns)
    return Graph(tuple(nodes), tuple([problems.pop(0) for problems in turns]))


def _noted(rng: FastRandom, graph: Graph, values: Sequence[int], count: int) -> Graph:
    """Return the graph with notes about so many of its answers."""
    targets = list(graph.targets)
    for number in rng.sample(range(len(targets)), count):
        at = targets[number].node
        found = mistakes(graph.nodes[at], values, at)
        wrong = [claim for claim in found if not claim.startswith("-")]  # a count below zero is not plausible
        targets[number] = msgspec.structs.replace(targets[number], note=rng.choice(wrong))
    return Graph(graph.nodes, tuple(targets))
