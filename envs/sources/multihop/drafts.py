"""Drafts of multi-hop questions: programs over relations, their parts, and their wording.

A program finds values among facts (`answer`). `KINDS` draw one with its parts, each of which is a look-up or a
conclusion, or find that chance has led nowhere and return None.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from toolorchestra.envs.ground_truth.parts import Part
from toolorchestra.envs.sources.multihop.encyclopaedia import Encyclopaedia, Facts
from toolorchestra.envs.sources.multihop.encyclopaedia_words import WORDS
from toolorchestra.envs.sources.multihop.encyclopaedia_world import WorldFact
from toolorchestra.envs.sources.multihop.question_words import QUESTION_WORDS, relations_of

Node: TypeAlias = list[Any]
"""A program: ``["is", value]``, ``["of", relation, node]``, ``["who", [[relation, node], …]]``,
``["first" or "last", relation, node, node]`` or ``["count", relation, node, relation, "before" or "after", year]``."""

_ENOUGH_PEOPLE = 4  # most candidates that a narrowing step may leave


def answer(node: Node, facts: Facts) -> list[str]:
    """Return all values that a program finds among `facts`.

    >>> answer(["of", "founder", ["is", "institution/0"]], Facts([WorldFact("institution/0", "founder", "person/3")]))
    ['person/3']
    """
    match node:
        case ["is", value]:
            return [value]
        case ["of", relation, inner]:
            return _unique(value for subject in answer(inner, facts) for value in facts.values(subject, relation))
        case ["who", conditions]:
            groups = [
                _unique(subject for value in answer(inner, facts) for subject in facts.subjects(relation, value))
                for relation, inner in conditions
            ]
            return [subject for subject in groups[0] if all(subject in group for group in groups[1:])]
        case ["first" | "last" as which, relation, *inner]:
            found = [subject for one in inner for subject in answer(one, facts)]
            years = {subject: int(year) for subject in found for year in facts.values(subject, relation)}
            if len(found) != len(inner) or len(years) != len(inner):
                return []
            best = (min if which == "first" else max)(years.values())
            return [subject for subject, year in years.items() if year == best]
        case ["count", members, inner, relation, side, year]:
            subjects = [subject for owner in answer(inner, facts) for subject in facts.values(owner, members)]
            known = [int(found) for subject in subjects for found in facts.values(subject, relation)]
            if not subjects or len(known) != len(subjects):
                return []
            return [str(sum(found < year if side == "before" else found > year for found in known))]
    raise ValueError(f"Expected a program, found {node!r}.")


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


class QuestionDraft:
    """A question in the making: its parts so far.

    Args:
        book: What it is about.
        rng: Where randomness comes from.
    """

    def __init__(self, book: Encyclopaedia, rng: random.Random) -> None:
        self.book, self.rng = book, rng
        self.parts: list[Part] = []
        self.kinds: list[str] = []
        self.anchors: list[str] = []

    def chain(self, length: int, end: Callable[[str], bool], start: str | None = None) -> tuple[Node, str, int] | None:
        """Walk `length` relations from a random entity; `end` says what may be the last relation's target.

        Returns:
            The program, the value reached and the position of the last part (-1: there is none), or None.
        """
        rng, book = self.rng, self.book
        key = start or rng.choice(book.keys())
        node: Node = ["is", key]
        self.anchors.append(key)
        seen, needs, path = {key}, -1, []
        for step in range(length):
            last = step == length - 1
            ways = [
                name
                for name in relations_of(key.split("/")[0])
                if (end(QUESTION_WORDS.relations[name].target) if last else QUESTION_WORDS.relations[name].phrases)
                and len(values := book.facts.values(key, name)) == 1
                and values[0] not in seen
            ]
            if not ways:
                return None
            name = rng.choice(ways)
            value = book.facts.values(key, name)[0]
            needs = self.look_up(key, name, needs)
            node = ["of", name, node]
            seen.add(value)
            path.append(name)
            key = value
        self.kinds.append("-".join(path) or key.split("/")[0])
        return node, key, needs

    def look_up(self, key: str, relation: str, needs: int) -> int:
        """Add the part that looks up what an entity is related to; return its position."""
        values = self.book.facts.values(key, relation)
        question = self.ask(relation, key, self.book.said(key), plain=True)
        supports = _unique(self.book.stating(WorldFact(key, relation, value)) for value in values)
        return self.part(question, values[0], relation, needs=needs, support=supports)

    def part(
        self, question: str, value: str, relation: str, *, needs: int | Sequence[int] = (), support: Sequence[str] = ()
    ) -> int:
        """Add a part; return its position."""
        used = (needs,) if isinstance(needs, int) else tuple(needs)
        subject = None if support else "reasoning"
        self.parts.append(
            Part(
                question,
                self.book.said(value),
                self.mistakes(value, relation),
                tuple(dict.fromkeys(position for position in used if position >= 0)),
                0.5,
                subject,
                tuple(support),
            )
        )
        return len(self.parts) - 1

    def mistakes(self, value: str, relation: str) -> tuple[str, ...]:
        """Return what is likely to be taken for a value: namesakes first, then others of its kind."""
        book, rng = self.book, self.rng
        if value.isdecimal():
            near = {"count": (1, -1, 2)}.get(relation, (1, -1, 10, -3))
            return tuple(str(int(value) + step) for step in near if int(value) + step >= 0)
        entity = book.entities.get(value)
        if entity is None:
            known = book.values(relation)
            others = rng.sample(known, min(4, len(known)))
        else:
            others = book.named(entity.name) + rng.sample(book.keys(entity.kind), 4)
        return tuple(book.said(other) for other in _unique(others) if other != value)[:3]

    def ask(self, relation: str, key: str, x: str, *, plain: bool = False) -> str:
        """Return the question for a relation of an entity that the text calls `x`."""
        known = QUESTION_WORDS.relations[relation]
        return self.worded(known.asks[0] if plain else self.rng.choice(known.asks), relation, key, x)

    def worded(self, wording: str, relation: str, key: str, x: str) -> str:
        """Return a wording with its slots filled for an entity."""
        genre = WORDS.genres.get(self.book.entities[key].sort) if relation in ("creator", "home") else None
        maker, made, house = genre or ("", "", "")
        return wording.format(x=x, maker=maker, made=made, home=QUESTION_WORDS.homes.get(house, ""))

    def named(self, node: Node) -> str:
        """Return how a longer question calls what a program finds."""
        if node[0] == "is":
            return self.book.said(node[1])
        key = answer(node[2], self.book.facts)[0]
        phrases = QUESTION_WORDS.relations[node[1]].phrases
        if node[2][0] == "of":  # what is long itself stands at the end
            phrases = tuple(phrase for phrase in phrases if phrase.endswith("{x}")) or phrases
        return self.worded(self.rng.choice(phrases), node[1], key, self.named(node[2]))

    def told(self, node: Node) -> str:
        """Return a chain as a question: nested, or told step by step."""
        steps: list[tuple[str, str]] = []
        inner = node
        while inner[0] == "of":
            steps.append((inner[1], answer(inner[2], self.book.facts)[0]))
            inner = inner[2]
        steps.reverse()
        if len(steps) < 3 or self.rng.random() < 1.5 / len(steps):
            relation, key = steps[-1]
            return self.ask(relation, key, self.named(node[2]))
        lines = [f"Begin with {self.book.said(inner[1])}."]
        for number, (relation, key) in enumerate(steps):
            x = f"{'this' if number else 'that'} {key.split('/')[0]}"
            if number == len(steps) - 1:
                lines.append(self.ask(relation, key, x))
            else:
                phrase = self.rng.choice(QUESTION_WORDS.relations[relation].phrases)
                lines.append(f"Find {self.worded(phrase, relation, key, x)}.")
        return " ".join(lines)


class AnsweredDraft(msgspec.Struct, frozen=True):
    """What a draft has become.

    Attributes:
        kind: Its relations, in their order.
        question: Its wording.
        program: Its program.
        value: Its answer.
    """

    kind: str
    question: str
    program: Node
    value: str


def _bridge(draft: QuestionDraft) -> AnsweredDraft | None:
    length = draft.rng.randint(1, 5)
    walked = draft.chain(length, lambda target: True)
    if walked is None:
        return None
    node, value, _ = walked
    return AnsweredDraft(f"bridge-{draft.kinds[0]}", draft.told(node), node, value)


def _comparison(draft: QuestionDraft) -> AnsweredDraft | None:
    rng, book = draft.rng, draft.book
    kind = rng.choice(("person", "work", "institution", "city"))
    ends: list[tuple[Node, str, int]] = []
    for _ in "12":
        length = rng.choice((0, 0, 1))
        start = rng.choice(book.keys(kind)) if not length else None
        walked = draft.chain(length, lambda target: target == kind, start)
        if walked is None:
            return None
        ends.append(walked)
    relation, (one, other) = QUESTION_WORDS.years[kind], (ends[0][1], ends[1][1])
    values = [int(book.facts.values(key, relation)[0]) for key in (one, other)]
    if book.entities[one].name == book.entities[other].name or values[0] == values[1]:
        return None
    later = rng.random() < 0.5
    looked = [draft.look_up(key, relation, needs) for _, key, needs in ends]
    node: Node = ["last" if later else "first", relation, ends[0][0], ends[1][0]]
    value = answer(node, book.facts)[0]
    asked = QUESTION_WORDS.older[kind][later]
    said = f"{values[0]} ({book.said(one)}) or {values[1]} ({book.said(other)})"
    draft.part(f"Which is {'later' if later else 'earlier'}: {said}?", value, "", needs=looked)
    draft.parts[-1] = msgspec.structs.replace(draft.parts[-1], wrong=(book.said(one if value == other else other),))
    names = [draft.named(end) for end, _, _ in ends]
    question = f"{asked}: {names[0]} or {names[1]}?" if rng.random() < 0.5 else f"{asked}, {names[0]} or {names[1]}?"
    return AnsweredDraft(f"comparison-{kind}-{'-vs-'.join(sorted(draft.kinds))}", question, node, value)


def _intersection(draft: QuestionDraft) -> AnsweredDraft | None:
    """Ask for the one person of a profession who meets two or three conditions, narrowing them down one by one."""
    rng, book = draft.rng, draft.book
    person = book.entities[rng.choice(book.keys("person"))]
    names = [name for name in QUESTION_WORDS.conditions if len(book.facts.values(person.key, name)) == 1]
    if len(names) < 2:
        return None
    names = rng.sample(names, rng.choice((2, 2, 3)) if len(names) > 2 else 2)
    conditions: list[list[Any]] = [["profession", ["is", person.sort]]]
    said: list[str] = []
    before: list[str] = []
    position = -1
    for number, name in enumerate(names):
        if len(before) == 1:
            return None  # one condition less would do
        value = book.facts.values(person.key, name)[0]
        node, needs = _indirectly(draft, value) if rng.random() < 0.35 else (["is", value], -1)
        if node[0] == "is":
            draft.anchors.append(value)
        conditions.append([name, node])
        left = answer(["who", conditions], book.facts)
        if len(left) > _ENOUGH_PEOPLE:
            return None
        clause = QUESTION_WORDS.conditions[name].format(x=book.said(value))
        who = f"Which {person.sort}" if not number else f"Which of {_either([book.said(key) for key in before])}"
        support = _unique(
            book.stating(WorldFact(key, relation, book.facts.values(key, relation)[0]))
            for key in left
            for relation in ("profession", name)
        )
        position = draft.part(f"{who} {clause}?", person.key, name, needs=(position, needs), support=support)
        if len(left) > 1:
            listed = " and ".join(book.said(key) for key in left)
            draft.parts[-1] = msgspec.structs.replace(draft.parts[-1], answer=listed)
        before = left
        said.append(QUESTION_WORDS.conditions[name].format(x=draft.named(node)))
    if before != [person.key]:
        return None
    question = f"Which {person.sort} {', '.join(said[:-1])} and {said[-1]}?"
    kinds = "-".join(sorted(names) + sorted(draft.kinds))
    return AnsweredDraft(f"intersection-{kinds}", question, ["who", conditions], person.key)


def _indirectly(draft: QuestionDraft, value: str) -> tuple[Node, int]:
    """Return a program that finds `value` by one relation of something else, and the position of its part."""
    book = draft.book
    ways = [
        (key, name)
        for name, known in QUESTION_WORDS.relations.items()
        if known.phrases and known.target == value.split("/")[0]
        for key in book.facts.subjects(name, value)
        if name not in QUESTION_WORDS.conditions and len(book.facts.values(key, name)) == 1
    ]
    if not ways:
        return ["is", value], -1
    key, name = draft.rng.choice(ways)
    draft.anchors.append(key)
    draft.kinds.append(name)
    return ["of", name, ["is", key]], draft.look_up(key, name, -1)


def _either(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _count(draft: QuestionDraft) -> AnsweredDraft | None:
    rng, book = draft.rng, draft.book
    members, kind, relation = rng.choice((("works", "person", "completed"), ("institutions", "city", "founded")))
    length = rng.choice((0, 1, 1, 2))
    start = rng.choice(book.keys(kind)) if not length else None
    walked = draft.chain(length, lambda target: target == kind, start)
    if walked is None:
        return None
    inner, owner, needs = walked
    subjects = book.facts.values(owner, members)
    if not 2 <= len(subjects) <= 5:
        return None
    years = [int(book.facts.values(subject, relation)[0]) for subject in subjects]
    side = rng.choice(("before", "after"))
    year = rng.choice([known + step for known in years for step in (-3, -1, 1, 3)])
    if year in years:
        return None
    listed = _either([book.said(subject) for subject in subjects])
    stated = book.stating(WorldFact(owner, members, subjects[0]))
    works = members == "works"
    what = "works are known by" if works else "institutions of note are there in"
    position = draft.part(f"Which {what} {book.said(owner)}?", listed, members, needs=needs, support=(stated,))
    draft.parts[-1] = msgspec.structs.replace(draft.parts[-1], wrong=(_either([book.said(s) for s in subjects[:-1]]),))
    looked = [position]
    if not works:  # a person's article gives the years of the works, a city's those of no institution
        looked += [draft.look_up(subject, relation, position) for subject in subjects]
    node: Node = ["count", members, inner, relation, side, year]
    value = answer(node, book.facts)[0]
    done = "completed" if works else "founded"
    dated = ", ".join(f"{book.said(subject)} ({known})" for subject, known in zip(subjects, years, strict=True))
    draft.part(f"How many of these were {done} {side} {year}: {dated}?", value, "count", needs=looked)
    question = f"How many of the {'known works by' if works else 'institutions of note in'} {draft.named(inner)} were "
    return AnsweredDraft(f"count-{members}-{draft.kinds[0]}", f"{question}{done} {side} {year}?", node, value)


KINDS: tuple[Callable[[QuestionDraft], AnsweredDraft | None], ...] = (
    _bridge,
    _bridge,
    _comparison,
    _intersection,
    _count,
)
"""What draws a draft; bridges come twice as often as the others."""
