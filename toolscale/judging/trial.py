"""Tries all attacks and rephrasings on the tasks of a domain, and counts how often they are taken for right."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from toolorchestra.toolscale.database import Changes
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.judging.attacks import Context, attacks, rephrasings
from toolorchestra.toolscale.judging.detours import Detours
from toolorchestra.toolscale.judging.judge import judge_answer
from toolorchestra.toolscale.session import Session
from toolorchestra.toolscale.task import Task

MAX_PAID = 0.005
"""Share of the tries of an attack that may be judged right."""
COINCIDENCES = 3
"""Tries of an attack that may be judged right in any domain: in a small one they are more than the share above."""
MIN_ACCEPTED = 0.99
"""Share of the rephrasings of a kind that must be judged right."""
_NEIGHBOURS = 12
_STRANGERS = 6
_EXAMPLES = 3


class AttackReport(msgspec.Struct):
    """How often attacks and rephrasings were judged right.

    Attributes:
        tried: Tries of each attack.
        paid: Those judged right.
        rephrased: Right answers in other words, by kind.
        accepted: Those judged right.
        examples: Some of those judged against expectation, by kind: task, text and why.
    """

    tried: Counter[str] = msgspec.field(default_factory=Counter)
    paid: Counter[str] = msgspec.field(default_factory=Counter)
    rephrased: Counter[str] = msgspec.field(default_factory=Counter)
    accepted: Counter[str] = msgspec.field(default_factory=Counter)
    examples: dict[str, list[tuple[str, str, str]]] = {}

    @property
    def passed(self) -> bool:
        """Whether each attack is within `MAX_PAID` or `COINCIDENCES`, and each rephrasing within `MIN_ACCEPTED`."""
        return all(
            self.paid[kind] <= max(COINCIDENCES, MAX_PAID * tries) for kind, tries in self.tried.items()
        ) and all(self.accepted[kind] >= MIN_ACCEPTED * tries for kind, tries in self.rephrased.items())

    def add(self, other: AttackReport) -> None:
        """Add what was found elsewhere."""
        for name in ("tried", "paid", "rephrased", "accepted"):
            getattr(self, name).update(getattr(other, name))
        for kind, found in other.examples.items():
            self.examples[kind] = [*self.examples.get(kind, ()), *found][:_EXAMPLES]

    def note(self, kind: str, task: Task, text: str, why: str) -> None:
        """Keep an example of what was judged against expectation."""
        kept = self.examples.setdefault(kind, [])
        if len(kept) < _EXAMPLES:
            kept.append((task.id, text if len(text) <= 300 else text[:297] + "…", why))


def try_attacks(
    domain: Domain, tasks: Sequence[Task], progress: Callable[[], object] | None = None, part: range | None = None
) -> AttackReport:
    """Judge all attacks on `tasks` and all rephrasings of their answers; `progress` is called after each task.

    With `part` only the tasks at these places are tried, as they are when all are. Wrong answers are tried with the
    reference calls made, and ("..., nothing done") with none.
    """
    report = AttackReport()
    rng = random.Random(f"attacks:{domain.name}")
    everyone, session = domain.tasks(), domain.session()
    of_intent: dict[str, list[Task]] = defaultdict(list)
    for task in everyone:
        of_intent[task.intent].append(task)
    detours = Detours(domain, session)
    for place, task in enumerate(tasks):
        siblings = of_intent[task.intent]
        siblings = rng.sample(siblings, min(_NEIGHBOURS, len(siblings)))
        strangers = rng.choices(everyone, k=_STRANGERS) if task.communicate else []
        if part is not None and place not in part:
            continue
        for kind, calls, answer in detours.of(task, siblings):
            report.tried[kind] += 1
            if domain.replay(task, calls, answer, session).solved and detours.differs(task, calls):
                report.paid[kind] += 1
                report.note(kind, task, answer, "judged right")
        if task.communicate:
            _try_answers(report, _context(domain, task, session, siblings, strangers))
        if progress is not None:
            progress()
    session.close()
    return report


def _context(
    domain: Domain, task: Task, session: Session, siblings: Sequence[Task], strangers: Sequence[Task]
) -> Context:
    session.reset()
    results = [domain.call(call, session).value for call in task.reference_calls]
    known = domain.verifier.reference(task)
    idle = any(not effects.operated and not effects.touched for effects in known.effects)
    return Context(task, known.answer, results, siblings, strangers, _replaced(domain, known.effects[0].touched), idle)


def _replaced(domain: Domain, touched: Changes) -> list[tuple[Any, Any]]:
    """Return the values that a change replaced: each before and after it."""
    pairs: list[tuple[Any, Any]] = []
    for table, rows in touched.items():
        for key, row in rows.items():
            before = domain.database.row(table, key)
            if before is not None and row is not None:
                pairs += [pair for pair in zip(before, row, strict=True) if pair[0] != pair[1] and None not in pair]
    return pairs


def _try_answers(report: AttackReport, context: Context) -> None:
    for kind, answer in attacks(context):
        right = not judge_answer(answer, context.expected)
        for name, paid in ((kind, right), (f"{kind}, nothing done", right and context.idle)):
            report.tried[name] += 1
            if paid:
                report.paid[name] += 1
                report.note(name, context.task, answer, "judged right")
    for kind, answer in rephrasings(context):
        report.rephrased[kind] += 1
        if wrong := judge_answer(answer, context.expected):
            report.note(kind, context.task, answer, "; ".join(wrong))
        else:
            report.accepted[kind] += 1
