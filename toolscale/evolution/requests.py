"""Requests as parts of evolved ones: what a task asks without what is said around it, and what entries are called.

A task of an intent with registers can be worded in each phrasing of its split. An evolved task takes those that name
entries without ids where it can, of one register and said by one person, and is given an opening and a closing of its
own. Requests of intents without registers are taken as they are.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from toolorchestra.toolscale.answers.mentions import tokens
from toolorchestra.toolscale.common.errors import TaskError
from toolorchestra.toolscale.database.format import IntentSpec, PhrasingSpec
from toolorchestra.toolscale.evolution.templates import capital
from toolorchestra.toolscale.requests.entities import EntityIndex, is_code
from toolorchestra.toolscale.requests.intents import make_reference_calls
from toolorchestra.toolscale.requests.lookups import ids_in, raw_ids
from toolorchestra.toolscale.requests.wording import (
    FRAMES,
    NamedEntry,
    Register,
    Wording,
    WordScope,
    frame,
    named_entries,
    named_entry,
    phrasings,
    states_value,
    worded,
)
from toolorchestra.toolscale.tasks.task import Call, Task
from toolorchestra.toolscale.tools.expressions import fill

_INTRODUCED = r"(?:\b(?:I'm|I am|[Tt]his is|[Ii]t's|[Mm]y name is|[Ww]e are|[Ww]e're) {0}\b|\b{0} (?:here|speaking)\b)"


class Request(NamedTuple):
    """A request without what is said around it.

    `register` is None for a text that is taken as it is. `person` is who says "I", if that is known, and `speaker` the
    same where the text around has to say so. `lookups` find what is named.
    """

    body: str
    register: Register | None
    speaker: str | None
    person: str | None
    lookups: tuple[Call, ...]

    @property
    def text(self) -> str:
        """All that it says, the speaker's name included."""
        return f"{self.body} {self.speaker or ''}".strip()


class CalledEntry(NamedTuple):
    """What an entry is called, the calls that find it by that, and the values that they take."""

    text: str
    calls: tuple[Call, ...]
    stated: tuple[Any, ...]

    def is_named_in(self, text: str) -> bool:
        """Return whether a text says all by which the entry is found."""
        words = tokens(text)
        return all(states_value(text, words, value) for value in self.stated)


class WordedTask(NamedTuple):
    """What the phrasings of a task's intent take: bindings and results, and the entries that it names."""

    intent: IntentSpec
    scope: dict[str, Any]
    names: dict[str, list[NamedEntry]]


