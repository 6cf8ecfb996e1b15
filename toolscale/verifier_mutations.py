"""Mutation test of verification: wrong episodes that must fail, and right ones that must pass.

`mutants` derives wrong episodes from a task's reference trajectory (a write dropped, an argument altered, a piece of
information left out, a write added), `variants` right ones (independent calls in another order, extra reads, the same
facts from another tool, another wording). `try_verifier` judges them all and lists those judged against expectation. A
mutant that leaves the same database is equivalent, not missed.
"""

from __future__ import annotations

import datetime
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby

import msgspec

from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.guess import Guesser
from toolorchestra.toolscale.mentions import mentions, tokens
from toolorchestra.toolscale.net_changes import net_changes
from toolorchestra.toolscale.other_lookups import with_other_lookups
from toolorchestra.toolscale.session import Session
from toolorchestra.toolscale.task import Call, Task
from toolorchestra.toolscale.tool import Status

OTHER_LOOKUP = "another tool, same facts"
"""The kind of variants in which another tool shows what a look-up shows."""
_ATTEMPTS = 200


class AlteredEpisode(msgspec.Struct, frozen=True):
    """An episode to be judged: what was changed, and the calls and answer that result."""

    kind: str
    detail: str
    calls: tuple[Call, ...]
    answer: str


class Surprise(msgspec.Struct, frozen=True):
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
    surprises: list[Surprise] = []

    @property
    def kill_rate(self) -> float:
        """Share of mutants judged failed."""
        return self.killed.total() / max(1, self.mutants.total())

    @property
    def acceptance_rate(self) -> float:
        """Share of legitimate variants judged solved."""
        return self.accepted.total() / max(1, self.variants.total())


def mutants(domain: Domain, task: Task, session: Session) -> Iterator[AlteredEpisode]:
    """Yield episodes of `task` that are wrong."""
    guesser = Guesser(domain.database, random.Random(f"mutants:{task.id}"))
    for position, call in enumerate(task.reference_calls):
        tool = domain.tools[call.name]
        if tool.effect != "write":
            continue
        before, after = task.reference_calls[:position], task.reference_calls[position + 1 :]
        yield AlteredEpisode("drop a write", f"{call.name} #{position}", before + after, task.answer)
        for name, value in call.arguments.items():
            other = guesser.other(tool.parameters[name], value)
            if other != value:
                altered = msgspec.structs.replace(call, arguments={**call.arguments, name: other})
                detail = f"{call.name} #{position}: {name} = {other!r} for {value!r}"
                yield AlteredEpisode("alter an argument", detail, (*before, altered, *after), task.answer)
    for position, options in enumerate(task.communicate):
        others = [facts[0] for i, facts in enumerate(task.communicate) if i != position]
        yield AlteredEpisode("omit information", options[0], task.reference_calls, ". ".join(["Done", *others]))
    stray = _stray_write(domain, task, guesser, session)
    if stray is not None:
        detail = f"{stray.name}({stray.arguments})"
        yield AlteredEpisode("add a stray write", detail, (*task.reference_calls, stray), task.answer)


def _stray_write(domain: Domain, task: Task, guesser: Guesser, session: Session) -> Call | None:
    """Return a write that succeeds after the reference trajectory and changes the database."""
    write_tools = [tool for tool in domain.tools.values() if tool.effect == "write"]
    if not write_tools:
        return None
    domain.replay(task, task.reference_calls, task.answer, session)
    before = net_changes(domain.database, session.touched())
    for _ in range(_ATTEMPTS):
        tool = guesser.rng.choice(write_tools)
        call = Call(tool.name, guesser.arguments(tool))
        if domain.call(call, session).status is Status.OK:
            if net_changes(domain.database, session.touched()) != before:  # one that changes nothing is no mutant
                return call
            domain.replay(task, task.reference_calls, task.answer, session)
    return None


