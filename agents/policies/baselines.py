"""Baselines: orchestration by fixed rules, to compare a trained orchestrator with (ParaManager §4.4).

They read only what an orchestrator reads, and play every protocol whose tools are experts or sub-agents. On questions
they give the answer that their rule selects. In a domain, where experts propose the next call, they make that call and
ask again until an answer is proposed. Baselines that learn are in ``examples/baselines``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterable, Sequence
from typing import Any, ClassVar

import gymnasium
import msgspec

from toolorchestra.agents.messages.content import tool_call
from toolorchestra.agents.policies.base import Info, Policy
from toolorchestra.agents.policies.expert_roles import (
    ExpertRole,
    Job,
    Proposal,
    choose,
    expert_roles,
    plurality,
    proposal,
    same_proposal,
)
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tasks.task import Call
from toolorchestra.toolscale.tools.tool import Status

Script = Generator[Sequence[Call], Sequence[Any], Proposal | None]
"""Yields the calls of a turn, receives their results (None for a failed call), and returns the proposal to follow."""

NO_ANSWER = "I could not find that out."
"""The answer when no expert proposes anything."""


class Baseline(Policy):
    """Plays a script for each step: an episode on a question has one step, in a domain there is one for each call.

    Override `propose`, and list the jobs that it requires in `needs`.

    Args:
        seed: See `Policy`.
        expert: Name of the expert to ask; each baseline documents its default.
    """

    needs: ClassVar[tuple[Job, ...]] = ("answer",)

    def __init__(self, seed: int = 0, expert: str | None = None) -> None:
        super().__init__(seed)
        self.expert = expert
        self.request = ""
        self.experts: list[ExpertRole] = []
        self._env: Any = None
        self.note = ""  # the text of the next message, beside its calls
        self._script: Script | None = None
        self._sent: list[list[Any]] = []  # the results that the script received so far
        self._rng_state = self.rng.getstate()  # at the start of the script

    @abstractmethod
    def propose(self) -> Script:
        """Ask experts, turn by turn, and return the next call to make, or the answer."""

    def roles(self, job: Job) -> list[ExpertRole]:
        """Return all experts in a role for a job."""
        return [role for role in self.experts if role.job == job]

    def role(self, job: Job) -> ExpertRole:
        """Return the role to use for a job: that of the policy's expert, or the first; `OptionError` without one."""
        found = choose(self.experts, job, self.expert)
        if found is None:
            raise OptionError(
                f"The policy needs a tool by which {self.expert or 'an expert'} can be asked for {_WORDS[job]}, and "
                "there is none. Play a ParaManager environment, or make this one with tools='full'."
            )
        return found

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode: list the experts among the tools."""
        super().reset(env, observation, info)
        self._env = env.unwrapped
        self.experts = expert_roles(info["tools"])
        self.request = str(info["messages"][-1]["content"])
        self._script, self.note = None, ""
        for job in self.needs:
            self.role(job)

    def act(self, observation: str, info: Info) -> Any:
        """Return the calls of the script's next turn, or what it proposes."""
        self.experts = [role.shown(info["messages"]) for role in self.experts]
        try:
            if self._script is None:
                calls = self._start()
            else:
                self._sent.append([call.value if call.status is Status.OK else None for call in info["calls"]])
                calls = self._script.send(self._sent[-1])
        except StopIteration as end:
            self._script = None
            if not isinstance(end.value, Call):
                return self._env.final(end.value or NO_ANSWER)
            calls = [end.value]
        note, self.note = self.note, ""
        return calls_with_note(calls, note) if note else [{"name": c.name, "arguments": c.arguments} for c in calls]

    def _start(self) -> Sequence[Call]:
        """Start a script and return its first calls."""
        self._sent, self._rng_state = [], self.rng.getstate()
        self._script = self.propose()
        return next(self._script)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the running script, which cannot be copied: `__setstate__` plays it again up to where it was."""
        return self.__dict__ | {"_script": self._script is not None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _script=None)
        if state["_script"]:
            sent = self._sent
            self.rng.setstate(self._rng_state)
            self._start()
            for replies in sent:
                self._script.send(replies)  # type: ignore[union-attr]  # _start has made it
            self._sent = sent

    def ask(self, calls: Sequence[Call]) -> Generator[Sequence[Call], Sequence[Any], list[Any]]:
        """Make calls, in as many turns as the protocol needs for them, and return their results."""
        width = self._env.max_calls_per_message
        replies: list[Any] = []
        for first in range(0, len(calls), width):
            replies += yield calls[first : first + width]
        return replies


def calls_with_note(calls: Sequence[Call], note: str) -> dict[str, Any]:
    """Return a message that makes calls and says something beside them; the note is text, whatever stands in it."""
    made = [
        tool_call(f"call_{n}", call.name, msgspec.json.encode(call.arguments).decode())
        for n, call in enumerate(calls, 1)
    ]
    return {"role": "assistant", "content": note, "tool_calls": made}


class Direct(Baseline):
    """Asks one expert once and gives its answer: the expert named by `expert`, by default the first one."""

    def propose(self) -> Script:
        """Ask the expert."""
        (reply,) = yield [self.chosen().call()]
        return proposal(reply)

    def chosen(self) -> ExpertRole:
        """Return the expert to ask."""
        return self.role("answer")


class Strongest(Direct):
    """Always asks the most expensive expert, which is assumed to be the best."""

    def chosen(self) -> ExpertRole:
        """Return the most expensive expert, or the one named."""
        return self.role("answer") if self.expert else max(self.roles("answer"), key=ExpertRole.cost)


class Cheapest(Direct):
    """Always asks the cheapest expert."""

    def chosen(self) -> ExpertRole:
        """Return the cheapest expert, or the one named."""
        return self.role("answer") if self.expert else min(self.roles("answer"), key=ExpertRole.cost)


class DirectWithTools(Baseline):
    """Has one expert search, program and conclude, and follows the most frequent proposal.

    Without a majority the review counts, or the search's result where there is no reviewer.
    """

    needs = ()

    def propose(self) -> Script:
        """Ask in the roles that use tools, and for a conclusion."""
        able = [choose(self.experts, job, self.expert) for job in ("search", "code")]
        using = [role for role in able if role is not None] or [self.role("code")]
        replies = yield from self.ask([role.call() for role in using])
        reviewing = choose(self.experts, "review", self.expert)
        (last,) = yield [(reviewing or self.role("answer")).call()]
        return plurality(_proposals([last, *replies] if reviewing else [*replies, last]))


class MajorityVote(Baseline):
    """Asks one expert (see `Baseline`; by default the first) `n` times, and follows its most frequent proposal.

    A vote of 8 is the paper's (ParaManager §4.4).
    """

    def __init__(self, seed: int = 0, expert: str | None = None, n: int = 8) -> None:
        super().__init__(seed, expert)
        if n < 1:
            raise OptionError(f"Expected at least one vote, got n={n}.")
        self.n = n

    def propose(self) -> Script:
        """Ask n times, and count."""
        replies = yield from self.ask([self.role("answer").call()] * self.n)
        return plurality(_proposals(replies))


class SelfRefine(Baseline):
    """Has an expert (see `Baseline`; by default the first) answer and review, at most `n` times, until both agree."""

    def __init__(self, seed: int = 0, expert: str | None = None, n: int = 3) -> None:
        super().__init__(seed, expert)
        if n < 1:
            raise OptionError(f"Expected at least one answer, got n={n}.")
        self.n = n

    def propose(self) -> Script:
        """Answer and review, in turn; the last answer counts."""
        answering = self.role("answer")
        words: str | None = None
        for _ in range(self.n):
            (reply,) = yield [answering.call(words)]
            answer = proposal(reply)
            reviewing = choose(self.experts, "review", self.expert)
            if reviewing is not None:  # it reads the history
                (review,) = yield [reviewing.call()]
            else:
                (review,) = yield [answering.call(REVIEW.format(request=self.request, answer=described(answer)))]
            objection = proposal(review)
            if objection is None or (answer is not None and same_proposal(objection, answer)):
                break
            words = REFINE.format(request=self.request, objection=described(objection))
        return answer


class FixedWorkflow(Baseline):
    """Has different experts solve in parallel roles and another review; follows the most frequent proposal."""

    def propose(self) -> Script:
        """Solve by thought, program and search, review, and count; the review decides where nothing has a majority."""
        solving: list[ExpertRole] = []
        for job in ("answer", "code", "search"):
            able = self.roles(job)
            solving += (_others(able, solving) or able)[:1]
        proposals = _proposals((yield from self.ask([role.call() for role in solving])))
        words = None
        if not (able := self.roles("review")):  # a reviewer reads the history, others must be shown the answers
            able = self.roles("answer")
            words = REVIEW.format(request=self.request, answer=" or ".join(map(described, proposals)))
        review = yield [(_others(able, solving[:1]) or able)[0].call(words)]
        return plurality([*_proposals(review), *proposals])


REVIEW = """\
{request}

Proposed answer: {answer}

Check this, step by step, and give the answer that holds."""
REFINE = """\
{request}

A reviewer came to {objection} instead. Work it out anew."""

_WORDS: dict[Job, str] = {
    "answer": "an answer",
    "review": "a review",
    "code": "a program",
    "search": "a search",
    "math": "mathematics",
}


def _others(able: Iterable[ExpertRole], known: Iterable[ExpertRole]) -> list[ExpertRole]:
    """Return the roles of other experts than the known ones."""
    names = {role.expert for role in known}
    return [role for role in able if role.expert not in names]


def _proposals(replies: Iterable[Any]) -> list[Proposal]:
    return [found for reply in replies if (found := proposal(reply)) is not None]


def described(what: Proposal | None) -> str:
    """Return a proposal as text."""
    return f"call {what.name}" if isinstance(what, Call) else what or "none"
