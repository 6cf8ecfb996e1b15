"""Names for the sub-tasks of a component, and distractors among them.

A total is over all members that statements mention, so its owner is closed: nothing else of it is mentioned. All other
sub-tasks share a few owners and names, so that the statements are easily mixed up.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from toolorchestra.envs.sources.masbench.dice import Dice
from toolorchestra.envs.sources.masbench.drafts import Draft, Sub
from toolorchestra.envs.sources.masbench.graph import MODULUS, Change, Kind, Node
from toolorchestra.envs.sources.masbench.vocabulary import Hierarchy

Name = tuple[str, str]
"""Owner and what is counted."""
_FEWEST = 3  # names of a category that statements share
_TRIES = 20
_OPERANDS = (3, 8, 11, 12)  # sums of the weights of 0, 1, 2 and 3 operands of a distractor


class Namer:
    """Names of one component, from one hierarchy.

    Args:
        rng: Draws them.
        hierarchy: Where they are from.
        draft: The component.
        more: About how many further names there will be.

    Attributes:
        names: The name of each sub-task of the draft.
    """

    def __init__(self, rng: Dice, hierarchy: Hierarchy, draft: Draft, more: int = 0) -> None:
        self.rng = rng
        self.categories = hierarchy.categories
        self._all = [rng.sample(names, len(names)) for names in hierarchy.names]
        self._owners = [names.copy() for names in self._all[:3]]
        subs = draft.subs
        found: dict[int, Name] = {}
        inner: dict[int, int] = {}  # totals within nested ones, and the levels of their owners
        for at, sub in enumerate(subs):
            if sub.kind == "nested":
                self._name_nested(at, sub, found, inner)
        for at, sub in enumerate(subs):
            if sub.category and sub.kind != "nested":
                self._name_total(at, sub, found, inner)
        count = max(_FEWEST, math.isqrt((len(subs) + more) // 2) + 1)
        self._open = [owners[-count:] for owners in self._owners]
        self._items = [*self._open[1:], self._all[3][:count]]
        self._used = set(found.values())
        self.names = [found.get(at) or self.fresh() for at in range(len(subs))]

    def fresh(self) -> Name:
        """Return the name of a sub-task that nothing is known of yet, among the shared ones.

        Raises:
            LookupError: There is none left.
        """
        rng = self.rng
        for _ in range(_TRIES):
            level = rng.below(3)
            name = (rng.choice(self._open[level]), rng.choice(self._items[level]))
            if name not in self._used:
                break
        else:
            shared = zip(self._open, self._items, strict=True)
            name = rng.choice([n for pair in shared for n in itertools.product(*pair) if n not in self._used])
        self._used.add(name)
        return name

    def shared(self, names: Sequence[Name]) -> dict[str, list[int]]:
        """Return the positions of what is named of each owner that is not closed."""
        owners = {owner for level in self._open for owner in level}
        found: dict[str, list[int]] = {}
        for at, (owner, _) in enumerate(names):
            if owner in owners:
                found.setdefault(owner, []).append(at)
        return found

    def close(self, owner: str) -> Name:
        """Return the name of the total of all that an owner has; nothing else of it is named from now on."""
        for level, owners in enumerate(self._open):
            if owner in owners:
                self._open[level] = [other for other in owners if other != owner]
                return owner, self.categories[level + 1]
        raise KeyError(owner)

    def can_close(self, owner: str) -> bool:
        """Return whether enough owners remain when one is closed."""
        return all(len(owners) > _FEWEST - 1 for owners in self._open if owner in owners)

    def _take(self, levels: Sequence[int]) -> tuple[int, str]:
        """Return an owner of one of some levels, and its level; no other sub-task is named after it."""
        level = self.rng.choice([level for level in levels if len(self._owners[level]) > _FEWEST] or levels)
        return level, self._owners[level].pop()

    def _name_nested(self, at: int, sub: Sub, found: dict[int, Name], inner: dict[int, int]) -> None:
        level, owner = self._take((0, 1))
        for member, total in zip(sub.needs[::2], sub.needs[1::2], strict=True):
            _, name = self._take((level + 1,))
            found[member] = (owner, name)
            found[total] = (name, self.categories[level + 2])
            inner[total] = level + 1
        found[at] = (owner, self.categories[level + 2])

    def _name_total(self, at: int, sub: Sub, found: dict[int, Name], inner: dict[int, int]) -> None:
        if at in inner:
            level, owner = inner[at], found[at][0]
        else:
            level, owner = self._take((0, 1, 2))
            found[at] = (owner, self.categories[level + 1])
        for member, name in zip(sub.needs, self.rng.sample(self._all[level + 1], len(sub.needs)), strict=True):
            found[member] = (owner, name)


def draw_distractor(
    rng: Dice, namer: Namer, nodes: Sequence[Node], seen: Sequence[int], most: int, *, closing: bool
) -> tuple[Node, ...]:
    """Return the sub-tasks that a distractor is the first to mention; that of the statement itself is the last.

    Args:
        rng: Draws it.
        namer: Names it.
        nodes: The sub-tasks so far; the distractor's own come after them.
        seen: Positions of those that it may be about.
        most: Most operands.
        closing: Whether it may be about the total of an owner that is not closed.

    Raises:
        LookupError: There are no names left.
    """
    new: list[Node] = []
    needs: list[int] = []
    for _ in range(min(most, rng.weighted(_OPERANDS))):
        luck = rng.random()
        if luck < 0.1:
            needs.append(len(nodes) + len(new))
            new.append(_node("undefined", namer.fresh()))
        elif luck < 0.25 and closing and not new and (total := _total(rng, namer, nodes, seen, most)) is not None:
            needs.append(len(nodes) + len(new))
            new.append(total)
        elif seen and (other := rng.choice(seen)) not in needs:
            needs.append(other)
    name = namer.fresh()
    if not needs:
        return (*new, _node("given", name, constant=rng.below(MODULUS)))
    kind: Kind = "same" if len(needs) == 1 else "difference" if len(needs) == 2 and rng.random() < 0.5 else "sum"
    change: Change = rng.choice(("more", "times") if len(needs) == 1 else ("", "more", "times"))
    constant = rng.between(2, MODULUS - 1) if change else 0
    return (*new, _node(kind, name, tuple(needs), change, constant))


def _total(rng: Dice, namer: Namer, nodes: Sequence[Node], seen: Sequence[int], most: int) -> Node | None:
    """Return the total of an owner all of whose members may be talked about, which closes it; None if there is none."""
    known = set(seen)
    owners = {
        owner: members
        for owner, members in namer.shared([(node.owner, node.name) for node in nodes]).items()
        if known.issuperset(members) and len(members) <= most and namer.can_close(owner)
    }
    if not owners:
        return None
    owner = rng.choice([*owners])
    return _node("total", namer.close(owner), tuple(owners[owner]))


def _node(kind: Kind, name: Name, needs: tuple[int, ...] = (), change: Change = "", constant: int = 0) -> Node:
    return Node(kind, *name, needs, change, constant)
