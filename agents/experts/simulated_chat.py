r"""Simulated chat models: a `SimulatedExpert` behind the protocol of real models.

A sub-agent writes the same request for any model. A real model reads the messages; a simulated one reads
`ChatRequest.ground_truth`, errs about it as its specification says, and writes its answer in the requested format. So
sub-agents run unchanged over both, and their gains, costs and errors can be simulated.

Not covered: how a single step goes wrong (`toolorchestra.agents.experts.simulated_expert`), and tool calls in a chat,
which simulated models do not make.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from toolorchestra.agents.chat.base import ChatRequest, Completion, Meter
from toolorchestra.agents.experts.simulated_expert import SimulatedExpert, Solution
from toolorchestra.agents.experts.specification import ExpertSpec, Role, logit
from toolorchestra.agents.problems import LOOKED_UP, GroundTruth, Problem, Step, facts
from toolorchestra.toolscale.answers.answers import count_votes, equal_cached
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.float_sums import float_sum

RECALLED = 3.0
"""How much harder, in logits, a fact is to recall than to read."""
OWN_VOTE = 1.5
"""Votes that a model's own solution counts when it chooses among answers."""
_CHARACTERS = 4  # a token has about so many


class SimulatedChat:
    r"""A chat model that errs as an expert's specification says, about the ground truth of each request.

    The rules by `Act`, where the error of a step is that of `ExpertSpec.chance`:

    - ``solve``: all steps at once. ``\boxed{}`` holds the answers to all targets. If all facts that it takes are found,
      they are read off one after the other, with the load of one step.
    - ``review``: the steps are checked one at a time against the text, with the load of one step. The model agrees with
      a candidate that it comes to itself, or that it comes to at a second look, with new noise. It gives an answer of
      its own only if it comes to the same one twice; else it repeats the last candidate. Without candidates it solves.
    - ``code``: the machine computes, so only setting a step up can go wrong. Steps add no load, and the skill is the
      mean, in logits, of that in the step's subject and that in ``code``. A program fails to run with the chance of a
      wrong step of difficulty 0 in ``code``; else it prints the right or wrong answer.
    - ``query``: one query for each fact that is not found yet, and whose own needs are; a step that goes wrong is
      looked up under the mistaken answer. With nothing left to look up, the model answers at once.
    - ``choose``: votes of the candidates are counted, and its own solution (as in ``solve``) counts `OWN_VOTE` for the
      candidate that it agrees with; ties go to the latest candidate. To follow the count is itself a step, whose
      difficulty is minus the lead in votes; if it fails, the model takes another candidate, more likely a common one
      than a rare one. Without candidates it solves.

    Facts (steps of the subject `LOOKED_UP`) that stand in no passage shown are `RECALLED` logits harder, except in
    ``query``. Tokens read are a quarter of the messages' characters, or the problem's where those are more; tokens
    written, seconds on the virtual clock and noise are those of `SimulatedExpert.solve`. Of a request's settings, only
    temperature and seed count. A reply of more than `max_tokens` is cut, and has no answer.

    Args:
        expert: The expert.
        role: Its role; by default ``code`` and ``query`` in the acts of these names, else none.
        max_tokens: Maximum tokens of a reply; None for no limit.

    >>> from toolorchestra.agents.experts.catalog import Catalog
    >>> chat = SimulatedChat(Catalog.load().simulated("qwen3-32b"))
    >>> truth = GroundTruth(Problem.chain("sum", "math", 2, "12", wrong=("13",)))
    >>> print(chat.complete([ChatRequest([{"role": "user", "content": "What is 5 + 7?"}], ground_truth=truth)])[0].text)
    <reasoning>
    I worked through 2 steps.
    </reasoning>
    <answer>
    \boxed{12}
    </answer>
    """

    def __init__(self, expert: SimulatedExpert, *, role: Role | None = None, max_tokens: int | None = None) -> None:
        if max_tokens is not None and max_tokens < 1:
            raise OptionError(f"Expected at least one token of a reply, or None for no limit, got {max_tokens}.")
        self.name = expert.name
        self.meter = Meter()
        self._role = role
        self._expert = expert
        self._max_tokens = max_tokens
        self._checking = _as_if(expert, load=0.0)
        self._coding = _as_if(expert, load=0.0, skills=_skills_in_code(expert.spec))

    def limited(self, max_tokens: int | None) -> SimulatedChat:
        """Return the same model with a maximum of tokens of a reply."""
        return SimulatedChat(self._expert, role=self._role, max_tokens=max_tokens)

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Answer all requests, the same request the same; one without ground truth raises `OptionError`."""
        answers = [self._one(request) for request in requests]
        for answer in answers:
            self.meter.add(answer)
        return answers

    def _one(self, request: ChatRequest) -> Completion:
        ground_truth = request.ground_truth
        if ground_truth is None:
            raise OptionError(
                f"{self.name} is simulated: expected a request with `ground_truth`, got none. "
                "Give ChatRequest(…, ground_truth=GroundTruth(problem)), or ask a real model."
            )
        length = sum(len(str(message.get("content") or "")) for message in request.messages)
        read = max(ground_truth.problem.reading, length // _CHARACTERS)
        seed = (ground_truth.seed << 32) + (request.seed or 0)
        problem = _posed(ground_truth, read if read > self._expert.spec.context else 0)
        question = _Question(ground_truth, problem, request.temperature, seed, read, self._role, len(request.messages))
        match ground_truth.act:
            case "code":
                text, work = self._code(question)
            case "query":
                text, work = self._query(question)
            case "review" if ground_truth.candidates:
                text, work = self._review(question)
            case "choose" if ground_truth.candidates:
                text, work = self._choose(question)
            case _:
                text, work = self._solve(question)
        written, seconds = sum(part.tokens for part in work), float_sum(part.seconds for part in work)
        if self._max_tokens is not None and written > self._max_tokens:
            share = self._max_tokens / written
            text, written, seconds = _cut(text, share), self._max_tokens, seconds * share
        return Completion(text, [], read, written, self._expert.spec.price.cost(read, written), seconds)

    def _solve(self, question: _Question) -> _Done:
        solution = self._own(question)
        return _answered(f"I worked through {_steps(question)}.", _joined(solution)), (solution,)

    def _own(self, question: _Question) -> Solution:
        """Return the model's own solution."""
        known = facts(question.problem)
        reading = bool(known) and set(known) <= set(question.ground_truth.found)
        return question.put_to(self._checking if reading else self._expert)

    def _review(self, question: _Question) -> _Done:
        candidates = question.ground_truth.candidates
        work = [question.put_to(self._checking)]
        answer = _joined(work[0])
        agreed = _first_like(answer, candidates)
        if agreed is None:
            work.append(question.again().put_to(self._checking))
            second = _joined(work[1])
            agreed = _first_like(second, candidates)
            if agreed is None and not (answer and equal_cached(second, answer)):
                answer = candidates[-1]
        others = [] if agreed is None else [one for one in dict.fromkeys(candidates) if not equal_cached(one, agreed)]
        listed = " or ".join(dict.fromkeys(candidates))
        found = f"The answer {agreed} holds." if agreed else f"I do not come to {listed}."
        refuted = [f"The answer {other} does not follow." for other in others]
        thought = " ".join([f"I checked {_steps(question)} one at a time.", found, *refuted])
        return _answered(thought, agreed or answer, verdict=agreed is not None), work

    def _choose(self, question: _Question) -> _Done:
        own = self._own(question)
        counted = count_votes(question.ground_truth.candidates)
        votes = {
            candidate: count + (OWN_VOTE if equal_cached(_joined(own), candidate) else 0.0)
            for candidate, count in reversed(counted)  # the latest first: ties go to it
        }
        ranked = sorted(votes, key=votes.__getitem__, reverse=True)
        chosen = ranked[0]
        if len(ranked) > 1:
            lead = votes[ranked[0]] - votes[ranked[1]]
            heeding = Step(ranked[0], tuple(ranked[1:]), difficulty=-lead)
            step = Problem(f"{question.problem.key}/choice", question.problem.subject, (heeding,))
            (chosen,) = question.about(step).put_to(self._checking).answers
        shown = ", ".join(f"{candidate} ({count} times)" for candidate, count in counted)
        return _answered(f"The answers given are {shown}. I settle on {chosen}.", chosen), (own,)

    def _code(self, question: _Question) -> _Done:
        solution = question.put_to(self._coding, "code")
        # a program that was fixed after an error is another program
        running = Problem(f"{question.problem.key}/program/{question.turns}", "code", (Step("runs", ("fails",)),))
        runs = question.about(running).put_to(self._checking).solved
        program = f"result = {_joined(solution)!r}\nprint({'result' if runs else 'results'})"
        thought = f"<reasoning>\nI set {_steps(question)} up for the machine.\n</reasoning>"
        return f"{thought}\n<code>\n{program}\n</code>", (solution,)

    def _query(self, question: _Question) -> _Done:
        ground_truth, problem = question.ground_truth, question.ground_truth.problem
        missing = {position for position in facts(problem) if position not in ground_truth.found}
        if not missing:
            return self._solve(question)
        everything = msgspec.structs.replace(problem, targets=tuple(range(len(problem.steps))))
        solution = question.about(everything).put_to(self._checking, "query")
        queries = [
            ground_truth.queries[position] if solution.right[position] else solution.answers[position]
            for position in sorted(missing)
            if missing.isdisjoint(problem.steps[position].needs) and position < len(ground_truth.queries)
        ]
        lines = "\n".join(query for query in dict.fromkeys(queries) if query)
        return f"<reasoning>\nI look up what I do not know yet.\n</reasoning>\n<query>\n{lines}\n</query>", (solution,)


