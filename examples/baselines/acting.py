"""Experts that act: step by step, by a plan that another makes calls of (RestGPT), and with going back (DFSDT)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import gymnasium

from toolorchestra.agents.messages.text_parts import spoken, tag
from toolorchestra.agents.policies.base import Info
from toolorchestra.agents.policies.baselines import NO_ANSWER, Direct, Script, calls_with_note
from toolorchestra.agents.policies.expert_roles import ExpertRole, choose, proposal
from toolorchestra.agents.policies.scripted_questions import FINAL, worded
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tasks.task import Call
from toolorchestra.toolscale.tools.tool import Status

_LONGEST = 2_000  # characters of a thought
GIVE_UP = "give up"
"""How an expert's answer begins that abandons a branch."""
_DIFFERENT = (
    "These calls were tried from here and taken back: {tried}. Propose a different one, or answer '"
    + GIVE_UP
    + "' to go back a step."
)


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


@dataclass
class _Node:
    """A state of the environment: how often it was asked from here, and which calls were tried."""

    asked: int = 0
    tried: list[Call] = field(default_factory=list)
    snapshot: Any = None  # the state after the last question, from which the last call was made


class DepthFirstSearch(Direct):
    """Calls are tried depth first: where one fails it is taken back, and another is tried (arXiv:2307.16789).

    At each state the expert proposes a call. One that fails, and a state at which the expert gives up or has nothing
    new to propose after `width` questions, is abandoned: the environment goes back to the state before, writes
    included, and the expert is told what was tried and asked for something different. What abandoned branches cost
    stays in the episode's cost and time (``restore(snapshot, keep_costs=True)``).

    Simplified: children are tried in the order in which they are proposed (the authors' own shortcut, without ranking
    them). After `budget` questions the search ends, and the expert is followed without going back; ToolLLaMA gives up.
    The environment must have snapshots, as all of this library do. In a world of questions the expert answers.

    Args:
        seed: See `Policy`.
        expert: Name of the expert, by default the first one.
        width: Maximum number of questions at one state.
        depth: Maximum number of calls on a branch.
        budget: Maximum number of questions of the search.
    """

    def __init__(
        self, seed: int = 0, expert: str | None = None, width: int = 3, depth: int = 20, budget: int = 40
    ) -> None:
        super().__init__(seed, expert)
        if min(width, depth, budget) < 1:
            raise OptionError(f"Expected at least 1 of each, got {width=}, {depth=} and {budget=}.")
        self.width, self.depth, self.budget = width, depth, budget
        self._path: list[_Node] = []
        self._asked = 0
        self._next: Literal["ask", "read reply", "read result"] = "ask"

    def propose(self) -> Script:
        """Not used: the search goes back, which a script cannot."""
        raise NotImplementedError

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode at the root."""
        super().reset(env, observation, info)
        self._path, self._asked, self._next = [_Node()], 0, "ask"

    def act(self, observation: str, info: Info) -> Any:
        """Return the question to the expert, the call to try, or the answer."""
        if self._next == "read result":
            (call,) = info["calls"]
            if call.status is Status.OK:
                self._path.append(_Node())
            elif self._searching:
                self._back()
            return self._ask()
        if self._next == "read reply":
            return self._follow(info)
        return self._ask()

    @property
    def _searching(self) -> bool:
        return self._asked < self.budget

    def _ask(self) -> Any:
        """Ask for the next call at the present state, or go back from one where all was asked."""
        while self._searching and self._path[-1].asked >= self.width and len(self._path) > 1:
            self._path.pop()
            self._back()
        node = self._path[-1]
        if node.asked >= self.width:  # at the root: nothing is left to be tried
            self._asked = self.budget
        node.asked += 1
        self._asked += 1
        self._next = "read reply"
        tried = ", ".join(f"{call.name} {call.arguments}" for call in node.tried)
        note = _DIFFERENT.format(tried=tried) if tried and self._searching else ""
        expert = self.chosen().shown(self._env.play.messages)
        call = expert.call(note or None) if expert.context else expert.call()
        return calls_with_note([call], note) if note else [{"name": call.name, "arguments": call.arguments}]

    def _follow(self, info: Info) -> Any:
        """Try what the expert proposed, if it is new here; otherwise ask again."""
        (reply,) = info["calls"]
        found = proposal(reply.value) if reply.status is Status.OK else None
        if isinstance(found, str) and not (self._searching and found.lower().startswith(GIVE_UP)):
            return self._env.final(found)
        if not self._searching:
            self._next = "read result"
            return self._env.final(NO_ANSWER) if found is None else self._made(found)
        node = self._path[-1]
        if isinstance(found, str):
            node.asked = self.width
        if not isinstance(found, Call) or found in node.tried or len(self._path) > self.depth:
            return self._ask()
        node.tried.append(found)
        node.snapshot = self._env.snapshot()
        self._next = "read result"
        return self._made(found)

    def _made(self, call: Any) -> Any:
        return [{"name": call.name, "arguments": call.arguments}]

    def _back(self) -> None:
        """Take the last call of the present state back; what it and all after it cost is kept."""
        self._env.restore(self._path[-1].snapshot, keep_costs=True)
