"""Evaluating experts, simulated or real, on tasks whose answers are known.

`toolorchestra.agents.experts.descriptions` writes descriptions from the evaluations, and
`toolorchestra.agents.experts.fitting` fits an expert to their rows. Not covered: tasks that take several turns or
tools, which environments pose.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from toolorchestra.agents.chat.base import ChatModel, ChatRequest
from toolorchestra.agents.experts.answer_rows import AnswerRow
from toolorchestra.agents.experts.simulated_expert import SimulatedExpert
from toolorchestra.agents.experts.specification import Role
from toolorchestra.agents.problems import Problem, Step
from toolorchestra.toolscale.answers import is_right
from toolorchestra.toolscale.errors import OptionError
from toolorchestra.toolscale.jsonl import read_jsonl

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


class ExpertEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """An expert's answer to a task, and whether it is right.

    Attributes:
        expert: The expert.
        task: The task.
        sample: Number of this attempt among the expert's attempts at the task.
        text: What it wrote, or what a simulated one did.
        right: Whether its answer is right.
        tokens: Tokens written.
        seconds: Time taken.
        prompt_tokens: Tokens read.
        role: The role in which it was asked.
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
    """Return the tasks of a JSONL file.

    Raises:
        OptionError: A line is no `ExpertTask`, or has the key of another; names the line.
    """
    tasks, keys = list[ExpertTask](), set[str]()
    for number, task in read_jsonl(file, ExpertTask, "a task with key, instruction and answer"):
        if task.key in keys:
            raise OptionError(f"{file}:{number}: expected every task to have a key of its own, got {task.key!r} again.")
        tasks.append(task)
        keys.add(task.key)
    if not tasks:
        raise OptionError(f"{file} holds no task.")
    return tasks


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
    """Return a simulated expert's evaluations."""
    evaluations = []
    for task in tasks:
        problem = task.problem
        every = msgspec.structs.replace(problem, targets=tuple(range(task.steps)))
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
    """Return a real expert's evaluations; all tasks run at once as far as the model allows.

    Args:
        chat: The model.
        name: Name of the expert.
        tasks: The tasks.
        samples: Number of answers to each.
        seed: Seed of the first sample of each task; the next has the next seed.
        temperature: Sampling temperature.
        max_tokens: Maximum number of tokens of an answer.
        role: The role whose latency the answers' times are counted for.

    Raises:
        BatchError: A request failed for good: a missing answer is not a wrong one.
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
