"""Checks of what tasks say: whether requests and answers read as if people had written them.

`check_wording` finds, in a domain's intents and tasks: fewer phrasings or registers than wanted, a phrasing that is
repeated, requests that do not tell two tasks apart, ids that a request neither states nor lets anyone find, ids where
people would use names, answers that are no sentences, noise in decimals, numbers that do not agree with their nouns,
and requests that dictate the form of the answer. Not covered: whether a text sounds natural, which only reading tells.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.toolscale.common.errors import TaskError
from toolorchestra.toolscale.common.yaml_reader import read_yaml
from toolorchestra.toolscale.database.format import IntentSpec, PhrasingSpec
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.requests.intents import make_reference_calls, whole_bindings
from toolorchestra.toolscale.requests.lookups import ids_in, raw_ids, unshown_ids
from toolorchestra.toolscale.requests.wording import Wording, named_entries, phrasings, worded
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tasks.task import Task

MIN_PHRASINGS = 6
"""Phrasings that an intent has at least, and `MIN_REGISTERS` the registers in which they are."""
MIN_REGISTERS = 4
MAX_IDS = 0.30
"""Largest share of a domain's requests that contain an id."""

_EXAMPLES = 5  # of each rule and intent
_RULES: Mapping[str, Any] = read_yaml(Path(__file__).with_name("wording_rules.yaml"))
_VERBS = frozenset(word.casefold() for word in _RULES["verbs"].split())
_DICTATING = re.compile("|".join(_RULES["dictating"]), re.IGNORECASE)
_WORDS = re.compile(r"[\w'’-]+")
_NOISE = re.compile(r"\d\.\d{5,}|[$€£]\d[\d,]*\.\d(?!\d)")
_UNITS = "|".join(sorted(set(_RULES["units"].split())))
_NUMBER = r"(?<![\w.,:/$€£#-])(?:0|[2-9]|[1-9]\d+|zero|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
_PLURAL = re.compile(rf"{_NUMBER} (?:{_UNITS})(?![\w-])", re.IGNORECASE)
_SINGULAR = re.compile(
    rf"(?<![\w.,:/$€£#-])(?:1|one) (?:(?:{_UNITS})e?s|dishes|people|children)(?![\w-])", re.IGNORECASE
)
_AGREEMENT = re.compile(
    r"\bthere (?:are|were) (?:1|one)(?![\w.,-])|\bthere (?:is|was) (?:[2-9]|[1-9]\d+|two|three|four|five)(?![\w.,:-])",
    re.IGNORECASE,
)
_BRACES = re.compile(r"\{[^{}]*\}")


class WordingFault(msgspec.Struct, frozen=True):
    """A fault of wording: the rule that is broken, the intent or task, and what was found."""

    rule: str
    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.rule}: {self.message}"


def share_with_ids(tasks: Iterable[Task], ids: frozenset[str]) -> float:
    """Return the share of requests that contain an id."""
    found = [bool(ids_in(task.instruction, ids)) for task in tasks]
    return sum(found) / max(1, len(found))


def text_faults(text: str) -> Iterator[tuple[str, str]]:
    """Yield the faults that a request or an answer may have: rule and what was found.

    >>> list(text_faults("The table has 1 seats and costs $45.6."))
    [('decimals', '$45.6'), ('agreement', '1 seats')]
    """
    for rule, pattern in (
        ("placeholders", _BRACES), ("decimals", _NOISE), ("agreement", _PLURAL), ("agreement", _SINGULAR),
        ("agreement", _AGREEMENT),
    ):  # fmt: skip
        for match in pattern.finditer(text):
            yield rule, match[0]


def is_sentence(text: str) -> bool:
    """Return whether an answer is made of whole sentences: a capital or figure first, a verb, and an end mark.

    >>> [is_sentence(text) for text in ("A0133: today.", "Visit A0133 is today.", "D07 price 21")]
    [False, True, False]
    """
    text = text.strip()
    begins = text[:1].isupper() or not text[:1].isalpha()
    ends = text.rstrip(")\"'”’").endswith((".", "!", "?"))
    before_colon = text.split(": ")[0]
    return begins and ends and len(text.split()) > 2 and _has_verb(before_colon)


def _has_verb(text: str) -> bool:
    return not _VERBS.isdisjoint(word.casefold().replace("’", "'") for word in _WORDS.findall(text))


def check_wording(domain: Domain, tasks: Iterable[Task] | None = None) -> list[WordingFault]:
    """Return the faults in what a domain's tasks say, a few examples for each rule and intent."""
    tasks = domain.tasks() if tasks is None else list(tasks)
    ids = raw_ids(domain)
    faults = [*_of_intents(domain), *_of_texts(tasks)]
    share = share_with_ids(tasks, ids)
    if share > MAX_IDS:
        most = Counter(task.intent for task in tasks if ids_in(task.instruction, ids)).most_common(3)
        intents = ", ".join(f"{intent} ({count})" for intent, count in most)
        text = f"{share:.0%} of requests contain ids, expected at most {MAX_IDS:.0%}; most in {intents}"
        faults.append(WordingFault("ids", domain.name, text))
    session = domain.session()
    try:
        faults += _of_phrasings(domain, tasks, session)
        faults += (fault for task in tasks for fault in _unfindable(domain, task, session))
    finally:
        session.close()
    return _some(faults, {task.id: task.intent for task in tasks})


