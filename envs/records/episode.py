"""The record of an episode with one agent or several, which learners, evaluation and the viewer read.

An `Episode` is complete and self-contained: the task, every message, call, result and observation, costs, the virtual
clock, and the outcome. It holds no wall-clock time: the same environment, seed, options and actions give the same
bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import msgspec

from toolorchestra.toolscale.answers.typed_answers import SUBMIT
from toolorchestra.toolscale.common.append_only import AppendOnly
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.float_sums import float_sum
from toolorchestra.toolscale.tools.tool import InnerCall, Status

Outcome = Literal["solved", "failed", "infra_error", "judge_error"]
"""How an episode ended. The last two are infrastructure errors: they say nothing about the agents, and the reward is
None."""

ORCHESTRATOR = "orchestrator"
"""Name of the agent where there is only one."""
TOOLS = "tools"
"""Name of the tools' part of cost and clock, experts and sub-agents included."""
ABANDONED = "abandoned"
"""Name of the part of cost and clock, and of the entry of `details`, of continuations that were taken back."""


class CallRecord(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):  # no cycles, and there are many
    """One call: its arguments, result, cost, and time on the virtual clock.

    Attributes:
        id: Unique within its turn.
        name: Tool called, as written.
        arguments: Validated arguments; None when they could not be read.
        status: How it ended.
        value: Result; None unless the status is OK.
        error: What went wrong; None when the status is OK.
        cost: US dollars.
        tokens: Tokens read and written by a model behind the tool.
        start: Virtual seconds since the episode began.
        end: Likewise, when the result was there.
        children: Inner calls, with times relative to the start of this one; their cost is part of this one's.
    """

    id: str
    name: str
    arguments: dict[str, Any] | None
    status: Status
    value: Any = None
    error: str | None = None
    cost: float = 0.0
    tokens: tuple[int, int] = (0, 0)
    start: float = 0.0
    end: float = 0.0
    children: tuple[InnerCall, ...] = ()


