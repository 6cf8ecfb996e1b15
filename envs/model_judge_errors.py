"""How often a model errs as judge of answers: its verdicts on answers whose labels are known.

Three judges are compared on the same answers: the rules alone; the rules and the model, as an environment with the
option ``judge`` has them; and the model alone, which is asked about every fact of every answer. The last shows how good
the model is; the second, what its errors do to rewards. Only answers are judged: the reference calls count as made.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from toolorchestra.envs.model_judge import FactQuestion, ModelJudge
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.errors import ExpertError
from toolorchestra.toolscale.intervals import wilson_interval
from toolorchestra.toolscale.judging.attacks import Context, attacks, rephrasings
from toolorchestra.toolscale.judging.judge import judge_answer
from toolorchestra.toolscale.judging.unsettled import unsettled_facts
from toolorchestra.toolscale.task import Task

_SIBLINGS = 12
_STRANGERS = 6


class LabelledAnswer(NamedTuple):
    """An answer to a task, and whether it is right; `kind` groups answers in a report."""

    task: Task
    text: str
    right: bool
    kind: str = ""


class JudgeErrors(msgspec.Struct):
    """How often answers were judged otherwise than labelled.

    Attributes:
        right: Right answers judged.
        wrong: Wrong answers judged.
        wrongly_rejected: Right answers judged wrong.
        wrongly_accepted: Wrong answers judged right.
        asked: Answers about which the model was asked.
        failed: Answers about which it gave no verdict; they count neither as right nor as wrong.
    """

    right: int = 0
    wrong: int = 0
    wrongly_rejected: int = 0
    wrongly_accepted: int = 0
    asked: int = 0
    failed: int = 0

    def add(self, *, right: bool, accepted: bool | None) -> None:
        """Count an answer; `accepted` is None where there was no verdict."""
        if accepted is None:
            self.failed += 1
        elif right:
            self.right += 1
            self.wrongly_rejected += not accepted
        else:
            self.wrong += 1
            self.wrongly_accepted += accepted

    def count(self, other: JudgeErrors) -> None:
        """Add what was counted elsewhere."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def rates(self) -> dict[str, float | None]:
        """The shares of right answers rejected and of wrong answers accepted; None where there was none."""
        return {
            "wrongly rejected": self.wrongly_rejected / self.right if self.right else None,
            "wrongly accepted": self.wrongly_accepted / self.wrong if self.wrong else None,
        }

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """Where these shares lie with 95 % confidence (Wilson)."""
        return {
            "wrongly rejected": wilson_interval(self.wrongly_rejected, self.right),
            "wrongly accepted": wilson_interval(self.wrongly_accepted, self.wrong),
        }


class JudgesCompared(msgspec.Struct):
    """The errors of the three judges on the same answers, and the answers that rules and model judge otherwise."""

    rules: JudgeErrors
    both: JudgeErrors
    model: JudgeErrors
    surprises: list[tuple[str, str, bool]]


def judge_errors(
    domain: Domain,
    labelled: Sequence[LabelledAnswer],
    judge: ModelJudge,
    *,
    alone: bool = True,
    progress: Callable[[], object] = lambda: None,
    batch: int = 64,
) -> JudgesCompared:
    """Return how often rules, rules and model, and the model alone judge answers otherwise than labelled.

    Args:
        domain: The domain of all the tasks.
        labelled: The answers.
        judge: The model.
        alone: Whether the model is also asked about every fact of every answer, if there are facts.
        progress: Called after each batch.
        batch: Answers about which the model is asked at once.
    """
    found = JudgesCompared(JudgeErrors(), JudgeErrors(), JudgeErrors(), [])
    for start in range(0, len(labelled), batch):
        some = labelled[start : start + batch]
        verdicts = [_rules(domain, answer) for answer in some]
        _count_both(found, some, verdicts, judge)
        if alone:
            _count_alone(found.model, [answer for answer in some if answer.task.communicate], judge)
        progress()
    return found


def attack_answers(domain: Domain, tasks: int, seed: int) -> Iterator[LabelledAnswer]:
    """Yield all attacks on some tasks of a domain, labelled wrong, and all rephrasings of their answers, as right."""
    rng = random.Random(f"judge:{domain.name}:{seed}")
    stating = [task for task in domain.tasks() if task.communicate]
    session = domain.session()
    for task in rng.sample(stating, min(tasks, len(stating))):
        session.reset()
        results = [domain.call(call, session).value for call in task.reference_calls]
        near = [other for other in stating if other.intent == task.intent]
        siblings, strangers = rng.sample(near, min(_SIBLINGS, len(near))), rng.choices(stating, k=_STRANGERS)
        context = Context(task, domain.verifier.reference(task).answer, results, siblings, strangers)
        for kind, text in attacks(context):
            yield LabelledAnswer(task, text, False, kind)
        for kind, text in rephrasings(context):
            yield LabelledAnswer(task, text, True, kind)
    session.close()


def _rules(domain: Domain, answer: LabelledAnswer) -> tuple[bool, tuple[int, ...]]:
    """Return whether the rules accept an answer, and the facts about which they cannot say."""
    expected = domain.verifier.reference(answer.task).answer
    if not judge_answer(answer.text, expected):
        return True, ()
    return False, tuple(unsettled_facts(answer.text, expected))


def _count_both(
    found: JudgesCompared,
    answers: Sequence[LabelledAnswer],
    verdicts: Sequence[tuple[bool, tuple[int, ...]]],
    judge: ModelJudge,
) -> None:
    pairs = list(zip(answers, verdicts, strict=True))
    asked = [FactQuestion(answer.task, facts, answer.text) for answer, (_, facts) in pairs if facts]
    answers_of_judge = iter(judge.ask(asked))
    found.both.asked += len(asked)
    for answer, (accepted, facts) in pairs:
        found.rules.add(right=answer.right, accepted=accepted)
        verdict = _accepted(next(answers_of_judge)) if facts else accepted
        found.both.add(right=answer.right, accepted=verdict)
        if verdict is not answer.right:
            found.surprises.append((answer.task.id, answer.text, answer.right))


def _count_alone(errors: JudgeErrors, answers: Sequence[LabelledAnswer], judge: ModelJudge) -> None:
    asked = [FactQuestion(one.task, tuple(range(len(one.task.communicate))), one.text) for one in answers]
    errors.asked += len(asked)
    for answer, verdict in zip(answers, judge.ask(asked), strict=True):
        errors.add(right=answer.right, accepted=_accepted(verdict))


def _accepted(verdict: tuple[bool, ...] | ExpertError) -> bool | None:
    return None if isinstance(verdict, ExpertError) else all(verdict)
