"""Evolution: harder tasks made of verified ones by rule, in any domain (ToolOrchestra §3.4, Table 14).

- ``constraint``: do it only if the result of a look-up meets a condition, and report the result in any case;
- ``chain``: two requests that do not affect each other become one;
- ``branch``: the result of a look-up decides which of two requests is carried out;
- ``indirect``: an id is replaced by a description, and has to be looked up;
- ``distract``: an irrelevant fact, or a request that is withdrawn, is added;
- ``impossible``: a value is changed so that the request cannot be carried out, which must be found out and reported.

Every task is verified: its reference trajectory runs and passes; doing nothing does not, nor does solving the tasks
that it was made of; and no piece of information to report contains another. A task is in the split of its parents and
names their ids. The result depends on the domain, its tasks and the seed alone.

`evolve` makes as many as each operator is to make, or as many as a share of all tasks needs.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from toolorchestra.toolscale.answers.mentions import mentions, tokens
from toolorchestra.toolscale.common.errors import TaskError
from toolorchestra.toolscale.database.format import Evolution, Operator
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.evolution.operators import OPERATORS, TaskDraft, TaskPool
from toolorchestra.toolscale.requests.lookups import unshown_ids, with_needed_lookups
from toolorchestra.toolscale.requests.wording_checks import is_sentence, text_faults
from toolorchestra.toolscale.tasks.task import Task

LEAST = 5
"""Tasks that each operator makes at least, if it can, where a share of evolved tasks is asked for."""
_TRIES = 40  # candidates for each task wanted


class Evolver:
    """Makes evolved tasks of a domain's verified tasks; those that are evolved themselves are left aside."""

    def __init__(self, domain: Domain, tasks: Sequence[Task]) -> None:
        self.domain = domain
        self._pool = TaskPool(domain, tasks)

    def close(self) -> None:
        """Release the database."""
        self._pool.index.session.close()

    def tasks(
        self, operator: Operator, seed: str, count: int, taken: Collection[str] = (), known: Collection[str] = ()
    ) -> tuple[dict[str, Task], Counter[str]]:
        """Return up to `count` tasks by key, made by an operator, and how many drafts were dropped for each reason.

        Their ids have no number yet. Instructions that are `taken` and `known` keys are not used again.
        """
        rng = random.Random(seed)
        seen = set(taken)
        found: dict[str, Task] = {}
        dropped: Counter[str] = Counter()
        for _ in range(_TRIES * count):
            parent = self._pool.parent(rng)
            if parent is None or len(found) == count:
                break
            draft = OPERATORS[operator](self._pool, parent, rng)
            if draft is None or draft.key in found or draft.key in known:
                continue
            reason = "duplicate instruction" if draft.task.instruction in seen else self._fault(draft)
            if reason:
                dropped[f"{operator}: {reason}"] += 1
            else:
                found[draft.key] = with_needed_lookups(self.domain, draft.task, self._pool.index.session)
                seen.add(draft.task.instruction)
        return found, dropped

    def _fault(self, draft: TaskDraft) -> str:
        """Return why a draft is no task, or nothing."""
        task, domain, session = draft.task, self.domain, self._pool.index.session
        if domain.spec.names and (fault := next(self._wording_faults(task), None)):
            return fault
        for position, options in enumerate(task.communicate):
            others = tokens(". ".join(facts[0] for i, facts in enumerate(task.communicate) if i != position))
            if any(mentions(others, option) for option in options):
                return "one piece of information gives another away"
        told = [tokens(answer) for _, answer in draft.unevolved]
        phrases = [phrase for fact in task.communicate for phrase in fact]
        if any(mentions(words, f"nothing was {phrase}") for words in told for phrase in phrases):
            return "one answer says that nothing was done, and another that it was"
        if task.operator == "impossible" and any({"found", "no"} <= {*words} for words in told):
            return "a name says no already"
        try:
            if not domain.replay(task, task.reference_calls, task.answer, session).solved:
                return "the reference trajectory does not pass"
            if domain.replay(task, (), "", session).solved:
                return "solved by doing and saying nothing"
            if any(domain.replay(task, calls, answer, session).solved for calls, answer in draft.unevolved):
                return "solved without what was added"
        except TaskError:
            return "a reference call errs"
        if unshown_ids(domain, task, task.whole_path, session):
            return "an id that nothing shows"
        return ""

    def _wording_faults(self, task: Task) -> Iterator[str]:
        """Yield what is wrong with the wording of a task where entries have names."""
        if not is_sentence(task.answer):
            yield "the answer is no sentence"
        for text in (task.instruction, task.answer):
            yield from (f"{rule} at fault" for rule, _ in text_faults(text))


