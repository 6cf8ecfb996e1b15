"""Recorded episodes in the formats of other trainers: OpenAI's fine-tuning, TRL's data sets, ShareGPT, Parquet.

Each function yields rows. Conversations are as the agent had them: with several agents one for each, from its private
history. Results of calls are messages of the role ``tool`` with the id of their call; where a message's calls could
not be read, it and what came back stand as text, as they were written. Writing is in `write_rows` and
`write_episode_table`; logs of inspect_ai are in `toolorchestra.algos.data.inspect_log`. Not covered: token ids, of
which `toolorchestra.algos.data.demonstrations.encode` makes its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

import gymnasium as gym
import msgspec

from toolorchestra.agents.messages.model_message import Message
from toolorchestra.algos.data.demonstrations import recorded_opening, recorded_turns, until_last_action
from toolorchestra.envs.bridges.served import with_tools
from toolorchestra.envs.records.episode import Episode
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.common.jsonl import write_jsonl
from toolorchestra.toolscale.common.writing import whole_file
from toolorchestra.toolscale.export.exchange import load_pyarrow

RecordingFormat = Literal["openai", "sharegpt", "sft", "dpo", "grpo", "parquet", "inspect"]
Row = dict[str, Any]

_ROWS_AT_ONCE = 1000  # of a table that is written in parts
_SHAREGPT = {"system": "system", "user": "human", "assistant": "gpt", "tool": "tool"}
_TEXTS = ("env_id", "task_id", "split", "prompt", "instruction", "answer", "outcome", "why")
_NUMBERS = ("reward", "cost", "clock")


class RecordedConversation(msgspec.Struct, frozen=True):
    """What one agent read and wrote in an episode.

    Attributes:
        episode: The episode.
        agent: The agent.
        opening: The messages with which it began.
        turns: What followed, up to its last message.
        tools: OpenAI schemas of its tools; none where calls are no part of the protocol, or are written in the text.
    """

    episode: Episode
    agent: str
    opening: tuple[Message, ...]
    turns: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...]

    @property
    def messages(self) -> list[Message]:
        """The whole conversation, for OpenAI."""
        return [*self.opening, *self.turns]

    @property
    def reward(self) -> float | None:
        """The agent's reward; None if the episode was not judged."""
        return self.episode.rewards.get(self.agent, self.episode.reward)


def conversations(
    episodes: Iterable[Episode],
    env_of: Callable[[str], gym.Env[Any, Any]],
    *,
    agent: str | None = None,
    solved_only: bool = False,
    unjudged: bool = False,
) -> Iterator[RecordedConversation]:
    """Yield the conversations of the judged episodes in which an agent wrote at least one message.

    Args:
        episodes: The episodes.
        env_of: From the id of an environment of one agent to the environment in which the episodes were played; it is
            reset to each task for the schemas of its tools.
        agent: The agent whose conversations are wanted; all by default.
        solved_only: Leave out the episodes that were not solved.
        unjudged: Also those that an infrastructure error ended.

    Raises:
        OptionError: An environment lacks a tool of an episode, or an episode has no such agent.
    """
    wanted: tuple[str, ...] = ("solved",) if solved_only else ("solved", "failed")
    wanted += ("infra_error", "judge_error") if unjudged else ()
    for episode in episodes:
        if episode.outcome not in wanted:
            continue
        if agent is not None and agent not in episode.agents:
            raise OptionError(str(UnknownNameError("agent", agent, episode.agents)))
        for one in episode.agents if agent is None else (agent,):
            opening: list[Message] = [*episode.opening(one)]
            tools: tuple[Mapping[str, Any], ...] = ()
            turns: list[Message] = [*episode.history(one)[len(opening) :]]
            if not episode.openings:
                opening, tools = recorded_opening(episode, env_of(episode.env_id))
                turns = recorded_turns(episode) if tools else turns
            if written := until_last_action(turns):
                yield RecordedConversation(episode, one, tuple(opening), tuple(answered(written)), tools)


