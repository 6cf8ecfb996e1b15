"""The base of the Gymnasium environments: one task per episode, text in and text out.

A protocol (ToolOrchestra, ParaManager, MAS-Orchestra) subclasses `OrchestrationEnv`: it says how an episode begins
and which rules it is played by. Choosing tasks, sessions, snapshots, rendering and what stands in `info` are here.
"""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, SupportsFloat

import gymnasium

from toolorchestra.envs.episode import Episode
from toolorchestra.envs.parsing import MAX_CALLS, MAX_MESSAGE_CHARACTERS, Action
from toolorchestra.envs.play import MAX_OBSERVATION_CHARACTERS, EpisodeLimits, Play, PlaySnapshot, World, WorldSession
from toolorchestra.envs.render import episode_text, turn_text
from toolorchestra.envs.rewards import Preference
from toolorchestra.envs.sources.base import TaskSource, make_source
from toolorchestra.envs.spaces import UnicodeText
from toolorchestra.toolscale.errors import OptionError, UnknownNameError, unknown_name
from toolorchestra.toolscale.preferences import PreferencePair, read_pairs
from toolorchestra.toolscale.task import Task


@dataclass(frozen=True)
class EnvSnapshot:
    """The whole state of an environment: the episode, its preference, and the random generator."""

    play: PlaySnapshot
    generator: Mapping[str, Any]
    preference: Preference | None


