"""ReAct and RestGPT: an expert that acts step by step, and a planner whose steps another expert turns into calls."""

from __future__ import annotations

from typing import Any

import gymnasium

from toolorchestra.agents.policies.base import Info
from toolorchestra.agents.policies.baselines import Direct, Script
from toolorchestra.agents.policies.expert_roles import ExpertRole, choose, proposal
from toolorchestra.agents.policies.scripted_questions import FINAL, worded
from toolorchestra.agents.subagents.parsing import spoken, tag
from toolorchestra.toolscale.errors import OptionError
from toolorchestra.toolscale.task import Call
from toolorchestra.toolscale.tool import Status

_LONGEST = 2_000  # characters of a thought


class ReAct(Direct):
    """Thought, action and observation in turn, by one expert (arXiv:2210.03629).

    The expert is asked what comes next; its thought is kept beside the call that it proposes, so that at the next step
    it reads all earlier thoughts, actions and observations, errors included. After `steps` actions it is asked for the
    final answer.

    Simplified: thoughts and calls are asked for in the form of the environment's experts, not by the paper's
    few-shot prompts. In a world of questions experts propose no calls, so there is one thought and the answer.

    Args:
        seed: See `Policy`.
        expert: Name of the expert, by default the first one.
        steps: Maximum number of actions.
    """

    def __init__(self, seed: int = 0, expert: str | None = None, steps: int = 20) -> None:
        super().__init__(seed, expert)
        if steps < 1:
            raise OptionError(f"Expected at least one action, got steps={steps}.")
        self.steps = steps
        self._made = 0

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode."""
        super().reset(env, observation, info)
        self._made = 0

    def act(self, observation: str, info: Info) -> Any:
        """Return the question for the next thought, or the action with the thought that led to it."""
        if self._script is not None:
            self.note = thought_in(info)
        return super().act(observation, info)

    def propose(self) -> Script:
        """Ask for the next thought and action, or for the answer when there were enough."""
        self._made += 1
        (reply,) = yield [self.chosen().call(FINAL if self._made > self.steps else None)]
        proposed = proposal(reply)
        return None if self._made > self.steps and isinstance(proposed, Call) else proposed


class RestGPT(Direct):
    """Coarse-to-fine planning: a planner words the next step, a selector turns it into a call (arXiv:2306.06624).

    The planner reads what has happened and plans one step. The step is put into words, by the tool's purpose and the
    values to be used, and given to the selector, a cheaper expert, which chooses the tool and its arguments. The
    executor makes the call; its result, or its error, is what the planner plans the next step from. Where the selector
    proposes no call, the planner's own is made.

    Simplified: the planner proposes a call, which is put into words by a template; results are read by the planner,
    without a program that parses them. In a world of questions the planner answers.

    Args:
        seed: See `Policy`.
        expert: Name of the planner, by default the first expert.
        selector: Name of the selector, by default the cheapest expert.
    """

    def __init__(self, seed: int = 0, expert: str | None = None, selector: str | None = None) -> None:
        super().__init__(seed, expert)
        self._named_selector = selector
        self._purposes: dict[str, str] = {}

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode: read what the tools are for."""
        super().reset(env, observation, info)
        functions = [tool["function"] for tool in info["tools"]]
        self._purposes = {one["name"]: str(one.get("description", "")) for one in functions}
        self.selector()

    def selector(self) -> ExpertRole:
        """Return the expert that turns a step into a call."""
        if self._named_selector is None:
            return min(self.roles("answer"), key=ExpertRole.cost)
        found = choose(self.experts, "answer", self._named_selector)
        if found is None:
            raise OptionError(f"{self._named_selector} cannot be asked for an answer here: name another selector.")
        return found

    def propose(self) -> Script:
        """Plan a step, and have it turned into a call."""
        (reply,) = yield [self.chosen().call()]
        plan = proposal(reply)
        if not isinstance(plan, Call):
            return plan
        step = worded(plan, self._purposes.get(plan.name, plan.name))
        self.note = f"Plan: {step}"
        (reply,) = yield [self.selector().alone.call(step)]
        selected = proposal(reply)
        return selected if isinstance(selected, Call) else plan


def thought_in(info: Info) -> str:
    """Return the reasoning in the reply of the last expert that was asked; empty if there is none."""
    call = next(iter(info.get("calls") or ()), None)
    if call is None or call.status is not Status.OK or not call.children:
        return ""
    text = call.children[-1].value
    if not isinstance(text, str):
        return ""
    return (tag(text, "reasoning") or spoken(text)).strip()[:_LONGEST]
