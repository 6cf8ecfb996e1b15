"""What a task says: phrasings by register, with what is said around them, and entries named as people name them.

A phrasing is taken by the task's key, for its split, from those whose names the domain's tools can find: every name is
looked up, and must lead to that entry alone, by values that the request states. ``registers.yaml`` holds openings and
closings. Lists of instructions without registers are none of this module's business.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from toolorchestra.toolscale.answers.mentions import mentions, tokens
from toolorchestra.toolscale.common.errors import TaskError, unknown_name
from toolorchestra.toolscale.common.yaml_reader import read_yaml
from toolorchestra.toolscale.database.format import IntentSpec, NameSpec, PhrasingSpec, ReferenceCallSpec
from toolorchestra.toolscale.database.sql import SQL_ERRORS, bounded, fetch, quote, sql_error
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.requests.entities import is_date
from toolorchestra.toolscale.requests.lookups import joined
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tasks.task import Call
from toolorchestra.toolscale.tools.expressions import FORMATS, evaluate, fill, lookup, placeholders, shown_value
from toolorchestra.toolscale.tools.tool import Status

Register = Literal["terse", "polite", "rambling", "email", "note"]
REGISTERS: tuple[Register, ...] = ("note", "terse", "polite", "rambling", "email")
"""Ways of speaking, as `toolorchestra.toolscale.database.format.PhrasingSpec` describes them."""


class Frames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is said before and after a request; with ``{speaker}`` where the speaker has to be named."""

    openings: list[str]
    closings: list[str]
    introductions: list[str] = []
    signatures: list[str] = []


