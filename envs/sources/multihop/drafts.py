"""Drafts of multi-hop questions: programs over relations, their parts, and their wording.

A program finds values among facts (`answer`). `KINDS` draw one with its parts, each of which is a look-up or a
conclusion, or return None where no question comes of what was drawn. The wording leaves look-ups out where the words of
the world allow: "the country where she was born" does not mention the city, which must be looked up all the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from toolorchestra.envs.encyclopaedia.encyclopaedia import Encyclopaedia, Facts, listed
from toolorchestra.envs.encyclopaedia.words import RELATIONS, Counted, RelationWording, relations_of
from toolorchestra.envs.encyclopaedia.world import WorldFact
from toolorchestra.envs.ground_truth.parts import SubProblem

Node: TypeAlias = list[Any]
"""A program: ``["is", value]``, ``["of", relation, node]``, ``["who", [[relation, node], …]]``,
``["first" or "last", relation, node, node]`` or ``["count", relation, node, relation, "before" or "after", year]``."""

_ENOUGH_PEOPLE = 4  # most candidates that a narrowing step may leave
_MAX_ELIDED = 4  # most relations that have a wording together
_LONGEST = 0.7  # how often as many relations as possible are worded together


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
    """A question about an encyclopaedia in the making: its parts so far.

    Attributes:
        worded: How many look-ups have words of their own in the question.
    """

    def __init__(self, book: Encyclopaedia, rng: random.Random) -> None:
        self.book, self.rng = book, rng
        self.words = book.words.questions
        self.worded = 0
        self.parts: list[SubProblem] = []
        self.kinds: list[str] = []
        self.anchors: list[str] = []

    @property
    def spelled_out(self) -> bool:
        """Whether each of several look-ups has words of its own in the question."""
        look_ups = sum(bool(part.support) for part in self.parts)
        return self.worded >= look_ups > 1

    def chain(self, length: int, target: str = "", start: str | None = None) -> tuple[Node, str, int] | None:
        """Walk `length` relations from a random entity, to an entity of the kind `target` if one is given.

        Returns:
            The program, the value reached and the position of the last part (-1: there is none), or None.
        """
        rng, book = self.rng, self.book
        key = start or rng.choice(book.keys())
        node: Node = ["is", key]
        self.anchors.append(key)
        seen, needs, path = {key}, -1, []
        for step in range(length):
            ways = []
            for name in relations_of(key.split("/")[0]):
                known = RELATIONS[name]
                fits = target in ("", known.target) if step == length - 1 else known.phrases
                if fits and len(values := book.facts.values(key, name)) == 1 and values[0] not in seen:
                    ways.append(name)
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

    def chain_to(self, kind: str, lengths: Sequence[int]) -> tuple[Node, str, int] | None:
        """Return a chain of one of some lengths to an entity of a kind; see `chain`."""
        length = self.rng.choice(lengths)
        return self.chain(length, kind, None if length else self.rng.choice(self.book.keys(kind)))

    def look_up(self, key: str, relation: str, needs: int) -> int:
        """Add the part that looks up what an entity is related to; return its position."""
        values = self.book.facts.values(key, relation)
        part_question = self.fill(self.words.relations[relation].asks[0], key, self.book.mention(key))
        supports = _unique(self.book.passage_of(WorldFact(key, relation, value)) for value in values)
        return self.part(part_question, values[0], relation, needs=(needs,), support=supports)

    def part(
        self,
        question: str,
        value: str,
        relation: str,
        *,
        needs: Sequence[int],
        support: Sequence[str] = (),
        answer: str = "",
        wrong: str = "",
    ) -> int:
        """Add a part that finds a value by a relation; return its position.

        The positions in `needs` below 0 are none. Without passages to support it, a part takes reasoning. Its answer is
        the value's mention and the likely mistakes are others of its kind, unless they are given.
        """
        mistakes = self.mistakes(value, relation)
        self.parts.append(
            SubProblem(
                question,
                answer or self.book.mention(value),
                (wrong,) if wrong else mistakes,
                tuple(dict.fromkeys(position for position in needs if position >= 0)),
                0.5,
                None if support else "reasoning",
                tuple(support),
            )
        )
        return len(self.parts) - 1

    def mistakes(self, value: str, relation: str) -> tuple[str, ...]:
        """Return what is likely to be taken for a value: namesakes first, then others of its kind."""
        book, rng = self.book, self.rng
        if value.isdecimal():
            near = (1, -1, 2) if relation == "count" else (1, -1, 10, -3)
            return tuple(str(int(value) + step) for step in near if int(value) + step >= 0)
        entity = book.entities.get(value)
        if entity is None:
            known = book.values(relation)
            others = rng.sample(known, min(4, len(known)))
        else:
            others = book.namesakes(entity.name) + rng.sample(book.keys(entity.kind), 4)
        return tuple(book.mention(other) for other in _unique(others) if other != value)[:3]

    def fill(self, wording: str, key: str, x: str) -> str:
        """Return a wording with its slots filled for an entity that the text calls `x`."""
        maker, made, house = self.book.words.book.genres.get(self.book.entities[key].sort, ("", "", ""))
        home, housed = self.words.homes.get(house, ""), self.words.housed.get(house, "")
        return wording.format(x=x, maker=maker, made=made, home=home, housed=housed)

    def phrase(self, node: Node) -> str:
        """Return what a longer question calls the value that a program finds."""
        if node[0] == "is":
            return self.book.mention(node[1])
        wording, inner = self._wording(node)
        phrases = wording.phrases
        if inner[0] == "of":  # what is long itself stands at the end
            phrases = tuple(phrase for phrase in phrases if phrase.endswith("{x}")) or phrases
        return self._said(phrases, inner)

    def asked(self, node: Node) -> str:
        """Return a chain as a question."""
        wording, inner = self._wording(node, ends=True)
        return self._said(wording.asks, inner)

    def _said(self, texts: Sequence[str], inner: Node) -> str:
        self.worded += 1
        (subject,) = answer(inner, self.book.facts)
        return self.fill(self.rng.choice(texts), subject, self.phrase(inner))

    def _wording(self, node: Node, *, ends: bool = False) -> tuple[RelationWording, Node]:
        """Return a wording of the last relations of a chain, of several if they have one, and the chain before them."""
        path: list[str] = []
        inner = node
        found: list[tuple[RelationWording, Node]] = []
        while inner[0] == "of" and len(path) < _MAX_ELIDED:
            path.insert(0, inner[1])
            inner = inner[2]
            wording = self.book.words.elided.get(tuple(path))
            if wording is not None and (ends or wording.phrases):
                found.append((wording, inner))
        if found:
            return found[-1] if self.rng.random() < _LONGEST else self.rng.choice(found)
        relation = self.words.relations[node[1]]
        return RelationWording(relation.phrases, relation.asks), node[2]


class AnsweredDraft(msgspec.Struct, frozen=True):
    """A question drawn: its kind (its relations, in their order), wording, program and answer."""

    kind: str
    question: str
    program: Node
    value: str


def _bridge(draft: QuestionDraft) -> AnsweredDraft | None:
    walked = draft.chain(draft.rng.randint(1, 5))
    if walked is None:
        return None
    node, value, _ = walked
    return AnsweredDraft(f"bridge-{draft.kinds[0]}", draft.asked(node), node, value)


def _comparison(draft: QuestionDraft) -> AnsweredDraft | None:
    rng, book = draft.rng, draft.book
    kind = rng.choice(("person", "work", "institution", "city"))
    ends: list[tuple[Node, str, int]] = []
    for _ in "12":
        walked = draft.chain_to(kind, (0, 0, 1))
        if walked is None:
            return None
        ends.append(walked)
    relation, (one, other) = draft.words.years[kind], (ends[0][1], ends[1][1])
    values = [int(book.facts.values(key, relation)[0]) for key in (one, other)]
    if book.entities[one].name == book.entities[other].name or values[0] == values[1]:
        return None
    later = rng.random() < 0.5
    looked_up = [draft.look_up(key, relation, needs) for _, key, needs in ends]
    node: Node = ["last" if later else "first", relation, ends[0][0], ends[1][0]]
    value = answer(node, book.facts)[0]
    dated = f"{values[0]} ({book.mention(one)}) or {values[1]} ({book.mention(other)})"
    part_question, wrong = f"Which is {'later' if later else 'earlier'}: {dated}?", one if value == other else other
    draft.part(part_question, value, "", needs=looked_up, wrong=book.mention(wrong))
    names = " or ".join([draft.phrase(end) for end, _, _ in ends])
    question = f"{draft.words.older[kind][later]}{':' if rng.random() < 0.5 else ','} {names}?"
    return AnsweredDraft(f"comparison-{kind}-{'-vs-'.join(sorted(draft.kinds))}", question, node, value)


def _intersection(draft: QuestionDraft) -> AnsweredDraft | None:
    """Ask for the one person of a profession who meets two or three conditions, narrowing them down one by one.

    One of them is where the person studied, of which only the city is said: its institutions must be looked up.
    """
    rng, book = draft.rng, draft.book
    person = book.entities[rng.choice(book.keys("person"))]
    names = [name for name in draft.words.conditions if len(book.facts.values(person.key, name)) == 1]
    if "studied_at" not in names or len(names) < 2:
        return None
    names.remove("studied_at")
    names = ["studied_at", *rng.sample(names, rng.choice((1, 1, 2)) if len(names) > 1 else 1)]
    rng.shuffle(names)
    conditions: list[list[Any]] = [["profession", ["is", person.sort]]]
    clauses: list[str] = []
    left: list[str] = []
    position = -1
    for name in names:
        if len(left) == 1:
            return None  # one condition less would do
        value = book.facts.values(person.key, name)[0]
        if name == "studied_at":
            node, needs, said = _somewhere_in_a_city(draft, value)
        else:
            node, needs = _indirectly(draft, value) if rng.random() < 0.35 else (["is", value], -1)
            said = book.mention(value)
            if node[0] == "is":
                draft.anchors.append(value)
        conditions.append([name, node])
        who = f"Which of {listed([book.mention(key) for key in left])}" if left else f"Which {person.sort}"
        left = answer(["who", conditions], book.facts)
        if len(left) > _ENOUGH_PEOPLE:
            return None
        support = _unique(
            book.passage_of(WorldFact(key, relation, book.facts.values(key, relation)[0]))
            for key in left
            for relation in ("profession", name)
        )
        clause = draft.words.conditions[name]
        found = " and ".join(book.mention(key) for key in left)
        part_question = f"{who} {clause.format(x=said)}?"
        position = draft.part(part_question, person.key, name, needs=(position, needs), support=support, answer=found)
        draft.worded += 1
        if name == "studied_at":
            clause, node = draft.words.studied_in, node[2]
        clauses.append(clause.format(x=draft.phrase(node)))
    if left != [person.key]:
        return None
    kinds = "-".join(sorted(names) + sorted(draft.kinds))
    question = f"Which {person.sort} {listed(clauses)}?"
    return AnsweredDraft(f"intersection-{kinds}", question, ["who", conditions], person.key)


def _somewhere_in_a_city(draft: QuestionDraft, institution: str) -> tuple[Node, int, str]:
    """Return a program that finds the institutions of the city of one, the position of its part, and their names."""
    city = draft.book.facts.values(institution, "located_in")[0]
    draft.anchors.append(city)
    members = draft.book.facts.values(city, "institutions")
    node = ["of", "institutions", ["is", city]]
    return node, _listing(draft, "institutions", city, members, -1), " or ".join(map(draft.book.mention, members))


def _listing(draft: QuestionDraft, relation: str, owner: str, members: Sequence[str], needs: int) -> int:
    """Add the part that looks up the several values of a relation; return its position."""
    book = draft.book
    names = [book.mention(member) for member in members]
    wrong = listed(names[:-1]) if names[1:] else draft.mistakes(members[0], relation)[0]
    question = draft.words.counts[relation].members.format(x=book.mention(owner))
    support = (book.passage_of(WorldFact(owner, relation, members[0])),)
    return draft.part(question, listed(names), relation, needs=(needs,), support=support, wrong=wrong)


def _indirectly(draft: QuestionDraft, value: str) -> tuple[Node, int]:
    """Return a program that finds `value` by one relation of something else, and the position of its part."""
    book = draft.book
    ways = [
        (key, name)
        for name, known in RELATIONS.items()
        if known.phrases and known.target == value.split("/")[0]
        for key in book.facts.subjects(name, value)
        if name not in draft.words.conditions and len(book.facts.values(key, name)) == 1
    ]
    if not ways:
        return ["is", value], -1
    key, name = draft.rng.choice(ways)
    draft.anchors.append(key)
    draft.kinds.append(name)
    return ["of", name, ["is", key]], draft.look_up(key, name, -1)


def _count(draft: QuestionDraft) -> AnsweredDraft | None:
    rng, book = draft.rng, draft.book
    members, kind, relation = rng.choice((("works", "person", "completed"), ("institutions", "city", "founded")))
    walked = draft.chain_to(kind, (0, 1, 1, 2))
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
    words: Counted = draft.words.counts[members]
    position = _listing(draft, members, owner, subjects, needs)
    looked_up = [position]
    if members != "works":  # a person's article gives the years of the works, a city's those of no institution
        looked_up += [draft.look_up(subject, relation, position) for subject in subjects]
    node: Node = ["count", members, inner, relation, side, year]
    value = answer(node, book.facts)[0]
    dated = ", ".join(f"{book.mention(subject)} ({known})" for subject, known in zip(subjects, years, strict=True))
    draft.part(words.one.format(side=side, year=year, dated=dated), value, "count", needs=looked_up)
    draft.worded += 1
    owned = words.owned.format(x=draft.phrase(inner))
    question = (words.before if side == "before" else words.after).format(owned=owned, year=year)
    return AnsweredDraft(f"count-{members}-{draft.kinds[0]}", question, node, value)


Kind = Callable[[QuestionDraft], AnsweredDraft | None]
KINDS: Sequence[Kind] = (_bridge, _bridge, _comparison, _intersection, _count)
"""What draws a draft; bridges come twice as often as the others."""
