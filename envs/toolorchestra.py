"""The ToolOrchestra protocol as a Gymnasium environment (ToolOrchestra §2, §3).

A user asks, an orchestrator reasons, calls tools and reads their results, turn by turn, until it answers. The
hidden state is the world's database; the observation is what a real orchestrator would read. The reward is
the outcome, paid at the end; what the preference reward needs beyond it is in `info`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolorchestra.envs.base import OrchestrationEnv
from toolorchestra.envs.play import Limits, Play, World
from toolorchestra.envs.sources import TaskSource
from toolorchestra.toolscale.errors import OptionError, unknown_name
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

    def _begin(self, task: Task, world: World, chosen: Mapping[str, Any], seed: int | None) -> Play:
        tools = self._tools(world.tools, chosen["tools"])
        prompt = f"{PROMPT}\n{world.rules}"
        episode = self._new_episode(task, seed, prompt, task.instruction, tools, preference=chosen["preference"])
        return Play(world, self._session(world), task, episode, self._limits)

    @staticmethod
    def _tools(offered: Mapping[str, Any], chosen: Sequence[str] | None) -> tuple[str, ...]:
        if chosen is None:
            return tuple(offered)
        if wrong := [str(name) for name in chosen if name not in offered]:
            raise OptionError(unknown_name("tool", wrong[0], offered))
        return tuple(name for name in offered if name in set(chosen))