def answered(messages: Sequence[Message]) -> list[Message]:
    """Return messages in which each result has the id of its call, unique in the conversation.

    A message whose calls did not all get a result, or have arguments that are no JSON object, becomes text with its
    calls in Hermes' form, and the results become a user's message. The last message's calls need no results.

    >>> call = {"id": "a", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    >>> asked = {"role": "assistant", "content": "", "tool_calls": [call]}
    >>> answered([asked, {"role": "tool", "content": "3"}])[1]
    {'role': 'tool', 'tool_call_id': 'call_1', 'content': '3'}
    """
    done: list[Message] = []
    count, at = 0, 0
    while at < len(messages):
        message = messages[at]
        end = at + 1
        while end < len(messages) and messages[end]["role"] == "tool":
            end += 1
        results = [str(one["content"]) for one in messages[at + 1 : end]]
        calls = list(message.get("tool_calls") or ())
        complete = len(results) == len(calls) or (end == len(messages) and not results)
        if calls and complete and all(_is_object(call["function"]["arguments"]) for call in calls):
            numbered = [{**call, "id": f"call_{count + n}"} for n, call in enumerate(calls, 1)]
            count += len(calls)
            done.append({"role": "assistant", "content": message.get("content") or "", "tool_calls": numbered})
            ids = [call["id"] for call in numbered]
            done += [
                {"role": "tool", "tool_call_id": name, "content": text}
                for name, text in zip(ids, results, strict=False)
            ]
        else:
            done.append({"role": message["role"], "content": as_text(message)})
            if results:
                blocks = "\n".join(_response(text) for text in results)
                done.append({"role": "user", "content": blocks})
        at = end
    return done


def as_text(message: Message) -> str:
    """Return a message as text alone, its calls in Hermes' form."""
    written = [
        f'<tool_call>\n{{"name": {msgspec.json.encode(call["function"]["name"]).decode()}, "arguments": '
        f"{call['function']['arguments']}}}\n</tool_call>"
        for call in message.get("tool_calls") or ()
    ]
    return "\n".join(filter(None, [str(message.get("content") or ""), *written]))


def openai_rows(found: Iterable[RecordedConversation]) -> Iterator[Row]:
    """Yield rows of OpenAI's format for fine-tuning."""
    for one in found:
        tools = {"tools": list(one.tools), "parallel_tool_calls": True} if one.tools else {}
        yield {"messages": one.messages, **tools}


def sharegpt_rows(found: Iterable[RecordedConversation]) -> Iterator[Row]:
    """Yield rows of ShareGPT's format, calls and results in Hermes' form, the schemas in the system's message."""
    for one in found:
        turns: list[dict[str, str]] = []
        for message in one.messages:
            tool = message["role"] == "tool"
            who, text = _SHAREGPT[message["role"]], _response(message["content"]) if tool else as_text(message)
            if not turns:
                text = with_tools(text, one.tools)
            if turns and turns[-1]["from"] == who:  # readers expect speakers to alternate
                turns[-1]["value"] += f"\n{text}" if tool else f"\n\n{text}"
            else:
                turns.append({"from": who, "value": text})
        yield {"conversations": turns}


def sft_rows(found: Iterable[RecordedConversation]) -> Iterator[Row]:
    """Yield rows for TRL's `SFTTrainer`, conversational, with ``tools`` as JSON text."""
    for one in found:
        yield {"messages": one.messages, **_about(one), "reward": one.reward}


