"""Baselines: orchestration by fixed rules, to compare a trained orchestrator with (ParaManager §4.4).

Honest policies: they read what an orchestrator reads, and play every protocol whose tools are experts or sub-agents. On
questions they give the answer that their rule leads to; in a domain, where an expert proposes the next call, they make
it and ask again, until an answer is proposed. Which expert suits a question is learnt by
`toolorchestra.agents.policies.routing`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterable, Sequence
from typing import Any, ClassVar

import gymnasium

from toolorchestra.agents.policies.base import Info, Policy
from toolorchestra.agents.policies.expert_roles import (
    ExpertRole,
    Job,
    Proposal,
    choose,
    minds,
    plurality,
    proposal,
    same,
)
from toolorchestra.toolscale.errors import OptionError
from toolorchestra.toolscale.task import Call
from toolorchestra.toolscale.tool import Status

Script = Generator[Sequence[Call], Sequence[Any], Proposal | None]
"""Yields the calls of a turn, is sent what each returned (None for one that failed), and returns what to do."""

NO_ANSWER = "I could not find that out."
"""What is answered when nobody proposes anything."""


class Baseline(Policy):
    """Plays a script for each step: an episode on a question has one step, in a domain there is one for each call.

    Override `propose`, and name the roles that it cannot do without in `needs`.

    Args:
        seed: See `Policy`.
        expert: Whom to ask, by name; see each baseline for whom else.
    """

    needs: ClassVar[tuple[Job, ...]] = ("answer",)

    def __init__(self, seed: int = 0, expert: str | None = None) -> None:
        super().__init__(seed)
        self.expert = expert
        self.request = ""
        self.offer: list[ExpertRole] = []
        self._env: Any = None
        self._script: Script | None = None

    @abstractmethod
    def propose(self) -> Script:
        """Ask, turn by turn, and return the next call to make, or the answer."""

    def mind(self, job: Job) -> ExpertRole:
        """Return who is there for a job: the policy's expert, or the first.

        Raises:
            OptionError: Nobody is.
        """
        found = choose(self.offer, job, self.expert)
        if found is None:
            raise OptionError(
                f"The policy needs a tool by which {self.expert or 'an expert'} can be asked for {_WORDS[job]}, and "
                "there is none. Play a ParaManager environment, or make this one with tools='full'."
            )
        return found

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode: see who can be asked."""
        super().reset(env, observation, info)
        self._env = env.unwrapped
        self.offer = minds(info["tools"])
        self.request = str(info["messages"][-1]["content"])
        self._script = None
        for job in self.needs:
            self.mind(job)

    def act(self, observation: str, info: Info) -> Any:
        """Return the calls of the script's next turn, or what it proposes."""
        try:
            if self._script is None:
                self._script = self.propose()
                asked = next(self._script)
            else:
                asked = self._script.send([call.value if call.status is Status.OK else None for call in info["calls"]])
        except StopIteration as end:
            self._script = None
            if not isinstance(end.value, Call):
                return self._env.final(end.value or NO_ANSWER)
            asked = [end.value]
        return [{"name": call.name, "arguments": call.arguments} for call in asked]

    def ask(self, calls: Sequence[Call]) -> Generator[Sequence[Call], Sequence[Any], list[Any]]:
        """Make calls, in as many turns as the protocol makes of them, and return what they returned."""
        most = self._env.max_calls_per_message
        replies: list[Any] = []
        for first in range(0, len(calls), most):
            replies += yield calls[first : first + most]
        return replies


class Direct(Baseline):
    """Asks one expert once, and gives its answer: the first on offer, or the one of a name."""

    def propose(self) -> Script:
        """Ask the expert."""
        (reply,) = yield [self.chosen().asked()]
        return proposal(reply)

    def chosen(self) -> ExpertRole:
        """Return whom to ask."""
        return self.mind("answer")


class Strongest(Direct):
    """Always asks the dearest expert, which is taken to be the best."""

    def chosen(self) -> ExpertRole:
        """Return the dearest, or who was named."""
        return self.mind("answer") if self.expert else max(_able(self.offer), key=ExpertRole.costs)


class Cheapest(Direct):
    """Always asks the cheapest expert."""

    def chosen(self) -> ExpertRole:
        """Return the cheapest, or who was named."""
        return self.mind("answer") if self.expert else min(_able(self.offer), key=ExpertRole.costs)


