"""Tries on the verification of a domain's tasks what must not be paid, and counts how often it is.

That is detours (`toolorchestra.toolscale.validation.detours`) that end with the right answer, and answers with one
thing changed (`toolorchestra.toolscale.validation.slot_attacks`), with the reference calls made. Right answers in other
spellings must be paid then, and must not be where nothing was done. All answers are typed.
"""

from __future__ import annotations

import functools
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import msgspec

from toolorchestra.toolscale.answers.typed_answers import TypedAnswer
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.validation.detours import Detours
from toolorchestra.toolscale.validation.slot_attacks import Neighbours, attempts, neighbours_of, slots_of

MAX_PAID = 0.005
"""Share of the tries of an attack that may be judged right."""
COINCIDENCES = 3
"""Tries of an attack that may be judged right in any domain: in a small one they are more than the share above."""
MIN_ACCEPTED = 0.99
"""Share of the rephrasings of a kind that must be judged right."""
_NEIGHBOURS = 12
_LIKE = 40  # tasks of an intent whose values are tried in its slots
_EXAMPLES = 3


class AttackReport(msgspec.Struct):
    """How often attacks and rephrasings were judged right.

    Attributes:
        tried: Tries of each attack.
        paid: Those judged right.
        rephrased: Right answers in other spellings, by kind.
        accepted: Those judged right.
        examples: Some of those judged against expectation, by kind: task, text and why.
        misjudged: The tasks of which something was, with its kind.
    """

    tried: Counter[str] = msgspec.field(default_factory=Counter)
    paid: Counter[str] = msgspec.field(default_factory=Counter)
    rephrased: Counter[str] = msgspec.field(default_factory=Counter)
    accepted: Counter[str] = msgspec.field(default_factory=Counter)
    examples: dict[str, list[tuple[str, str, str]]] = {}
    misjudged: dict[str, str] = {}

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
        self.misjudged |= other.misjudged

    def note(self, kind: str, task: Task, text: str, why: str) -> None:
        """Keep an example of what was judged against expectation."""
        self.misjudged[task.id] = kind
        kept = self.examples.setdefault(kind, [])
        if len(kept) < _EXAMPLES:
            kept.append((task.id, text if len(text) <= 300 else text[:297] + "…", why))


def try_attacks(
    domain: Domain, tasks: Sequence[Task], progress: Callable[[], object] | None = None, part: range | None = None
) -> AttackReport:
    """Judge all attacks on `tasks` and all other spellings of their answers; `progress` is called after each task.

    With `part` only the tasks at these places are tried, as they are when all are. Answers are tried with the reference
    calls made, and the right ones also, as attacks ("..., nothing done"), with none.
    """
    report = AttackReport()
    rng = random.Random(f"attacks:{domain.name}")
    everyone, session, idle = domain.tasks(), domain.session(), domain.session()
    slots = slots_of(domain, tasks)
    of_intent: dict[str, list[Task]] = defaultdict(list)
    for task in everyone:
        of_intent[task.intent].append(task)

    @functools.cache
    def neighbours(intent: str) -> Neighbours:
        like = of_intent[intent]
        return neighbours_of([slots.of(task) for task in like[:: -(-len(like) // _LIKE) or 1]])

    detours = Detours(domain, session)
    for place, task in enumerate(tasks):
        siblings = of_intent[task.intent]
        siblings = rng.sample(siblings, min(_NEIGHBOURS, len(siblings)))
        if part is not None and place not in part:
            continue
        typed = slots.of(task)
        right = typed.written()
        for kind, calls in detours.of(task, siblings):
            report.tried[kind] += 1
            if domain.replay(task, calls, right, session, typed).solved and detours.differs(task, calls):
                report.paid[kind] += 1
                report.note(kind, task, right, "judged right")
        domain.replay(task, task.reference_calls, right, session, typed)
        _try_answers(report, domain, task, typed, neighbours(task.intent), session, idle)
        if progress is not None:
            progress()
    session.close()
    idle.close()
    return report


def _try_answers(
    report: AttackReport,
    domain: Domain,
    task: Task,
    typed: TypedAnswer,
    neighbours: Neighbours,
    session: Session,
    idle: Session,
) -> None:
    """Try the answers of a task whose reference calls were made in `session`, and none in `idle`."""
    needs_something = all(effects.operated or effects.touched for effects in domain.verifier.effects(task))
    for kind, text, right in attempts(typed, neighbours, task.id):
        verdict = domain.verify(task, session, text, typed)
        if right:
            report.rephrased[kind] += 1
            report.accepted[kind] += verdict.solved
        else:
            report.tried[kind] += 1
            report.paid[kind] += verdict.solved
        if right is not verdict.solved:
            report.note(kind, task, text, str(verdict))
        if right and needs_something:
            nothing = f"{kind}, nothing done"
            report.tried[nothing] += 1
            if domain.verify(task, idle, text, typed).solved:
                report.paid[nothing] += 1
                report.note(nothing, task, text, "judged right")
