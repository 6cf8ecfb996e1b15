"""What is asked of a question: the whole, a part of it, or a sum.

A part is asked for by its words; what it needs and the text does not say is added as further steps, so that asking by
description costs more, and a part that is asked with a wrong premise has a wrong answer. A text most of whose words are
a part's is taken to mean it, `VAGUE` logits harder. The whole is asked for where the request is given. Without it, and
without the words of a part, there is nothing to work out.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from toolorchestra.agents.experts.specialties import HARDER_OUTSIDE, outside_specialty
from toolorchestra.agents.experts.specification import Role
from toolorchestra.agents.problems import LOOKED_UP, Problem, Step
from toolorchestra.envs.ground_truth.given import MAX_CHARACTERS, UNKNOWN, Given, repeats, unclear, words_of
from toolorchestra.envs.ground_truth.parts import SubProblem, most_similar, needed, problem_of, subject_of
from toolorchestra.envs.ground_truth.sums import asked_sum, sum_problem
from toolorchestra.toolscale.answers.mentions import mentions, tokens
from toolorchestra.toolscale.tasks.task import Task

Asked = Literal["whole", "part", "sum", "unclear"]
"""What is asked for."""
VAGUE = 1.0
"""How much harder, in logits, a step is that is asked for by some of its words only."""

_MIN_SHARE = 0.5  # share of a text's words that must be those of a part, or of the request, to mean it vaguely
_ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
_FUNCTION_WORDS = frozenset((
    "a", "an", "the", "of", "in", "on", "at", "to", "by", "for", "and", "or", "is", "are", "was", "were", "be", "do",
    "does", "did", "what", "which", "who", "whom", "whose", "where", "when", "how", "that", "this", "it", "its",
))  # fmt: skip


class QuestionRequest:
    """What is asked of a question, of an expert in a role.

    Attributes:
        asked: What it asks for.
        positions: The parts that must be solved, in their order: where one is asked for, it and those on the way to it
            whose values the text does not state, rightly or wrongly. Empty where the parts do not matter.
        part: The part that is asked for, if it is one.
    """

    def __init__(self, task: Task, parts: Sequence[SubProblem], given: Given, role: Role | None = None) -> None:
        text = given.question[:MAX_CHARACTERS]
        self._task, self._parts, self._text, self._role = task, parts, text, role
        self.asked: Asked = "whole"
        self.part: int | None = None
        self.positions: Sequence[int] = range(len(parts))
        self._harder = 0.0
        self._stated: set[int] = set()
        self._read_values(text)
        self.part = self._find(words_of(text))
        self.asked = self._otherwise(given) if self.part is None else "part"
        if self.part is not None:
            self._stated.discard(self.part)
            self.positions = [at for at in needed(parts, [self.part], self._stated) if at not in self._stated]
        elif self.asked != "whole":
            self.positions = ()

    @property
    def is_whole(self) -> bool:
        """Whether its answer is the answer to the whole question."""
        targets = self._task.bindings.get("targets", (-1,))
        return self.asked == "whole" or (
            self.part is not None and [self.part] == [target % len(self._parts) for target in targets]
        )

    def problem(self) -> Problem:
        """Return the problem that a model has to solve."""
        match self.asked:
            case "whole":
                whole = problem_of(self._task)
                steps = tuple(self._by_trade(step) for step in whole.steps)
                return _harder(msgspec.structs.replace(whole, steps=steps), self._harder)
            case "sum":
                return sum_problem(self._task.id, asked_sum(self._text) or "0", self._role)
            case "unclear":
                return unclear(self._task.id)
        place = {position: place for place, position in enumerate(self.positions)}
        key = f"{self._task.id}#{'+'.join(map(str, self.positions))}"
        steps = tuple(self._step(position, place) for position in self.positions)
        return _harder(Problem(key, subject_of(self._task), steps), self._harder)

    def _read_values(self, text: str) -> None:
        """Note which values of the parts a text states, rightly or wrongly."""
        stated, given = tokens(text), tokens(self._task.instruction)
        known = [mentions(stated, _bare(part.answer)) for part in self._parts]
        self._premises = [  # the wrong answers to each part that the text states and the question itself does not
            [w for w in part.wrong if not right and mentions(stated, _bare(w)) and not mentions(given, _bare(w))]
            for part, right in zip(self._parts, known, strict=True)
        ]
        self._stated = {at for at in range(len(self._parts)) if known[at] or self._premises[at]}

    def _otherwise(self, given: Given) -> Asked:
        """Return what is asked for that is not one of the parts by its words; note a part that may be meant."""
        request = self._task.instruction
        if repeats(self._text, request):
            return "whole"
        if asked_sum(self._text) is not None:
            return "sum"
        words = words_of(self._text) - _FUNCTION_WORDS
        shared = [len(words & words_of(part.question)) for part in self._parts]
        if words and max(shared, default=0) >= _MIN_SHARE * len(words):
            self.part, self._harder = shared.index(max(shared)), VAGUE
            return "part"
        if given.request:
            return "whole"
        if words and not self._parts and len(words & words_of(request)) >= _MIN_SHARE * len(words):
            self._harder = VAGUE
            return "whole"
        return "unclear"

    def _step(self, position: int, place: Mapping[int, int]) -> Step:
        part = self._parts[position]
        step = part.step(tuple(place[need] for need in part.needs if need in place))
        premises = [premise for need in part.needs for premise in self._premises[need]]
        step = self._by_trade(step)
        if not premises:
            return step
        wrong = part.wrong or (UNKNOWN,)  # right reasoning from a wrong premise gives a wrong answer
        chosen = zlib.crc32(premises[0].encode()) % len(wrong)
        return msgspec.structs.replace(step, answer=wrong[chosen], wrong=(*wrong[:chosen], *wrong[chosen + 1 :]))

    def _by_trade(self, step: Step) -> Step:
        """Return a step as it is for the role: facts are found by the search that comes with it."""
        if (step.subject or subject_of(self._task)) == LOOKED_UP or not outside_specialty(self._role, "computation"):
            return step
        return msgspec.structs.replace(step, difficulty=step.difficulty + HARDER_OUTSIDE)

    def _find(self, content: frozenset[str]) -> int | None:
        """Return the part that has most words in common with the text, if those are enough.

        A part's words are those of its sub-question and, in place of values that the text does not state, the words by
        which they are found. Wrong values count as the right ones.
        """
        pairs = []
        for position, part in enumerate(self._parts):
            words = content
            for need in part.needs:
                for wrong in self._premises[need]:
                    words = (words - words_of(wrong)) | words_of(self._parts[need].answer)
            pairs.append((words, self._words(position)))
        return most_similar((content, words_of(self._task.instruction)), pairs)

    def _words(self, position: int) -> frozenset[str]:
        part = self._parts[position]
        words = words_of(part.question)
        for need in part.needs:
            if need not in self._stated:
                words = (words - words_of(self._parts[need].answer)) | self._words(need)
        return words


def _bare(value: str) -> str:
    return _ARTICLE.sub("", value)


def _harder(problem: Problem, by: float) -> Problem:
    """Return a problem all of whose steps are so many logits harder."""
    if not by:
        return problem
    steps = tuple(msgspec.structs.replace(step, difficulty=step.difficulty + by) for step in problem.steps)
    return msgspec.structs.replace(problem, steps=steps)
