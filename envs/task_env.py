"""The base of all environments: task source, options, sessions, the episode in progress, and its snapshots.

    TaskEnv ─┬─ OrchestrationEnv    one agent, with Gymnasium's interface
             └─ MultiAgentEnv       several agents, with PettingZoo's interface

A protocol subclasses one of the two and overrides `TaskEnv._setup_episode`, which says what differs: the prompt, the
tools, and the rules by which an episode is played.
"""

from __future__ import annotations

import copy
import inspect
import sys
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, TypedDict, get_args, get_type_hints

import gymnasium
import msgspec
import numpy as np

from toolorchestra.agents.chat.base import ChatModel
from toolorchestra.agents.experts.specification import ExpertSpec
from toolorchestra.envs.answer_modes import AnswerMode, make_slots
from toolorchestra.envs.executor import Outages
from toolorchestra.envs.judge.model_judge import ModelJudge, make_judge
from toolorchestra.envs.orchestrator_rates import DEFAULT_ORCHESTRATOR, OrchestratorRates
from toolorchestra.envs.play import EpisodeLimits, Play, PlaySnapshot, PlayStart
from toolorchestra.envs.records.episode import Episode, measured
from toolorchestra.envs.records.recorded_calls import RecordedCalls, RecordedTool
from toolorchestra.envs.rewards import Preference
from toolorchestra.envs.task_source import TaskSource, make_source
from toolorchestra.envs.world import World, WorldSession
from toolorchestra.toolscale.answers.typed_answers import TypedAnswer
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError, unknown_name
from toolorchestra.toolscale.domain import SPLITS
from toolorchestra.toolscale.preferences import PreferencePair, read_pairs
from toolorchestra.toolscale.tasks.task import Task

