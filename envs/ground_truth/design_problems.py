"""The problem that each agent of a design has to solve, from which simulated models answer.

An agent's input is matched with the parts of the question, as the input would read if every agent before it were right;
one that asks for a sum is told the sum, and one that asks for no part asks the whole question, which every agent is
shown. The answers that the agent reads decide which steps are left:

- a sub-question that comes with its answer is information and not a request, unless the input asks for nothing else;
- an answer that the agent reads is adopted, in a step of reading. A wrong one makes all that is built on it wrong;
- sub-questions that it needs and reads no answer to are steps of its own, so that asking for much at once is harder;
- answers to the same request are candidates: a single one is reviewed, of several one is chosen; an answer under
  review, the agent's own included, is a claim, which it believes as easily as a note;
- an input that warns of notes makes the agent doubt them.

Real models never see any of this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from toolorchestra.agents.chat.base import ChatModel, ChatRequest, Completion, WrappedModel
from toolorchestra.agents.problems import LOOKED_UP, Act, GroundTruth, Problem, Step
from toolorchestra.envs.ground_truth.given import unclear
from toolorchestra.envs.ground_truth.parts import find_part, needed, parts_of, problem_of
from toolorchestra.envs.ground_truth.sums import asked_sum, sum_problem
from toolorchestra.toolscale.answers.answers import equal_cached
from toolorchestra.toolscale.tasks.task import Task

CERTAIN = 50.0
"""Logits at which a step always goes wrong."""
BELIEVED = 0.3
"""Chance that a reviewer takes an answer as it stands. Fitted to MAS-Orchestra Table 4: there Reflexion and Debate are
6.0 and 9.4 points better than one agent that is right in 51.9 % (means of AIME24, AIME25 and GPQA). With GPT-OSS-120B
and our mathematics, 1.2 logits harder (52.3 %), they are 5.2 and 8.9 points better; at 0, 14.3 and more."""
ADOPTED = -5.0
"""Logits of the step of adopting another agent's answer: an estimate; Qwen2.5-7B then misreads 1 in 900."""
READ = "reasoning"
"""Subject of that step."""
_SENTENCE = re.compile(r"\n+|(?<=[.?!;:])\s+")
_WARNING = re.compile(
    r"\bnotes?\b.*\b(ignor\w*|wrong|false|mislead\w*|distrust|untrue|adversarial|doubt|verif\w*|check)\b"
    r"|\b(ignor\w*|distrust|doubt|verif\w*|check|mislead\w*|adversarial|never (trust|believe))\b.*\bnotes?\b",
    re.IGNORECASE | re.DOTALL,
)


class DesignAgent(Protocol):
    """An agent of a design."""

    @property
    def id(self) -> str:
        """Unique within the design."""

    @property
    def input(self) -> str:
        """What it is asked, with references to other agents' answers; empty: the question itself."""

    @property
    def references(self) -> Sequence[str]:
        """Ids of the agents that its input refers to."""

    def filled(self, replies: Mapping[str, str]) -> str:
        """Return the input with replies, by the ids of their agents, in place of the references to them."""


class AgentProblem(msgspec.Struct, frozen=True):
    """What an agent has to solve.

    Attributes:
        problem: The problem.
        queries: For each step, the query that finds its fact; "" for a step that needs no search.
        candidates: Answers to the same request that the agent reads.
    """

    problem: Problem
    queries: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()