class RegisterFrames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The frames of a register: what stands between them and the request, and a list for each kind of split."""

    between: str
    train: Frames
    test: Frames


FRAMES: dict[Register, RegisterFrames] = msgspec.convert(
    read_yaml(Path(__file__).with_name("registers.yaml")), dict[Register, RegisterFrames]
)
"""Openings and closings by register (``registers.yaml``)."""


class NamedEntry(NamedTuple):
    """An entry as people name it: its key, what they may say of it, and how it is found by that.

    `calls` is None if the domain's tools do not lead from the values that have to be stated to this entry alone.
    """

    key: Any
    row: dict[str, Any]
    calls: tuple[Call, ...] | None
    stated: tuple[Any, ...]


class Wording(NamedTuple):
    """An instruction with its parts.

    `body` is the phrasing `template`, filled; `text` has what is said around it too, which names the `speaker` if that
    is not None. `lookups` find what is named.
    """

    text: str
    body: str
    speaker: str | None
    register: Register
    template: str
    lookups: tuple[Call, ...]


def phrasings(spec: PhrasingSpec, split: str) -> list[tuple[Register, str]]:
    """Return the phrasings for tasks of a split, with their registers."""
    found: list[tuple[Register, str]] = []
    for register in REGISTERS:
        if split != "test":
            found += [(register, text) for text in getattr(spec, register)]
        if split != "train":
            found += [(register, text) for text in spec.test.get(register, ())]
    return found


def named_entries(
    domain: Domain, intent: IntentSpec, bindings: Mapping[str, Any], session: Session
) -> dict[str, list[NamedEntry]]:
    """Return the entries that an intent names, by the name in its placeholders; `session` is used and reset.

    Raises:
        TaskError: An expression names nothing, or what is said of an entry is not one row.
    """
    found: dict[str, list[NamedEntry]] = {}
    for name, way in intent.names.items():
        for naming, expression in way.items():
            keys = evaluate(expression, bindings)
            keys = keys if isinstance(keys, list) else [keys]
            found[name] = [named_entry(domain, naming, key, bindings, session) for key in keys if key is not None]
    return found


def named_entry(domain: Domain, naming: str, key: Any, bindings: Mapping[str, Any], session: Session) -> NamedEntry:
    """Return an entry as a way of naming (a key of the domain's `names`) names it; `session` is used and reset.

    Raises:
        TaskError: There is no such way of naming, or what is said of the entry is not one row.
    """
    if naming not in domain.spec.names:
        raise TaskError(unknown_name("way of naming", naming, domain.spec.names))
    spec = domain.spec.names[naming]
    primary = domain.spec.tables[spec.table].primary_key if spec.table in domain.spec.tables else ""
    if spec.says is None and not isinstance(primary, str):
        raise TaskError(f"names.{naming}: expected `says`, as the key of {spec.table} has several parts.")
    sql = spec.says or f"SELECT * FROM {quote(spec.table)} WHERE {quote(str(primary))} = :key"
    plain = {name: value for name, value in bindings.items() if not isinstance(value, list | dict)}
    try:
        with bounded(domain.database.base):
            _, rows = fetch(domain.database.base.execute(sql, {**plain, "key": key, "today": domain.spec.today}))
    except SQL_ERRORS as error:
        raise TaskError(f"names.{naming}.says: {sql_error(error)}") from None
    if len(rows) != 1:
        raise TaskError(f"names.{naming}.says yields {len(rows)} rows for {key!r}; expected one.")
    calls, stated = _search(domain, spec, key, rows[0], session)
    return NamedEntry(key, rows[0], calls, stated)


def _search(
    domain: Domain, spec: NameSpec, key: Any, row: Mapping[str, Any], session: Session
) -> tuple[tuple[Call, ...] | None, tuple[Any, ...]]:
    """Return the calls that lead to an entry alone, or None, and the values that they take from what is said of it."""
    if spec.from_call or not spec.find:
        return (), () if spec.from_call else (key,)
    session.reset()
    scope: dict[str, Any] = {**row, "today": domain.spec.today}
    calls: list[Call] = []
    known = list(row.values())
    given: list[Any] = []  # by earlier results
    stated: list[Any] = []
    value: Any = None
    for stage, step in enumerate(spec.find):
        call = Call(step.call, {name: evaluate(value, scope) for name, value in step.arguments.items()}, stage)
        result = domain.call(call, session)
        if result.status is not Status.OK:
            return None, ()
        calls.append(call)
        stated += [v for v in call.arguments.values() if v in known and v not in given]
        value = result.value
        given += _scalars(value)
        if step.save is not None:
            scope[step.save] = value
    wanted = {field: evaluate(expression, scope) for field, expression in spec.pick.items()}
    rows = [one for one in (value if isinstance(value, list) else [value]) if _fits(one, wanted)]
    if len(rows) != 1 or not _holds(rows[0], key):
        return None, ()
    return tuple(calls), (*stated, *(value for value in wanted.values() if value in known))


def _holds(row: Any, key: Any) -> bool:
    """Return whether a row of a result names an entry, or lists it alone."""
    return any(cell == key or cell == [key] for cell in (row.values() if isinstance(row, dict) else [row]))


def _fits(row: Any, wanted: Mapping[str, Any]) -> bool:
    return not wanted or (isinstance(row, dict) and all(row.get(field) == value for field, value in wanted.items()))


class _Row(dict[str, Any]):
    """What may be said of an entry; remembers what is."""

    def __init__(self, row: Mapping[str, Any], name: str, stated: _Stated) -> None:
        super().__init__(row)
        self._name, self._stated = name, stated

    def __getitem__(self, column: str) -> Any:
        value = super().__getitem__(column)
        self._stated.names.add(self._name)
        self._stated.values.append(value)
        return value


class _Stated:
    """The names and values that a text has used."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.values: list[Any] = []


class WordScope(Mapping[str, Any]):
    """What placeholders of phrasings and answers name: bindings and results, names of entries, and terms."""

    def __init__(self, values: Mapping[str, Any], intent: IntentSpec, names: Mapping[str, list[NamedEntry]]) -> None:
        self.stated = _Stated()
        self._values = values
        self._terms = intent.terms
        self._open: list[str] = []
        self._rows: dict[str, Any] = {}
        for name, entries in names.items():
            rows = [_Row(entry.row, name, self.stated) for entry in entries]
            several = isinstance(evaluate(next(iter(intent.names[name].values())), values), list)
            self._rows[name] = rows if several or not rows else rows[0]

    def __getitem__(self, name: str) -> Any:
        if name in self._terms:
            return self._term(name)
        if name in self._rows:
            return self._rows[name]
        value = self._values[name]
        self.stated.values += _scalars(value)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._values, *self._rows, *self._terms)))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _term(self, name: str) -> str:
        if name in self._open:
            raise TaskError(f"terms.{name} stands in its own text.")
        ((path, texts),) = self._terms[name].items()
        value = lookup(path, {**self._values, **self._rows})
        key = {True: "true", False: "false", None: "none"}.get(value) if not isinstance(value, str | list) else None
        number = {"0": "no", "1": "yes", "false": "no", "true": "yes"}
        keys = (shown_value(value), key or "", number.get(shown_value(value).lower(), ""), "else")
        text = next((texts[key] for key in keys if key in texts), None)
        if text is None:
            raise TaskError(f"terms.{name}: no text for {value!r}; expected one of {', '.join(texts)}.")
        self._open.append(name)
        filled = fill(text, self)
        self._open.pop()
        return filled