class Turn(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One message of one agent and its results.

    Attributes:
        message: The action as an OpenAI assistant message.
        calls: The calls in it, in order.
        observations: Observations that agents got in reply, by agent.
        agent: The agent that wrote the message.
        token_ids: The message as the policy's own tokens, when it has them.
        logprobs: Their log-probabilities under the policy that sampled them.
        tokens: Tokens that the agent read for the message, and wrote, by `toolorchestra.envs.orchestrator_rates`.
        cost: US dollars of these tokens; those of calls are in their records.
        seconds: Virtual seconds that the message took to write, before its calls began.
        repaired: The forms of its calls, if they were read although the prompt asked for another one.
    """

    message: dict[str, Any]
    calls: tuple[CallRecord, ...] = ()
    observations: dict[str, str] = {}
    agent: str = ORCHESTRATOR
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    tokens: tuple[int, int] = (0, 0)
    cost: float = 0.0
    seconds: float = 0.0
    repaired: str = ""

    @property
    def observation(self) -> str:
        """The observation of the agent that wrote the message; empty if it got none."""
        return self.observations.get(self.agent, "")


@functools.lru_cache(maxsize=256)  # every step asks for them
def measured(tools: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of tools in the order of M: all but `submit`, which is the answer."""
    return tuple(name for name in tools if name != SUBMIT)


class Episode(msgspec.Struct, omit_defaults=True, kw_only=True):
    """An episode, in progress or over.

    Attributes:
        env_id: Environment, e.g. ``ToolOrchestra-Restaurant-v0``.
        task_id: Task played.
        seed: Seed given to the reset that began it, if any.
        split: Split of the task.
        difficulty: Level of the task, 1 to 5.
        prompt: System message of the first agent.
        instruction: The user's request, with a preference if there is one.
        tools: Names of the available tools.
        agents: Names of the agents; the first one moves first.
        openings: Messages with which agents begin; one without begins with the prompt and the instruction.
        preference: Weights P over the tools `measured`, outcome, compute and latency, if there is one.
        noise_seed: Seed of simulated experts and noise, where there are any.
        turns: The turns, in order.
        answer: Final answer, None until there is one.
        outcome: None while in progress.
        reward: Of the agents as a team; None while in progress and after an infrastructure error.
        rewards: Reward of each agent, once over and judged.
        reward_parts: Parts of the reward by name, once over and judged, where the protocol has parts.
        why: Why it ended, or what verification found wrong.
        cost: US dollars spent, on the agents' own messages and on their calls.
        clock: Virtual seconds passed, likewise.
        metrics: M(τ), once over: calls per tool, outcome, -cost, -clock (ToolOrchestra §3.2).
        details: What a protocol records beyond this, by name.
    """

    env_id: str
    task_id: str
    seed: int | None = None
    split: str
    difficulty: int
    prompt: str
    instruction: str
    tools: tuple[str, ...]
    agents: tuple[str, ...] = (ORCHESTRATOR,)
    openings: dict[str, tuple[dict[str, Any], ...]] = {}
    preference: tuple[float, ...] | None = None
    noise_seed: int = 0
    turns: list[Turn] = []
    answer: str | None = None
    outcome: Outcome | None = None
    reward: float | None = None
    rewards: dict[str, float] = {}
    reward_parts: dict[str, float] = {}
    why: str = ""
    cost: float = 0.0
    clock: float = 0.0
    metrics: tuple[float, ...] | None = None
    details: dict[str, Any] = {}

    @property
    def measured(self) -> tuple[str, ...]:
        """Names of the tools in the order of M: all but `submit`, which is the answer."""
        return measured(self.tools)

    @property
    def calls(self) -> Iterator[CallRecord]:
        """All calls, in order."""
        return (call for turn in self.turns for call in turn.calls)

    @property
    def cost_parts(self) -> dict[str, float]:
        """Parts of the cost: US dollars of each agent's messages, of all calls (`TOOLS`), and of what was taken back.

        The last, `ABANDONED`, is there only where an episode was restored with its costs kept.
        """
        parts = {agent: float_sum(turn.cost for turn in self.turns if turn.agent == agent) for agent in self.agents}
        return {**parts, TOOLS: float_sum(call.cost for call in self.calls), **self._abandoned("cost")}

    @property
    def clock_parts(self) -> dict[str, float]:
        """Virtual seconds in which each agent wrote, and in which calls were run (`TOOLS`): the parts of the clock."""
        parts = {agent: float_sum(turn.seconds for turn in self.turns if turn.agent == agent) for agent in self.agents}
        abandoned = self._abandoned("clock")
        spent = float_sum((*parts.values(), *abandoned.values()))
        return {**parts, TOOLS: abs(round(self.clock - spent, 9)), **abandoned}

    def _abandoned(self, what: str) -> dict[str, float]:
        return {ABANDONED: self.details[ABANDONED][what]} if ABANDONED in self.details else {}

    def opening(self, agent: str) -> list[dict[str, Any]]:
        """Return the messages with which an agent begins."""
        if agent in self.openings:
            return list(self.openings[agent])
        return [{"role": "system", "content": self.prompt}, {"role": "user", "content": self.instruction}]

    def history(self, agent: str) -> list[dict[str, Any]]:
        """Return what an agent has read and written: its opening, its messages and its observations, as messages."""
        messages = self.opening(agent)
        for turn in self.turns:
            if turn.agent == agent:
                messages.append(turn.message)
            if agent in turn.observations:
                messages.append({"role": "user", "content": turn.observations[agent]})
        return messages

    def copied(self) -> Episode:
        """Return a copy that can grow on its own (turns themselves never change)."""
        copy = msgspec.structs.replace(self)
        copy.turns = list(self.turns)
        return copy

    def to_json(self) -> bytes:
        """Return the record as one line of JSON."""
        return msgspec.json.encode(self)

    def _repr_html_(self) -> str:
        """Return the episode as notebooks show it."""
        from toolorchestra.envs.records.episode_html import episode_html

        return episode_html(msgspec.to_builtins(self))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle by way of JSON, for the same bytes: msgspec compares defaults by identity."""
        return _from_json, (self.to_json(),)


def _from_json(line: bytes) -> Episode:
    return msgspec.json.decode(line, type=Episode)


def write_episodes(file: Path, episodes: Iterable[Episode]) -> int:
    """Append episodes to a JSONL file, one line each, and return how many.

    Raises:
        OutputError: It cannot be written, or another process writes it.
        AppendingError: It is no file of episodes.
    """
    count = 0
    with closing(AppendOnly(file, Episode, "an episode", sync=False)) as lines:
        for count, episode in enumerate(episodes, 1):  # noqa: B007 - the number of the last one is returned
            lines.add(episode)
    return count


def read_episodes(file: Path) -> Iterator[Episode]:
    """Yield the episodes of a JSONL file.

    Raises:
        OptionError: A line is not an episode; names file and line.
    """
    for one in read_lines(file):
        if isinstance(one, str):
            raise OptionError(one)
        yield one


def read_lines(file: Path) -> Iterator[Episode | str]:
    """Yield the episode of each line of a JSONL file, or what is wrong with the line."""
    decoder = msgspec.json.Decoder(Episode)
    with file.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if line.strip():
                try:
                    yield decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    yield f"{file}:{number}: expected an episode: {error}."
