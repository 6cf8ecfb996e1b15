"""Questions: tasks that are solved by a right final answer, and their world, which has no database.

A question is an ordinary `Task`. Its accepted answers are the phrases of its one entry of `communicate`, and the
steps that lead to the answer, if they are known, are `toolorchestra.envs.ground_truth.parts.SubProblem`s in
``bindings["parts"]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from toolorchestra.envs.ground_truth.parts import SubProblem
from toolorchestra.envs.sources.answer_attempts import attempts, attempts_at_several
from toolorchestra.envs.task_source import TaskSource
from toolorchestra.envs.world import World
from toolorchestra.toolscale.answers.answers import FORMS, answers, is_right
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.database.database import Changes
from toolorchestra.toolscale.domain import SPLITS
from toolorchestra.toolscale.tasks.task import Call, Task
from toolorchestra.toolscale.tasks.verify import SOLVED, Failure, Verdict
from toolorchestra.toolscale.tools.tool import NO_CONTEXT, Tool, ToolResult
from toolorchestra.toolscale.validation.verifier_mutations import UnexpectedVerdict, VerifierReport

FORM = "Give your final answer as \\boxed{…}."


def make_question(
    *,
    id: str,
    domain: str,
    intent: str,
    split: str,
    difficulty: int,
    question: str,
    answers: Sequence[str],
    parts: Sequence[SubProblem] = (),
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
    """A world of questions, with no database: its unique name, what an orchestrator must know, and what it can call.

    Rules that do not tell the form of an answer are added to.
    """

    def __init__(self, name: str, rules: str, tools: Iterable[Tool] = ()) -> None:
        self.name, self.rules = name, rules if r"\boxed" in rules else f"{rules} {self.form}".strip()
        self.tools: Mapping[str, Tool] = {tool.name: tool for tool in tools}

    form = FORM
    """The sentence that tells how an answer is written."""

    def session(self) -> StatelessSession:
        """Return a session."""
        return StatelessSession()

    def verify(self, task: Task, session: object, answer: str) -> Verdict:
        """Judge an episode by its final answer alone."""
        accepted = task.communicate[0] if task.communicate else ()
        if is_right(answer, accepted):
            return SOLVED
        if not answers(answer):
            return Verdict((Failure("answer", f"the message gives no answer: it must stand in {FORMS}"),))
        return Verdict((Failure("answer", f"the final answer should be {' or '.join(map(repr, accepted))}"),))


def try_answers(world: World, questions: Sequence[Task], step: Callable[[], object] = lambda: None) -> VerifierReport:
    """Judge right and wrong answers of every question, and report what was judged wrongly.

    The attempts are those of `toolorchestra.envs.sources.answer_attempts`; similar questions are those of the same
    intent. Questions without a known answer, which programs answer, are left out.
    """
    report = VerifierReport(surprises=[])
    questions = [task for task in questions if task.communicate]
    kinds: dict[str, list[tuple[str, ...]]] = {}
    for task in questions:
        kinds.setdefault(task.intent, []).append(task.communicate[0])
    session = world.session()
    for number, task in enumerate(questions):
        step()
        others = kinds[task.intent]
        near = [others[(number + i) % len(others)] for i in range(1, min(len(others), 4))]
        if len(task.communicate) > 1:
            tried = attempts_at_several(task)
        else:
            tried = attempts(task, near, _seen(world, session, task))
        for kind, text, right in tried:
            solved = world.verify(task, session, text).solved
            (report.variants if right else report.mutants)[kind] += 1
            if solved is right:
                (report.accepted if right else report.killed)[kind] += 1
            else:
                reason = f"judged {'solved' if solved else 'failed'}, the answer being {task.communicate[0][0]!r}"
                report.surprises.append(UnexpectedVerdict(task.id, kind, text, reason, False))
    session.close()
    return report


def _seen(world: World, session: Any, task: Task) -> list[Any]:
    """Return what the reference calls of a question return, as far as they run without an episode."""
    calls = [(world.tools[call.name], msgspec.json.encode(call.arguments)) for call in task.reference_calls]
    return [session.call(tool, tool.decode(text)).value for tool, text in calls if not tool.uses_episode]


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
