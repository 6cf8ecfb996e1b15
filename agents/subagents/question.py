"""Questions to sub-agents, and their replies."""

from __future__ import annotations

import msgspec

from toolorchestra.agents.problems import Problem
from toolorchestra.toolscale.tools.tool import InnerCall, Status


class SubAgentQuestion(msgspec.Struct, frozen=True):
    """A question to a sub-agent: the text, which is all that a real model needs, and the truth for simulated models.

    Attributes:
        text: The question.
        problem: The truth about it; without it simulated models cannot be asked.
        queries: For each step of the problem, the words in which it would be looked up; "" for one that is thought out.
        history: The conversation so far, for sub-agents that read it.
        candidates: Answers in the history, in the order in which they were given.
        evidence: Passages in the history.
        seed: Seed of the episode and call: the same question with the same seed has the same reply.
        rules: What must be known of the place where the question is asked, if the text does not say it.
        boxed: Whether the answer must be boxed; one that others read need not be.
    """

    text: str
    problem: Problem | None = None
    queries: tuple[str, ...] = ()
    history: str = ""
    candidates: tuple[str, ...] = ()
    evidence: str = ""
    seed: int = 0
    rules: str = ""
    boxed: bool = True


class SubAgentReply(msgspec.Struct, frozen=True):
    r"""The reply of a sub-agent.

    Attributes:
        text: The text that the orchestrator is shown.
        answer: The content of ``\boxed{}`` or ``<answer>``, or what a program printed; "" if there is none.
        children: The calls that were made, in the order in which they began.
        cost: US dollars of all of them.
        tokens: Tokens read and written in all of them.
        seconds: When the last of them ended: calls that do not wait for each other run at the same time.
        status: ``EXEC_ERR`` or ``TIMEOUT`` when what had to be run failed for good.
        error: Why it failed; None when `status` is OK.
    """

    text: str
    answer: str
    children: tuple[InnerCall, ...] = ()
    cost: float = 0.0
    tokens: tuple[int, int] = (0, 0)
    seconds: float = 0.0
    status: Status = Status.OK
    error: str | None = None