class OrchestrationEnv(gymnasium.Env[str, Action]):
    """One user request per episode, of any task source.

    Subclasses override `_begin`, and `Play` for rules of their own; `protocol`, `options` and `max_reward` describe
    them. Everything else is machinery.

    **Info**: ``messages`` (the conversation in OpenAI's form), ``tools`` (OpenAI function schemas, at reset),
    ``tool_names`` (their order in M), ``task_id``, ``split``, ``difficulty``, ``preference`` (P or None), ``turn``,
    ``cost`` in US dollars, ``clock`` in virtual seconds, ``calls`` (records of the turn); at the end ``outcome``,
    ``verdict`` (in words), ``rewards`` (the parts of the reward, where the protocol has parts) and ``M``, the vector of
    ToolOrchestra §3.2.

    Args:
        source: Name of a task source (``Restaurant``, ``All``), or a `TaskSource`.
        domain: Folder (or name) of a domain to play instead of a named source.
        tasks: JSONL file of tasks to play instead; see `toolorchestra.envs.sources.base.FileSource`.
        split: Split from which `reset` draws unless told otherwise.
        difficulty: Level or levels from which `reset` draws; None for all.
        limits: When an episode ends without an answer.
        preference: Preference over tools, outcome, compute and latency (see `Preference`), or a JSONL file of pairs
            as `toolorchestra synth preferences` writes it: each task then has one of them, always the same.
        render_mode: ``ansi`` (`render` returns the transcript) or ``human`` (turns are printed as they come).
        defaults: Further options of `reset` with their defaults.
    """

    metadata = {"render_modes": ["ansi", "human"], "render_fps": 4}  # noqa: RUF012 - Gymnasium's declaration
    protocol: ClassVar[str]
    """As it stands in environment ids."""
    max_reward: ClassVar[float] = 1.0
    """The largest reward of an episode; the least is 0."""
    preface: ClassVar[str] = ""
    """What scripted policies write before their calls, where the protocol wants words there."""

    def __init__(
        self,
        source: str | TaskSource | None,
        *,
        domain: str | Path | None,
        tasks: str | Path | None,
        split: str,
        difficulty: int | Iterable[int] | None,
        limits: EpisodeLimits,
        preference: Any = None,
        render_mode: str | None,
        **defaults: Any,
    ) -> None:
        if (source is None) == (domain is None and tasks is None):
            raise OptionError(
                "Give either a `source` (e.g. 'Restaurant'), or the folder of a `domain`, a file of `tasks`, or both."
            )
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise UnknownNameError("render mode", render_mode, self.metadata["render_modes"])
        self.source = source if isinstance(source, TaskSource) else make_source(source, domain, tasks)
        self.observation_space = UnicodeText(MAX_OBSERVATION_CHARACTERS)
        self.action_space = UnicodeText(MAX_MESSAGE_CHARACTERS)
        self.render_mode = render_mode
        self._defaults = {
            "task_id": None,
            "split": split,
            "difficulty": difficulty,
            "preference": preference,
            **defaults,
        }
        self._limits = limits
        self._sessions: dict[str, WorldSession] = {}
        self._known_schemas: dict[tuple[str, tuple[str, ...]], list[dict[str, Any]]] = {}
        self._pairs: dict[Path, list[PreferencePair]] = {}
        self._play: Play | None = None
        self._preference: Preference | None = None

    @abstractmethod
    def _begin(self, task: Task, world: World, chosen: Mapping[str, Any], seed: int | None) -> Play:
        """Return the play of a new episode of `task`, given the options of this reset."""

    def final(self, text: str) -> Action:
        """Return the action by which an orchestrator gives `text` as its final answer."""
        return text

    @property
    def max_calls_per_message(self) -> int:
        """Most calls that one message may make; further ones are refused."""
        return MAX_CALLS

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode and return its first observation and info.

        Raises:
            OptionError: An option is unknown or has a value that cannot be used.
        """
        super().reset(seed=seed)
        chosen = self._defaults
        if options:
            if wrong := [str(name) for name in options if name not in chosen]:
                raise OptionError(unknown_name("reset option", wrong[0], chosen))
            chosen = {**chosen, **options}
        task = self._choose(chosen)
        play = self._play = self._begin(task, self.source.world(task), chosen, seed)
        episode = play.episode
        if self.render_mode == "human":
            print(episode_text(episode))
        info = self._info(play)
        info["tools"] = self._tool_schemas(play)
        return self._opening(play), info

    def _opening(self, play: Play) -> str:
        """Return the first observation."""
        return f"{play.episode.prompt}\n\n{play.episode.instruction}"

    def step(self, action: Action) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take one message of the orchestrator; see the class for what comes back."""
        play = self._playing()
        turn = play.act(action)
        if self.render_mode == "human":
            print(turn_text(turn, play.episode))
        episode = play.episode
        info = self._info(play)
        info["calls"] = turn.calls
        over = episode.outcome is not None
        if over:
            info["outcome"] = episode.outcome
            info["verdict"] = episode.why
            if episode.rewards:
                info["rewards"] = dict(episode.rewards)
            if play.metrics is not None:
                info["M"] = play.metrics
        reward = episode.reward or 0.0
        return turn.observation, reward, over and not play.truncated, play.truncated, info

    def render(self) -> str | None:
        """Return the transcript so far (mode ``ansi``); the mode ``human`` prints as the episode goes."""
        return episode_text(self._playing().episode) if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Release the databases."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()
        self._play = None

    @property
    def episode(self) -> Episode:
        """The record of the current or last episode."""
        return self._playing().episode

    @property
    def task(self) -> Task:
        """The task being played, its reference trajectory included: hidden from the orchestrator."""
        return self._playing().task

    @property
    def play(self) -> Play:
        """The episode being played."""
        return self._playing()

    def snapshot(self) -> EnvSnapshot:
        """Return the whole state: database, clock, history, preference and random generator."""
        generator = dict(self.np_random.bit_generator.state)
        return EnvSnapshot(self._playing().snapshot(), generator, self._preference)

    def restore(self, snapshot: EnvSnapshot) -> None:
        """Put the environment into the state of `snapshot`, taken from this or an equal environment."""
        world = self.source.world(snapshot.play.task)
        self._play = self._restored(snapshot.play, world)
        self._preference = snapshot.preference
        self.np_random.bit_generator.state = dict(snapshot.generator)

    def _restored(self, snapshot: PlaySnapshot, world: World) -> Play:
        """Return a play in the state of `snapshot`."""
        return Play.restored(snapshot, world, self._session(world), self._limits)

    def _new_episode(
        self,
        task: Task,
        seed: int | None,
        prompt: str,
        instruction: str,
        tools: Iterable[str],
        *,
        preference: Any = None,
        **more: Any,
    ) -> Episode:
        """Return the record of an episode that begins; a preference is settled by it, and told in the instruction."""
        tools = tuple(tools)
        preferred = self._preference = self._prefer(preference, tools, task)
        if preferred is not None and preferred.instruction:
            instruction = f"{instruction}\n\n{preferred.instruction}"
        return Episode(
            env_id=self.spec.id if self.spec else f"{self.protocol}-{self.source.name}-v0",
            task_id=task.id,
            seed=seed,
            split=task.split,
            difficulty=task.difficulty,
            prompt=prompt,
            instruction=instruction,
            tools=tools,
            preference=preferred.weights if preferred else None,
            **more,
        )

    def _prefer(self, value: Any, tools: tuple[str, ...], task: Task) -> Preference | None:
        """Return the preference asked for; of a file of pairs the one that falls to the task."""
        if not isinstance(value, (str, Path)):
            return _preference(value, tools)
        pairs = self._pairs.setdefault(Path(value), [])
        if not pairs:
            pairs += read_pairs(Path(value))
        pair = pairs[zlib.crc32(task.id.encode()) % len(pairs)]
        return Preference.of(Preference(pair.tools, pair.vector, pair.instruction), tools)

    def _draw_noise_seed(self) -> int:
        """Return what the luck of an episode's simulated experts follows from."""
        return int(self.np_random.integers(2**31))

    def _session(self, world: World) -> WorldSession:
        """Return the session of a world: made once, and reset by each episode."""
        session = self._sessions.get(world.name)
        if session is None:
            session = self._sessions[world.name] = world.session()
        return session

    def _playing(self) -> Play:
        if self._play is None:
            raise gymnasium.error.ResetNeeded("Call reset() before step(), render() or snapshot().")
        return self._play

    def _choose(self, chosen: Mapping[str, Any]) -> Task:
        if chosen["task_id"] is not None:
            return self.source.task(str(chosen["task_id"]))
        levels = chosen["difficulty"]
        if levels is not None:
            levels = frozenset([levels] if isinstance(levels, int) else levels)
        return self.source.sample(chosen["split"], levels, self.np_random)

    def _tool_schemas(self, play: Play) -> list[dict[str, Any]]:
        """Return the schemas of the tools on offer: the same objects each time, not to be changed."""
        key = (play.world.name, play.episode.tools)
        if key not in self._known_schemas:
            self._known_schemas[key] = [tool.schema for tool in play.tools.values()]
        return self._known_schemas[key]

    def _info(self, play: Play) -> dict[str, Any]:
        episode = play.episode
        return {
            "task_id": episode.task_id,
            "split": episode.split,
            "difficulty": episode.difficulty,
            "messages": play.messages.copy(),
            "tool_names": episode.tools,
            "preference": self._preference.vector if self._preference else None,
            "turn": len(episode.turns),
            "cost": episode.cost,
            "clock": episode.clock,
        }


def _preference(value: Any, tools: tuple[str, ...]) -> Preference | None:
    """Return the preference that an option asks for: a `Preference`, weights, or both with an instruction."""
    if value is None:
        return None
    if isinstance(value, Mapping) and "weights" in value:
        if wrong := [str(key) for key in value if key not in ("weights", "instruction")]:
            raise OptionError(unknown_name("key of a preference", wrong[0], ("weights", "instruction")))
        return Preference.of(value["weights"], tools, str(value.get("instruction", "")))
    return Preference.of(value, tools)
