"""Evaluating experts, simulated or real, on tasks whose answers are known; files of tasks and of answers.

`toolorchestra.agents.experts.descriptions` writes descriptions from the evaluations, and
`toolorchestra.agents.experts.fitting` fits an expert to their rows. Not covered: tasks of several turns or with tools.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from toolorchestra.agents.chat.base import ChatModel, ChatRequest
from toolorchestra.agents.experts.simulated_expert import SimulatedExpert
from toolorchestra.agents.experts.specification import Role
from toolorchestra.agents.problems import Problem, Step
from toolorchestra.toolscale.answers.answers import is_right
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.jsonl import read_jsonl
from toolorchestra.toolscale.workers.units import Executor, Unit

_PROMPT = "Solve the problem step by step. Give the final answer in \\boxed{} at the end."
_SUBJECTS = ("math", "code", "science", "humanities", "search", "reasoning", "function_calling")


class ExpertTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A question with a known answer: a line of a file of tasks.

    Attributes:
        key: Its unique name.
        instruction: The question.
        answer: The right answer; any equal form counts.
        subject: Subject of the skill that it takes.
        steps: Steps of reasoning that it takes, as far as that is known.
        difficulty: Difficulty of a step in logits, likewise.
        notes: Steps about which the instruction makes a false claim.
    """

    key: str
    instruction: str
    answer: str
    subject: str = "other"
    steps: Annotated[int, Meta(ge=1)] = 1
    difficulty: float = 0.0
    notes: Annotated[int, Meta(ge=0)] = 0

    @property
    def problem(self) -> Problem:
        """The ground truth for a simulated expert."""
        wrong = ("(a wrong answer)",)
        steps = [
            Step(
                self.answer if at == self.steps - 1 else "right",
                wrong,
                (at - 1,) if at else (),
                self.difficulty,
                note="(what the note says)" if at < self.notes else None,
            )
            for at in range(self.steps)
        ]
        return Problem(self.key, self.subject, tuple(steps))


class AnswerRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One answer of one expert to one problem: a line of the file.

    The problem has a `key` that is the same for all experts, and its other fields as in `ExpertTask`. `sample` numbers
    the expert's answers to the problem, `tokens` are written and `prompt_tokens` read, and `role` is the role in which
    the expert was asked.
    """

    expert: str
    key: str
    right: bool
    sample: int = 0
    subject: str = "other"
    steps: Annotated[int, Meta(ge=1)] = 1
    difficulty: float = 0.0
    notes: Annotated[int, Meta(ge=0)] = 0
    tokens: Annotated[int, Meta(ge=1)] | None = None
    seconds: Annotated[float, Meta(gt=0)] | None = None
    prompt_tokens: Annotated[int, Meta(ge=0)] = 0
    role: Role | None = None

    @property
    def posed(self) -> tuple[str, int, float, int]:
        """The problem's subject, steps, difficulty and notes."""
        return self.subject, self.steps, self.difficulty, self.notes


class ExpertEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """An expert's answer to a task (the text of a real one, the steps of a simulated one), and whether it is right.

    `sample` numbers the answers to one task, `tokens` are written and `prompt_tokens` read, and `role` is the role in
    which the expert was asked.
    """

    expert: str
    task: ExpertTask
    sample: int
    text: str
    right: bool
    tokens: int
    seconds: float
    prompt_tokens: int = 0
    role: Role | None = None

    @property
    def row(self) -> AnswerRow:
        """The line of a file of answers."""
        own = {name: getattr(self, name) for name in ("expert", "right", "sample", "prompt_tokens", "role")}
        posed = {name: getattr(self.task, name) for name in ("key", "subject", "steps", "difficulty", "notes")}
        return AnswerRow(**own, **posed, tokens=self.tokens or None, seconds=self.seconds or None)


def read_tasks(file: Path) -> list[ExpertTask]:
    """Return the tasks of a JSONL file; an invalid line or a key that stands twice raises `OptionError`."""
    tasks, keys = list[ExpertTask](), set[str]()
    for number, task in read_jsonl(file, ExpertTask, "a task with key, instruction and answer"):
        if task.key in keys:
            raise OptionError(f"{file}:{number}: expected every task to have a key of its own, got {task.key!r} again.")
        tasks.append(task)
        keys.add(task.key)
    if not tasks:
        raise OptionError(f"{file} holds no task.")
    return tasks