def dpo_rows(found: Iterable[RecordedConversation]) -> Iterator[Row]:
    """Yield rows for TRL's `DPOTrainer`: pairs of conversations that begin alike, the better one chosen.

    Of the conversations with one beginning (task, agent, messages, tools) the best is paired with the worst, the second
    best with the second worst, and so on, as long as the rewards differ; each is in one pair at most.
    """
    groups: dict[bytes, list[RecordedConversation]] = {}
    for one in found:
        key = msgspec.json.encode((one.episode.task_id, one.agent, one.opening, one.tools))
        if one.reward is not None:
            groups.setdefault(key, []).append(one)
    for group in groups.values():
        ranked = sorted(group, key=lambda one: -(one.reward or 0.0))
        for better, worse in zip(ranked[: len(ranked) // 2], reversed(ranked), strict=False):
            assert better.reward is not None and worse.reward is not None  # noqa: PT018 - the unjudged are left out
            if better.reward <= worse.reward:
                break
            row = {"prompt": list(better.opening), "chosen": list(better.turns), "rejected": list(worse.turns)}
            yield {**row, **_about(better), "reward_chosen": better.reward, "reward_rejected": worse.reward}


def grpo_rows(episodes: Iterable[Episode]) -> Iterator[Row]:
    """Yield rows for TRL's `GRPOTrainer` with `toolorchestra.trl.environment`: a row for each task of the recording.

    A row begins an episode of the task; ``success`` is the share of its judged episodes that were solved, by which
    tasks can be left out that teach nothing.
    """
    outcomes: dict[tuple[str, str], list[bool]] = {}
    seeds: dict[tuple[str, str], int | None] = {}
    for episode in episodes:
        key = episode.env_id, episode.task_id
        seeds.setdefault(key, episode.seed)
        if episode.outcome in ("solved", "failed"):
            outcomes.setdefault(key, []).append(episode.outcome == "solved")
    for (env, task), solved in outcomes.items():
        row: Row = {"prompt": [{"role": "user", "content": ""}], "task_id": task, "seed": seeds[env, task] or 0}
        yield {**row, "env": env, "episodes": len(solved), "success": sum(solved) / len(solved)}


def write_rows(file: Path, rows: Iterable[Row]) -> int:
    """Write rows as JSONL, or as Parquet if the file's name ends so, and return how many; without any, nothing is.

    Raises:
        OptionError: There is no row, or no library for Parquet.
        OutputError: It cannot be written.
    """
    found = iter(rows)
    first = next(found, None)
    if first is None:
        raise OptionError("There is nothing to export: no episode of the recording gives a row of this format.")
    count = 0

    def counted() -> Iterator[Row]:
        nonlocal count
        for count, row in enumerate((row for part in ([first], found) for row in part), 1):  # noqa: B007
            yield row

    if file.suffix == ".parquet":
        arrow, parquet = load_pyarrow()
        table = arrow.Table.from_pylist(list(counted()))
        with whole_file(file) as stream:
            parquet.write_table(table, stream)
    else:
        write_jsonl(file, (msgspec.Raw(msgspec.json.encode(row)) for row in counted()))
    return count


def write_episode_table(file: Path, episodes: Iterable[Episode]) -> int:
    """Write episodes as one table of Parquet and return how many: facts as columns, and each whole record as JSON.

    Raises:
        OptionError: There is no library for Parquet.
        OutputError: It cannot be written.
    """
    arrow, parquet = load_pyarrow()
    types = dict.fromkeys(_TEXTS, arrow.string()) | dict.fromkeys(_NUMBERS, arrow.float64())
    types |= dict.fromkeys(("seed", "difficulty", "turns", "calls"), arrow.int64())
    types |= {"tools": arrow.list_(arrow.string()), "agents": arrow.list_(arrow.string()), "episode": arrow.string()}
    schema = arrow.schema(list(types.items()))
    count, found = 0, iter(episodes)
    with whole_file(file) as stream, parquet.ParquetWriter(stream, schema) as writer:
        while part := list(islice(found, _ROWS_AT_ONCE)):
            writer.write_table(arrow.Table.from_pylist([_facts(one) for one in part], schema=schema))
            count += len(part)
    return count


def format_of(file: Path, given: str | None) -> RecordingFormat:
    """Return the format for a file: the one given, else that of its ending (.jsonl is ``openai``, .eval ``inspect``).

    Raises:
        OptionError: There is no such format of recordings, or a file of this ending cannot hold it.
    """
    known: dict[str, RecordingFormat] = {name: name for name in get_args(RecordingFormat)}
    kind = known.get(given or {".jsonl": "openai", ".parquet": "parquet", ".eval": "inspect"}.get(file.suffix, ""))
    if kind is None:
        found = f"--format {given}" if given else f"the ending of {file}"
        raise OptionError(f"Expected a format of recordings, one of {', '.join(known)}; found {found}. Give --format.")
    one_ending = {"parquet": (".parquet",), "openai": (".jsonl",), "sharegpt": (".jsonl",), "inspect": (".eval",)}
    endings = one_ending.get(kind, (".jsonl", ".parquet"))
    if file.suffix not in endings:
        raise OptionError(f"The format {kind} is written to a file that ends in {' or '.join(endings)}; found {file}.")
    return kind


def _facts(episode: Episode) -> Row:
    row = {name: getattr(episode, name) for name in (*_TEXTS, *_NUMBERS, "seed", "difficulty")}
    calls = sum(1 for _ in episode.calls)
    lists = {"tools": list(episode.tools), "agents": list(episode.agents)}
    return {**row, **lists, "turns": len(episode.turns), "calls": calls, "episode": episode.to_json().decode()}


def _about(one: RecordedConversation) -> Row:
    """Return what a row of TRL's says of its conversation.

    Schemas are JSON text, as columns of objects fill each other with nulls.
    """
    tools = {"tools": msgspec.json.encode(one.tools).decode()} if one.tools else {}
    return {**tools, "task_id": one.episode.task_id, "agent": one.agent}


def _response(text: str) -> str:
    return f"<tool_response>\n{text}\n</tool_response>"


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(arguments), dict)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
