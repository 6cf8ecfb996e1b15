"""Policies that ask one expert in given words and do what comes back: what it is worth to tell an expert what it needs.

`ScriptedQuestionPolicy` asks the same questions in turn, whatever comes back, and shows all of the conversation or a
share of it. With nothing shown it is an attack on simulated experts, which must solve next to nothing.
`NamedStepPolicy` knows the look-ups and the reference trajectory, asks for each of their steps by name, and shows
next to nothing beside.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import gymnasium

from toolorchestra.agents.policies.base import Info
from toolorchestra.agents.policies.baselines import Direct, Script
from toolorchestra.agents.policies.expert_roles import REQUEST, ExpertRole, Job, Proposal, proposal
from toolorchestra.toolscale.answers.typed_answers import SUBMIT
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tasks.task import Call, Task
from toolorchestra.toolscale.tools.tool import Status, Tool

PLAIN = (
    "What should I do next?",
    "What is the next step?",
    "Which call comes next?",
    "What comes next?",
    "Please tell me which tool I should call now, and with what.",
    "Given what has been found out so far, what remains to be done?",
)
"""Questions for the next step, in plain words."""
UNINFORMED = (
    *PLAIN,
    " ",
    "help",
    "next",
    "Was soll ich jetzt tun?",
    "Tell me a joke about penguins. What should I do next?",
    "What is the capital of France?",
    "Translate 'good morning' into Portuguese.",
    "asdf qwer zxcv",
    "1 + 1",
    "?",
)
"""Questions that say nothing of any request. None is empty: an empty sub-task of ParaManager is the whole problem."""


class ScriptedQuestionPolicy(Direct):
    """Asks one expert, in turn, one of the same questions, and makes the call or gives the answer that it proposes.

    Args:
        seed: See `Policy`; the first question of an episode is drawn.
        expert: Name of the expert, by default the first one.
        questions: What it asks.
        job: In which role.
        shown: Probability with which the request, and each result, is shown with a question.
        tries: How often it asks for a step.
    """

    needs: ClassVar[tuple[Job, ...]] = ()

    def __init__(
        self,
        seed: int = 0,
        expert: str | None = None,
        questions: Sequence[str] = PLAIN,
        job: Job = "answer",
        shown: float = 1.0,
        tries: int = 3,
    ) -> None:
        super().__init__(seed, expert)
        if not questions:
            raise OptionError("Expected at least one question to ask, got none.")
        if not 0 <= shown <= 1:
            raise OptionError(f"Expected the probability `shown` in [0, 1], got {shown!r}.")
        if tries < 1:
            raise OptionError(f"Expected to ask for a step at least once, got tries={tries}.")
        self.questions, self.job, self.share, self.tries = tuple(questions), job, shown, tries
        self._asked = 0

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode: draw the first question."""
        super().reset(env, observation, info)
        self._asked = self.rng.randrange(len(self.questions))

    def propose(self) -> Script:
        """Ask the next question, again if no call comes back where the answer is one."""
        found: Proposal | None = None
        for _ in range(self.tries):
            self._asked += 1
            (reply,) = yield [self.chosen().call(self.questions[self._asked % len(self.questions)])]
            found = proposal(reply)
            if isinstance(found, Call) or self._env.play.typed is None or SUBMIT not in self._env.play.tools:
                break
        return found

    def chosen(self) -> ExpertRole:
        """Return the expert to ask, shown what it is shown this time."""
        return self.role(self.job).limited(lambda _: self.rng.random() < self.share)


class NamedStepPolicy(Direct):
    """Asks one expert for each look-up and reference call by its purpose and its values, and does what it says.

    It shows what asking well is worth: the knowledge of what to ask for is given, the rest is the expert's. Nothing of
    the conversation is shown, but the request for a step without values to name, and all for the answer. A step that
    was not taken then is asked for again.

    Args:
        seed: See `Policy`.
        expert: Name of the expert, by default the first one.
        job: In which role.
        tries: How often a step is asked for.
        words: Returns the question for a call of a tool.
    """

    privileged = True
    needs: ClassVar[tuple[Job, ...]] = ()

    def __init__(
        self,
        seed: int = 0,
        expert: str | None = None,
        job: Job = "answer",
        tries: int = 3,
        words: Callable[[Tool, Call, random.Random], str] | None = None,
    ) -> None:
        super().__init__(seed, expert)
        if tries < 1:
            raise OptionError(f"Expected to ask for a step at least once, got tries={tries}.")
        self.job, self.tries, self.words = job, tries, words or named
        self._left: list[Call] = []
        self._asked = 0

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode: read its look-ups and its reference trajectory."""
        super().reset(env, observation, info)
        task: Task = self._env.task
        self._left = [call for call in task.whole_path if call.name in self._env.play.tools]
        self._asked = 0

    def propose(self) -> Script:
        """Ask for the next step, or for the final answer when none is left."""
        while True:
            while self._left and (self._asked == self.tries or (self._asked and self._was_made(self._left[0]))):
                self._left.pop(0)
                self._asked = 0
            if not self._left:
                (reply,) = yield [self.role(self.job).call(FINAL)]
                return proposal(reply)
            self._asked += 1
            call = self._left[0]
            words = self.words(self._env.play.tools[call.name], call, self.rng)
            expert = self.role(self.job)
            keep = () if any(value is not None for value in call.arguments.values()) else (REQUEST,)
            (reply,) = yield [expert.limited(keep.__contains__).call(words)]
            if isinstance(found := proposal(reply), Call):
                return found

    def _was_made(self, wanted: Call) -> bool:
        made = (call for call in self._env.episode.calls if call.status is Status.OK and call.name == wanted.name)
        given = ({**(call.arguments or {}), **wanted.arguments} == call.arguments for call in made)
        return any(given)


FINAL = "All is done. Write the final answer to the user."
"""The question for the final answer."""


def named(tool: Tool, call: Call, rng: random.Random | None = None) -> str:
    """Return the question for a call, such as "Look up a dish by id. With: dish D07."; nothing is drawn."""
    return worded(call, tool.description)


def worded(call: Call, purpose: str) -> str:
    """Return a step in words, of the purpose its first sentence: "Look up a dish. With: dish D07."."""
    purpose = purpose.split(". ")[0].rstrip(".")
    values = ", ".join(
        f"{name} {' and '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in call.arguments.items()
        if value is not None
    )
    return f"{purpose}. With: {values}." if values else f"{purpose}."
