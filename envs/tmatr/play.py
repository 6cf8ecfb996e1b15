r"""The rules of TMATR (§3.1), with no environment around them.

An episode is a sequence of turns, and each turn adds a branch to a tree of atomic actions:

    DECIDE ─┬─ call_tool ─────── SELECT ─── EXECUTE ─── RETURN
            └─ text_reasoning ── PLAN ───── INFER ─┬─── RETURN
                                                   └─── ANSWER, which ends the episode

`Roles` maps each action to an agent. By default a *planner* takes DECIDE, SELECT and PLAN, and an *inferencer* takes
EXECUTE, INFER and ANSWER. An agent observes the question, the goal, the plan or the tool that its action needs, each
once. Only the agent that decides observes the result of a turn, so the goal must contain what the others need to know.

The last line of every observation names the action to take next; with the prompts of the paper the whole message does
(`toolorchestra.envs.tmatr.paper_prompts`). A malformed message is answered with what is wrong
with it, and may be written again `max_retries` times; then the turn is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from toolorchestra.agents.messages.model_message import ModelMessage
from toolorchestra.envs.play import Play, PlayStart
from toolorchestra.envs.records.episode import CallRecord
from toolorchestra.envs.records.unjudged import no_answer_after
from toolorchestra.envs.tmatr.actions import CALL, FORMS, Action, FormatFault, ParsedAction, read
from toolorchestra.envs.tmatr.paper_prompts import paper_request
from toolorchestra.envs.tmatr.prompts import description
from toolorchestra.envs.tmatr.rewards import RewardRule, reward_parts
from toolorchestra.envs.tools.text_input import arguments_of, fence_parameter
from toolorchestra.toolscale.tools.tool import Status, Tool

Roles = Mapping[Action, str]
"""The agent of each action of `AGENT_ACTIONS`."""
_ABOVE = {
    Action.DECIDE: (Action.DECIDE,),
    Action.SELECT: (Action.DECIDE,),
    Action.PLAN: (Action.DECIDE,),
    Action.EXECUTE: (Action.DECIDE, Action.SELECT),
    Action.INFER: (Action.DECIDE, Action.PLAN),
}  # actions whose agents have read or written the goal


def request(action: Action, turn: int, turns: int) -> str:
    """Return the line of an observation that asks for an action."""
    return f"{action}, turn {turn} of {turns}: {FORMS[action]}"


class TMATRPlay(Play):
    """An episode of a hierarchy of agents; the options are those of `toolorchestra.envs.tmatr.env.TMATREnv`.

    The opening of the agent that decides ends with a request.

    Attributes:
        action: The action that the current agent must take.
        turn: Number of the turn, from 1.
        attempt: Number of the attempt at the action, from 1.
        goal: Goal of the turn, once decided.
        tool: Tool of the turn, once selected.
        plan: Plan of the turn, once laid out.
    """

    def __init__(
        self,
        start: PlayStart,
        *,
        roles: Roles,
        rule: RewardRule,
        max_turns: int,
        max_retries: int,
        shown_characters: int,
        paper: bool = False,
    ) -> None:
        super().__init__(start)
        self.roles = roles
        self.rule = rule
        self.max_turns = max_turns
        self.max_retries = max_retries
        self.shown_characters = shown_characters
        self.paper = paper
        self.action = Action.DECIDE
        self.turn = self.attempt = 1
        self.goal = self.tool = self.plan = ""

    def _set_reward(self, *, solved: bool) -> None:
        super()._set_reward(solved=solved)  # the parts are computed from a record that says whether it is solved
        parts = reward_parts(self.episode, self.rule)
        self._reward(parts["reward"], parts)

    def _on_message(self, agent: str, message: ModelMessage) -> None:
        parsed = read(self.action, message.raw, self.tools)
        if isinstance(parsed, FormatFault):
            self._refuse(parsed)
            return
        match self.action:
            case Action.DECIDE:
                self.goal = parsed["GOAL"]
                self._ask(Action.SELECT if parsed["ACTION"] == CALL else Action.PLAN)
            case Action.SELECT:
                self.tool = parsed["SELECTED_TOOL"]
                self._ask(Action.EXECUTE, description(self.tools[self.tool]))
            case Action.PLAN:
                self.plan = parsed["REASONING_STEPS"]
                needed = [] if agent == self.roles[Action.INFER] else [f"Plan:\n{self._cut(self.plan)}"]
                self._ask(Action.INFER, *needed)
            case Action.EXECUTE:
                self._execute(parsed)
            case _:
                self._infer(agent, parsed)

    def _execute(self, message: ParsedAction) -> None:
        arguments = bind(self.tools[self.tool], message["TOOL_INPUT"])
        if isinstance(arguments, FormatFault):
            self._refuse(arguments)
            return
        record = self.call(self.tool, arguments)
        self._next_turn(f"RETURN of {self.tool}, {record.status}:\n{self._cut(result_text(record))}")

    def _infer(self, agent: str, message: ParsedAction) -> None:
        if answer := message.get("ANSWER"):
            self.judge(answer)
        else:
            thought = "" if agent == self.roles[Action.DECIDE] else f"\n{self._cut(message['THINK'])}"
            self._next_turn(f"RETURN of {Action.INFER}, no answer yet.{thought}")

    def _ask(self, action: Action, *needed: str) -> None:
        """Ask the agent of an action for it, with what the action needs."""
        agent = self.roles[action]
        if self.paper:
            fields = {"question": self.episode.instruction, "goal": self._cut(self.goal), "plan": self._cut(self.plan)}
            self._pass(action, paper_request(action, **fields, tool_information="\n".join(needed)))
            return
        parts = []
        if agent != self.roles[Action.DECIDE] and not any(agent in turn.observations for turn in self.episode.turns):
            parts.append(self.episode.instruction)
        if agent not in {self.roles[above] for above in _ABOVE[action]}:
            parts.append(f"Goal: {self._cut(self.goal)}")
        self._pass(action, "\n\n".join([*parts, *needed, request(action, self.turn, self.max_turns)]))

    def _pass(self, action: Action, asked: str) -> None:
        """Show the agent of an action what is asked of it, and let it act."""
        self.observe(self.roles[action], asked)
        self.action, self.attempt = action, 1
        self.pass_to(self.roles[action])

    def _next_turn(self, returned: str) -> None:
        """End a turn, and show its result to the agent that decides."""
        if self.turn == self.max_turns:
            self.truncated = True
            self.close(solved=False, why=no_answer_after(self.max_turns))
            return
        self.turn += 1
        self.observe(self.roles[Action.DECIDE], returned)
        self._ask(Action.DECIDE)

    def _refuse(self, fault: FormatFault) -> None:
        """Let a malformed message be written again, or end the turn if no attempt is left."""
        left = self.max_retries + 1 - self.attempt
        if left:
            self.attempt += 1
            again = f"{fault.reason} Write it again; {left} attempt{'s' if left > 1 else ''} left."
            asked = "" if self.paper else f"\n\n{request(self.action, self.turn, self.max_turns)}"
            self.observe(self.current_agent, again + asked)
        else:
            self._next_turn(f"RETURN of {self.action}, none: no message of the right form.")

    def _cut(self, text: str) -> str:
        limit = self.shown_characters
        return text if len(text) <= limit else f"{text[:limit]}… (cut)"


def result_text(record: CallRecord) -> str:
    """Return the result of a call as text."""
    if record.status is not Status.OK:
        return record.error or ""
    return record.value if isinstance(record.value, str) else msgspec.json.encode(record.value).decode()


def bind(tool: Tool, text: str) -> dict[str, Any] | FormatFault:
    """Return the arguments that the text of a tool's input gives, or what is wrong with it.

    A tool with one text parameter takes the text as it is (a list of texts: one a line); any other a JSON object.
    """
    if fence_parameter(tool) is not None:
        return arguments_of(tool, text)
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        wrong = f"Expected a JSON object as the input of {tool.name}, found another text ({str(error)[:200]})."
        return FormatFault(f"{wrong} Write {tool.signature()} into <TOOL_INPUT>.")
