"""The base of the Gymnasium environments: one agent, one task per episode, text in and text out.

A protocol (ToolOrchestra, ParaManager, MAS-Orchestra) subclasses `OrchestrationEnv` and overrides `_setup_episode`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, SupportsFloat, get_args

import gymnasium
import msgspec

from toolorchestra.agents.messages.model_message import MAX_CALLS, MAX_MESSAGE_CHARACTERS, Action
from toolorchestra.agents.messages.tool_lines import SchemaForm, tool_lines
from toolorchestra.envs.play import EpisodeLimits
from toolorchestra.envs.records.episode import ORCHESTRATOR
from toolorchestra.envs.records.render import episode_text, turn_text
from toolorchestra.envs.spaces import MAX_OBSERVATION_CHARACTERS, UnicodeText
from toolorchestra.envs.task_env import RENDER_MODES, EpisodeSetup, TaskEnv, TaskOptions
from toolorchestra.envs.task_source import TaskSource
from toolorchestra.envs.world import World
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError, unknown_name
from toolorchestra.toolscale.tools.tool import Tool


class OrchestrationOptions(TaskOptions, total=False):
    """Options of every environment of one agent, beside those of `TaskOptions`.

    Attributes:
        preference: Preference over tools, outcome, compute and latency (see `Preference`), or a JSONL file of pairs
            as `toolorchestra synth preferences` writes it: each task then has one of them, always the same.
        schemas: How an orchestrator is shown its tools. ``full`` (default): chat templates and servers are given JSON
            schemas beside the messages. ``short``: the system message lists a signature and one line for each tool,
            which are fewer tokens; calls are then text. A call is checked against its whole schema either way.
    """

    preference: Any
    schemas: SchemaForm


class ToolSchemas(NamedTuple):
    """The schemas of tools, their bytes as JSON, and the tools as lines of text."""

    schemas: list[dict[str, Any]]
    size: int
    lines: str

    @classmethod
    def of(cls, tools: Mapping[str, Tool]) -> ToolSchemas:
        """Return those of tools."""
        schemas = [tool.schema for tool in tools.values()]
        return cls(schemas, len(msgspec.json.encode(schemas)), tool_lines(schemas))


class OrchestrationEnv(TaskEnv, gymnasium.Env[str, Action]):
    """One user request per episode, of any task source.

    Subclasses override `_setup_episode`; `protocol`, `max_reward` and `preface` describe them.

    **Info**: ``messages`` (the conversation in OpenAI's form), ``tools`` (OpenAI function schemas of what can be
    called), ``schemas`` (how the orchestrator is shown them: see `OrchestrationOptions`), ``tool_names`` (their order
    in M), ``task_id``, ``split``, ``difficulty``, ``preference`` (P or None), ``turn``, ``cost`` in US dollars,
    ``clock`` in virtual seconds, ``slots`` (of the answer, with ``answer="typed"``), ``calls`` (records of the turn);
    at the end ``outcome``, ``verdict`` (in words), ``reward_parts`` (where the protocol has parts) and ``M``, the
    vector of ToolOrchestra §3.2.

    Args:
        source: Name of a task source (``Restaurant``, ``All``), or a `TaskSource`.
        limits: When an episode ends without an answer.
        options: See `OrchestrationOptions`.
        reset_options: Further options of `reset`, with their defaults.
    """

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 4}  # noqa: RUF012 - Gymnasium's declaration
    option_types = OrchestrationOptions
    max_reward: ClassVar[float] = 1.0
    """The largest reward of an episode; the smallest is 0."""
    preface: ClassVar[str] = ""
    """Text that scripted policies write before their calls, where the protocol requires one."""
    schemas_read: ClassVar[bool] = True
    """Whether the orchestrator reads the schemas of its tools with each message, beside the prompt."""

    def __init__(
        self, source: str | TaskSource | None, limits: EpisodeLimits, options: Mapping[str, Any], **reset_options: Any
    ) -> None:
        super().__init__(source, limits, options, preference=options.get("preference"), **reset_options)
        self.observation_space = UnicodeText(MAX_OBSERVATION_CHARACTERS)
        self.action_space = UnicodeText(MAX_MESSAGE_CHARACTERS)
        self._schemas: SchemaForm = options.get("schemas", "full")
        if self._schemas not in get_args(SchemaForm):
            raise UnknownNameError("value of `schemas`", str(self._schemas), get_args(SchemaForm))
        if self._schemas == "short" and not self.schemas_read:
            raise OptionError(
                f"`schemas` must be full, got short: the prompt of {self.protocol} says what can be called."
            )
        self._known_schemas: dict[tuple[str, tuple[str, ...]], ToolSchemas] = {}
        self._shown = ToolSchemas([], 0, "")

    def final(self, text: str) -> Action:
        """Return the action by which an orchestrator gives `text` as its final answer: to a question, in a box."""
        return text if self._play is None else self._play.stated(text)

    @property
    def max_calls_per_message(self) -> int:
        """Maximum number of calls that one message may make; further ones are refused."""
        return MAX_CALLS

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode and return its first observation, the tools listed in it, and info.

        Raises:
            OptionError: An option is unknown or has a value that cannot be used.
        """
        super().reset(seed=seed)
        chosen = self._reset_options
        if options:
            if wrong := [str(name) for name in options if name not in chosen]:
                raise OptionError(unknown_name("reset option", wrong[0], chosen))
            chosen = {**chosen, **options}
        play = self._start_episode(chosen, seed)
        if self.render_mode == "human":
            print(episode_text(play.episode))
        listed = ""
        if self._schemas == "full" and self.schemas_read:
            play.schemas_size, listed = self._shown.size, self._shown.lines
        first, *others = (message["content"] for message in play.messages)
        return "\n\n".join(filter(None, (first, listed, *others))), self._info(play)

    def _prompt(self, setup: EpisodeSetup, world: World) -> str:
        shown = self._shown = self._tool_schemas(setup, world)
        return f"{setup.prompt}\n\n{shown.lines}" if self._schemas == "short" else setup.prompt

    def step(self, action: Action) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take one message of the orchestrator; see the class for the returned values."""
        play = self._play or self.play  # the property says what is missing
        turn = play.act(action)
        episode, truncated = play.episode, play.truncated
        if self.render_mode == "human":
            print(turn_text(turn, episode))
        info = self._info(play)
        info["calls"] = turn.calls
        observation = turn.observations.get(turn.agent, "")
        if episode.outcome is None:
            return observation, 0.0, False, False, info
        info["outcome"], info["verdict"] = episode.outcome, episode.why
        if episode.reward_parts:
            info["reward_parts"] = dict(episode.reward_parts)
        metrics = getattr(play, "metrics", None)
        if metrics is not None:
            info["M"] = metrics
        return observation, episode.reward or 0.0, not truncated, truncated, info

    def render(self) -> str | None:
        """Return the transcript so far (mode ``ansi``); the mode ``human`` prints as the episode goes."""
        return episode_text(self.episode) if self.render_mode == "ansi" else None

    def _interface_state(self) -> dict[str, Any]:
        return {**super()._interface_state(), "_shown": self._shown}

    def _tool_schemas(self, setup: EpisodeSetup, world: World) -> ToolSchemas:
        """Return the schemas of the tools; the same objects each time, which must not be changed."""
        key = (world.name, tuple(setup.tools))
        known = self._known_schemas.get(key)
        if known is None:
            known = self._known_schemas[key] = ToolSchemas.of(setup.tools)
        return known

    def _info(self, play: Any) -> dict[str, Any]:
        info = self._shared_info(play, ORCHESTRATOR)
        info["tools"], info["schemas"] = self._shown.schemas, self._schemas
        info["tool_names"] = play.measured
        info["preference"] = self._preference.vector if self._preference else None
        info["turn"] = len(play.episode.turns)
        return info