def read_answers(file: Path) -> list[AnswerRow]:
    """Return the rows of a JSONL file.

    A line that is no `AnswerRow`, repeats another or poses a problem differently raises `OptionError`.
    """
    rows: list[AnswerRow] = []
    lines: dict[tuple[str, str, int], int] = {}
    posed: dict[str, tuple[int, AnswerRow]] = {}
    for number, row in read_jsonl(file, AnswerRow, "an answer"):
        first = lines.setdefault((row.expert, row.key, row.sample), number)
        if first != number:
            raise OptionError(
                f"{file}:{number}: expected one row for sample {row.sample} of {row.expert} on {row.key!r}; line "
                f"{first} is one already. Number the samples."
            )
        before, like = posed.setdefault(row.key, (number, row))
        if like.posed != row.posed:
            raise OptionError(
                f"{file}:{number}: expected {row.key!r} to be what it is in line {before} (subject, steps, difficulty, "
                f"notes: {like.posed}), got {row.posed}. Give another problem another key."
            )
        rows.append(row)
    if not rows:
        raise OptionError(f"{file} holds no answer.")
    return rows


def graded_tasks(
    count: int, *, seed: int = 0, subjects: Sequence[str] = _SUBJECTS, noted: float = 0.0
) -> list[ExpertTask]:
    """Return tasks for simulated experts: subjects in turn, of 1 to 8 steps and difficulties from 0 to 2.

    A share `noted` of them has a note about one step.

    >>> [task.subject for task in graded_tasks(3, subjects=("math", "code"))]
    ['math', 'code', 'math']
    """
    rng = random.Random(f"graded/{seed}")
    tasks = []
    for number in range(count):
        subject, steps, difficulty = subjects[number % len(subjects)], rng.choice((1, 2, 4, 8)), rng.choice((0, 1, 2))
        words = f"A problem of {subject.replace('_', ' ')} in {steps} step{'s' if steps > 1 else ''}"
        tasks.append(
            ExpertTask(
                key=f"graded/{seed}/{number}",
                instruction=f"{words}, each of difficulty {difficulty} (0 is easy, 2 is hard).",
                answer="(the right answer)",
                subject=subject,
                steps=steps,
                difficulty=float(difficulty),
                notes=int(rng.random() < noted),
            )
        )
    return tasks


def simulate(
    expert: SimulatedExpert,
    tasks: Iterable[ExpertTask],
    *,
    samples: int = 1,
    seed: int = 0,
    temperature: float = 1.0,
    role: Role | None = None,
) -> list[ExpertEvaluation]:
    """Return a simulated expert's evaluations, with seeds from `seed` on for the samples of each task."""
    evaluations = []
    for task in tasks:
        every = msgspec.structs.replace(task.problem, targets=tuple(range(task.steps)))
        for sample in range(samples):
            found = expert.solve(every, seed=seed + sample, temperature=temperature, role=role)
            steps = [f"Step {at}: {'right' if good else 'wrong'}." for at, good in enumerate(found.right, 1)]
            evaluations.append(
                ExpertEvaluation(
                    expert=expert.name,
                    task=task,
                    sample=sample,
                    text=" ".join([*steps, f"Answer: {found.answers[-1]}"]),
                    right=found.right[-1],
                    tokens=found.tokens,
                    seconds=found.seconds,
                    role=role,
                )
            )
    return evaluations


def simulate_parts(
    executor: Executor, expert: SimulatedExpert, tasks: Sequence[ExpertTask], **options: Any
) -> list[ExpertEvaluation]:
    """Return what `simulate` returns for the same options, the tasks divided among the workers of an executor."""
    size = max(1, -(-len(tasks) // (8 * executor.workers)))
    parts = (tasks[first : first + size] for first in range(0, len(tasks), size))
    units = (Unit((expert.name, part[0].key), functools.partial(simulate, **options), (expert, part)) for part in parts)
    return [evaluation for found in executor.run(units) for evaluation in found]


def ask(
    chat: ChatModel,
    name: str,
    tasks: Sequence[ExpertTask],
    *,
    samples: int = 1,
    seed: int = 0,
    temperature: float = 1.0,
    max_tokens: int = 4096,
    role: Role | None = None,
) -> list[ExpertEvaluation]:
    """Return the evaluations of the real expert `name`; all tasks run at once as far as the model allows.

    Each task has `samples` answers with seeds from `seed` on; their times count for the latency in `role`. A request
    that fails for good raises `BatchError`: a missing answer is not a wrong one.
    """
    tries = [(task, sample) for task in tasks for sample in range(samples)]
    requests = [
        ChatRequest(
            [{"role": "system", "content": _PROMPT}, {"role": "user", "content": task.instruction}],
            temperature=temperature,
            max_tokens=max_tokens,
            seed=seed + sample,
        )
        for task, sample in tries
    ]
    return [
        ExpertEvaluation(
            expert=name,
            task=task,
            sample=sample,
            text=answer.text,
            right=is_right(answer.text, [task.answer]),
            tokens=answer.completion_tokens,
            seconds=answer.latency,
            prompt_tokens=answer.prompt_tokens,
            role=role,
        )
        for (task, sample), answer in zip(tries, chat.complete(requests), strict=True)
    ]
