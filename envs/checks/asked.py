"""An attack on experts: whoever tells them nothing and does what comes back must solve next to nothing.

`ask_uninformed` plays it, and `uninformed_finding` judges what came of it, as a check does. It needs an environment
whose tools are experts or sub-agents: ToolOrchestra with ``tools="full"``, or ParaManager. Designs of MAS-Orchestra are
not covered: their agents are always shown the question.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium
import msgspec

from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.expert_roles import Job, expert_roles
from toolorchestra.agents.policies.scripted_questions import UNINFORMED, ScriptedQuestionPolicy
from toolorchestra.envs.checks.report import Finding
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tasks.task import Task

MAX_PAID = 0.05
"""Share of tasks that may be solved by experts that are told nothing."""


class UninformedResult(msgspec.Struct, frozen=True):
    """What asking experts came to that are told nothing.

    Attributes:
        tries: Episodes played.
        paid: Ids of the tasks that were solved, with the first question asked.
    """

    tries: int
    paid: tuple[tuple[str, str], ...]

    @property
    def share(self) -> float:
        """The share of episodes that were solved."""
        return len(self.paid) / max(1, self.tries)


def ask_uninformed(
    env: gymnasium.Env[Any, Any],
    tasks: Iterable[Task],
    *,
    questions: Sequence[str] = UNINFORMED,
    job: Job = "answer",
    seed: int = 0,
) -> UninformedResult:
    """Play each task once, asking an expert one of the questions throughout and showing it nothing.

    Return which were solved. The question changes from task to task. `OptionError` if there is no expert for the job.
    """
    tries, paid = 0, []
    for number, task in enumerate(tasks):
        question = questions[number % len(questions)]
        policy = ScriptedQuestionPolicy(seed, questions=[question], job=job, shown=0.0)
        info = play_episode(env, policy, seed=seed + number, options={"task_id": task.id})
        tries += 1
        if info["outcome"] == "solved":
            paid.append((task.id, question))
    return UninformedResult(tries, tuple(paid))


def uninformed_finding(
    env: gymnasium.Env[Any, Any], tasks: Sequence[Task], *, job: Job = "answer", seed: int = 0
) -> Finding:
    """Return whether at most `MAX_PAID` of tasks are solved by experts told nothing, a note if there is no expert."""
    env.reset(seed=seed)
    tools = env.unwrapped.play.tools  # type: ignore[attr-defined]  # every environment of the library has it
    if not any(role.job == job for role in expert_roles(tool.schema for tool in tools.values())):
        return Finding("note", "no expert can be asked: make the environment with tools='full'")
    if not tasks:
        raise OptionError("Expected at least one task to ask experts about, got none.")
    found = ask_uninformed(env, tasks, job=job, seed=seed)
    line = f"{len(found.paid)} of {found.tries} tasks are solved by asking experts that are told nothing"
    details = [f"{task}: {question}" for task, question in found.paid]
    counts = {"tries": found.tries, "paid": len(found.paid)}
    return Finding("fail" if found.share > MAX_PAID else "pass", line, counts, details)
