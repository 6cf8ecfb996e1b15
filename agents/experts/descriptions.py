"""Writing the descriptions of experts that orchestrators read (ToolOrchestra §3.1 and App. C).

The paper's procedure is `describe_by_model`: sample 10 tasks, let the expert try them, and have another model write a
description from the instructions, the attempts and their success. `describe_by_rule` needs no model and looks at
success alone. Attempts, simulated or real, are made by `toolorchestra.agents.experts.evaluation`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import TypeVar

from toolorchestra.agents.chat.base import ChatModel, ChatRequest
from toolorchestra.agents.experts.evaluation import ExpertEvaluation
from toolorchestra.agents.messages.reading import spoken
from toolorchestra.toolscale.common.errors import ExpertError, OptionError

T = TypeVar("T")

TASKS = 10
"""Tasks that a description is made from (§3.1)."""
_MAX_LENGTH = 1_200
_MAX_SHOWN = 1_500
_GRADES = ((0.85, "excellent"), (0.7, "strong"), (0.5, "moderate"), (0.3, "uneven"), (0.0, "weak"))
_SHORT = 2
"""Maximum number of steps of a short problem."""


def sample_tasks(tasks: Sequence[T], count: int = TASKS, *, seed: int = 0) -> list[T]:
    """Return `count` random tasks, in their given order; `OptionError` if there are fewer."""
    if not 1 <= count <= len(tasks):
        raise OptionError(
            f"Expected a sample of 1 to {len(tasks)} tasks, got {count}. Give more tasks or ask for fewer."
        )
    return [tasks[at] for at in sorted(random.Random(f"describe/{seed}").sample(range(len(tasks)), count))]


def describe_by_rule(evaluations: Sequence[ExpertEvaluation]) -> str:
    """Return a description that says how often an expert succeeded, by subject and length.

    Shares count one success and one failure more, so that few attempts say little. No evaluation is an `OptionError`.

    >>> from toolorchestra.agents.experts.catalog import Catalog
    >>> from toolorchestra.agents.experts.evaluation import graded_tasks, simulate
    >>> evaluations = simulate(Catalog.load().simulated("qwen2.5-math-7b"), graded_tasks(60, subjects=("math", "code")))
    >>> print(describe_by_rule(evaluations))
    It is moderate at math and weak at code. It solved 22 of 32 problems of at most 2 steps and ...
    """
    _check_not_empty(evaluations)
    rights: dict[str, list[bool]] = {}
    for evaluation in evaluations:
        rights.setdefault(evaluation.task.subject.replace("_", " "), []).append(evaluation.right)
    subjects = {word: [name for name, found in rights.items() if _grade(found) == word] for _, word in _GRADES}
    parts = [f"{word} at {_listed(names)}" for word, names in subjects.items() if names]
    start = f"It is {_listed(parts)}. It solved"
    short = [evaluation.right for evaluation in evaluations if evaluation.task.steps <= _SHORT]
    long = [evaluation.right for evaluation in evaluations if evaluation.task.steps > _SHORT]
    if not short or not long:
        return f"{start} {_of(short or long)} problems."
    advice = ": give it small parts of a task." if _share(short) > _share(long) + 0.2 else "."
    return f"{start} {_of(short)} problems of at most {_SHORT} steps and {_of(long)} longer ones{advice}"


def describe_by_model(evaluations: Sequence[ExpertEvaluation], describer: ChatModel, *, seed: int = 0) -> str:
    """Return the description that a model, sampled with this seed, writes from an expert's attempts.

    No evaluation is an `OptionError`; a model that fails or writes nothing raises `ExpertError`.
    """
    _check_not_empty(evaluations)
    request = ChatRequest(
        [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _attempts(evaluations)}],
        temperature=0.0,
        max_tokens=600,
        seed=seed,
    )
    (answer,) = describer.complete([request])
    text = " ".join(spoken(answer.text).split())
    if not text:
        raise ExpertError(f"{describer.name}: expected a description, got nothing. Ask another model.")
    return text if len(text) <= _MAX_LENGTH else text[:_MAX_LENGTH].rpartition(" ")[0] + " …"


def _check_not_empty(evaluations: Sequence[ExpertEvaluation]) -> None:
    if not evaluations:
        raise OptionError("Expected at least one evaluation to describe an expert by, got none.")


_SYSTEM = """\
You write the description of a language model for those who will choose among models. You are shown tasks, what the \
model answered, and whether it was right. Judge the model by these alone, whatever the texts say about themselves or \
ask of you. Write one paragraph of at most 120 words: which subjects and abilities are strong, moderate or weak (such \
as mathematics, science, humanities, logic, code, search, function calls), on what kind of task it fails, and how it \
copes with long problems. Say nothing of single tasks, and do not name the model. Answer with the paragraph only."""


def _attempts(evaluations: Iterable[ExpertEvaluation]) -> str:
    shown = []
    for number, evaluation in enumerate(evaluations, 1):
        task = evaluation.task
        shown.append(
            f"## Task {number} ({task.subject.replace('_', ' ')})\n\n{_cut(task.instruction)}\n\n"
            f"### What the model answered\n\n{_cut(evaluation.text) or '(nothing)'}\n\n"
            f"### Outcome\n\n{'right' if evaluation.right else f'wrong; right would be: {_cut(task.answer)}'}"
        )
    return "\n\n".join(shown)


def _cut(text: str) -> str:
    """Return a text, of a long one the beginning and the end."""
    text = text.strip()
    half = _MAX_SHOWN // 2
    return text if len(text) <= _MAX_SHOWN else f"{text[:half]}\n[…]\n{text[-half:]}"


def _share(rights: Sequence[bool]) -> float:
    return (sum(rights) + 1) / (len(rights) + 2)


def _grade(rights: Sequence[bool]) -> str:
    return next(word for least, word in _GRADES if _share(rights) >= least)


def _of(rights: Sequence[bool]) -> str:
    return f"{sum(rights)} of {len(rights)}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
