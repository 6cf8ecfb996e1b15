"""TMATR as a PettingZoo environment: agents and their roles, prompts, the tool buffer, and options."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.multiagent.constructors import constructors
from toolorchestra.envs.multiagent.views import SingleAgentEnv
from toolorchestra.envs.task_env import EpisodeSetup, TaskOptions
from toolorchestra.envs.task_source import TaskSource
from toolorchestra.envs.tmatr.actions import AGENT_ACTIONS, BRANCHES, Action
from toolorchestra.envs.tmatr.paper_prompts import paper_opening, paper_system
from toolorchestra.envs.tmatr.play import Roles, TMATRPlay, request
from toolorchestra.envs.tmatr.prompts import system_prompt
from toolorchestra.envs.tmatr.rewards import RewardRule
from toolorchestra.envs.tmatr.tree import DecisionTree, decision_tree
from toolorchestra.envs.tools.manual import manual_search
from toolorchestra.envs.tools.python import make_python
from toolorchestra.envs.world import World
from toolorchestra.toolscale.answers.typed_answers import TypedAnswer
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tools.tool import Tool

PLANNER = "planner"
INFERENCER = "inferencer"
ROLES: dict[str, Roles] = {
    "pair": dict(zip(AGENT_ACTIONS, [PLANNER] * 3 + [INFERENCER] * 2, strict=True)),
    "single": dict.fromkeys(AGENT_ACTIONS, "solver"),
    "per_action": dict(zip(AGENT_ACTIONS, ("decider", "selector", "planner", "executor", "inferencer"), strict=True)),
}
"""Agents of the actions, by name."""
PROMPTS = ("own", "paper")
"""Whose prompts the agents read."""


class TMATREnv(MultiAgentEnv):
    r"""Reasoning with tools by planning and executing agents, in a tree of atomic actions (TMATR).

    **Agents**: ``planner`` (DECIDE, SELECT, PLAN) and ``inferencer`` (EXECUTE, INFER, ANSWER), or those of `roles`.
    **Tools**: Python, those of the world, and a search of the world's manual where it has no search of its own.

    **Reward**: R of `toolorchestra.envs.tmatr.rewards`, the same for every agent; its parts are in
    ``info["reward_parts"]`` and in the record. The outcome says whether the answer is right. **Info** also
    has ``action``, the action that the agent must take next, or an empty text.

    Args:
        source: Name of a task source (``Math``), or a `TaskSource`.
        roles: The agent of each action: ``pair``, ``single`` (one agent for all), ``per_action`` (five agents), or a
            mapping from each action of `AGENT_ACTIONS` to an agent.
        max_turns: Turns after which an episode is truncated (H): 5 in the paper's evaluation, 3 in its training.
        max_retries: Times that a malformed message may be written again before the turn is lost.
        max_cycles: Messages, of all agents together, after which an episode is truncated; None: as many as the turns
            can take.
        python: What runs Python: ``simulated`` (arithmetic only, nothing is executed), a sandbox (``auto``, or a name
            of `make_sandbox`), ``none``, or a `Tool` of the name ``python`` that takes ``code``.
        noise: Lines of noise in the output of the simulated Python.
        tools: Further tools, such as `toolorchestra.envs.tools.search.search_web.WebSearch`.
        rule: Weights of the reward: a `RewardRule`, or its options by name.
        shown_characters: Maximum characters of a result, goal or plan in an observation; longer ones are cut.
        prompts: ``own``, this library's, or ``paper``, those of Figures 8 to 14.
        options: See `TaskOptions`: `domain`, `tasks`, `split`, `difficulty`, `render_mode`, `answer`,
            `orchestrator`, `judge`.

    >>> env = TMATREnv("Math")
    >>> env.reset(seed=0, options={"difficulty": 1})
    >>> env.step("<ACTION>call_tool</ACTION><GOAL>Compute 2 to the power of 10.</GOAL>")
    >>> env.step("<REASON>It is a number.</REASON><SELECTED_TOOL>python</SELECTED_TOOL>")
    >>> env.agent_selection, env.infos["inferencer"]["action"]
    ('inferencer', 'EXECUTE')
    >>> env.step("<TOOL_INPUT>print(2 ** 10)</TOOL_INPUT>")
    >>> print(env.observe("planner"))
    RETURN of python, OK:
    1024
    <BLANKLINE>
    DECIDE, turn 2 of 5: <ACTION>call_tool or text_reasoning</ACTION><GOAL>…</GOAL>
    """

    protocol = "TMATR"
    typed_place = r'The answer is one JSON object {"answer": {slot: value, …}}, in \boxed{} in <ANSWER>, with the slots'
    metadata = {**MultiAgentEnv.metadata, "name": "tmatr_v0"}  # noqa: RUF012 - PettingZoo's declaration

    def __init__(
        self,
        source: str | TaskSource | None = None,
        *,
        roles: str | Mapping[str, str] = "pair",
        max_turns: int = 5,
        max_retries: int = 2,
        max_cycles: int | None = None,
        python: str | Tool = "simulated",
        noise: int = 0,
        tools: Iterable[Tool] = (),
        rule: RewardRule | Mapping[str, float] | None = None,
        shown_characters: int = 16_384,
        prompts: str = "own",
        **options: Unpack[TaskOptions],
    ) -> None:
        if min(max_turns, shown_characters) < 1 or max_retries < 0:
            raise OptionError("`max_turns` and `shown_characters` must be at least 1, and `max_retries` at least 0.")
        cycles = 3 * (max_retries + 1) * max_turns if max_cycles is None else max_cycles
        super().__init__(source, cycles, options)
        if noise and python != "simulated":
            raise OptionError("`noise` is of the simulated Python: give python='simulated', the default.")
        if prompts not in PROMPTS:
            raise UnknownNameError("value of `prompts`", prompts, PROMPTS)
        self.prompts = prompts
        self.roles = _roles(roles)
        self.max_turns = max_turns
        self.max_retries = max_retries
        self.shown_characters = shown_characters
        try:
            self.rule = rule if isinstance(rule, RewardRule) else RewardRule(**(rule or {}))  # type: ignore[arg-type]
        except TypeError as error:
            raise OptionError(f"`rule` has an option that the reward does not: {error}.") from None
        own = make_python(python, noise)
        self._tools = [*([own] if own else []), *tools]
        self._tool_buffers: dict[str, dict[str, Tool]] = {}
        self._set_agents(list(dict.fromkeys(self.roles.values())))

    @property
    def tree(self) -> DecisionTree:
        """The decision tree of the current or last episode."""
        return decision_tree(self.episode)

    def _setup_episode(
        self, task: Task, world: World, chosen: Mapping[str, Any], typed: TypedAnswer | None
    ) -> EpisodeSetup:
        if world.name not in self._tool_buffers:
            buffer = {tool.name: tool for tool in self._tools} | dict(world.tools)
            if "local_search" not in buffer:
                buffer["local_search"] = manual_search(world, "Search the manual of the place: its rules and tools.")
            self._tool_buffers[world.name] = buffer
        tools = self._tool_buffers[world.name]
        paper, decides = self.prompts == "paper", self.roles[Action.DECIDE]
        prompts = {}
        for agent in self.possible_agents:
            actions = [action for action in AGENT_ACTIONS if self.roles[action] == agent]
            if paper:
                prompts[agent] = paper_system(decides=agent == decides, rules=world.rules)
            else:
                prompts[agent] = system_prompt(agent, actions, tools, self.max_turns, world.rules)
        openings = {agent: [{"role": "system", "content": prompt}] for agent, prompt in prompts.items()}
        asked = self._asked(task, typed)
        first = paper_opening(asked, tools) if paper else f"{asked}\n\n{request(Action.DECIDE, 1, self.max_turns)}"
        openings[decides].append({"role": "user", "content": first})
        rules = functools.partial(
            TMATRPlay,
            roles=self.roles,
            rule=self.rule,
            max_turns=self.max_turns,
            max_retries=self.max_retries,
            shown_characters=self.shown_characters,
            paper=paper,
        )
        return EpisodeSetup(prompts[self.agents_at_start[0]], tools, rules, openings)

    def _info(self, play: Any, agent: str) -> dict[str, Any]:
        info = super()._info(play, agent)
        info["action"] = str(play.action) if play.current_agent == agent and not play.over else ""
        return info


def _roles(roles: str | Mapping[str, str]) -> Roles:
    """Return the agent of each action."""
    if isinstance(roles, str):
        if roles not in ROLES:
            raise UnknownNameError("value of `roles`", roles, ROLES)
        return ROLES[roles]
    if unknown := [name for name in roles if name not in AGENT_ACTIONS]:
        raise UnknownNameError("action", str(unknown[0]), map(str, AGENT_ACTIONS))
    if missing := [action for action in AGENT_ACTIONS if not roles.get(action)]:
        actions = ", ".join(AGENT_ACTIONS)
        raise OptionError(f"Expected an agent for each of {actions}; `roles` has none for {missing[0]}.")
    return {action: roles[action] for action in AGENT_ACTIONS}


raw_env = TMATREnv
env, parallel_env = constructors(TMATREnv)


def single_env(source: str | TaskSource | None = "Math", **options: Any) -> SingleAgentEnv:
    """Return the environment with one agent for all actions, as a Gymnasium environment."""
    inner = raw_env(source, **({"roles": "single"} | options))
    return SingleAgentEnv(inner, inner.possible_agents[0], {})


def random_message(env: MultiAgentEnv, rng: random.Random) -> str:
    """Return a random message, mostly well-formed, so that random play reaches every rule."""
    play = env.play
    assert isinstance(play, TMATRPlay)
    number = rng.randint(0, 99)
    if rng.random() < 0.1:
        return f"It may be {number}."
    match play.action:
        case Action.DECIDE:
            return f"<ACTION>{rng.choice(BRANCHES)}</ACTION>\n<GOAL>Find {number}.</GOAL>"
        case Action.SELECT:
            return f"<REASON>Why not?</REASON>\n<SELECTED_TOOL>{rng.choice(list(play.tools))}</SELECTED_TOOL>"
        case Action.PLAN:
            return f"<REASONING_STEPS>\nStep 1: Think of {number}.\n</REASONING_STEPS>"
        case Action.EXECUTE:
            return f"<TOOL_INPUT>\n{number} + {rng.randint(0, 99)}\n</TOOL_INPUT>"
        case _:
            answer = rf"<ANSWER>\boxed{{{number}}}</ANSWER>" if rng.random() < 0.5 else ""
            return f"<THINK>\nStep 1: {number}.\n</THINK>{answer}"