def evolve(
    domain: Domain, tasks: Sequence[Task], counts: Mapping[Evolution, float], seed: int
) -> tuple[list[Task], Counter[str]]:
    """Return tasks evolved from `tasks`, and how many candidates were dropped for each reason.

    Args:
        domain: The domain.
        tasks: Its tasks; those that are evolved already count for the share.
        counts: How many tasks each operator makes, if it can. With a ``share``, all operators make as many as it takes:
            the same number each, at least `LEAST`, and more where another operator finds no more.
        seed: Seed of all draws.

    Raises:
        DomainError: The operators do not find enough tasks for the share.
    """
    made = _Evolved(domain, tasks, seed)
    for operator, count in counts.items():
        if operator != "share":
            made.add(operator, int(count))
    if "share" in counts:
        made.reach(counts["share"])
    made.evolver.close()
    return made.tasks, made.dropped


class _Evolved:
    """The evolved tasks that were made so far."""

    def __init__(self, domain: Domain, tasks: Sequence[Task], seed: int) -> None:
        self.evolver = Evolver(domain, tasks)
        self.tasks: list[Task] = []
        self.dropped: Counter[str] = Counter()
        self._domain, self._given, self._seed = domain, tasks, seed
        self._numbers: Counter[str] = Counter()
        self._seen = {task.instruction for task in tasks}
        self._keys: set[str] = set()
        self._rounds: Counter[str] = Counter()

    def add(self, operator: Operator, count: int) -> int:
        """Make up to `count` tasks by an operator, and return how many."""
        again = f":{self._rounds[operator]}" if self._rounds[operator] else ""
        self._rounds[operator] += 1
        seed = f"{self._seed}:{self._domain.name}:{operator}{again}"
        found, faults = self.evolver.tasks(operator, seed, count, self._seen, self._keys)
        self.dropped += faults
        self._keys.update(found)
        self._seen.update(task.instruction for task in found.values())
        self.tasks += (numbered(task, self._numbers) for task in found.values())
        if len(found) < count:
            self.dropped[f"{operator}: no further task found"] += count - len(found)
        return len(found)

    def reach(self, share: float) -> None:
        """Make tasks by all operators until this share of all tasks is evolved."""
        able = list(OPERATORS)
        least = LEAST
        while able and (least or self._missing(share)):
            each = max(least, -(-self._missing(share) // len(able)))
            able = [operator for operator in able if self.add(operator, each) == each]
            least = 0
        if missing := self._missing(share):
            by = Counter(str(task.operator) for task in self.tasks)
            raise self._domain.error(
                f"Expected {share:.0%} evolved tasks, and {missing} more are needed than the operators find "
                f"({', '.join(f'{name} {by[name]}' for name in OPERATORS)}).",
                "evolution.share",
                "Lower the share, or give the operators what they need: see docs/evolution.md.",
            )

    def _missing(self, share: float) -> int:
        """Return how many evolved tasks more the share needs."""
        evolved = sum(task.operator is not None for task in (*self._given, *self.tasks))
        return max(0, math.ceil((share * (len(self._given) + len(self.tasks)) - evolved) / (1 - share)))


def numbered(task: Task, numbers: Counter[str]) -> Task:
    """Return an evolved task with the next number of its intent in its id."""
    number = numbers[task.intent]
    numbers[task.intent] += 1
    return msgspec.structs.replace(task, id=f"{task.domain}/{task.intent}/{number:03d}")
