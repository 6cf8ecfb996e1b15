"""Questions: tasks that are solved by a right final answer, and their world, which has no database.

A question is an ordinary `Task`. Its accepted answers are the phrases of its one entry of `communicate`, and the
steps that lead to the answer, if they are known, are `toolorchestra.envs.ground_truth.parts.Part`s in
``bindings["parts"]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from toolorchestra.envs.ground_truth.parts import Part
from toolorchestra.envs.task_source import TaskSource
from toolorchestra.envs.world import World
from toolorchestra.toolscale.answers import is_right
from toolorchestra.toolscale.database import Changes
from toolorchestra.toolscale.domain import SPLITS
from toolorchestra.toolscale.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.task import Call, Task
from toolorchestra.toolscale.tool import NO_CONTEXT, Tool, ToolResult
from toolorchestra.toolscale.verifier_mutations import Surprise, VerifierReport
from toolorchestra.toolscale.verify import SOLVED, Failure, Verdict


def make_question(
    *,
    id: str,
    domain: str,
    intent: str,
    split: str,
    difficulty: int,
    question: str,
    answers: Sequence[str],
    parts: Sequence[Part] = (),
    reference_calls: Sequence[Call] = (),
    **bindings: Any,
) -> Task:
    """Return a question as a task; the first of `answers` is given, the others are accepted as well."""
    if parts:
        bindings["parts"] = msgspec.json.decode(msgspec.json.encode(parts))  # as it is read from a file
    return Task(
        id=id,
        domain=domain,
        intent=intent,
        split=split,
        difficulty=difficulty,
        instruction=question,
        reference_calls=tuple(reference_calls),
        communicate=(tuple(dict.fromkeys(answers)),),
        answer=rf"\boxed{{{answers[0]}}}",
        bindings=bindings,
    )


def check_sizes(what: str, sizes: Mapping[str, int]) -> None:
    """Raise an `OptionError` if a number of questions that are wanted of a split is negative."""
    if min(sizes.values()) < 0:
        raise OptionError(f"Expected numbers of {what} of at least 0, got {dict(sizes)}.")


class StatelessSession:
    """The session of a world in which nothing can be changed."""

    def reset(self) -> None:
        """Do nothing: there is no state."""

    def call(self, tool: Tool, arguments: dict[str, Any]) -> ToolResult:
        """Run `tool` with valid `arguments`."""
        return tool.run(arguments, NO_CONTEXT)

    def touched(self) -> Changes:
        """Return no changes."""
        return {}

    def snapshot(self) -> None:
        """Return None, which is all there is to restore."""

    def restore(self, snapshot: None) -> None:
        """Do nothing: there is no state."""

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class QuestionWorld:
    """A world of questions, with no database: its unique name, what an orchestrator must know, and what it can call."""

    def __init__(self, name: str, rules: str, tools: Iterable[Tool] = ()) -> None:
        self.name, self.rules = name, rules
        self.tools: Mapping[str, Tool] = {tool.name: tool for tool in tools}

    def session(self) -> StatelessSession:
        """Return a session."""
        return StatelessSession()

    def verify(self, task: Task, session: object, answer: str) -> Verdict:
        """Judge an episode by its final answer alone."""
        accepted = task.communicate[0] if task.communicate else ()
        if is_right(answer, accepted):
            return SOLVED
        return Verdict((Failure("answer", f"the final answer should be {' or '.join(map(repr, accepted))}"),))


def try_answers(world: World, questions: Sequence[Task], step: Callable[[], object] = lambda: None) -> VerifierReport:
    """Judge right and wrong answers of every question, and report what was judged wrongly.

    Wrong are the answers of other questions of the same intent, all answers at once, and saying nothing; right is
    every accepted answer, boxed, in a sentence, or alone. Where several answers are asked for, right is all of
    them, and wrong is all but one.
    """
    report = VerifierReport(surprises=[])
    kinds: dict[str, list[tuple[str, ...]]] = {}
    for task in questions:
        kinds.setdefault(task.intent, []).append(task.communicate[0])
    session = world.session()
    for number, task in enumerate(questions):
        step()
        others = kinds[task.intent]
        near = [others[(number + i) % len(others)] for i in range(1, min(len(others), 4))]
        for kind, text, right in _attempts_at_several(task) if len(task.communicate) > 1 else _attempts(task, near):
            solved = world.verify(task, session, text).solved
            (report.variants if right else report.mutants)[kind] += 1
            if solved is right:
                (report.accepted if right else report.killed)[kind] += 1
            else:
                reason = f"judged {'solved' if solved else 'failed'}, the answer being {task.communicate[0][0]!r}"
                report.surprises.append(Surprise(task.id, kind, text, reason, False))
    session.close()
    return report


def _attempts(task: Task, near: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, str, bool]]:
    """Yield the kind, the text and the verdict of answers to a question, given the answers of similar ones."""
    accepted = task.communicate[0]
    for right in accepted:
        yield "boxed", rf"It follows that \boxed{{{right}}} holds.", True
        yield "told", f"I looked everything up.\nThe answer is {right}", True
        yield "alone", right, True
    wrong = [other[0] for other in near if not set(other) & set(accepted)]
    for other in wrong:
        yield "another answer", rf"\boxed{{{other}}}", False
    for other in wrong:
        yield "several answers", rf"\boxed{{{accepted[0]} or {other}}}", False
    yield "no answer", "", False


def _attempts_at_several(task: Task) -> Iterator[tuple[str, str, bool]]:
    """Yield the same for a question that asks for several answers."""
    right = [accepted[0] for accepted in task.communicate]
    yield "as asked", task.answer, True
    yield "listed", rf"\boxed{{{', '.join(right)}}}", True
    for place in range(len(right)):
        given = [*right[:place], f"{right[place]}1", *right[place + 1 :]]
        yield "one answer wrong", rf"\boxed{{{', '.join(given)}}}", False
    yield "one answer missing", rf"\boxed{{{', '.join(right[:-1])}}}", False
    yield "no answer", "", False


class QuestionSource(TaskSource):
    """Questions in one world, each split in their order; `name` stands in environment ids."""

    def __init__(self, name: str, world: QuestionWorld, questions: Sequence[Task]) -> None:
        if not questions:
            raise OptionError(f"Expected at least one question for the source {name}, found none.")
        self.name, self._world, self._questions = name, world, list(questions)

    def tasks(self, split: str) -> list[Task]:
        """Return the questions of a split."""
        if split != "all" and split not in SPLITS:
            raise UnknownNameError("split", split, ("all", *SPLITS))
        return [task for task in self._questions if split in ("all", task.split)]

    def world(self, task: Task) -> QuestionWorld:
        """Return the world of all questions."""
        return self._world
