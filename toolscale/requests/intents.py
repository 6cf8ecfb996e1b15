"""From intents to tasks: bind, phrase, run the reference trajectory, filter, split.

Every task made here has been solved once: its reference calls ran without error and its answer passes
verification, while doing and saying nothing does not. What was dropped, and why, is counted.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import islice
from typing import Any

import msgspec

from toolorchestra.toolscale.common.errors import TaskError, unknown_name
from toolorchestra.toolscale.database.format import AttackSpec, IntentSpec, ReferenceCallSpec
from toolorchestra.toolscale.database.sql import SQL_ERRORS, bounded, fetch, sql_error
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.requests.lookups import with_later_stages, with_needed_lookups
from toolorchestra.toolscale.requests.wording import NamedEntry, WordScope, answer_of, check_names, named_entries, word
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tasks.task import Call, Task, solution_key
from toolorchestra.toolscale.tools.expressions import evaluate, fill, shown_value
from toolorchestra.toolscale.tools.tool import Status

TEST_SHARE = 4
"""One task in this many of a training intent is kept for the split ``test``."""

_LIST = re.compile(r"\$[a-z_]\w*(?:\.\w+)*")
_MAX_CHOICES = 12  # of one step: items of which each is enough
_MAX_REASONS = 3  # that an error lists


def difficulty(calls: int, branches: bool) -> int:
    """Return the level of a task from 1 to 5: by its reference calls, one more if what is right depends on them.

    >>> [difficulty(calls, branches=False) for calls in (1, 3, 5, 8, 9)]
    [1, 2, 3, 4, 5]
    """
    level = 1 + sum(calls > limit for limit in (1, 3, 5, 8))
    return min(5, level + branches)


def split_of(digest: bytes) -> str:
    """Return the split of a task of a training intent, by a digest of what it is known by."""
    return "test" if digest[0] % TEST_SHARE == 0 else "train"


def make_reference_calls(
    domain: Domain,
    steps: Sequence[ReferenceCallSpec],
    bindings: Mapping[str, Any],
    session: Session,
    choice: int | None = None,
) -> tuple[tuple[Call, ...], dict[str, Any]]:
    """Run reference `steps` on a fresh `session`; return the calls, and the scope: bindings and saved results.

    With a `choice`, steps of which one item is enough (`any`) are made for that item only.

    Raises:
        TaskError: A call errs, or an expression names nothing.
    """
    scope: dict[str, Any] = {**bindings, "today": domain.spec.today}
    calls: list[Call] = []
    stage = -1
    for step in steps:
        if step.when is not None and not evaluate(step.when, scope):
            continue
        items = [None] if step.each is None else evaluate(step.each, scope)
        if choice is not None and step.any is not None and (enough := evaluate(step.any, scope)):
            chosen = enough[choice % len(enough)]
            items = chosen if isinstance(chosen, list) else [chosen]
        if items and not (step.parallel and calls):
            stage += 1
        results = []
        for item in items:
            local = scope if step.each is None else {**scope, step.item: item}
            call = Call(step.call, {name: evaluate(value, local) for name, value in step.arguments.items()}, stage)
            result = domain.call(call, session)
            if result.status is not Status.OK:
                how = "is malformed" if result.status is Status.PARSE_ERR else "errs"
                raise TaskError(f"The reference call {call.name}({call.arguments}) {how}: {result.error}")
            calls.append(call)
            results.append(result.value)
        if step.save is not None:
            scope[step.save] = results if step.each is not None else results[0]
    return tuple(calls), scope


def _choices(intent: IntentSpec, scope: Mapping[str, Any]) -> int:
    """Return how many items of the steps of an intent are enough by themselves, each."""
    lists = [evaluate(step.any, scope) for step in intent.reference_calls if step.any is not None]
    return min(_MAX_CHOICES, max((len(enough) for enough in lists), default=0))


def check_intents(domain: Domain) -> None:
    """Check what can be checked of intents and attacks without making tasks.

    Raises:
        DomainError: An intent or attack calls an unknown tool, or lacks an argument.
    """
    check_names(domain)
    intents = domain.spec.intents
    for name, intent in intents.items():
        path = f"intents.{name}"
        if (intent.parent is None) != (intent.operator is None):
            raise domain.error("An evolved intent names both its `parent` and the `operator`.", path)
        if intent.parent is not None and intent.parent not in intents:
            raise domain.error(unknown_name("intent", intent.parent, intents), f"{path}.parent")
        for outcome, names in (intent.slots if isinstance(intent.slots, dict) else {"": intent.slots}).items():
            if names and len(names) != len(intent.communicate) and not names[-1].endswith("[]"):
                where = f"{path}.slots" + (f".{outcome}" if outcome else "")
                raise domain.error(
                    f"Expected a name for each of the {len(intent.communicate)} in `communicate`.", where
                )
        _check_steps(domain, intent.reference_calls, f"{path}.reference_calls")
        for i, steps in enumerate(intent.alternatives):
            _check_steps(domain, steps, f"{path}.alternatives[{i}]")
    for name, attack in domain.spec.attacks.items():
        _check_steps(domain, attack.calls, f"attacks.{name}.calls")


def _check_steps(domain: Domain, steps: Sequence[ReferenceCallSpec], path: str) -> None:
    for i, step in enumerate(steps):
        where = f"{path}[{i}]"
        if step.call not in domain.tools:
            raise domain.error(unknown_name("tool", step.call, domain.tools), f"{where}.call")
        if step.any is not None and step.each is None:
            raise domain.error("`any` says which items of `each` are enough, and there is no `each`.", f"{where}.any")
        known = domain.tools[step.call].parameters
        if wrong := set(step.arguments) - set(known):
            raise domain.error(unknown_name(f"argument of {step.call}", min(wrong), known), f"{where}.arguments")
        required = {key for key, parameter in known.items() if parameter.required}
        if missing := required - set(step.arguments):
            raise domain.error(f"{step.call} needs the argument {min(missing)!r}.", f"{where}.arguments")


def make_tasks(domain: Domain) -> tuple[list[Task], Counter[str]]:
    """Return the tasks of all intents of a domain, and how many candidates were dropped for each reason.

    Raises:
        DomainError: An intent cannot be carried out at all.
    """
    check_intents(domain)
    session = domain.session()
    tasks: list[Task] = []
    dropped: Counter[str] = Counter()
    seen: set[str] = set()
    for name, intent in domain.spec.intents.items():
        made = list(islice(intent_tasks(domain, name, session, seen, dropped), intent.count))
        tasks += made
        if not made:
            found = [reason for reason in dropped if reason.startswith(f"{name}: ")]
            reasons = "; ".join((*found[:_MAX_REASONS], *(["…"] if len(found) > _MAX_REASONS else [])))
            raise domain.error(f"The intent yields no task ({reasons or 'its bindings are empty'}).", f"intents.{name}")
    session.close()
    tested = {solution_key(task) for task in tasks if task.split != "train"}
    leaks = [task for task in tasks if task.split == "train" and solution_key(task) in tested]
    dropped.update(f"{task.intent}: solved like a task that is tested" for task in leaks)
    leaked = {task.id for task in leaks}
    return [task for task in tasks if task.id not in leaked], dropped


def intent_tasks(domain: Domain, name: str, session: Session, seen: set[str], dropped: Counter[str]) -> Iterator[Task]:
    """Yield the tasks of an intent, one for each row of bindings that makes one, beyond its `count` too.

    Instructions that are `seen` are not used again, and new ones are added; candidates that are dropped are counted
    in `dropped` by intent and reason.
    """
    intent = domain.spec.intents[name]
    made = 0
    for bindings in bindings_of(domain, intent, f"intents.{name}"):
        if intent.skip and all(bindings.get(column) in values for column, values in intent.skip.items()):
            dropped[f"{name}: skipped"] += 1
            continue
        task, reason = _make(domain, name, intent, bindings, made, session)
        if task is not None and task.instruction in seen:
            task, reason = None, "duplicate instruction"
        if task is None:
            dropped[f"{name}: {reason}"] += 1
            continue
        seen.add(task.instruction)
        made += 1
        yield task


def bindings_of(domain: Domain, spec: IntentSpec | AttackSpec, entry: str) -> list[dict[str, Any]]:
    """Return the rows of bindings in a seeded random order; `entry` is the path in the YAML, ``intents.name``.

    Raises:
        DomainError: The SQL does not compile, or a column of `json` is not JSON.
    """
    path = f"{entry}.bindings"
    try:
        with bounded(domain.database.base):
            names, rows = fetch(domain.database.base.execute(spec.bindings, {"today": domain.spec.today}))
        for row in rows:
            for key in spec.json:
                row[key] = msgspec.json.decode(row[key])
    except SQL_ERRORS as error:
        raise domain.error(sql_error(error), path) from None
    except KeyError as error:
        raise domain.error(unknown_name("binding", str(error.args[0]), names), f"{entry}.json") from None
    except (msgspec.DecodeError, TypeError, RecursionError) as error:
        raise domain.error(f"A column of `json` is not JSON: {error}.", path) from None
    aside = frozenset(spec.aside) if isinstance(spec, IntentSpec) else frozenset()
    rows.sort(key=lambda row: msgspec.json.encode(_keyed(row, aside), order="sorted"))  # not by SQLite's query plan
    random.Random(f"{domain.spec.seed}:{entry.removeprefix('intents.')}").shuffle(rows)  # ids stay what they were
    return rows


def whole_bindings(domain: Domain, intent: IntentSpec, task: Task) -> dict[str, Any]:
    """Return the bindings of a task of an intent, with those columns that are `aside` and that a task does not keep."""
    if not intent.aside:
        return task.bindings
    aside = frozenset(intent.aside)
    rows = bindings_of(domain, intent, f"intents.{task.intent}")
    return next((row for row in rows if _keyed(row, aside) == task.bindings), task.bindings)


def _keyed(row: dict[str, Any], aside: Set[str]) -> dict[str, Any]:
    """Return the bindings that tell tasks apart."""
    return {name: value for name, value in row.items() if name not in aside} if aside else row


def _make(
    domain: Domain, name: str, intent: IntentSpec, bindings: dict[str, Any], number: int, session: Session
) -> tuple[Task | None, str]:
    """Return the task of one row of bindings, or None and the reason why it was dropped."""
    keyed = _keyed(bindings, frozenset(intent.aside))
    key = f"{domain.spec.seed}:{name}:{msgspec.json.encode(keyed, order='sorted').decode()}"
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    split = "test_intents" if intent.held_out else split_of(digest)
    try:
        names = named_entries(domain, intent, bindings, session)
        session.reset()
        calls, scope = make_reference_calls(domain, intent.reference_calls, bindings, session)
        instruction, answer, lookups = _texts(intent, scope, names, split, key)
        task = Task(
            id=f"{domain.name}/{name}/{number:03d}",
            domain=domain.name,
            intent=name,
            split=split,
            difficulty=difficulty(len(calls), intent.branches),
            instruction=instruction,
            reference_calls=calls,
            communicate=facts_of(intent, scope),
            answer=answer,
            bindings=keyed,
            branches=intent.branches,
            refuses=bool(evaluate(intent.refuses, scope)),
            parent=None if intent.parent is None else f"{domain.name}/{intent.parent}",
            operator=intent.operator,
            lookups=lookups,
        )
        verdict = domain.verify(task, session, task.answer)
        alternatives = []
        for steps in intent.alternatives:
            session.reset()
            alternatives.append(make_reference_calls(domain, steps, bindings, session)[0])
        for choice in range(_choices(intent, scope)):
            session.reset()
            path, _ = make_reference_calls(domain, intent.reference_calls, bindings, session, choice)
            if path not in (calls, *alternatives):
                alternatives.append(path)
    except TaskError as error:
        return None, str(error)
    if not verdict.solved:
        return None, f"the reference trajectory does not pass: {verdict}"
    if domain.replay(task, (), "", session).solved:
        return None, "solved by doing and saying nothing"
    task = msgspec.structs.replace(task, alternatives=tuple(alternatives))
    return with_later_stages(domain, with_needed_lookups(domain, task, session), session), ""


def facts_of(intent: IntentSpec, scope: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    """Return what an answer must tell: the phrases of each fact. A TaskError says that `scope` lacks a result."""
    return tuple(fact for item in intent.communicate for fact in _facts(item, scope))


def _facts(item: str | Sequence[str], scope: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the facts that an item of `communicate` stands for, by their phrases: one, or each value of a list."""
    if isinstance(item, str) and _LIST.fullmatch(item):
        return [(shown_value(value),) for value in evaluate(item, scope)]
    return [_phrases([item] if isinstance(item, str) else item, scope)]


def _phrases(fact: Sequence[str], scope: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the phrases of a fact, each once and none without a letter or digit.

    They are texts with placeholders, and expressions of lists of phrases (``$reasons``).
    """
    phrases: list[str] = []
    for text in fact:
        phrases += map(shown_value, evaluate(text, scope)) if _LIST.fullmatch(text) else [fill(text, scope)]
    return tuple(dict.fromkeys(phrase for phrase in phrases if any(map(str.isalnum, phrase)))) or tuple(phrases[:1])


def _texts(
    intent: IntentSpec, scope: Mapping[str, Any], names: Mapping[str, list[NamedEntry]], split: str, key: str
) -> tuple[str, str, tuple[Call, ...]]:
    """Return the instruction of a task, its answer, and the calls that find what the instruction names."""
    if isinstance(intent.instructions, list):
        plain = WordScope(scope, intent, names) if intent.names or intent.terms else scope
        phrasing = random.Random(key).choice(intent.instructions)
        return fill(phrasing, plain), fill(intent.answer, plain), ()
    wording = word(intent, scope, names, split, key)
    return wording.text, answer_of(intent, scope, names), wording.lookups
