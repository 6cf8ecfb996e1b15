"""What each agent of a design is really asked: the truth about which simulated models err.

An agent's input is matched with the sub-questions of the task (its parts), as it would read if all before it were
right; an input that is none of them asks the whole question. From the answers that it reads follows what is left to do:

- a sub-question that is put beside its answer is told, not asked, unless nothing else is;
- an answer that it is told is taken over: a step as well, of reading rather than working out, so that handing on costs
  something; a wrong one makes wrong what is built on it;
- sub-questions that it needs and is not told are steps of its own, so that asking for too much at once is harder;
- answers to the very thing that it is asked are candidates: one is reviewed, of several one is chosen; facts that it
  cannot look up itself it takes over;
- who is asked for several things that are all known collects them;
- an answer that is reviewed, its own included, is a claim, which it believes as easily as a note;
- an input that warns of notes has it doubt them, as far as it heeds the warning.

Real models never see any of this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from toolorchestra.agents.chat.base import ChatModel, ChatRequest, Completion, Meter
from toolorchestra.agents.problems import LOOKED_UP, Act, GroundTruth, Problem, Step
from toolorchestra.envs.masorchestra.design import REFERENCE, Agent, Design
from toolorchestra.envs.sources.questions import parts_of, problem
from toolorchestra.toolscale.answers import equal_cached
from toolorchestra.toolscale.mentions import tokens
from toolorchestra.toolscale.task import Task

CERTAIN = 50.0
"""Logits beyond which a step always goes wrong."""
BELIEVED = 0.3
"""Chance that a reviewer takes an answer as it stands. Fitted to MAS-Orchestra Table 4: there Reflexion and Debate are
6.0 and 9.4 points better than one agent that is right in 51.9 % (means of AIME24, AIME25 and GPQA). With GPT-OSS-120B
and our mathematics, 1.2 logits harder (52.3 %), they are 5.2 and 8.9 points better; at 0, 14.3 and more."""
TAKEN_OVER = -5.0
"""Logits of taking over what another agent says: our estimate, with which Qwen2.5-7B misreads one answer of 900."""
READ = "reasoning"
"""Subject of it."""
_ALIKE = 0.6  # share of words that a sentence must have in common with a sub-question
_SENTENCE = re.compile(r"\n+|(?<=[.?!;:])\s+")
_WARNING = re.compile(
    r"\bnotes?\b.*\b(ignor\w*|wrong|false|mislead\w*|distrust|untrue|adversarial|doubt|verif\w*|check)\b"
    r"|\b(ignor\w*|distrust|doubt|verif\w*|check|mislead\w*|adversarial|never (trust|believe))\b.*\bnotes?\b",
    re.IGNORECASE | re.DOTALL,
)


class Posed(msgspec.Struct, frozen=True):
    """What an agent is really asked.

    Attributes:
        problem: The truth about it.
        queries: For each step, the words in which it would be looked up; "" for one that is thought out.
        candidates: Answers to the very same that the agent reads.
    """

    problem: Problem
    queries: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()


class DesignTruth:
    """The truth about one design for one task.

    Args:
        task: The task.
        design: The design.
    """

    def __init__(self, task: Task, design: Design) -> None:
        self._parts = parts_of(task)
        self._whole = problem(task)
        count = len(self._whole.steps)
        self._everything = tuple(target % count for target in self._whole.targets)
        self._words = [frozenset(tokens(part.question)) for part in self._parts]
        self._instruction = frozenset(tokens(task.instruction))
        self._matters: dict[str, tuple[int, ...]] = {}
        for agent_id in design.order:
            self._matters[agent_id] = self._matter(design.agent(agent_id))

    def matter(self, agent_id: str) -> tuple[int, ...]:
        """Return the steps whose answers an agent is asked for."""
        return self._matters[agent_id]

    def posed(self, agent: Agent, given: Mapping[str, str]) -> Posed:
        """Return what an agent is asked, given the answers that it reads.

        Args:
            agent: The agent.
            given: Answers by the ids of the agents that gave them.
        """
        matter = self._matters[agent.id]
        known: dict[int, str] = {}
        candidates = []
        for parent, answer in given.items():
            told = self._matters[parent]
            if told == matter:
                candidates.append(answer)
            else:
                known.update(self._split(told, answer))
        steps, origins = self._left(matter, known)
        if _WARNING.search(agent.input):
            steps = [msgspec.structs.replace(step, warned=True) if step.note else step for step in steps]
        key = self._whole.key
        if matter != self._everything:
            key = f"{key}#{','.join(map(str, matter))}"
        posed = msgspec.structs.replace(
            self._whole, key=key, steps=tuple(steps), targets=tuple(origins.index(target) for target in matter)
        )
        return Posed(posed, self._queries(posed, origins), tuple(candidates))

    def _matter(self, agent: Agent) -> tuple[int, ...]:
        """Return which steps an input asks for; all targets of the question if it asks for none in particular."""
        if not agent.input or not self._parts:
            return self._everything
        right = REFERENCE.sub(lambda found: self._right(found[1], found[0]), agent.input)
        ground_truth = (self._find(sentence) for sentence in _SENTENCE.split(right) if sentence)
        found = dict.fromkeys(part for part in ground_truth if part is not None)
        told = {part for parent in agent.references for part in self._matters.get(parent, ())}
        return tuple(part for part in found if part not in told) or tuple(found) or self._everything

    def _find(self, sentence: str) -> int | None:
        """Return the part that a sentence puts in words, as `toolorchestra.envs.sources.questions.find_part` does."""
        said = frozenset(tokens(sentence))
        best, most = None, max(_ALIKE, _likeness(said, self._instruction))
        for number, words in enumerate(self._words):
            if (alike := _likeness(said, words)) > most:
                best, most = number, alike
        return best

    def _right(self, agent_id: str, unknown: str) -> str:
        """Return what an agent answers if it is right."""
        matter = self._matters.get(agent_id)
        return ", ".join(self._whole.steps[target].answer for target in matter) if matter else unknown

    def _split(self, matter: Sequence[int], answer: str) -> dict[int, str]:
        """Return an answer to several things as the answer to each; one that does not come apart is no answer."""
        answers = split_answer(answer, [self._whole.steps[target].answer for target in matter])
        return dict(zip(matter, answers, strict=True)) if answers else {}

    def _left(self, matter: Sequence[int], known: Mapping[int, str]) -> tuple[list[Step], list[int]]:
        """Return the steps that are left to take, and where in the whole problem they are from."""
        needed: set[int] = set()
        waiting = list(matter)
        while waiting:
            position = waiting.pop()
            if position not in needed:
                needed.add(position)
                if position not in known:
                    waiting += self._whole.steps[position].needs
        origins = sorted(needed)
        steps = []
        for position in origins:
            step = self._whole.steps[position]
            if position in known:
                steps.append(_told(step, known[position]))
            else:
                needs = tuple(origins.index(need) for need in step.needs)
                steps.append(msgspec.structs.replace(step, needs=needs))
        return steps, origins

    def _queries(self, posed: Problem, origins: Sequence[int]) -> tuple[str, ...]:
        if not self._parts:
            return ()
        return tuple(
            self._parts[origin].question if (step.subject or posed.subject) == LOOKED_UP else ""
            for step, origin in zip(posed.steps, origins, strict=True)
        )


class InputReading:
    """A simulated model among other agents: it knows what it has read, and believes what it reviews.

    Where it would solve afresh, it reviews the one answer that it has read, or chooses among several.

    Args:
        model: The model.
        candidates: What it has read.
        review: Whether it looks at a single one itself; else it takes it over.
    """

    def __init__(self, model: ChatModel, candidates: tuple[str, ...] = (), *, review: bool = True) -> None:
        self._model = model
        self._candidates = candidates
        self._act: Act = "review" if review and len(candidates) == 1 else "choose"

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    @property
    def meter(self) -> Meter:
        """The model's meter."""
        return self._model.meter

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
    """Return what is meant, with an answer that is reviewed as a claim about the steps that it answers."""
    problem = ground_truth.problem
    count = len(problem.steps)
    targets = [target % count for target in problem.targets]
    claims = split_answer(answer, [problem.steps[target].answer for target in targets])
    steps = list(problem.steps)
    for target, claim in zip(targets, claims, strict=False):  # one that does not come apart claims nothing
        if steps[target].note is None:
            steps[target] = msgspec.structs.replace(steps[target], note=claim, trust=BELIEVED)
    return msgspec.structs.replace(ground_truth, problem=msgspec.structs.replace(problem, steps=tuple(steps)))


def _told(step: Step, answer: str) -> Step:
    """Return the step of taking over an answer to a step."""
    if equal_cached(answer, step.answer):
        return Step(step.answer, step.wrong, difficulty=TAKEN_OVER, subject=READ, read=True)
    return Step(step.answer, (answer,), difficulty=CERTAIN, subject=READ, read=True)


def split_answer(answer: str, right: Sequence[str]) -> list[str]:
    """Return an answer to several things as the answer to each; of one that does not come apart, none.

    >>> split_answer("4, 7", ["4", "8"]), split_answer("I do not know", ["4", "8"])
    (['4', '7'], [])
    """
    if len(right) == 1:
        return [answer]
    if equal_cached(answer, ", ".join(right)):
        return list(right)
    answers = re.split(r"\s*[,;\n]+\s*", answer.strip())
    return answers if len(answers) == len(right) else []


def _likeness(said: frozenset[str], words: frozenset[str]) -> float:
    return len(said & words) / max(1, len(said | words))
