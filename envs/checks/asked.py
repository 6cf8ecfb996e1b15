"""An attack on experts: whoever asks them nonsense and does what comes back must solve nothing.

`ask_nonsense` plays it, and `nonsense_finding` judges what came of it, as a check does. It needs an environment whose
tools are experts or sub-agents: ToolOrchestra with ``tools="full"``, or ParaManager. Designs of MAS-Orchestra, whose
agents could be asked nonsense too, are not covered: their inputs are part of one message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium
import msgspec

from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.expert_roles import Job, expert_roles
from toolorchestra.agents.policies.scripted_questions import NONSENSE, ScriptedQuestionPolicy
from toolorchestra.envs.checks.report import Finding
from toolorchestra.toolscale.errors import OptionError
from toolorchestra.toolscale.task import Task

MAX_PAID = 0.03
"""Share of tasks that may be solved by asking nonsense."""


class NonsenseResult(msgspec.Struct, frozen=True):
    """What asking nonsense came to.

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


def ask_nonsense(
    env: gymnasium.Env[Any, Any],
    tasks: Iterable[Task],
    *,
    questions: Sequence[str] = NONSENSE,
    job: Job = "answer",
    seed: int = 0,
) -> NonsenseResult:
    """Play each task once, asking an expert one of the questions throughout, and return which were solved.

    The question changes from task to task. `OptionError` if there is no expert for the job.
    """
    tries, paid = 0, []
    for number, task in enumerate(tasks):
        question = questions[number % len(questions)]
        policy = ScriptedQuestionPolicy(seed, questions=[question], job=job)
        info = play_episode(env, policy, seed=seed + number, options={"task_id": task.id})
        tries += 1
        if info["outcome"] == "solved":
            paid.append((task.id, question))
    return NonsenseResult(tries, tuple(paid))


def nonsense_finding(
    env: gymnasium.Env[Any, Any], tasks: Sequence[Task], *, job: Job = "answer", seed: int = 0
) -> Finding:
    """Return whether at most `MAX_PAID` of tasks are solved by asking nonsense; a note where there is no expert."""
    env.reset(seed=seed)
    tools = env.unwrapped.play.tools  # type: ignore[attr-defined]  # every environment of the library has it
    if not any(role.job == job for role in expert_roles(tool.schema for tool in tools.values())):
        return Finding("note", "no expert can be asked: make the environment with tools='full'")
    if not tasks:
        raise OptionError("Expected at least one task to ask nonsense about, got none.")
    found = ask_nonsense(env, tasks, job=job, seed=seed)
    line = f"{len(found.paid)} of {found.tries} tasks are solved by asking experts nonsense"
    details = [f"{task}: {question}" for task, question in found.paid]
    counts = {"tries": found.tries, "paid": len(found.paid)}
    return Finding("fail" if found.share > MAX_PAID else "pass", line, counts, details)
