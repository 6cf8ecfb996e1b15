"""The dependency graph of a problem: its sub-tasks, what each needs, and which are reported.

The graph is the source of truth. Values, the measured axes and the templates by which the splits are kept apart are
computed from it here; text, steps and notes are in modules of their own. Numbers are counted modulo 23 (`MODULUS`),
the magic numbers of needles aside.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

import msgspec

from toolorchestra.envs.ground_truth.parts import Dependent, needed, stages_of
from toolorchestra.toolscale.common.errors import OptionError

MODULUS = 23
LARGEST = 32
"""Largest value of an axis."""
AXES = ("depth", "horizon", "breadth", "parallel", "robustness")

Kind = Literal["given", "undefined", "same", "sum", "difference", "total", "nested", "needle"]
"""How the value of a sub-task comes about.

- ``given``: a statement gives the number; ``undefined``: none does, so it is 0; ``needle``: a passage gives it;
- ``same``, ``sum``, ``difference``: a statement says it of one, several or two other sub-tasks;
- ``total``: the number of a category that an owner has: the sum over its members that the statements mention;
- ``nested``: likewise of the category below the members': the sum of (number of the member) × (what each has of it).
"""
Change = Literal["", "more", "times"]
"""What a statement does to the value before it is the sub-task's: nothing, add a constant, multiply by one."""


class SubTask(Dependent, Protocol):
    """A sub-task of a problem or of a draft, as far as its value depends on it."""

    @property
    def kind(self) -> Kind:
        """How its value comes about."""

    @property
    def change(self) -> Change:
        """What is done to the value of those."""

    @property
    def constant(self) -> int:
        """The number given, added or multiplied by."""


