"""The ToolOrchestra protocol as a Gymnasium environment (ToolOrchestra §2, §3).

A user asks, an orchestrator reasons, calls tools and reads their results, turn by turn, until it answers. The
hidden state is the world's database; the observation is what a real orchestrator would read. The reward is
the outcome, paid at the end; what the preference reward needs beyond it is in `info`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium

from toolorchestra.envs.episode import Episode
from toolorchestra.envs.parsing import LONGEST_MESSAGE, Action
from toolorchestra.envs.play import LONGEST_OBSERVATION, Limits, Play, PlaySnapshot, World, WorldSession
from toolorchestra.envs.render import episode_text, turn_text
from toolorchestra.envs.rewards import Preference
from toolorchestra.envs.sources import TaskSource, make_source
from toolorchestra.envs.spaces import UnicodeText
from toolorchestra.toolscale.errors import OptionError, UnknownNameError, unknown_name
from toolorchestra.toolscale.preferences import Pair, read_pairs
from toolorchestra.toolscale.task import Task

PROMPT = """\
You are an orchestrator: you solve the user's request by calling tools.
Call tools by writing <tool_call>{"name": "…", "arguments": {…}}</tool_call>; several calls in one message run \
together. Their results come back as <tool_response> blocks. When the request is met, or cannot be met, write \
your answer to the user without any call: that ends the conversation.
"""

OPTIONS = ("task_id", "split", "difficulty", "tools", "preference")
"""Options of `reset`."""


@dataclass(frozen=True)
class EnvSnapshot:
    """The whole state of an environment: the episode and the random generator."""

    play: PlaySnapshot
    generator: Mapping[str, Any]
    preference: Preference | None


class ToolOrchestraEnv(gymnasium.Env[str, Action]):
    """Orchestration of tools, one user request per episode.

    **Action**: text. ``<tool_call>{"name": …, "arguments": {…}}</tool_call>`` blocks are calls; a message
    without any is the final answer and ends the episode. A list of ``{"name": …, "arguments": …}`` objects or an
    OpenAI assistant message with ``tool_calls`` is accepted too.

    **Observation**: text. After `reset` the system prompt and the request; after `step` one ``<tool_response>``
    block per call, with its ``id``, ``name``, ``status`` (``OK``, ``PARSE_ERR``, ``EXEC_ERR``, ``TIMEOUT``) and
    ``result`` or ``error``.

    **Reward**: 1.0 when the final answer ends an episode whose verdict is solved, else 0.0.

    **End**: terminated by the final answer; truncated after `max_turns` turns, when the budget is spent, or by an
    error of the library's own (``info["outcome"]`` is then ``infra_error`` or ``judge_error``).

    **Info**: ``messages`` (the conversation in OpenAI's form), ``tools`` (OpenAI function schemas, at reset),
    ``tool_names`` (their order in M), ``task_id``, ``split``, ``difficulty``, ``preference`` (P or None), ``turn``,
    ``cost`` in US dollars, ``clock`` in virtual seconds, ``calls`` (records of the turn); at the end ``outcome``,
    ``verdict`` (in words) and ``M``, the vector of §3.2 from which Eq. 2 computes the preference reward.

    Args:
        source: Name of a task source (``Restaurant``, ``All``), or a `TaskSource`.
        domain: Folder (or name) of a domain to play instead of a named source.
        tasks: JSONL file of tasks to play instead; see `toolorchestra.envs.sources.FileSource`.
        split: Split from which `reset` draws unless told otherwise.
        difficulty: Level or levels from which `reset` draws; None for all.
        max_turns: Messages before the episode is truncated (§4.4: 50).
        max_cost: US dollars that an episode may cost, or None.
        max_seconds: Virtual seconds that an episode may take, or None.
        result_characters: Longest result shown.
        tools: Names of the tools on offer; None for all.
        preference: Preference over tools, outcome, compute and latency (see `Preference`), or a JSONL file of pairs
            as `toolorchestra synth preferences` writes it: each task then has one of them, always the same.
        render_mode: ``ansi`` (`render` returns the transcript) or ``human`` (turns are printed as they come).

    Reset options: ``task_id``, ``split``, ``difficulty``, ``tools``, ``preference``, each overriding the above for
    one episode.

    >>> import gymnasium as gym, toolorchestra
    >>> env = gym.make("ToolOrchestra-Restaurant-v0")
    >>> observation, info = env.reset(seed=0)
    >>> observation, reward, terminated, truncated, info = env.step("I cannot help you with that.")
    >>> reward, terminated, info["outcome"]
    (0.0, True, 'failed')
    """

    metadata = {"render_modes": ["ansi", "human"], "render_fps": 4}  # noqa: RUF012 - Gymnasium's declaration

    def __init__(
        self,
        source: str | TaskSource | None = None,
        *,
        domain: str | Path | None = None,
        tasks: str | Path | None = None,
        split: str = "train",
        difficulty: int | Iterable[int] | None = None,
        max_turns: int = 50,
        max_cost: float | None = None,
        max_seconds: float | None = None,
        result_characters: int = 16_384,
        tools: Sequence[str] | None = None,
        preference: Any = None,
        render_mode: str | None = None,
    ) -> None:
        if (source is None) == (domain is None and tasks is None):
            raise OptionError(
                "Give either a `source` (e.g. 'Restaurant'), or the folder of a `domain`, a file of `tasks`, or both."
            )
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise UnknownNameError("render mode", render_mode, self.metadata["render_modes"])
        self.source = source if isinstance(source, TaskSource) else make_source(source, domain, tasks)
        self.observation_space = UnicodeText(LONGEST_OBSERVATION)
        self.action_space = UnicodeText(LONGEST_MESSAGE)
        self.render_mode = render_mode
        self._defaults = {
            "task_id": None,
            "split": split,
            "difficulty": difficulty,
            "tools": tools,
            "preference": preference,
        }
        self._limits = Limits(max_turns, max_cost, max_seconds, result_characters)
        self._sessions: dict[str, WorldSession] = {}
        self._schemas: dict[tuple[str, tuple[str, ...]], list[dict[str, Any]]] = {}
        self._pairs: dict[Path, list[Pair]] = {}
        self._play: Play | None = None
        self._preference: Preference | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode and return its first observation and info.

        Raises:
            OptionError: An option is unknown or has a value that cannot be used.
        """
        super().reset(seed=seed)
        chosen = self._defaults
        if options:
            if wrong := [str(name) for name in options if name not in OPTIONS]:
                raise OptionError(unknown_name("reset option", wrong[0], OPTIONS))
            chosen = {**chosen, **options}
        task = self._choose(chosen)
        world = self.source.world(task)
        tools = self._tools(world.tools, chosen["tools"])
        self._preference = self._prefer(chosen["preference"], tools, task)
        instruction = task.instruction
        if self._preference is not None and self._preference.instruction:
            instruction = f"{instruction}\n\n{self._preference.instruction}"
        episode = Episode(
            env_id=self.spec.id if self.spec else f"ToolOrchestra-{self.source.name}-v0",
            task_id=task.id,
            seed=seed,
            split=task.split,
            difficulty=task.difficulty,
            prompt=f"{PROMPT}\n{world.rules}",
            instruction=instruction,
            tools=tools,
            preference=self._preference.weights if self._preference else None,
        )
        play = self._play = Play(world, self._session(world), task, episode, self._limits)
        if self.render_mode == "human":
            print(episode_text(episode))
        info = self._info(play)
        info["tools"] = self._tool_schemas(play)
        return f"{episode.prompt}\n\n{instruction}", info

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
        """The task being played, its golden path included: hidden from the orchestrator."""
        return self._playing().task

    @property
    def play(self) -> Play:
        """The episode being played."""
        return self._playing()

    def snapshot(self) -> EnvSnapshot:
        """Return the whole state: database, clock, history and random generator."""
        generator = dict(self.np_random.bit_generator.state)
        return EnvSnapshot(self._playing().snapshot(), generator, self._preference)

    def restore(self, snapshot: EnvSnapshot) -> None:
        """Put the environment into the state of `snapshot`, taken from this or an equal environment."""
        task = snapshot.play.task
        world = self.source.world(task)
        self._play = Play.restored(snapshot.play, world, self._session(world), self._limits)
        self._preference = snapshot.preference
        self.np_random.bit_generator.state = dict(snapshot.generator)

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

    def _prefer(self, value: Any, tools: tuple[str, ...], task: Task) -> Preference | None:
        """Return the preference asked for; of a file of pairs the one that falls to the task."""
        if not isinstance(value, (str, Path)):
            return _preference(value, tools)
        pairs = self._pairs.setdefault(Path(value), [])
        if not pairs:
            pairs += read_pairs(Path(value))
        pair = pairs[zlib.crc32(task.id.encode()) % len(pairs)]
        return Preference.of(Preference(pair.tools, pair.vector, pair.instruction), tools)

    def _choose(self, chosen: Mapping[str, Any]) -> Task:
        if chosen["task_id"] is not None:
            return self.source.task(str(chosen["task_id"]))
        levels = chosen["difficulty"]
        if levels is not None:
            levels = frozenset([levels] if isinstance(levels, int) else levels)
        return self.source.sample(chosen["split"], levels, self.np_random)

    @staticmethod
    def _tools(offered: Mapping[str, Any], chosen: Sequence[str] | None) -> tuple[str, ...]:
        if chosen is None:
            return tuple(offered)
        if wrong := [str(name) for name in chosen if name not in offered]:
            raise OptionError(unknown_name("tool", wrong[0], offered))
        return tuple(name for name in offered if name in set(chosen))

    def _tool_schemas(self, play: Play) -> list[dict[str, Any]]:
        """Return the schemas of the tools on offer: the same objects each time, not to be changed."""
        key = (play.world.name, play.episode.tools)
        if key not in self._schemas:
            self._schemas[key] = [tool.schema for tool in play.tools.values()]
        return self._schemas[key]

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