_Done = tuple[str, Sequence[Solution]]
"""A text, and the solutions from which it was made, one after the other."""


class _Question(msgspec.Struct, frozen=True):
    """A request to an expert."""

    ground_truth: GroundTruth
    problem: Problem
    temperature: float
    seed: int
    read: int
    role: Role | None
    turns: int

    def put_to(self, expert: SimulatedExpert, role: Role | None = None) -> Solution:
        return expert.solve(
            self.problem, seed=self.seed, temperature=self.temperature, role=self.role or role, prompt_tokens=self.read
        )

    def about(self, problem: Problem) -> _Question:
        return msgspec.structs.replace(self, problem=problem)

    def again(self) -> _Question:
        """Return the same request with new noise, even at temperature 0."""
        return msgspec.structs.replace(self, seed=-1 - self.seed if self.temperature else -1, temperature=1.0)


def _as_if(expert: SimulatedExpert, **changes: Any) -> SimulatedExpert:
    """Return the same expert, with the same noise, under a changed specification."""
    other = copy.copy(expert)
    other.spec = msgspec.structs.replace(expert.spec, **changes)
    return other


def _skills_in_code(spec: ExpertSpec) -> dict[str, float]:
    code = logit(spec.skill("code"))
    return {
        subject: skill if subject == LOOKED_UP else 1 / (1 + math.exp(-(logit(skill) + code) / 2))
        for subject, skill in spec.skills.items()
    }


