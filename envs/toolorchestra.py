"""The ToolOrchestra protocol as a Gymnasium environment (ToolOrchestra §2, §3).

A user asks, an orchestrator reasons, calls tools and reads their results, turn by turn, until it answers. The
hidden state is the world's database; the observation is what a real orchestrator would read. The reward is
the outcome, paid at the end; what the preference reward needs beyond it is in `info`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolorchestra.envs.base import EnvSnapshot, OrchestrationEnv
from toolorchestra.envs.play import Limits, Play, World
from toolorchestra.envs.rewards import Preference
from toolorchestra.envs.sources import TaskSource
from toolorchestra.toolscale.errors import OptionError, unknown_name
from toolorchestra.toolscale.preferences import Pair, read_pairs
from toolorchestra.toolscale.task import Task

PROMPT = """\
You are an orchestrator: you solve the user's request by calling tools.
Call tools by writing <tool_call>{"name": "…", "arguments": {…}}</tool_call>; several calls in one message run \
together. Their results come back as <tool_response> blocks. When the request is met, or cannot be met, write \
your answer to the user without any call: that ends the conversation.
"""


class ToolOrchestraEnv(OrchestrationEnv):
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

    protocol = "ToolOrchestra"

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
        super().__init__(
            source,
            domain=domain,
            tasks=tasks,
            split=split,
            difficulty=difficulty,
            limits=Limits(max_turns, max_cost, max_seconds, result_characters),
            render_mode=render_mode,
            tools=tools,
            preference=preference,
        )
        self._schemas: dict[tuple[str, tuple[str, ...]], list[dict[str, Any]]] = {}
        self._pairs: dict[Path, list[Pair]] = {}
        self._preference: Preference | None = None

    def _begin(self, task: Task, world: World, chosen: Mapping[str, Any], seed: int | None) -> Play:
        tools = self._tools(world.tools, chosen["tools"])
        self._preference = self._prefer(chosen["preference"], tools, task)
        instruction = task.instruction
        if self._preference is not None and self._preference.instruction:
            instruction = f"{instruction}\n\n{self._preference.instruction}"
        weights = self._preference.weights if self._preference else None
        episode = self._new_episode(task, seed, f"{PROMPT}\n{world.rules}", instruction, tools, preference=weights)
        return Play(world, self._session(world), task, episode, self._limits)

    def snapshot(self) -> EnvSnapshot:
        """Return the whole state: database, clock, history, preference and random generator."""
        return replace(super().snapshot(), extra=self._preference)

    def restore(self, snapshot: EnvSnapshot) -> None:
        """Put the environment into the state of `snapshot`, taken from this or an equal environment."""
        super().restore(snapshot)
        self._preference = snapshot.extra

    def _prefer(self, value: Any, tools: tuple[str, ...], task: Task) -> Preference | None:
        """Return the preference asked for; of a file of pairs the one that falls to the task."""
        if not isinstance(value, (str, Path)):
            return _preference(value, tools)
        pairs = self._pairs.setdefault(Path(value), [])
        if not pairs:
            pairs += read_pairs(Path(value))
        pair = pairs[zlib.crc32(task.id.encode()) % len(pairs)]
        return Preference.of(Preference(pair.tools, pair.vector, pair.instruction), tools)

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
        info = super()._info(play)
        info["preference"] = self._preference.vector if self._preference else None
        return info


def _preference(value: Any, tools: tuple[str, ...]) -> Preference | None:
    """Return the preference that an option asks for: a `Preference`, weights, or both with an instruction."""
    if value is None:
        return None
    if isinstance(value, Mapping) and "weights" in value:
        if wrong := [str(key) for key in value if key not in ("weights", "instruction")]:
            raise OptionError(unknown_name("key of a preference", wrong[0], ("weights", "instruction")))
        return Preference.of(value["weights"], tools, str(value.get("instruction", "")))
    return Preference.of(value, tools)
