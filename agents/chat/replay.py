"""Recording the answers of a chat model and replaying them exactly, without a network or costs.

An answer is known by its whole request (messages, tools, sampling settings, the model's name) and by how often the
same request had come before, so that several samples of one question stay several. A record is an append-only JSONL
file (`toolorchestra.toolscale.append_only`) that a person can read. Not covered: failures, which are not recorded.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.agents.chat.base import BatchError, ChatModel, ChatRequest, Completion, Meter, all_or_raise
from toolorchestra.toolscale.append_only import AppendOnly, read_appended
from toolorchestra.toolscale.errors import ExpertError, OptionError

_WHAT = "a recorded answer"
_CONTEXT = 30
"""Characters shown around the place where two texts differ."""


class Recorded(msgspec.Struct, frozen=True):
    """One line of a record.

    Attributes:
        model: Who was asked.
        request: What.
        nth: How often the same request had come before.
        completion: The answer.
    """

    model: str
    request: ChatRequest
    nth: int
    completion: Completion

    @property
    def key(self) -> str:
        """What the answer is known by."""
        return request_key(self.model, self.request, self.nth)


def request_key(model: str, request: ChatRequest, nth: int = 0) -> str:
    """Return a hash of all that the n-th answer to a request depends on.

    The order in which a message's or a schema's keys were written does not matter, nor does its ground truth.

    Raises:
        ExpertError: The request cannot be written as JSON.
    """
    exact = msgspec.structs.replace(
        _as_read(request), temperature=float(request.temperature), top_p=float(request.top_p)
    )
    try:
        text = msgspec.json.encode((model, exact, nth), order="sorted")
    except (TypeError, ValueError) as error:  # an object in a message, a lone surrogate
        raise ExpertError(f"{model}: expected a request that can be written as JSON, got {error}.") from None
    return hashlib.sha256(text).hexdigest()


class ReplayChat:
    """A chat model that answers from a record, and only from it.

    Answers, token counts, costs and latencies are those recorded; `meter` counts them like those of a real model.

    Args:
        file: The record.
        name: The model whose answers are replayed; may be left out where the record holds one model's only.

    Raises:
        AppendingError: The file is not a record.
        OptionError: It holds no answer of that model.

    >>> import tempfile
    >>> from toolorchestra.agents.chat.base import ScriptedChat
    >>> hello = ChatRequest([{"role": "user", "content": "Say hello."}])
    >>> file = Path(tempfile.mkdtemp()) / "record.jsonl"
    >>> with RecordingChat(ScriptedChat(["Hello!", "Hi!"]), file) as chat:
    ...     [answer.text for answer in chat.complete([hello, hello])]
    ['Hello!', 'Hi!']
    >>> [answer.text for answer in ReplayChat(file).complete([hello, hello])]
    ['Hello!', 'Hi!']
    """

    def __init__(self, file: Path, name: str | None = None) -> None:
        lines, _ = read_appended(file, Recorded, _WHAT)
        names = sorted({line.model for line in lines})
        if name is None and len(names) > 1:
            raise OptionError(f"{file} holds answers of {', '.join(names)}: say whose are replayed with name=.")
        if (name or names[:1]) and name not in (None, *names):
            others = f", only of {', '.join(names)}" if names else ", nor of anybody else"
            raise OptionError(f"{file} holds no answer of {name}{others}.")
        self.name = name or (names[0] if names else "replay")
        self.meter = Meter()
        self.file = file
        self._lines = {line.key: line for line in lines if line.model == self.name}
        self._seen = _Seen(self.name)

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Answer all requests from the record.

        Raises:
            BatchError: A request is not in the record; the message names what differs from the nearest one that is.
        """
        return all_or_raise([self._one(*numbered) for numbered in self._seen.number(requests)])

    def _one(self, request: ChatRequest, nth: int) -> Completion | ExpertError:
        try:
            found = self._lines.get(request_key(self.name, request, nth))
        except ExpertError as error:
            return error
        if found is None:
            return ExpertError(f"{self.name}: {self._missing(request, nth)} Record it first with a RecordingChat.")
        self.meter.add(found.completion)
        return found.completion

    def _missing(self, request: ChatRequest, nth: int) -> str:
        count = len(self._lines)
        held = f"{self.file} holds {count} answer{'' if count == 1 else 's'}, but"
        if nth and request_key(self.name, request) in self._lines:
            return f"{held} this request only {nth} time{'' if nth == 1 else 's'}, and it came once more."
        return f"{held} none to this request. {nearest(request, (line.request for line in self._lines.values()))}"