class ProblemNode(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A sub-task: "the number of each `owner`'s `name`".

    Attributes:
        kind: How its value comes about.
        owner: Who owns; empty for a needle.
        name: What is counted: a name, a category for totals, or what a magic number is for.
        needs: Positions of the sub-tasks that it depends on, each once; for ``nested``, members and theirs in turn.
        change: What is done to the value of those.
        constant: The number given, added or multiplied by.
    """

    kind: Kind
    owner: str = ""
    name: str = ""
    needs: tuple[int, ...] = ()
    change: Change = ""
    constant: int = 0


class Target(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A sub-task whose value must be reported.

    Attributes:
        node: Its position.
        component: Number of the independent component it is in.
        states: Positions of the sub-tasks that its problem states, in the order of the text.
        carried: Of those, the ones stated as the answer of an earlier problem.
        note: The wrong answer that an adversarial note claims, if there is a note about it.
    """

    node: int
    component: int
    states: tuple[int, ...] = ()
    carried: tuple[int, ...] = ()
    note: str | None = None


class Graph(msgspec.Struct, frozen=True, gc=False, rename={"targets": "asked"}):
    """A problem.

    Attributes:
        nodes: The sub-tasks, each after those that it needs; distractors are among them.
        targets: What must be reported, in the order of the problems.
    """

    nodes: tuple[ProblemNode, ...]
    targets: tuple[Target, ...]


class Axes(msgspec.Struct, frozen=True, omit_defaults=True):
    """Values of the five axes, 1 to 32; what is None is left to chance (and no note is made unless asked for).

    Attributes:
        depth: Sub-tasks on the longest chain that ends in an answer.
        horizon: Answers to report of which each of the others leads to the last: those of a chain of problems.
        breadth: Largest number of sub-tasks that one sub-task needs directly.
        parallel: Independent components.
        robustness: Sub-tasks about which a note claims a wrong answer.
    """

    depth: int | None = None
    horizon: int | None = None
    breadth: int | None = None
    parallel: int | None = None
    robustness: int | None = None

    def __post_init__(self) -> None:
        for axis, value in self.given().items():
            if not isinstance(value, int) or not 1 <= value <= LARGEST:
                raise OptionError(f"Expected a value of the axis `{axis}` from 1 to {LARGEST}, got {value!r}.")
        if not self.given():
            raise OptionError(f"Expected a value of at least one axis of {', '.join(AXES)}; none was given.")

    def given(self) -> dict[str, int]:
        """Return the axes that have a value."""
        return {axis: value for axis in AXES if (value := getattr(self, axis)) is not None}

    def __str__(self) -> str:
        return "-".join(f"{axis}{value}" for axis, value in self.given().items())


def calculate(node: SubTask, values: Sequence[int]) -> int:
    """Return the value of a sub-task from those of the sub-tasks that it needs.

    >>> calculate(ProblemNode("difference", needs=(0, 1), change="times", constant=2), [3, 5])
    19
    """
    needs, kind = node.needs, node.kind
    if not needs:
        return node.constant  # 0 of what is undefined
    value = 0
    if kind == "difference":
        value = values[needs[0]] - values[needs[1]]
    elif kind == "nested":
        for at in range(0, len(needs), 2):
            value += values[needs[at]] * values[needs[at + 1]]
    else:
        for need in needs:
            value += values[need]
    if node.change == "more":
        value += node.constant
    elif node.change == "times":
        value *= node.constant
    return value % MODULUS


def values_of(nodes: Iterable[ProblemNode]) -> list[int]:
    """Return the value of every sub-task."""
    values: list[int] = []
    for node in nodes:
        values.append(calculate(node, values))
    return values


def levels_of(nodes: Iterable[ProblemNode]) -> list[int]:
    """Return the number of sub-tasks on the longest chain that ends in each."""
    return [1 + stage for stage in stages_of(nodes)]


def components_of(graph: Graph) -> list[list[int]]:
    """Return the questions (their numbers) of each independent component, in the order of their first ones."""
    home = list(range(len(graph.nodes)))

    def root(at: int) -> int:
        while home[at] != at:
            home[at] = home[home[at]]
            at = home[at]
        return at

    for at, node in enumerate(graph.nodes):
        for need in node.needs:
            home[root(need)] = root(at)
    found: dict[int, list[int]] = {}
    for number, target in enumerate(graph.targets):
        found.setdefault(root(target.node), []).append(number)
    return list(found.values())


def measure(graph: Graph) -> dict[str, int]:
    """Return the value of every axis, counted in the graph; a robustness of 0 means that there is no note."""
    nodes = graph.nodes
    levels = levels_of(nodes)
    roots = [target.node for target in graph.targets]
    reported = set(roots)
    return {
        "depth": max(levels[root] for root in roots),
        "horizon": max(len(reported.intersection(needed(nodes, [root]))) for root in roots),
        "breadth": max(len(set(nodes[at].needs)) for at in needed(nodes, roots)),
        "parallel": len(components_of(graph)),
        "robustness": sum(target.note is not None for target in graph.targets),
    }


# --------------------------------------------------------------------------------------------------- templates


def template(nodes: Sequence[SubTask], root: int) -> str:
    """Return what all problems share that differ from this one in names, numbers and order only: a hash.

    It is that of the way to the last answer, in which the order of summands does not count. Where that answer is
    merely stated there is no way to it, and what else is stated is taken instead.
    """
    hashes: list[bytes] = []
    for node in nodes:
        kind, needs = node.kind, node.needs
        if not needs:
            hashes.append(_hash_of(kind, node.change))
            continue
        below = [hashes[need] for need in needs]
        if kind == "nested":
            below = sorted(a + b for a, b in zip(below[::2], below[1::2], strict=True))
        elif kind != "difference":
            below.sort()
        hashes.append(_hash_of(kind, node.change, *below))
    if nodes[root].needs:
        return hashes[root].hex()
    return hashlib.blake2b(b"".join(sorted(hashes)), digest_size=8).hexdigest()


@functools.lru_cache(maxsize=65_536)  # small parts are the same in many graphs
def _hash_of(kind: Kind, change: Change, *below: bytes) -> bytes:
    return hashlib.blake2b(f"{kind}{change}(".encode() + b"".join(below), digest_size=8).digest()


def split_of(template_hash: str) -> str:
    """Return the split to which a template belongs: that of iGSM, remainders below 17 for training, of 23."""
    return "train" if int(template_hash, 16) % 23 < 17 else "test"
