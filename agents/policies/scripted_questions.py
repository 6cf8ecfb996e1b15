"""Policies that ask one expert in given words and do what comes back: how much the words of a question matter.

`ScriptedQuestionPolicy` asks the same questions in turn, whatever comes back; with `NONSENSE` it is an attack on
simulated experts, which must not solve anything. `NamedStepPolicy` knows the look-ups and the reference trajectory and
asks for each of their steps by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium

from toolorchestra.agents.policies.base import Info
from toolorchestra.agents.policies.baselines import Direct, Script
from toolorchestra.agents.policies.expert_roles import ExpertRole, Job, proposal
from toolorchestra.toolscale.errors import OptionError
from toolorchestra.toolscale.task import Call, Task
from toolorchestra.toolscale.tool import Status, Tool

PLAIN = (
    "What should I do next?",
    "What is the next step?",
    "Which call comes next?",
    "What comes next?",
    "Please tell me which tool I should call now, and with what.",
    "Given what has been found out so far, what remains to be done?",
)
"""Questions for the next step, in plain words."""
NONSENSE = (
    "What is the capital of France?",
    "What is the weather in Paris?",
    "Tell me a joke about penguins.",
    "Who painted the Mona Lisa?",
    "Translate 'good morning' into Portuguese.",
    "asdf qwer zxcv",
    "Write a poem about the sea.",
    "How do volcanoes erupt?",
    "1 + 1",
    "yes",
    "?",
)
"""Questions that have nothing to do with any request."""


class ScriptedQuestionPolicy(Direct):
    """Asks one expert, in turn, one of the same questions, and makes the call or gives the answer that it proposes.

    Args:
        seed: See `Policy`; the first question of an episode is drawn.
        expert: Name of the expert, by default the first one.
        questions: What it asks.
        job: In which role.
    """

    needs: ClassVar[tuple[Job, ...]] = ()

    def __init__(
        self, seed: int = 0, expert: str | None = None, questions: Sequence[str] = PLAIN, job: Job = "answer"
    ) -> None:
        super().__init__(seed, expert)
        if not questions:
            raise OptionError("Expected at least one question to ask, got none.")
        self.questions, self.job = tuple(questions), job
        self._asked = 0

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode: draw the first question."""
        super().reset(env, observation, info)
        self._asked = self.rng.randrange(len(self.questions))

    def propose(self) -> Script:
        """Ask the next question."""
        self._asked += 1
        (reply,) = yield [self.chosen().call(self.questions[self._asked % len(self.questions)])]
        return proposal(reply)

    def chosen(self) -> ExpertRole:
        """Return the expert to ask."""
        return self.role(self.job)


class NamedStepPolicy(Direct):
    """Asks one expert for each look-up and reference call by its purpose and its values, and does what it says.

    It shows what asking well is worth: the knowledge of what to ask for is given, the rest is the expert's. A step that
    was not taken then is asked for again.

    Args:
        seed: See `Policy`.
        expert: Name of the expert, by default the first one.
        job: In which role.
        tries: How often a step is asked for.
    """

    privileged = True
    needs: ClassVar[tuple[Job, ...]] = ()

    def __init__(self, seed: int = 0, expert: str | None = None, job: Job = "answer", tries: int = 3) -> None:
        super().__init__(seed, expert)
        if tries < 1:
            raise OptionError(f"Expected to ask for a step at least once, got tries={tries}.")
        self.job, self.tries = job, tries
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
        while self._left and (self._asked == self.tries or (self._asked and self._was_made(self._left[0]))):
            self._left.pop(0)
            self._asked = 0
        words = FINAL
        if self._left:
            words = named(self._env.play.tools[self._left[0].name], self._left[0])
            self._asked += 1
        (reply,) = yield [self.role(self.job).call(words)]
        return proposal(reply)

    def _was_made(self, wanted: Call) -> bool:
        made = (call for call in self._env.episode.calls if call.status is Status.OK and call.name == wanted.name)
        given = ({**(call.arguments or {}), **wanted.arguments} == call.arguments for call in made)
        return any(given)


FINAL = "All is done. Write the final answer to the user."
"""The question for the final answer."""


def named(tool: Tool, call: Call) -> str:
    """Return the question for a call, such as "Look up a dish by id. With: dish D07."."""
    purpose = tool.description.split(". ")[0].rstrip(".")
    values = ", ".join(f"{name} {_written(value)}" for name, value in call.arguments.items() if value is not None)
    return f"{purpose}. With: {values}." if values else f"{purpose}."


def _written(value: Any) -> str:
    return " and ".join(map(str, value)) if isinstance(value, list) else str(value)