RENDER_MODES = ("ansi", "human")
_OPENING = (
    *("env_id", "task_id", "seed", "split", "difficulty", "prompt", "instruction", "tools", "agents", "openings"),
    *("preference", "noise_seed"),
)
"""What a record says of an episode before its first message."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class TaskOptions(TypedDict, total=False):
    """Options of every environment, beside its `source` and those of its protocol.

    Attributes:
        domain: Folder (or name) of a domain to play instead of a named source.
        tasks: JSONL file of tasks to play instead; see `toolorchestra.envs.task_source.FileSource`.
        split: Default split of `reset` (``train``).
        difficulty: Level or levels from which `reset` draws; None, the default, for all.
        render_mode: ``ansi`` (`render` returns the transcript) or ``human`` (turns are printed as they come).
        answer: How tasks in domains are answered. ``typed`` (default): the final answer has a value for each slot,
            which are compared exactly; the request ends with the slots, which ``info["slots"]`` has too. ``text``
            (default of the worlds of τ²-bench): it is prose, and must mention what is to be told, as in the paper: a
            rule that can be gamed, by naming every candidate. In MASOrchestra it is always prose. Questions of
            ToolOrchestra have the call `submit` with ``typed``, and not with ``text``; for other questions the option
            changes nothing.
        orchestrator: Model of the catalogue (or an `ExpertSpec`) at whose price and speed the agents' own messages cost
            money and take time (`toolorchestra.envs.orchestrator_rates`); None: they are free. By default
            ``qwen3-8b``.
        judge: Model that judges answers in prose, in the place of what they mention: the name of a model of the
            catalogue that has an endpoint, a `ChatModel`, or a `ModelJudge`; None, the default: none. Only with
            ``answer="text"`` and tasks in domains; see `toolorchestra.envs.judge.model_judge`.
        outages: What it is when a real expert or another server fails for good or hangs. ``infra_error`` (default):
            the episode ends with that outcome, unjudged, since the policy did not cause it. ``observed``: the call ends
            in an EXEC_ERR or TIMEOUT, which the policy should cope with.
        repair: Whether calls in other forms than those that the prompt asks for are made (default); else each is a
            PARSE_ERR. The record notes the form (`Turn.repaired`).
    """

    domain: str | Path | None
    tasks: str | Path | None
    split: str
    difficulty: int | Iterable[int] | None
    render_mode: str | None
    answer: AnswerMode
    orchestrator: str | ExpertSpec | None
    judge: str | ChatModel | ModelJudge | None
    outages: Outages
    repair: bool


class EpisodeSetup(msgspec.Struct, frozen=True, gc=False):
    """What a protocol says of an episode that begins.

    Attributes:
        prompt: System message of the first agent.
        tools: Tools, by name.
        rules: Makes the play: a subclass of `Play`, or a function of its argument.
        openings: Messages with which each agent begins, where there are several.
        preference: Preference over tools, outcome, compute and latency, if there is one; see `Preference`.
        draws_noise: Whether a noise seed is drawn for the episode.
        details: What the record holds beside its own fields.
    """

    prompt: str
    tools: Mapping[str, Any]
    rules: Callable[[PlayStart], Play]
    openings: Mapping[str, Sequence[Mapping[str, Any]]] = _NOTHING
    preference: Any = None
    draws_noise: bool = True
    details: Mapping[str, Any] = _NOTHING


@dataclass(frozen=True)
class EnvSnapshot:
    """The whole state of an environment.

    Attributes:
        play: The episode.
        generator: State of the random generator.
        interface: What the interface keeps beside them, by attribute.
    """

    play: PlaySnapshot
    generator: Mapping[str, Any]
    interface: Mapping[str, Any]


class TaskEnv:
    """An environment in which each episode is about one task.

    Args:
        source: Name of a task source (``Restaurant``, ``Math``), or a `TaskSource`.
        limits: When an episode ends without an answer.
        options: See `TaskOptions`; others are refused.
        reset_options: Further options of `reset`, with their defaults.

    Raises:
        OptionError: An option is unknown or has a value that cannot be used.
    """

    protocol: ClassVar[str]
    """As it stands in environment ids."""
    option_types: ClassVar[type] = TaskOptions
    """The options that it takes beside its source and those of its protocol."""
    typed_place: ClassVar[str] = ""
    """Tells an orchestrator how it gives a typed answer; empty where it cannot give one."""
    agents_at_start: tuple[str, ...] = ()
    """Names of the agents, where there are several; the first one moves first."""
    np_random: np.random.Generator

    def __init__(
        self, source: str | TaskSource | None, limits: EpisodeLimits, options: Mapping[str, Any], **reset_options: Any
    ) -> None:
        known = get_type_hints(self.option_types)
        if wrong := [name for name in options if name not in known]:
            own = inspect.signature(type(self).__init__).parameters.values()
            names = {*known, *(one.name for one in own if one.kind is one.KEYWORD_ONLY)}
            raise OptionError(unknown_name(f"option of {type(self).__name__}", wrong[0], names))
        if (split := options.get("split", "train")) not in ("all", *SPLITS):
            raise UnknownNameError("split", str(split), ("all", *SPLITS))
        domain, tasks = options.get("domain"), options.get("tasks")
        if (source is None) == (domain is None and tasks is None):
            raise OptionError(
                "Give either a `source` (e.g. 'Restaurant'), or the folder of a `domain`, a file of `tasks`, or both."
            )
        self.render_mode: str | None = options.get("render_mode")
        if self.render_mode is not None and self.render_mode not in RENDER_MODES:
            raise UnknownNameError("render mode", self.render_mode, RENDER_MODES)
        self.source = source if isinstance(source, TaskSource) else make_source(source, domain, tasks)
        self.limits = limits
        answer = options.get("answer", self.source.default_answer)
        self._slots = make_slots(answer, self.source, can_be_typed=bool(self.typed_place))
        self.rates = OrchestratorRates.of(options.get("orchestrator", DEFAULT_ORCHESTRATOR))
        self._judge = make_judge(options.get("judge"), self.source, typed=self._slots is not None)
        self._repair = bool(options.get("repair", True))
        self._outages: Outages = options.get("outages", "infra_error")
        if self._outages not in get_args(Outages):
            raise UnknownNameError("value of `outages`", str(self._outages), get_args(Outages))
        self._reset_options: dict[str, Any] = {
            "task_id": None,
            "split": split,
            "difficulty": options.get("difficulty"),
            **reset_options,
        }
        self._sessions: dict[str, WorldSession] = {}
        self._pairs: dict[Path, list[PreferencePair]] = {}
        self._preference: Preference | None = None
        self._play: Play | None = None

    # --- override these

    @abstractmethod
    def _setup_episode(
        self, task: Task, world: World, chosen: Mapping[str, Any], typed: TypedAnswer | None
    ) -> EpisodeSetup:
        """Return what is special about a new episode of `task`, given the options of this reset.

        `typed` has the slots of its answer, if that is typed.
        """

    # --- the episode

    @property
    def play(self) -> Any:
        """The episode being played."""
        if self._play is None:
            raise gymnasium.error.ResetNeeded("Call reset() before step(), observe(), render() or snapshot().")
        return self._play

    @property
    def may_block(self) -> bool | None:
        """Whether a step of the current or last episode may wait for something outside this process; None: not known.

        Many environments played at the same time then take their steps in threads (`toolorchestra.envs.step_threads`).
        """
        return False if self._play is None else self._play.may_block

    @property
    def reset_options(self) -> tuple[str, ...]:
        """Names of the options that `reset` takes."""
        return tuple(self._reset_options)

    @property
    def episode(self) -> Episode:
        """The record of the current or last episode."""
        episode: Episode = self.play.episode
        return episode

    @property
    def task(self) -> Task:
        """The task being played, its reference trajectory included: hidden from the agents."""
        task: Task = self.play.task
        return task

    def right_answer(self, task: Task) -> str:
        """Return a final answer that is right for a task of the source: prose, or the JSON of a typed one."""
        typed = self._slots.of(task) if self._slots is not None else None
        return task.answer if typed is None else typed.written()

    def close(self) -> None:
        """Release the sessions, and the connections of a judge named in the options."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()
        self._play = None
        if self._judge is not None:
            self._judge.close()

    def snapshot(self) -> EnvSnapshot:
        """Return the whole state: a branch point, from which any number of episodes can go on."""
        generator = dict(self.np_random.bit_generator.state)
        return EnvSnapshot(self.play.snapshot(), generator, self._interface_state())

    def restore(self, snapshot: EnvSnapshot, *, keep_costs: bool = False) -> None:
        """Put the environment into the state of `snapshot`, taken from this or an equal environment.

        With `keep_costs` what the continuation that is taken back cost is still paid for: cost and clock go on from
        where they are, and ``details["abandoned"]`` of the record says how many turns, calls, US dollars and seconds
        that was. A policy that searches plays so, and is compared at its true cost.

        Raises:
            OptionError: Costs are to be kept, and the snapshot is not of the episode in progress.
        """
        left = self.episode if keep_costs else None
        if left is not None:
            snapshot.play.play.check_continues(left)
        self._play = snapshot.play.restored(self._session(snapshot.play.play.world))
        self.np_random.bit_generator.state = dict(snapshot.generator)
        for name, value in snapshot.interface.items():  # a snapshot may be restored many times: copies
            setattr(self, name, copy.copy(value))
        if left is not None:
            self.play.keep_costs(left)

    def _interface_state(self) -> dict[str, Any]:
        """Return the attributes that a snapshot holds beside the episode and the generator, copied."""
        return {"_preference": self._preference}

    def __getstate__(self) -> dict[str, Any]:
        """Leave the sessions behind: a copy opens its own. The episode in progress goes along."""
        return {**self.__dict__, "_sessions": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._play is not None and self._play.session is not None:
            self._sessions[self._play.world.name] = self._play.session

    # --- machinery of reset

    def _start_episode(self, chosen: Mapping[str, Any], seed: int | None) -> Play:
        """Choose a task, ask the protocol how it begins, and return the play."""
        task = self._choose(chosen)
        world = self.source.world(task)
        typed = self._slots.of(task) if self._slots else None
        setup = self._setup_episode(task, world, chosen, typed)
        names, instruction, preferred = tuple(setup.tools), self._asked(task, typed), None
        if setup.preference is not None:
            preferred = self._prefer(setup.preference, measured(names), task)
            if preferred is not None and preferred.instruction:
                instruction = f"{instruction}\n\n{preferred.instruction}"
        self._preference = preferred
        episode = Episode(
            env_id=self._env_id,
            task_id=task.id,
            seed=seed,
            split=task.split,
            difficulty=task.difficulty,
            prompt=self._prompt(setup, world),
            instruction=instruction,
            tools=names,
            preference=preferred.weights if preferred else None,
            noise_seed=int(self.np_random.integers(2**31)) if setup.draws_noise else 0,
        )
        if self.agents_at_start:
            episode.agents = self.agents_at_start
            episode.openings = {agent: tuple(map(dict, setup.openings[agent])) for agent in episode.agents}
        if setup.details:
            episode.details = dict(setup.details)
        start = PlayStart(
            world,
            self._session(world),
            task,
            episode,
            self.limits,
            setup.tools,
            typed=typed,
            rates=self.rates,
            judge=self._judge,
            outages=self._outages,
            repair=self._repair,
        )
        self._play = setup.rules(start)
        return self._play

    def start_replay(self, recorded: RecordedCalls, judge: ModelJudge | None = None) -> Play:
        """Return the play of a recorded episode at its beginning, in which its messages can be taken again.

        It has the tools of the record, costs nothing and ends by no limit of turns, cost or time.

        Args:
            recorded: The calls of the record.
            judge: Says again what a model that judges has said.

        Raises:
            UnknownNameError: The task is gone.
        """
        record = recorded.record
        task = self.source.task(record.task_id)
        world = self.source.world(task)
        typed = self._slots.of(task) if self._slots else None
        setup = self._setup_episode(task, world, {**self._reset_options, "preference": None}, typed)
        asked = record.instruction
        if not asked.startswith(task.instruction) or (typed is not None and str(typed) not in asked):
            recorded.note("the task has changed: what is asked is another text")
        episode = Episode(**{name: getattr(record, name) for name in _OPENING}, details={**setup.details})
        tools = {name: setup.tools.get(name) or RecordedTool(name) for name in record.tools}
        start = PlayStart(
            world,
            self._session(world),
            task,
            episode,
            self.limits,
            tools,
            typed,
            None,
            judge,
            self._outages,
            self._repair,
        )
        play = self._play = setup.rules(start)
        play.recorded = recorded
        play.limits = replace(self.limits, turns=sys.maxsize, cost=None, seconds=None)
        return play

    def _prompt(self, setup: EpisodeSetup, world: World) -> str:
        """Return the system message of the first agent."""
        return setup.prompt

    def _asked(self, task: Task, typed: TypedAnswer | None) -> str:
        """Return what an orchestrator is asked: the request, and the slots of its answer if that is typed."""
        return task.instruction if typed is None else f"{task.instruction}\n\n{self.typed_place} {typed}"

    @property
    def _env_id(self) -> str:
        spec = getattr(self, "spec", None)
        return spec.id if spec else f"{self.protocol}-{self.source.name}-v0"

    def _choose(self, chosen: Mapping[str, Any]) -> Task:
        if chosen["task_id"] is not None:
            return self.source.task(str(chosen["task_id"]))
        levels = chosen["difficulty"]
        if levels is not None:
            levels = frozenset([levels] if isinstance(levels, int) else levels)
        return self.source.sample(chosen["split"], levels, self.np_random)

    def _session(self, world: World) -> WorldSession:
        """Return the session of a world: made once, and reset by each episode."""
        session = self._sessions.get(world.name)
        if session is None:
            session = self._sessions[world.name] = world.session()
        return session

    def _prefer(self, value: Any, tools: tuple[str, ...], task: Task) -> Preference | None:
        """Return the preference asked for; of a file of pairs the one that falls to the task."""
        if value is None:
            return None
        if not isinstance(value, (str, Path)):
            return _preference(value, tools)
        pairs = self._pairs.setdefault(Path(value), [])
        if not pairs:
            pairs += read_pairs(Path(value))
        pair = pairs[zlib.crc32(task.id.encode()) % len(pairs)]
        return Preference.of(Preference(pair.tools, pair.vector, pair.instruction), tools)

    def _shared_info(self, play: Play, agent: str) -> dict[str, Any]:
        """Return the info that agents of all environments have."""
        episode = play.episode
        info = {
            "messages": play.histories[agent].copy(),
            "task_id": episode.task_id,
            "split": episode.split,
            "difficulty": episode.difficulty,
            "cost": episode.cost,
            "clock": episode.clock,
        }
        if play.typed is not None:
            info["slots"] = play.typed.slots
        return info


def _preference(value: Any, tools: tuple[str, ...]) -> Preference | None:
    """Return the preference that an option asks for: a `Preference`, weights, or both with an instruction."""
    if isinstance(value, Mapping) and "weights" in value:
        if wrong := [str(key) for key in value if key not in ("weights", "instruction")]:
            raise OptionError(unknown_name("key of a preference", wrong[0], ("weights", "instruction")))
        return Preference.of(value["weights"], tools, str(value.get("instruction", "")))
    return Preference.of(value, tools)
