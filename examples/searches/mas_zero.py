"""MAS-Zero: a chat model designs a system for one question, sees what its agents answer, and designs it anew.

The runs before the last are taken back by snapshots of the environment, and stay paid for.
"""

from __future__ import annotations

import re
from typing import Any

import gymnasium

from toolorchestra.agents.chat.base import ChatModel, ChatRequest
from toolorchestra.agents.policies.base import Info
from toolorchestra.envs.masorchestra.design import Design
from toolorchestra.envs.masorchestra.orchestrators import Orchestrator
from toolorchestra.envs.masorchestra.parser import parse_design
from toolorchestra.envs.masorchestra.rules import DesignFault
from toolorchestra.toolscale.common.errors import OptionError

_FEEDBACK = """\
Your system was run. What its agents answered:

{answers}

Judge whether each sub-task was solvable for its agent and whether the parts suffice for the whole, then write a better
system, in the same form."""
_FAULT = "This is no valid system: {fault}\nWrite it again, corrected."
_VERIFY = """\
These answers were found, each by another system:

{answers}

Which one is right? Reply with its number alone."""


class MASZero(Orchestrator):
    """Designs, runs, and revises a system for each question without training, then verifies (arXiv:2505.14996).

    In each of the `rounds` the meta agent writes a system, which is run; what each agent answered is shown to it as
    feedback. At the end it chooses among the answers of all rounds, of which none is known to be right or wrong.

    Simplified: systems are graphs in the design language, where the paper's are Python programs; feedback on whether
    sub-tasks are solvable and complete is asked for together with the next system. The rounds are run within `act`, so
    episodes in flight at the same time wait for one another.

    Args:
        model: The chat model; what its own requests cost is in its `meter`, the runs are in the episode's cost.
        seed: See `Policy`.
        rounds: Systems that are run.
        temperature: Of the designs; the choice at the end is greedy.
    """

    def __init__(self, model: ChatModel, seed: int = 0, rounds: int = 3, temperature: float = 0.5) -> None:
        super().__init__(seed)
        if rounds < 1:
            raise OptionError(f"Expected at least one round, got rounds={rounds}.")
        self.model, self.rounds, self.temperature = model, rounds, temperature
        self._env: Any = None
        self._messages: list[dict[str, Any]] = []

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode: read the question."""
        super().reset(env, observation, info)
        if self._dom != "high":
            raise OptionError("MAS-Zero designs graphs of agents: make the environment with dom='high'.")
        self._env, self._messages = env.unwrapped, list(info["messages"])

    def design(self) -> Design:
        """Return the answer that is chosen, as a design without agents; the last design where none was run."""
        found: list[str] = []
        start, messages = self._env.snapshot(), list(self._messages)
        for _ in range(self.rounds):
            text = self._asked(messages, self.temperature)
            design = parse_design(text, "high", self._kinds)
            if isinstance(design, DesignFault):
                feedback = _FAULT.format(fault=design)
            else:
                answer, feedback = self._run(text)
                self._env.restore(start, keep_costs=True)
                found += [answer] if answer else []
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": feedback}]
        answers = list(dict.fromkeys(found)) or ["none"]
        shown = "\n".join(f"{number}. {answer}" for number, answer in enumerate(answers, 1))
        chosen = 0
        if len(answers) > 1:
            reply = self._asked([*self._messages, {"role": "user", "content": _VERIFY.format(answers=shown)}], 0.0)
            number = re.search(r"\d+", reply)
            chosen = int(number[0]) - 1 if number and 1 <= int(number[0][:9]) <= len(answers) else len(answers) - 1
        answer = re.sub(r"</?[A-Za-z_]+>", " ", answers[chosen]).strip() or "none"  # no tag may end the block
        return Design(dom="high", thinking="The answer that was verified.", answer=answer)

    def _run(self, text: str) -> tuple[str, str]:
        """Run a system, and return its answer and what its agents answered."""
        *_, info = self._env.step(text)
        run = self._env.play.run
        lines = [f"{call.id} ({call.name}): {call.error or call.value}" for call in info["calls"]]
        return (run.answer or "" if run is not None else ""), _FEEDBACK.format(answers="\n".join(lines) or "nothing")

    def _asked(self, messages: list[dict[str, Any]], temperature: float) -> str:
        request = ChatRequest(tuple(messages), temperature=temperature, max_tokens=4_096, seed=self.rng.getrandbits(31))
        return self.model.complete([request])[0].text