class DirectWithTools(Baseline):
    """Has one expert search and program, and does what most of that and a conclusion of its own come to.

    Where nothing has a majority, the review of what was found counts, or without a reviewer what the search found.
    """

    needs = ()

    def propose(self) -> Script:
        """Ask in the roles that use tools, and for a conclusion."""
        able = [choose(self.offer, job, self.expert) for job in ("search", "code")]
        using = [mind for mind in able if mind is not None] or [self.mind("code")]
        replies = yield from self.ask([mind.asked() for mind in using])
        reviewing = choose(self.offer, "review", self.expert)
        (last,) = yield [(reviewing or self.mind("answer")).asked()]
        return plurality(_proposals([last, *replies] if reviewing else [*replies, last]))


class MajorityVote(Baseline):
    """Asks one expert several times, and does what it proposes most often.

    Args:
        seed: See `Policy`.
        expert: Whom to ask; the first on offer by default.
        n: How often.
    """

    def __init__(self, seed: int = 0, expert: str | None = None, n: int = 5) -> None:
        super().__init__(seed, expert)
        if n < 1:
            raise OptionError(f"Expected at least one vote, got n={n}.")
        self.n = n

    def propose(self) -> Script:
        """Ask n times, and count."""
        replies = yield from self.ask([self.mind("answer").asked()] * self.n)
        return plurality(_proposals(replies))


class SelfRefine(Baseline):
    """Has an expert answer and review its own answer, and answer again until the review agrees.

    Args:
        seed: See `Policy`.
        expert: Whom to ask; the first on offer by default.
        n: Most answers.
    """

    def __init__(self, seed: int = 0, expert: str | None = None, n: int = 3) -> None:
        super().__init__(seed, expert)
        if n < 1:
            raise OptionError(f"Expected at least one answer, got n={n}.")
        self.n = n

    def propose(self) -> Script:
        """Answer and review, in turn; the last answer counts."""
        answering = self.mind("answer")
        words: str | None = None
        for _ in range(self.n):
            (reply,) = yield [answering.asked(words)]
            answer = proposal(reply)
            reviewing = choose(self.offer, "review", self.expert)
            if reviewing is not None:  # it reads the history
                (review,) = yield [reviewing.asked()]
            else:
                (review,) = yield [answering.asked(REVIEW.format(request=self.request, answer=_told(answer)))]
            objection = proposal(review)
            if objection is None or (answer is not None and same(objection, answer)):
                break
            words = REFINE.format(request=self.request, objection=_told(objection))
        return answer


class FixedWorkflow(Baseline):
    """Has different experts solve in different roles, side by side, and another review; does what most come to."""

    def propose(self) -> Script:
        """Solve by thought, program and search, review, and count; the review decides where nothing has a majority."""
        solving: list[ExpertRole] = []
        for job in ("answer", "code", "search"):
            able = [mind for mind in self.offer if mind.job == job]
            solving += (_others(able, solving) or able)[:1]
        proposals = _proposals((yield from self.ask([mind.asked() for mind in solving])))
        reviewing = [mind for mind in self.offer if mind.job == "review"]
        if reviewing:
            (review,) = yield [(_others(reviewing, solving[:1]) or reviewing)[0].asked()]
        else:
            words = REVIEW.format(request=self.request, answer=" or ".join(map(_told, proposals)))
            answering = [mind for mind in self.offer if mind.job == "answer"]
            (review,) = yield [(_others(answering, solving[:1]) or answering)[0].asked(words)]
        return plurality([*_proposals([review]), *proposals])


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


def _able(offer: Iterable[ExpertRole]) -> list[ExpertRole]:
    return [mind for mind in offer if mind.job == "answer"]


def _others(able: Iterable[ExpertRole], known: Iterable[ExpertRole]) -> list[ExpertRole]:
    """Return those who are other experts than these."""
    names = {mind.expert for mind in known}
    return [mind for mind in able if mind.expert not in names]


def _proposals(replies: Iterable[Any]) -> list[Proposal]:
    return [found for reply in replies if (found := proposal(reply)) is not None]


def _told(what: Proposal | None) -> str:
    """Return a proposal in words."""
    if isinstance(what, Call):
        return f"call {what.name}"
    return what or "none"