class DesignProblems:
    """The problems that the agents of one design, each after those that it reads, have to solve for one task."""

    def __init__(self, task: Task, agents: Sequence[DesignAgent]) -> None:
        self._task, self._parts, self._whole = task, parts_of(task), problem_of(task)
        count = len(self._whole.steps)
        self._all_targets = tuple(target % count for target in self._whole.targets)
        self._targets: dict[str, tuple[int, ...]] = {}
        self._right: dict[str, str] = {}
        for agent in agents:
            targets = self._targets[agent.id] = self._find_targets(agent)
            self._right[agent.id] = ", ".join(self._whole.steps[target].answer for target in targets)

    def problem_of(self, agent: DesignAgent, given: Mapping[str, str]) -> AgentProblem:
        """Return what an agent has to solve, given the answers that it reads, by the ids of the agents they are of."""
        targets = self._targets[agent.id]
        if not targets:
            expression = asked_sum(agent.filled(given))
            key = self._task.id
            return AgentProblem(unclear(key) if expression is None else sum_problem(key, expression))
        known: dict[int, str] = {}
        candidates = []
        for parent, answer in given.items():
            if self._targets[parent] == targets:
                candidates.append(answer)
            else:
                answers = split_answer(answer, [self._whole.steps[target].answer for target in self._targets[parent]])
                known.update(zip(self._targets[parent], answers, strict=False))
        steps, origins = self._remaining(targets, known)
        if _WARNING.search(agent.input):
            steps = [msgspec.structs.replace(step, warned=True) if step.note else step for step in steps]
        part = "" if targets == self._all_targets else f"#{','.join(map(str, targets))}"
        problem = msgspec.structs.replace(
            self._whole,
            key=self._whole.key + part,
            steps=tuple(steps),
            targets=tuple(origins.index(target) for target in targets),
        )
        queries = [
            self._parts[origin].question if (step.subject or problem.subject) == LOOKED_UP else ""
            for step, origin in zip(steps, origins, strict=True)
            if self._parts
        ]
        return AgentProblem(problem, tuple(queries), tuple(candidates))

    def _find_targets(self, agent: DesignAgent) -> tuple[int, ...]:
        """Return which steps an input asks for.

        All targets of the question if it asks for none in particular; none if it asks for a sum.
        """
        if not agent.input:
            return self._all_targets
        text = agent.filled(self._right)
        sentences = _SENTENCE.split(text) if self._parts else ()
        parts = (find_part(self._task, sentence) for sentence in sentences if sentence)
        found = dict.fromkeys(part for part in parts if part is not None)
        read = {part for parent in agent.references for part in self._targets.get(parent, ())}
        asked = tuple(part for part in found if part not in read) or tuple(found)
        return asked or (() if asked_sum(text) is not None else self._all_targets)

    def _remaining(self, targets: Sequence[int], known: Mapping[int, str]) -> tuple[list[Step], list[int]]:
        """Return the steps that are left, and their positions in the whole problem."""
        origins = needed(self._whole.steps, targets, known)
        steps = []
        for position in origins:
            step = self._whole.steps[position]
            if position in known:
                steps.append(_adopted(step, known[position]))
            else:
                needs = tuple(origins.index(need) for need in step.needs)
                steps.append(msgspec.structs.replace(step, needs=needs))
        return steps, origins


class ReadingModel(WrappedModel):
    """A simulated model that has read other agents' answers, the `candidates`, and that believes claims under review.

    Where it would solve the problem anew, it chooses among the candidates; a single one it reviews if `review` is set.
    """

    def __init__(self, model: ChatModel, candidates: tuple[str, ...] = (), *, review: bool = True) -> None:
        super().__init__(model)
        self._candidates = candidates
        self._act: Act = "review" if review and len(candidates) == 1 else "choose"

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Answer all requests."""
        return self._model.complete([self._informed(request) for request in requests])

    def _informed(self, request: ChatRequest) -> ChatRequest:
        ground_truth = request.ground_truth
        if ground_truth is None:
            return request
        if self._candidates and ground_truth.act == "solve" and not ground_truth.candidates:
            ground_truth = msgspec.structs.replace(ground_truth, act=self._act, candidates=self._candidates)
        if ground_truth.act == "review" and ground_truth.candidates:
            ground_truth = _claimed(ground_truth, ground_truth.candidates[-1])
        return msgspec.structs.replace(request, ground_truth=ground_truth)


def _claimed(ground_truth: GroundTruth, answer: str) -> GroundTruth:
    """Return what is meant, with an answer under review as a claim about the steps that it answers."""
    problem = ground_truth.problem
    targets = [target % len(problem.steps) for target in problem.targets]
    claims = split_answer(answer, [problem.steps[target].answer for target in targets])
    steps = list(problem.steps)
    for target, claim in zip(targets, claims, strict=False):  # an answer that cannot be split claims nothing
        if steps[target].note is None:
            steps[target] = msgspec.structs.replace(steps[target], note=claim, trust=BELIEVED)
    return msgspec.structs.replace(ground_truth, problem=msgspec.structs.replace(problem, steps=tuple(steps)))


def _adopted(step: Step, answer: str) -> Step:
    """Return the step of adopting an answer to a step."""
    if equal_cached(answer, step.answer):
        return Step(step.answer, step.wrong, difficulty=ADOPTED, subject=READ, read=True)
    return Step(step.answer, (answer,), difficulty=CERTAIN, subject=READ, read=True)


def split_answer(answer: str, right: Sequence[str]) -> list[str]:
    """Return the single answers in an answer to several things; none if it cannot be split into as many.

    >>> split_answer("4, 7", ["4", "8"]), split_answer("I do not know", ["4", "8"])
    (['4', '7'], [])
    """
    if len(right) == 1:
        return [answer]
    if equal_cached(answer, ", ".join(right)):
        return list(right)
    answers = re.split(r"\s*[,;\n]+\s*", answer.strip())
    return answers if len(answers) == len(right) else []