class Requests:
    """The requests of a domain's tasks; they are cached.

    Attributes:
        ids: The domain's ids, which people would not say.
    """

    def __init__(self, index: EntityIndex) -> None:
        self.index = index
        self.ids = raw_ids(index.domain)
        self._of: dict[str, tuple[Request, ...]] = {}
        self._worded: dict[str, WordedTask | None] = {}
        self._called: dict[tuple[str, Any], CalledEntry | None] = {}

    def has_ids(self, text: str) -> bool:
        """Return whether a text contains an id."""
        return bool(ids_in(text, self.ids))

    def worded(self, task: Task) -> WordedTask | None:
        """Return what the phrasings of a task take, or None if its intent has no registers."""
        if task.id not in self._worded:
            self._worded[task.id] = self._taken(task)
        return self._worded[task.id]

    def _taken(self, task: Task) -> WordedTask | None:
        domain, session = self.index.domain, self.index.session
        intent = domain.spec.intents.get(task.intent)
        if intent is None or not isinstance(intent.instructions, PhrasingSpec):
            return None
        try:
            names = named_entries(domain, intent, task.bindings, session)
            session.reset()
            _, scope = make_reference_calls(domain, intent.reference_calls, task.bindings, session)
        except TaskError:
            return None
        return WordedTask(intent, scope, names)

    def of(self, task: Task) -> tuple[Request, ...]:
        """Return a task's request in all phrasings that can be used; at least one."""
        if task.id not in self._of:
            found = self.worded(task)
            made = () if found is None else self.made(found, task.split)
            self._of[task.id] = made or (Request(task.instruction, None, None, None, task.lookups),)
        return self._of[task.id]

    def made(self, of: WordedTask, split: str) -> tuple[Request, ...]:
        """Return the requests that the phrasings of an intent make of bindings and names."""
        assert isinstance(of.intent.instructions, PhrasingSpec)
        found = []
        for register, template in phrasings(of.intent.instructions, split):
            try:
                one = worded(of.intent, of.scope, of.names, register, template, split, random.Random(0))
                if isinstance(one, Wording):
                    person = one.speaker or _person(of, one.body)
                    found.append(Request(one.body, register, one.speaker, person, one.lookups))
            except TaskError:
                continue
        return tuple(found)

    def choose(self, requests: Sequence[Request], rng: random.Random) -> Request:
        """Return one of the requests: without ids, and with something said around it, where there is one."""
        ranks = [(self.has_ids(one.text), one.register == "note") for one in requests]
        return rng.choice([one for one, rank in zip(requests, ranks, strict=True) if rank == min(ranks)])

    def pair(self, first: Task, second: Task, rng: random.Random) -> tuple[Request, Request] | None:
        """Return two requests that one person may make at once, or None.

        They are without ids and of one register, if there are such.
        """
        pairs = [(a, b) for a in self.of(first) for b in self.of(second) if a.person == b.person]
        if not pairs:
            return None
        ranks = [
            (self.has_ids(f"{a.text} {b.text}"), "note" in (a.register, b.register), a.register != b.register)
            for a, b in pairs
        ]
        return rng.choice([pair for pair, rank in zip(pairs, ranks, strict=True) if rank == min(ranks)])

    def text(
        self, template: str, words: Mapping[str, str], requests: Sequence[Request], split: str, rng: random.Random
    ) -> str:
        """Return what an evolved task says: a template of its requests, with one opening and one closing around it.

        Where the template has " | ", an e-mail has a new paragraph.
        """
        registers = [one.register for one in requests if one.register not in (None, "note")]
        register: Register = registers[0] if registers and registers[0] else "note"
        between = FRAMES[register].between
        body = capital(template.replace(" | ", between).format_map(words)).strip()
        bodies = " ".join(one.body for one in requests)
        speaker = next((one.speaker for one in requests if one.speaker and one.speaker not in bodies), None)
        before, after = frame(register, split, speaker, rng)
        return between.join(part for part in (before, body, after) if part)

    def called(self, table: str, key: Any) -> CalledEntry | None:
        """Return what an entry is called by the domain's `names`, if its tools lead from that to it alone."""
        place = table, key
        if place not in self._called:
            self._called[place] = next(
                (found for name in self._phrases(table) if (found := self._call(name, key))), None
            )
        return self._called[place]

    def named(self, table: str, key: Any) -> bool:
        """Return whether people would not call an entry by its key."""
        return bool(self._phrases(table)) or (bool(self.index.domain.spec.names) and self.has_ids(str(key)))

    def is_odd(self, key: Any) -> bool:
        """Return whether "the test glucose" would be said of a key: it is a word, and people have names for entries."""
        return bool(self.index.domain.spec.names) and not is_code(key)

    def _phrases(self, table: str) -> list[str]:
        names = self.index.domain.spec.names
        return [name for name, spec in names.items() if spec.table == table and spec.phrase is not None]

    def _call(self, naming: str, key: Any) -> CalledEntry | None:
        domain = self.index.domain
        spec = domain.spec.names[naming]
        try:
            entry = named_entry(domain, naming, key, {}, self.index.session)
            text = fill(spec.phrase or "", {**entry.row, "today": domain.spec.today})
        except TaskError:
            return None
        found = CalledEntry(text, entry.calls or (), entry.stated)
        return None if entry.calls is None or self.has_ids(text) or not found.is_named_in(text) else found


def _person(of: WordedTask, body: str) -> str | None:
    """Return who says "I" in a request that names them itself, if it does."""
    if of.intent.speaker is None:
        return None
    speaker = fill(of.intent.speaker, WordScope(of.scope, of.intent, of.names))
    return speaker if re.search(_INTRODUCED.format(re.escape(speaker)), body) else None
