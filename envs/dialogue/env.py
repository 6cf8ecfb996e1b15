"""The dialogue as a PettingZoo environment: agents, prompts, scenarios, and options."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable, Mapping
from typing import Any, Unpack, get_args

import msgspec

from toolorchestra.agents.policies.base import write_calls
from toolorchestra.envs.answer_modes import SLOTS_FOLLOW, with_submit
from toolorchestra.envs.dialogue.play import DialoguePlay
from toolorchestra.envs.dialogue.request_facts import FactVocabulary, RequestFact, facts_in, vocabulary_of, with_blanks
from toolorchestra.envs.dialogue.scenario import ORCHESTRATOR, PERSONAS, PROMPTS, STOP, USER, Reveal, Scenario, schemas
from toolorchestra.envs.dialogue.told_scenario import told_request
from toolorchestra.envs.dialogue.user import ScriptedUser
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.multiagent.constructors import constructors
from toolorchestra.envs.multiagent.views import Partner, SingleAgentEnv
from toolorchestra.envs.play import EpisodeLimits
from toolorchestra.envs.task_env import EpisodeSetup, TaskOptions
from toolorchestra.envs.task_source import TaskSource
from toolorchestra.envs.world import World
from toolorchestra.toolscale.answers.typed_answers import SUBMIT, TypedAnswer
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.export.exchange_rows import SCENARIO, tau2_instruction
from toolorchestra.toolscale.tasks.task import Call, Task
from toolorchestra.toolscale.tools.tool import Tool

MIXED = "mixed"
"""Option `persona`: each episode draws one from its seed."""


class DialogueEnv(MultiAgentEnv):
    """A dialogue with a user that has a goal and gives facts when it is asked (the form of τ²-bench's tasks).

    **Agents**: ``user``, which begins the dialogue, and ``orchestrator``, which has the tools. A text without calls
    goes to the other agent; ``<tool_call>`` blocks are run, and only the caller observes the results. The orchestrator
    ends the dialogue with the call ``submit``; then database and answer are verified as in ToolOrchestra. A user that
    has enough writes ``###STOP###``: the orchestrator can still submit then, but says nothing more. With
    ``answer="text"`` ``###STOP###`` ends the dialogue, and the orchestrator's texts are verified.

    **Reward**: 1 for both if the task is solved, else 0. **Info**: at the end ``faults``, what went wrong and which
    agent caused it, the decisive one first. The user's info has its ``scenario``.

    Args:
        source: Name of a domain (``Restaurant``), or a `TaskSource` of tasks in domains.
        reveal: The user's first message: ``asked`` leaves the facts of its request open, and it gives them when asked;
            ``all`` is the whole request.
        persona: How it writes: a name of `PERSONAS`, or ``mixed`` for one drawn at random in each episode.
        user_tools: Names of tools that only the user can call (dual control).
        max_cycles: Messages, of both agents together, after which an episode is truncated.
        result_characters: Maximum characters of a result in an observation.
        options: See `TaskOptions`: `domain`, `tasks`, `split`, `difficulty`, `render_mode`, `answer`,
            `orchestrator`, `judge`.

    >>> env = DialogueEnv("Restaurant")
    >>> env.reset(seed=0, options={"task_id": "restaurant/pay_with_coupon/005"})
    >>> print(env.infos["user"]["scenario"].request.splitlines()[2].split(". ")[0])
    [customer] would like to pay the bill for [date] ahead of time, with the app
    >>> env.step("I have a bill to pay.")
    >>> env.step("Whose bill is it?")
    >>> print(env.observe("user"))
    Whose bill is it?
    """

    protocol = "Dialogue"
    typed_place = SLOTS_FOLLOW
    metadata = {**MultiAgentEnv.metadata, "name": "dialogue_v0"}  # noqa: RUF012 - PettingZoo's declaration

    def __init__(
        self,
        source: str | TaskSource | None = None,
        *,
        reveal: Reveal = "asked",
        persona: str = "plain",
        user_tools: Iterable[str] = (),
        max_cycles: int = 100,
        result_characters: int = 16_384,
        **options: Unpack[TaskOptions],
    ) -> None:
        super().__init__(source, max_cycles, options)
        if reveal not in get_args(Reveal):
            raise UnknownNameError("value of `reveal`", reveal, get_args(Reveal))
        if persona not in (MIXED, *PERSONAS):
            raise UnknownNameError("persona", persona, (MIXED, *PERSONAS))
        if result_characters < 1:
            raise OptionError(f"`result_characters` must be at least 1, got {result_characters!r}.")
        self.reveal = reveal
        self.persona = persona
        self.user_tools = tuple(dict.fromkeys([user_tools] if isinstance(user_tools, str) else user_tools))
        self.limits = EpisodeLimits(turns=max_cycles, result_characters=result_characters)
        self._requests: dict[str, tuple[str, tuple[RequestFact, ...], str]] = {}
        worlds = {world.name: world for world in map(self.source.world, self.source.tasks("all"))}
        for world in worlds.values():
            if not isinstance(world, Domain):
                raise OptionError(f"A dialogue takes place in a domain; {world.name} is none.")
            if wrong := [name for name in self.user_tools if name not in world.tools]:
                raise UnknownNameError(f"tool of {world.name}", wrong[0], world.tools)
        self._set_agents([USER, ORCHESTRATOR])

    def _setup_episode(
        self, task: Task, world: World, chosen: Mapping[str, Any], typed: TypedAnswer | None
    ) -> EpisodeSetup:
        assert isinstance(world, Domain), "it was when the environment was made"
        noise_seed = int(self.np_random.integers(2**31))
        name = list(PERSONAS)[noise_seed % len(PERSONAS)] if self.persona == MIXED else self.persona
        vocabulary = vocabulary_of(world)
        goal, facts, request = self._request(task, vocabulary)
        scenario = Scenario(goal, request, facts, PERSONAS[name], self.user_tools, noise_seed)
        users = [tool for name, tool in world.tools.items() if name in self.user_tools]
        others = [tool for name, tool in world.tools.items() if name not in self.user_tools]
        tools: Mapping[str, Tool] = world.tools
        if typed is not None:
            tools = with_submit(tools)
            others.append(tools[SUBMIT])
        system = PROMPTS["orchestrator"] + PROMPTS["prose" if typed is None else "typed"]
        system += f"\n{world.rules}\n\n# Tools\n\n{schemas(others)}"
        if users:
            system += f"\n\n{PROMPTS['tools_of_user']}{schemas(users)}"
        if typed is not None:
            system += f"\n\n{self.typed_place} {typed}"
        openings = {USER: scenario.opening(users), ORCHESTRATOR: [{"role": "system", "content": system}]}
        rules = functools.partial(DialoguePlay, scenario=scenario, vocabulary=vocabulary)
        prompt = str(openings[USER][0]["content"])
        return EpisodeSetup(prompt, tools, rules, openings, details={"persona": name})

    def _request(self, task: Task, vocabulary: FactVocabulary) -> tuple[str, tuple[RequestFact, ...], str]:
        """Return what the user of a task wants, the facts of that, and its first request (cached)."""
        if task.id not in self._requests:
            if (told := task.bindings.get(SCENARIO)) is not None:
                self._requests[task.id] = tau2_instruction(told), *told_request(told, self.reveal)
            else:
                facts = facts_in(task.instruction, vocabulary)
                open_facts = facts if self.reveal == "asked" else ()
                self._requests[task.id] = task.instruction, facts, with_blanks(task.instruction, open_facts)
        return self._requests[task.id]

    def _info(self, play: Any, agent: str) -> dict[str, Any]:
        info = super()._info(play, agent)
        if agent == USER:
            info["scenario"] = play.scenario
        if play.over:
            info["faults"] = play.faults
        return info


raw_env = DialogueEnv
env, parallel_env = constructors(DialogueEnv)


def single_env(
    source: str | TaskSource | None = "Restaurant", *, user: Partner | None = None, **options: Any
) -> SingleAgentEnv:
    """Return the orchestrator's view; the user is a `ScriptedUser` unless another one is given."""
    return SingleAgentEnv(raw_env(source, **options), ORCHESTRATOR, {USER: user or ScriptedUser()})


def random_message(env: MultiAgentEnv, rng: random.Random) -> str:
    """Return a random message, so that random play reaches every rule."""
    tool = rng.choice(list(env.play.tools))
    call = write_calls([rng.choice([*env.task.whole_path, Call(tool, {})])])
    if env.agent_selection == USER:
        return rng.choice((env.task.instruction, f"It is {rng.randint(0, 99)}.", call, "", f"Goodbye. {STOP}"))
    ends = (
        [] if env.play.typed is None else [write_calls([Call(SUBMIT, msgspec.json.decode(env.right_answer(env.task)))])]
    )
    texts = "For which date is it?", f"Please do {tool}().", env.task.answer, "Everything is done."
    return rng.choice((call, call, *texts, *ends))
