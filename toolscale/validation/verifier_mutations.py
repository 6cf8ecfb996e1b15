"""Mutation test of verification: wrong episodes that must fail, and right ones that must pass.

`mutants` derives wrong episodes from a task's reference trajectory (a write dropped, an argument altered, a slot of the
answer changed, a write added), `variants` right ones (independent calls in another order, extra reads, the same facts
from another tool, another spelling). `try_verifier` judges them all and lists those judged against expectation. A
mutant that leaves the same database is equivalent, not missed. Answers are typed, whatever an environment's are.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby

import msgspec

from toolorchestra.toolscale.answers.typed_answers import TypedAnswer
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.net_changes import net_changes
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tasks.task import Call, Task
from toolorchestra.toolscale.tasks.verify import Verdict
from toolorchestra.toolscale.tools.guess import Guesser
from toolorchestra.toolscale.tools.tool import Status
from toolorchestra.toolscale.validation.other_lookups import with_other_lookups
from toolorchestra.toolscale.validation.slot_attacks import slots_of, spellings, wrong_answers

OTHER_LOOKUP = "another tool, same facts"
"""The kind of variants in which another tool shows what a look-up shows."""
_ATTEMPTS = 200
_CHANGES = frozenset(("null", "empty text", "another outcome", "slot missing"))


class AlteredEpisode(msgspec.Struct, frozen=True):
    """An episode to be judged: what was changed, and the calls and answer that result."""

    kind: str
    detail: str
    calls: tuple[Call, ...]
    answer: str


class UnexpectedVerdict(msgspec.Struct, frozen=True):
    """An episode judged against expectation, and why."""

    task_id: str
    kind: str
    detail: str
    reason: str
    equivalent: bool


class VerifierReport(msgspec.Struct):
    """Mutants judged and killed, variants judged and accepted, by kind, and all judged against expectation."""

    mutants: Counter[str] = msgspec.field(default_factory=Counter)
    killed: Counter[str] = msgspec.field(default_factory=Counter)
    variants: Counter[str] = msgspec.field(default_factory=Counter)
    accepted: Counter[str] = msgspec.field(default_factory=Counter)
    surprises: list[UnexpectedVerdict] = []

    @property
    def kill_rate(self) -> float:
        """Share of mutants judged failed."""
        return self.killed.total() / max(1, self.mutants.total())

    @property
    def acceptance_rate(self) -> float:
        """Share of legitimate variants judged solved."""
        return self.accepted.total() / max(1, self.variants.total())


def mutants(domain: Domain, task: Task, typed: TypedAnswer, session: Session) -> Iterator[AlteredEpisode]:
    """Yield episodes of `task` that are wrong."""
    right = typed.written()
    guesser = Guesser(domain.database, random.Random(f"mutants:{task.id}"))
    for position, call in enumerate(task.reference_calls):
        tool = domain.tools[call.name]
        if tool.effect != "write":
            continue
        before, after = task.reference_calls[:position], task.reference_calls[position + 1 :]
        yield AlteredEpisode("drop a write", f"{call.name} #{position}", before + after, right)
        for name, value in call.arguments.items():
            other = guesser.other(tool.parameters[name], value)
            if other != value:
                altered = msgspec.structs.replace(call, arguments={**call.arguments, name: other})
                detail = f"{call.name} #{position}: {name} = {other!r} for {value!r}"
                yield AlteredEpisode("alter an argument", detail, (*before, altered, *after), right)
    for kind, answer, _ in wrong_answers(typed, {}, task.id):
        if kind in _CHANGES:
            yield AlteredEpisode("change a slot", f"{kind}: {answer}", task.reference_calls, answer)
    stray = _stray_write(domain, task, guesser, session)
    if stray is not None:
        detail = f"{stray.name}({stray.arguments})"
        yield AlteredEpisode("add a stray write", detail, (*task.reference_calls, stray), right)


def _stray_write(domain: Domain, task: Task, guesser: Guesser, session: Session) -> Call | None:
    """Return a write that succeeds after the reference trajectory and changes the database."""
    write_tools = [tool for tool in domain.tools.values() if tool.effect == "write"]
    if not write_tools:
        return None
    domain.make(task.reference_calls, session)
    before = net_changes(domain.database, session.touched())
    for _ in range(_ATTEMPTS):
        tool = guesser.rng.choice(write_tools)
        call = Call(tool.name, guesser.arguments(tool))
        if domain.call(call, session).status is Status.OK:
            if net_changes(domain.database, session.touched()) != before:  # one that changes nothing is no mutant
                return call
            domain.make(task.reference_calls, session)
    return None


def variants(domain: Domain, task: Task, typed: TypedAnswer, session: Session) -> Iterator[AlteredEpisode]:
    """Yield episodes of `task` that are right, though not the reference one."""
    right = typed.written()
    guesser = Guesser(domain.database, random.Random(f"variants:{task.id}"))
    stages = [list(stage) for _, stage in groupby(task.reference_calls, key=lambda call: call.stage)]
    if any(len(stage) > 1 for stage in stages):
        calls = tuple(call for stage in stages for call in reversed(stage))
        yield AlteredEpisode("reorder independent calls", "each stage reversed", calls, right)
    readers = [tool for tool in domain.tools.values() if tool.effect != "write"]
    extra: list[Call] = []
    for call in task.reference_calls:
        tool = guesser.rng.choice(readers)
        extra += [Call(tool.name, guesser.arguments(tool)), call]
    yield AlteredEpisode("add reads", f"{len(task.reference_calls)} reads", tuple(extra), right)
    for detail, calls in with_other_lookups(domain, task, session):
        yield AlteredEpisode(OTHER_LOOKUP, detail, calls, right)
    for name, answer in spellings(typed):
        if answer != right:
            yield AlteredEpisode("spell the answer otherwise", name, task.reference_calls, answer)


def try_verifier(domain: Domain, tasks: Sequence[Task], progress: Callable[[], object] | None = None) -> VerifierReport:
    """Judge all mutants and variants of `tasks`; `progress` is called after each task."""
    report = VerifierReport()
    session, slots = domain.session(), slots_of(domain, tasks)
    for task in tasks:
        typed = slots.of(task)
        for episode, verdict in _judged(domain, task, typed, [*mutants(domain, task, typed, session)], session):
            report.mutants[episode.kind] += 1
            if verdict.solved:
                report.surprises.append(
                    UnexpectedVerdict(task.id, episode.kind, episode.detail, *_why(domain, task, episode, session))
                )
            else:
                report.killed[episode.kind] += 1
        for episode, verdict in _judged(domain, task, typed, [*variants(domain, task, typed, session)], session):
            report.variants[episode.kind] += 1
            if verdict.solved:
                report.accepted[episode.kind] += 1
            else:
                report.surprises.append(
                    UnexpectedVerdict(task.id, episode.kind, episode.detail, str(verdict), equivalent=False)
                )
        if progress is not None:
            progress()
    session.close()
    return report


def _judged(
    domain: Domain, task: Task, typed: TypedAnswer, episodes: Sequence[AlteredEpisode], session: Session
) -> Iterator[tuple[AlteredEpisode, Verdict]]:
    """Yield episodes with their verdicts, each while the session is as it left it.

    Calls that are those of the episode before are not made again.
    """
    made: Sequence[Call] | None = None
    for episode in episodes:
        judge = domain.verify if episode.calls is made else partial(domain.replay, calls=episode.calls)
        yield episode, judge(task=task, session=session, answer=episode.answer, typed=typed)
        made = episode.calls


def _why(domain: Domain, task: Task, episode: AlteredEpisode, session: Session) -> tuple[str, bool]:
    """Return why a mutant passes, and whether that makes it equivalent to the reference episode."""
    if episode.kind == "change a slot":
        return "the answer is judged right", False
    touched = session.touched()
    domain.make(task.reference_calls, session)
    if session.touched() == touched:
        return "the database ends exactly as after the reference trajectory", True
    return "the net change of the database is the reference one", True