def _scalars(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    return [scalar for item in value for scalar in _scalars(item)] if isinstance(value, list) else [value]


def capital(text: str) -> str:
    """Return a text that begins with a capital."""
    return text[:1].upper() + text[1:]


def answer_of(intent: IntentSpec, values: Mapping[str, Any], names: Mapping[str, list[NamedEntry]]) -> str:
    """Return the right answer of a task of an intent with registers."""
    return capital(fill(intent.answer, WordScope(values, intent, names)))


def word(
    intent: IntentSpec, values: Mapping[str, Any], names: Mapping[str, list[NamedEntry]], split: str, key: str
) -> Wording:
    """Return the wording of a task: the first phrasing, in an order that depends on `key`, that can be used.

    Raises:
        TaskError: None can.
    """
    assert isinstance(intent.instructions, PhrasingSpec)
    rng = random.Random(f"{key}:wording")
    choices = phrasings(intent.instructions, split)
    rng.shuffle(choices)
    why = "there is none for its split"
    for register, template in choices:
        found = worded(intent, values, names, register, template, split, rng)
        if isinstance(found, Wording):
            return found
        why = found
    raise TaskError(f"no phrasing can be used: {why}")


def worded(
    intent: IntentSpec,
    values: Mapping[str, Any],
    names: Mapping[str, list[NamedEntry]],
    register: Register,
    template: str,
    split: str,
    rng: random.Random,
) -> Wording | str:
    """Return a phrasing with what is said around it, or why it cannot be used."""
    scope = WordScope(values, intent, names)
    body = capital(fill(template, scope)).strip()
    speaker = _speaker(intent, values, names, scope, body) if register != "note" else None
    before, after = frame(register, split, speaker, rng)
    between = FRAMES[register].between
    text = between.join(part for part in (before, body, after) if part)
    stated = tokens(text)
    lookups: list[Call] = []
    for name in names:
        for entry in names[name] if name in scope.stated.names else ():
            if entry.key in scope.stated.values or mentions(stated, shown_value(entry.key)):
                continue
            if entry.calls is None:
                return f"no tool leads from what {name} says to {entry.key!r} alone"
            for value in entry.stated:
                if value not in scope.stated.values and not states_value(text, stated, value):
                    return f"{name} is found by {value!r}, which {template[:40]!r}… does not state"
            lookups += entry.calls
    return Wording(text, body, speaker, register, template, joined(lookups))


def states_value(text: str, words: list[str], value: Any) -> bool:
    """Return whether a text, and its tokens, state a value."""
    return mentions(words, shown_value(value)) or (is_date(value) and FORMATS["day"](value) in text)


def _speaker(
    intent: IntentSpec, values: Mapping[str, Any], names: Mapping[str, list[NamedEntry]], scope: WordScope, body: str
) -> str | None:
    """Return who speaks, if the text does not say so; what is said by that is added to what `scope` has said."""
    if intent.speaker is None:
        return None
    own = WordScope(values, intent, names)
    speaker = fill(intent.speaker, own)
    if speaker in body:
        return None
    scope.stated.names |= own.stated.names
    scope.stated.values += own.stated.values
    return speaker


def unique_calls(calls: Iterable[Call]) -> list[Call]:
    """Return calls without those that were made before, in stages that follow one another."""
    seen: dict[bytes, Call] = {}
    for call in calls:
        key = msgspec.json.encode((call.name, call.arguments), order="sorted")
        seen.setdefault(key, msgspec.structs.replace(call, stage=len(seen)))
    return list(seen.values())


def frame(register: Register, split: str, speaker: str | None, rng: random.Random) -> tuple[str, str]:
    """Return what is said before and after a request; one of them names the speaker, if there is one to name."""
    frames = FRAMES[register].train if split == "train" else FRAMES[register].test
    openings, closings = frames.openings, frames.closings
    if speaker is not None:
        signed = bool(frames.signatures) and (not frames.introductions or rng.random() < 0.5)
        openings, closings = (openings, frames.signatures) if signed else (frames.introductions or openings, closings)
    before, after = rng.choice(openings), rng.choice(closings)
    known = {"speaker": speaker or ""}
    return fill(before, known), fill(after, known)


def check_names(domain: Domain) -> None:
    """Check the ways of naming of a domain, and what its intents say of names and terms.

    Raises:
        DomainError: A table, tool or way of naming is unknown, a tool that finds would write, or a register is empty.
    """
    for name, spec in domain.spec.names.items():
        path = f"names.{name}"
        if spec.table not in domain.spec.tables:
            raise domain.error(unknown_name("table", spec.table, domain.spec.tables), f"{path}.table")
        _check_find(domain, spec.find, f"{path}.find")
        if spec.phrase is not None:
            _check_phrase(domain, spec, path)
    for name, intent in domain.spec.intents.items():
        path = f"intents.{name}"
        for kind, entries in (("names", intent.names), ("terms", intent.terms)):
            for key, way in entries.items():
                if len(way) != 1:
                    raise domain.error(f"Expected one entry, found {len(way)}.", f"{path}.{kind}.{key}")
        for key, way in intent.names.items():
            if unknown := set(way) - set(domain.spec.names):
                message = unknown_name("way of naming", min(unknown), domain.spec.names)
                raise domain.error(message, f"{path}.names.{key}")
        if isinstance(intent.instructions, PhrasingSpec):
            for split in ("train", "test") if not intent.held_out else ("test_intents",):
                if not phrasings(intent.instructions, split):
                    raise domain.error(f"Expected a phrasing for the split {split}.", f"{path}.instructions")


def _check_phrase(domain: Domain, spec: NameSpec, path: str) -> None:
    """Check that the phrase of a way of naming takes what may be said of any entry."""
    columns = list(domain.spec.tables[spec.table].columns)
    if spec.says is not None:
        try:
            with bounded(domain.database.base):
                columns, _ = fetch(domain.database.base.execute(spec.says, {"key": None, "today": domain.spec.today}))
        except SQL_ERRORS as error:
            message = f"A phrase needs `says` to take nothing but `:key` and `:today`: {sql_error(error)}"
            raise domain.error(message, f"{path}.phrase") from None
    for column in placeholders(spec.phrase or ""):
        if column not in columns:
            raise domain.error(unknown_name("column", column, columns), f"{path}.phrase")


def _check_find(domain: Domain, steps: list[ReferenceCallSpec], path: str) -> None:
    for i, step in enumerate(steps):
        if step.call not in domain.tools:
            raise domain.error(unknown_name("tool", step.call, domain.tools), f"{path}[{i}].call")
        if domain.tools[step.call].effect == "write":
            raise domain.error(f"{step.call} writes; expected a tool that looks up.", f"{path}[{i}].call")
