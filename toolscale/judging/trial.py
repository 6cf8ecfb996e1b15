"""Tries all attacks and rephrasings on the tasks of a domain, and counts how often they are taken for right."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

import msgspec

from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.judging.attacks import Context, attacks, rephrasings
from toolorchestra.toolscale.judging.judge import judge_answer
from toolorchestra.toolscale.session import Session
from toolorchestra.toolscale.task import Call, Task
from toolorchestra.toolscale.tool import Status

MAX_PAID = 0.005
"""Share of the tries of an attack that may be judged right."""
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
        """Whether each attack is within `MAX_PAID`, and each rephrasing within `MIN_ACCEPTED`."""
        return all(self.paid[kind] <= MAX_PAID * tries for kind, tries in self.tried.items()) and all(
            self.accepted[kind] >= MIN_ACCEPTED * tries for kind, tries in self.rephrased.items()
        )

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


def try_attacks(domain: Domain, tasks: Sequence[Task], progress: Callable[[], object] | None = None) -> AttackReport:
    """Judge all attacks on `tasks` and all rephrasings of their answers; `progress` is called after each task."""
    report = AttackReport()
    rng = random.Random(f"attacks:{domain.name}")
    siblings: dict[str, list[Task]] = defaultdict(list)
    for task in domain.tasks():
        siblings[task.intent].append(task)
    everyone, session = domain.tasks(), domain.session()
    for task in tasks:
        for kind, calls, answer in _episodes(domain, task):
            report.tried[kind] += 1
            if _is_paid(domain, task, calls, answer, session):
                report.paid[kind] += 1
                report.note(kind, task, answer, "judged right")
        if task.communicate:
            near = siblings[task.intent]
            near = rng.sample(near, min(_NEIGHBOURS, len(near)))
            _try_answers(report, _context(domain, task, session, near, rng.choices(everyone, k=_STRANGERS)))
        if progress is not None:
            progress()
    session.close()
    return report


def _context(
    domain: Domain, task: Task, session: Session, siblings: Sequence[Task], strangers: Sequence[Task]
) -> Context:
    session.reset()
    results = [domain.call(call, session).value for call in task.reference_calls]
    return Context(task, domain.verifier.reference(task).answer, results, siblings, strangers)


def _try_answers(report: AttackReport, context: Context) -> None:
    for kind, answer in attacks(context):
        report.tried[kind] += 1
        if not judge_answer(answer, context.expected):
            report.paid[kind] += 1
            report.note(kind, context.task, answer, "judged right")
    for kind, answer in rephrasings(context):
        report.rephrased[kind] += 1
        if wrong := judge_answer(answer, context.expected):
            report.note(kind, context.task, answer, "; ".join(wrong))
        else:
            report.accepted[kind] += 1


def _episodes(domain: Domain, task: Task) -> Iterator[tuple[str, Sequence[Call], str]]:
    """Yield episodes that do something else than the reference trajectory: the attack, the calls, and the answer."""
    calls = task.reference_calls
    if all(effects.operated or effects.touched for effects in domain.verifier.effects(task)):
        yield "nothing done", (), task.answer
    writes = [position for position, call in enumerate(calls) if domain.tools[call.name].effect == "write"]
    if writes:
        twice = [one for i, call in enumerate(calls) for one in ([call, call] if i in writes else [call])]
        yield "every write twice", twice, task.answer
        yield "writes in reverse", _reversed(calls, writes), task.answer
        yield "reads only", [call for i, call in enumerate(calls) if i not in writes], task.answer


def _reversed(calls: Sequence[Call], writes: Sequence[int]) -> list[Call]:
    """Return the calls with those that write in the reverse order."""
    order = dict(zip(writes, reversed(writes), strict=True))
    return [calls[order.get(position, position)] for position in range(len(calls))]


def _is_paid(domain: Domain, task: Task, calls: Sequence[Call], answer: str, session: Session) -> bool:
    """Return whether an episode is solved though its effects are not those of a reference trajectory."""
    if not domain.replay(task, calls, answer, session).solved:
        return False
    touched = session.touched()
    if calls and any(touched == effects.touched for effects in domain.verifier.effects(task)):
        return False
    session.reset()
    return not calls or any(domain.call(call, session).status is not Status.OK for call in calls)