class RecordingChat:
    """A chat model that records every answer of another, and asks nothing that its record already holds.

    An answer is on disk before it is handed out. Opened on the record of a run that was cut short, it answers from
    there what that run was answered, and asks on from the first request that is new.

    Args:
        chat: The model to ask.
        file: The record; made when it is not there, and locked until `close`.
        lot: Maximum number of requests sent at once; a killed process may lose their answers.

    Raises:
        AppendingError: The file is in use, or is not a record.
        OptionError: `batch_size` is below 1.
    """

    def __init__(self, chat: ChatModel, file: Path, *, batch_size: int = 32) -> None:
        if batch_size < 1:
            raise OptionError(f"batch_size: expected at least 1 request at once, got {batch_size}.")
        self.name = chat.name
        self._batch_size = batch_size
        self.meter = Meter()
        self._chat = chat
        self._file = AppendOnly(file, Recorded, _WHAT)
        self._held = {line.key: line.completion for line in self._file.lines}
        self._seen = _Seen(self.name)

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Answer from the record, ask the rest, and record it.

        Raises:
            BatchError: A request failed for good; the others' answers are recorded.
            AppendingError: The record cannot be written.
        """
        results: list[Completion | ExpertError | None] = []
        asked: list[tuple[int, ChatRequest, int]] = []
        for place, (request, nth) in enumerate(self._seen.number(requests)):
            held: Completion | ExpertError | None
            try:
                held = self._held.get(request_key(self.name, request, nth))
            except ExpertError as error:
                held = error
            results.append(held)
            if held is None:
                asked.append((place, request, nth))
        failed: Counter[str] = Counter()
        for start in range(0, len(asked), self._batch_size):
            self._ask(asked[start : start + self._batch_size], results, failed)
        self._seen.forget(failed)
        answers = [result for result in results if result is not None]
        for answer in answers:
            if isinstance(answer, Completion):
                self.meter.add(answer)
        return all_or_raise(answers)

    def _ask(
        self,
        asked: Sequence[tuple[int, ChatRequest, int]],
        results: list[Completion | ExpertError | None],
        failed: Counter[str],
    ) -> None:
        """Send a batch, record the answers, and put each in its place among the results."""
        found: Sequence[Completion | ExpertError]
        try:
            found = self._chat.complete([request for _, request, _ in asked])
        except BatchError as error:
            found = error.results
        for (place, request, nth), answer in zip(asked, found, strict=True):
            results[place] = answer
            key = request_key(self.name, request)
            if isinstance(answer, Completion):
                line = Recorded(self.name, _as_read(request), nth - failed[key], answer)
                self._file.add(line)
                self._held[line.key] = answer
            else:
                failed[key] += 1

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __enter__(self) -> RecordingChat:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class _Seen:
    """Counts how often each request has come, in the order in which requests are made."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __getstate__(self) -> tuple[str, Counter[str]]:
        return self._name, self._counts

    def __setstate__(self, state: tuple[str, Counter[str]]) -> None:
        self._name, self._counts = state
        self._lock = threading.Lock()

    def number(self, requests: Iterable[ChatRequest]) -> list[tuple[ChatRequest, int]]:
        """Return each request with the number of its likes before it."""
        numbered: list[tuple[ChatRequest, int]] = []
        with self._lock:
            for request in requests:
                try:
                    key = request_key(self._name, request)
                except ExpertError:  # reported where it is looked up
                    key = ""
                numbered.append((request, self._counts[key]))
                self._counts[key] += 1
        return numbered

    def forget(self, failed: Counter[str]) -> None:
        """Take back requests that were not answered: asked again, they come as if for the first time."""
        with self._lock:
            self._counts.subtract(failed)


def _as_read(request: ChatRequest) -> ChatRequest:
    """Return a request as a model reads it: without ground truth, which is not even written as null."""
    return msgspec.structs.replace(request, ground_truth=msgspec.UNSET)


def nearest(request: ChatRequest, recorded: Iterable[ChatRequest]) -> str:
    """Return the sentence that says what differs between a request and the nearest of those recorded."""
    asked, *others = (msgspec.json.decode(msgspec.json.encode(one)) for one in map(_as_read, (request, *recorded)))
    if not others:
        return "The record is empty."

    def distance(other: dict[str, Any]) -> tuple[int, float]:
        fields = [name for name in asked if asked[name] != other[name]]
        return len(fields), -_similarity(asked["messages"], other["messages"])

    other = min(others, key=distance)
    parts = []
    for name in asked:
        if asked[name] == other[name]:
            continue
        if name == "messages":
            parts.append(_messages_differ(asked[name], other[name]))
        elif name == "tools":
            ours, theirs = (_tool_names(side[name]) for side in (asked, other))
            parts.append(f"tools ({theirs} recorded, {ours} asked)" if ours != theirs else "the schemas of tools")
        else:
            parts.append(f"{name} ({other[name]!r} recorded, {asked[name]!r} asked)")
    return f"The nearest recorded request differs in {' and '.join(parts)}."


def _similarity(ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]) -> float:
    return SequenceMatcher(None, _last(ours), _last(theirs)).quick_ratio()


def _last(messages: Sequence[dict[str, Any]]) -> str:
    return str(messages[-1].get("content"))[:2000]


def _tool_names(tools: Sequence[dict[str, Any]]) -> str:
    return ", ".join(str(tool.get("function", tool).get("name")) for tool in tools) or "none"


def _messages_differ(ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]) -> str:
    for number, (our, their) in enumerate(zip(ours, theirs, strict=False), 1):
        for name in [*our, *(name for name in their if name not in our)]:
            if our.get(name) != their.get(name):
                our_text, their_text = str(our.get(name)), str(their.get(name))
                pairs = zip(our_text, their_text, strict=False)
                at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(our_text), len(their_text)))
                shown = slice(max(0, at - _CONTEXT), at + _CONTEXT)
                return (
                    f"message {number}, {name!r}, at character {at} "
                    f"({their_text[shown]!r} recorded, {our_text[shown]!r} asked)"
                )
    return f"the number of messages ({len(theirs)} recorded, {len(ours)} asked)"