def _some(faults: Iterable[WordingFault], intents: Mapping[str, str]) -> list[WordingFault]:
    """Return the first faults of each rule and intent."""
    seen: Counter[tuple[str, str]] = Counter()
    kept = []
    for fault in dict.fromkeys(faults):
        key = fault.rule, intents.get(fault.place, fault.place)
        seen[key] += 1
        if seen[key] <= _EXAMPLES:
            kept.append(fault)
    return kept


def _of_intents(domain: Domain) -> Iterator[WordingFault]:
    for name, intent in domain.spec.intents.items():
        spec = intent.instructions
        if isinstance(spec, list):
            yield WordingFault("registers", name, f"{len(spec)} phrasings without registers")
            continue
        every = phrasings(spec, "test_intents")
        used = {register for register, _ in every} - {"note"}
        if len(every) < MIN_PHRASINGS:
            yield WordingFault("phrasings", name, f"{len(every)} phrasings, expected {MIN_PHRASINGS}")
        if len(used) < MIN_REGISTERS:
            yield WordingFault("registers", name, f"{len(used)} registers, expected {MIN_REGISTERS}")
        shapes = Counter(_shape(text) for _, text in every)
        for shape, count in shapes.items():
            if count > 1:
                yield WordingFault("repeated", name, f"{count} phrasings read {shape[:60]!r}")
        for _, text in every:
            if found := _DICTATING.search(text):
                yield WordingFault("dictating", name, f"{found[0]!r} in {text[:60]!r}")


def _shape(text: str) -> str:
    return " ".join(_WORDS.findall(re.sub(r"\{[^{}]*\}", " _ ", text.casefold())))


def _of_texts(tasks: Iterable[Task]) -> Iterator[WordingFault]:
    for task in tasks:
        if not is_sentence(task.answer):
            yield WordingFault("sentences", task.id, f"the answer {task.answer[:80]!r}")
        for kind, text in (("request", task.instruction), ("answer", task.answer)):
            for rule, found in text_faults(text):
                yield WordingFault(rule, task.id, f"{found!r} in the {kind} {text[:80]!r}")


def _of_phrasings(domain: Domain, tasks: Iterable[Task], session: Session) -> Iterator[WordingFault]:
    """Yield the faults of all phrasings, for all tasks for which they might be used."""
    bodies: dict[tuple[str, str], dict[str, Task]] = defaultdict(dict)
    unused: dict[tuple[str, str], list[str]] = defaultdict(list)
    for task in tasks:
        intent = domain.spec.intents.get(task.intent)
        if (
            intent is None
            or not isinstance(intent.instructions, PhrasingSpec)
            or task.operator not in (None, intent.operator)
        ):
            continue
        for template, found in _all_wordings(domain, intent, task, session):
            key = task.intent, template
            unused[key].append(found if isinstance(found, str) else "")
            if isinstance(found, str):
                continue
            other = bodies[key].setdefault(f"{found.speaker or ''}: {found.body}", task)
            if (other.reference_calls, other.communicate) != (task.reference_calls, task.communicate):
                yield WordingFault(
                    "ambiguous", task.intent, f"the same for {other.id} and {task.id}: {found.body[:80]!r}"
                )
            for rule, what in text_faults(found.body):
                yield WordingFault(rule, task.intent, f"{what!r} in {found.body[:80]!r}")
    for (name, template), reasons in unused.items():
        if all(reasons):
            yield WordingFault("unused", name, f"{template[:60]!r} fits no task: {reasons[0]}")


def _all_wordings(
    domain: Domain, intent: IntentSpec, task: Task, session: Session
) -> Iterator[tuple[str, Wording | str]]:
    assert isinstance(intent.instructions, PhrasingSpec)
    try:
        bindings = whole_bindings(domain, intent, task)
        names = named_entries(domain, intent, bindings, session)
        session.reset()
        _, scope = make_reference_calls(domain, intent.reference_calls, bindings, session)
    except TaskError as error:
        yield "", str(error)
        return
    for register, template in phrasings(intent.instructions, task.split):
        try:
            yield template, worded(intent, scope, names, register, template, task.split, random.Random(0))
        except TaskError as error:
            yield template, str(error)


def _unfindable(domain: Domain, task: Task, session: Session) -> Iterator[WordingFault]:
    """Yield the ids that calls take though neither the request nor an earlier result states them."""
    for call, unshown in unshown_ids(domain, task, task.whole_path, session):
        yield WordingFault("unfindable", task.id, f"{call.name} takes {unshown}, which nothing before states")
