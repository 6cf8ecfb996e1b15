"""A recording as a log of inspect_ai (`.eval`), for `inspect view` and `read_eval_log`.

The format is inspect's own, version 2: a ZIP file with a JSON file for each sample, their summaries and a header. It is
written without inspect_ai, which needs other versions of packages than the learners do; the tests read it with
inspect_ai. A conversation is a sample; another episode of the same task is another epoch of it. What inspect itself
evaluates is in `toolorchestra.envs.bridges.inspect_ai`, whose samples have the same score, metadata and store.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import msgspec

from toolorchestra.agents.messages.model_message import Message
from toolorchestra.algos.data.recording_formats import RecordedConversation
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.writing import whole_file

_VERSION = 2  # of inspect's format
_SHOWN = 1000  # characters of an input in the list of samples, as inspect cuts it


def write_inspect_log(file: Path, found: Iterable[RecordedConversation], *, model: str, created: datetime) -> int:
    """Write conversations as a log of inspect_ai and return how many samples it has; without any, nothing is written.

    Args:
        file: The file to write, ``.eval``.
        found: The conversations. One whose episode was not judged is a sample with an error and no score.
        model: Name of who played, as inspect shows it.
        created: When they were recorded, with its time zone.

    Raises:
        OptionError: There is no conversation.
        OutputError: It cannot be written.
    """
    stamp = (created.year, created.month, created.day, created.hour, created.minute, created.second)
    summaries: list[dict[str, Any]] = []
    rewards: dict[str, list[float]] = {}
    epochs: dict[str, int] = {}
    environments: set[str] = set()
    digest = hashlib.sha256()
    with whole_file(file) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:

        def write(name: str, value: Any) -> None:
            content = msgspec.json.encode(value)
            digest.update(content)
            member = zipfile.ZipInfo(name, stamp)
            archive.writestr(member, content, zipfile.ZIP_DEFLATED)

        for one in found:
            name = _sample_id(one)
            epochs[name] = epochs.get(name, 0) + 1
            sample = _sample(one, name, epochs[name], model)
            write(f"samples/{name}_epoch_{epochs[name]}.json", sample)
            summaries.append(_summary(sample))
            environments.add(one.episode.env_id)
            if "scores" in sample:
                rewards.setdefault(name, []).append(sample["scores"]["reward"]["value"])
        if not summaries:
            raise OptionError("There is nothing to export: no episode of the recording has a message of an agent.")
        write("summaries.json", summaries)
        date = created.isoformat(timespec="seconds")
        evaluation = {
            **dict.fromkeys(("eval_id", "run_id", "task_id"), digest.hexdigest()[:22]),
            "created": date,
            "task": " ".join(sorted(environments)),
            "dataset": {"samples": len(epochs), "sample_ids": list(epochs)},
            "model": model,
            "config": {"epochs": max(epochs.values())},
        }
        header = {"version": _VERSION, "status": "success", "eval": evaluation}
        header |= {"results": _results(rewards, len(summaries)), "stats": {"started_at": date, "completed_at": date}}
        write("header.json", header)
    return len(summaries)


def _sample_id(one: RecordedConversation) -> str:
    """Return the task's id, with the agent's name where there are several."""
    task = one.episode.task_id
    return f"{task}:{one.agent}" if one.episode.agents[1:] else task


def _sample(one: RecordedConversation, name: str, epoch: int, model: str) -> dict[str, Any]:
    episode = one.episode
    messages = [_message(message, model) for message in one.messages]
    _called(messages)
    last = next(message for message in reversed(messages) if message["role"] == "assistant")
    sample: dict[str, Any] = {
        "id": name,
        "epoch": epoch,
        "input": episode.instruction,
        "target": "",
        "messages": messages,
        "output": {"model": model, "choices": [{"message": last, "stop_reason": "stop"}]},
        "metadata": {
            "env": episode.env_id,
            "seed": episode.seed,
            "split": episode.split,
            "difficulty": episode.difficulty,
        },
        "store": {"episode": msgspec.Raw(episode.to_json())},
        "model_usage": {model: _usage(one)},
        "turn_count": sum(turn.agent == one.agent for turn in episode.turns),
    }
    if one.reward is None:
        why = f"The episode ended by an {episode.outcome}: {episode.why}"
        return {**sample, "error": {"message": why, "traceback": why, "traceback_ansi": why}}
    score = {
        "value": one.reward,
        "answer": episode.answer,
        "explanation": episode.why,
        "metadata": {"outcome": episode.outcome, "cost": episode.cost, "clock": episode.clock},
    }
    return {**sample, "scores": {"reward": score}}


def _summary(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the list of samples shows."""
    kept = ("id", "epoch", "target", "metadata", "scores", "model_usage", "turn_count")
    return {
        **{name: sample[name] for name in kept if name in sample},
        "input": sample["input"][:_SHOWN],
        "message_count": len(sample["messages"]),
        "completed": True,
        **({"error": sample["error"]["message"]} if "error" in sample else {}),
    }


def _results(rewards: Mapping[str, list[float]], samples: int) -> dict[str, Any]:
    """Return mean and standard error as inspect computes them: the epochs of a sample are averaged first."""
    means = [fmean(values) for values in rewards.values()]
    metrics: dict[str, Any] = {}
    if means:
        error = stdev(means) / len(means) ** 0.5 if means[1:] else 0.0
        metrics = {"mean": {"name": "mean", "value": fmean(means)}, "stderr": {"name": "stderr", "value": error}}
    judged = sum(map(len, rewards.values()))
    score = {
        "name": "reward",
        "scorer": "reward",
        "reducer": "mean",
        "scored_samples": len(means),
        "unscored_samples": samples - judged,
        "metrics": metrics,
    }
    return {"total_samples": samples, "completed_samples": judged, "scores": [score]}


def _message(message: Message, model: str) -> dict[str, Any]:
    """Return a message as inspect has it: arguments of calls are objects."""
    if message["role"] == "assistant":
        calls = [
            {
                "id": call["id"],
                "type": "function",
                "function": call["function"]["name"],
                "arguments": msgspec.json.decode(call["function"]["arguments"]),
            }
            for call in message.get("tool_calls") or ()
        ]
        written = {"role": "assistant", "content": str(message.get("content") or ""), "source": "generate"}
        return {**written, "model": model, **({"tool_calls": calls} if calls else {})}
    named = {"tool_call_id": message["tool_call_id"]} if message["role"] == "tool" else {}
    return {"role": message["role"], "content": str(message["content"]), **named}


def _called(messages: Iterable[dict[str, Any]]) -> None:
    """Write into each result the name of the tool that was called."""
    names: dict[str, str] = {}
    for message in messages:
        names |= {call["id"]: call["function"] for call in message.get("tool_calls", ())}
        if message["role"] == "tool":
            message["function"] = names[message["tool_call_id"]]


def _usage(one: RecordedConversation) -> dict[str, int]:
    """Return the tokens that the agent read and wrote, as its turns count them."""
    tokens = [turn.tokens for turn in one.episode.turns if turn.agent == one.agent]
    read, written = (sum(part[side] for part in tokens) for side in (0, 1))
    return {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
