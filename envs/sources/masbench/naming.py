"""Names for the sub-tasks of a component, and distractors among them.

A total is over all members that statements mention, so its owner is closed: nothing else of it is mentioned. All other
sub-tasks share a few owners and names, so that the statements are easily mixed up.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from toolorchestra.envs.sources.masbench.drafts import DraftSubTask
from toolorchestra.envs.sources.masbench.fast_random import FastRandom, repeated
from toolorchestra.envs.sources.masbench.graph import MODULUS, Change, Kind
from toolorchestra.envs.sources.masbench.vocabulary import Hierarchy

Name = tuple[str, str]
"""Owner and what is counted."""
_FEWEST = 3  # names of a category that statements share
_TRIES = 20
_OPERANDS = repeated({0: 3, 1: 5, 2: 3, 3: 1})  # how many a distractor has


class Namer:
    """Names of one component, from one hierarchy; its sub-tasks are given theirs at once.

    About so many `more` names are expected to be drawn later. The names of `others`, sub-tasks of the same world, are
    taken: their owners and what they own are shared, but the owner of a total of theirs is not spoken of again.
    """

    def __init__(
        self,
        rng: FastRandom,
        hierarchy: Hierarchy,
        subs: Sequence[DraftSubTask],
        more: int = 0,
        others: Sequence[DraftSubTask] = (),
    ) -> None:
        self.rng = rng
        self.categories = [*hierarchy]
        self._all = [rng.sample(names, len(names)) for names in hierarchy.values()]
        spoken = {name for sub in others for name in (sub.owner, sub.name)}
        closed = {sub.owner for sub in others if sub.category or sub.kind in ("total", "nested")}
        self._owners = [[name for name in names if name not in spoken] for names in self._all[:3]]
        categories = [sub for sub in subs if sub.category]
        inner: dict[str, int] = {}  # owners of totals within nested ones, and their levels
        for sub in categories:
            if sub.kind == "nested":
                self._name_nested(sub, subs, inner)
        for sub in categories:
            if sub.kind != "nested":
                self._name_total(sub, subs, inner)
        count = max(_FEWEST, math.isqrt((len(subs) + more + len(others)) // 2) + 1)
        shared = [*(owners[-count:] for owners in self._owners), self._all[3][:count]]
        if others:
            taken = {name for names, left in zip(self._all, self._owners, strict=False) for name in names} - spoken
            taken -= {name for left in self._owners for name in left}  # owners of totals of this component
            closed |= taken
            shared = [
                sorted((n for n in names if n not in closed), key=lambda n: n not in spoken)[:count]
                for names in self._all
            ]
        self._shared = [*itertools.pairwise(shared)]  # owners of each level, and what they own
        self._used = {(sub.owner, sub.name) for sub in (*subs, *others) if sub.owner}
        for sub in subs:
            if not sub.owner:
                sub.owner, sub.name = self.fresh()

    def fresh(self) -> Name:
        """Return a shared name of which nothing is known yet, or raise a `LookupError` if there is none left."""
        for _ in range(_TRIES):
            if (name := self.rng.cell(self._shared)) not in self._used:
                break
        else:
            cells = [cell for grid in self._shared for cell in itertools.product(*grid)]
            name = self.rng.choice([cell for cell in cells if cell not in self._used])
        self._used.add(name)
        return name

    def closable(self, subs: Sequence[DraftSubTask]) -> dict[str, list[int]]:
        """Return the positions of the sub-tasks of each shared owner, without whom enough others remain."""
        owners = {owner for level, _ in self._shared if len(level) >= _FEWEST for owner in level}
        found: dict[str, list[int]] = {}
        for at, sub in enumerate(subs):
            if (owner := sub.owner) in owners:
                found.setdefault(owner, []).append(at)
        return found

    def close(self, owner: str) -> Name:
        """Return the name of the total of all that an owner has; nothing else of it is named from now on."""
        for level, (owners, names) in enumerate(self._shared):
            if owner in owners:
                self._shared[level] = ([other for other in owners if other != owner], names)
                return owner, self.categories[level + 1]
        raise KeyError(owner)

    def _take(self, levels: Sequence[int]) -> tuple[int, str]:
        """Return an owner of one of some levels, and its level; no other sub-task is named after it."""
        level = self.rng.choice([level for level in levels if len(self._owners[level]) > _FEWEST] or levels)
        return level, self._owners[level].pop()

    def _name_nested(self, sub: DraftSubTask, subs: Sequence[DraftSubTask], inner: dict[str, int]) -> None:
        level, owner = self._take((0, 1))
        sub.owner, sub.name = owner, self.categories[level + 2]
        for member, total in zip(sub.needs[::2], sub.needs[1::2], strict=True):
            _, name = self._take((level + 1,))
            subs[member].owner, subs[member].name = owner, name
            subs[total].owner, subs[total].name = name, self.categories[level + 2]
            inner[name] = level + 1

    def _name_total(self, sub: DraftSubTask, subs: Sequence[DraftSubTask], inner: dict[str, int]) -> None:
        if sub.owner:
            level = inner[sub.owner]
        else:
            level, sub.owner = self._take((0, 1, 2))
            sub.name = self.categories[level + 1]
        for member, name in zip(sub.needs, self.rng.sample(self._all[level + 1], len(sub.needs)), strict=True):
            subs[member].owner, subs[member].name = sub.owner, name


def draw_distractor(
    rng: FastRandom,
    namer: Namer,
    subs: Sequence[DraftSubTask],
    seen: Sequence[int],
    max_operands: int,
    *,
    closing: bool,
) -> list[DraftSubTask]:
    """Return the sub-tasks that a distractor is the first to mention; that of the statement itself is the last.

    They come after `subs`, the sub-tasks so far. It may be about those at the positions `seen` and, if `closing`, about
    the total of an owner that is not closed. Where no names are left, a `LookupError` is raised.
    """
    new: list[DraftSubTask] = []
    needs: list[int] = []
    for _ in range(min(max_operands, rng.weighted(_OPERANDS))):
        draw = rng.random()
        if draw < 0.1:
            needs.append(len(subs) + len(new))
            new.append(DraftSubTask("undefined", [], "", False, *namer.fresh()))
        elif draw < 0.25 and closing and not new and (total := _total(rng, namer, subs, seen, max_operands)):
            needs.append(len(subs))
            new.append(total)
        elif seen and (other := rng.choice(seen)) not in needs:
            needs.append(other)
    owner, name = namer.fresh()
    if not needs:
        return [*new, DraftSubTask("given", needs, "", False, owner, name, rng.below(MODULUS))]
    kind: Kind = "same" if len(needs) == 1 else "difference" if len(needs) == 2 and rng.random() < 0.5 else "sum"
    change: Change = rng.choice(("more", "times") if len(needs) == 1 else ("", "more", "times"))
    constant = rng.between(2, MODULUS - 1) if change else 0
    return [*new, DraftSubTask(kind, needs, change, False, owner, name, constant)]


def _total(
    rng: FastRandom, namer: Namer, subs: Sequence[DraftSubTask], seen: Sequence[int], max_operands: int
) -> DraftSubTask | None:
    """Return the total of an owner all of whose members may be talked about, which closes it; None if there is none."""
    known = set(seen)
    found = namer.closable(subs)
    owners = [owner for owner, members in found.items() if len(members) <= max_operands and known.issuperset(members)]
    if not owners:
        return None
    owner = rng.choice(owners)
    return DraftSubTask("total", found[owner], "", False, *namer.close(owner))