def _posed(ground_truth: GroundTruth, reading: int) -> Problem:
    """Return the problem with facts that are not found made harder, and at least `reading` tokens to read."""
    problem = ground_truth.problem
    recalled = {position for position in facts(problem) if position not in ground_truth.found}
    if not recalled and reading <= problem.reading:
        return problem
    steps = tuple(
        msgspec.structs.replace(step, difficulty=step.difficulty + RECALLED) if position in recalled else step
        for position, step in enumerate(problem.steps)
    )
    return msgspec.structs.replace(problem, steps=steps, reading=max(reading, problem.reading))


def _cut(text: str, share: float) -> str:
    """Return this share of a reply, at most up to its answer, code or queries, which come last."""
    ends = (text.find(tag) for tag in ("<answer>", "<code>", "<query>"))
    return text[: min(int(len(text) * share), *(end if end >= 0 else len(text) for end in ends))]


def _joined(solution: Solution) -> str:
    return ", ".join(solution.answers)


def _steps(question: _Question) -> str:
    count = len(question.problem.steps)
    return f"{count} steps" if count > 1 else "one step"


def _first_like(answer: str, others: Iterable[str]) -> str | None:
    return next((other for other in others if equal_cached(answer, other)), None) if answer else None


def _answered(thought: str, answer: str, *, verdict: bool | None = None) -> str:
    correct = "" if verdict is None else f"<correct>{verdict}</correct>\n"
    return f"<reasoning>\n{thought}\n</reasoning>\n{correct}<answer>\n\\boxed{{{answer}}}\n</answer>"