def variants(domain: Domain, task: Task, session: Session) -> Iterator[AlteredEpisode]:
    """Yield episodes of `task` that are right, though not the reference one."""
    guesser = Guesser(domain.database, random.Random(f"variants:{task.id}"))
    stages = [list(stage) for _, stage in groupby(task.reference_calls, key=lambda call: call.stage)]
    if any(len(stage) > 1 for stage in stages):
        calls = tuple(call for stage in stages for call in reversed(stage))
        yield AlteredEpisode("reorder independent calls", "each stage reversed", calls, task.answer)
    readers = [tool for tool in domain.tools.values() if tool.effect != "write"]
    extra: list[Call] = []
    for call in task.reference_calls:
        tool = guesser.rng.choice(readers)
        extra += [Call(tool.name, guesser.arguments(tool)), call]
    yield AlteredEpisode("add reads", f"{len(task.reference_calls)} reads", tuple(extra), task.answer)
    for detail, calls in with_other_lookups(domain, task, session):
        yield AlteredEpisode(OTHER_LOOKUP, detail, calls, task.answer)
    for name, wording in WORDINGS.items():
        if (answer := wording(task.answer)) != task.answer:
            yield AlteredEpisode("reword the answer", name, task.reference_calls, answer)


def _iso_to_long(found: re.Match[str]) -> str:
    try:
        day = datetime.date.fromisoformat(found[0])
    except ValueError:
        return found[0]
    return f"{day.day} {day:%B} {day.year}"


def _long_to_iso(found: re.Match[str]) -> str:
    return datetime.datetime.strptime(found[0].replace(",", ""), "%B %d %Y").date().isoformat()


def _padded(found: re.Match[str]) -> str:
    whole, _, fraction = found[1].replace(",", "").partition(".")
    return f"{int(whole):,}.{fraction:0<2}"


def _twelve_hours(found: re.Match[str]) -> str:
    hour = int(found[1])
    return f"{hour % 12 or 12}:{found[2]} {'pm' if hour >= 12 else 'am'}"


_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"

WORDINGS: dict[str, Callable[[str], str]] = {
    "in a longer text": lambda text: f"Certainly!\n\n{text}\n\nIs there anything else I can do for you?",
    "in capitals": str.upper,
    "amounts with two decimals and thousands separators": partial(
        re.sub, r"(?<![\w.:/-])(\d[\d,]*\.\d+)(?![\w.:/-])", _padded
    ),
    "ISO dates in words": partial(re.sub, r"\b\d{4}-\d{2}-\d{2}\b", _iso_to_long),
    "dates in words as ISO dates": partial(re.sub, rf"\b(?:{_MONTHS}) \d{{1,2}}, \d{{4}}\b", _long_to_iso),
    "times on a twelve-hour clock": partial(re.sub, r"\b(\d{2}):(\d{2})\b(?! ?[AaPp][Mm])", _twelve_hours),
}
"""Wordings of an answer that do not change what it says."""


def try_verifier(domain: Domain, tasks: Sequence[Task], progress: Callable[[], object] | None = None) -> VerifierReport:
    """Judge all mutants and variants of `tasks`; `progress` is called after each task."""
    report = VerifierReport()
    session = domain.session()
    for task in tasks:
        for episode in [*mutants(domain, task, session)]:
            report.mutants[episode.kind] += 1
            if domain.replay(task, episode.calls, episode.answer, session).solved:
                report.surprises.append(
                    Surprise(task.id, episode.kind, episode.detail, *_why(domain, task, episode, session))
                )
            else:
                report.killed[episode.kind] += 1
        for episode in [*variants(domain, task, session)]:
            report.variants[episode.kind] += 1
            verdict = domain.replay(task, episode.calls, episode.answer, session)
            if verdict.solved:
                report.accepted[episode.kind] += 1
            else:
                report.surprises.append(Surprise(task.id, episode.kind, episode.detail, str(verdict), equivalent=False))
        if progress is not None:
            progress()
    session.close()
    return report


def _why(domain: Domain, task: Task, episode: AlteredEpisode, session: Session) -> tuple[str, bool]:
    """Return why a mutant passes, and whether that makes it equivalent to the reference episode."""
    if episode.kind == "omit information":
        others = [facts[0] for facts in task.communicate if facts[0] != episode.detail]
        twin = next((fact for fact in others if mentions(tokens(fact), episode.detail)), None)
        if twin is not None and mentions(tokens(episode.answer), twin):
            return f"the information is part of another piece: {twin!r}", True
        return "the answer says it elsewhere", False
    touched = session.touched()
    domain.replay(task, task.reference_calls, task.answer, session)
    if session.touched() == touched:
        return "the database ends exactly as after the reference trajectory", True
    return "the net change of the database is the reference one", True
