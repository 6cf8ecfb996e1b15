"""Recording the answers of a chat model and replaying them exactly, without a network or costs.

The key of an answer is its whole request (messages, tools, sampling settings, the model's name) and how often the same
request came before, so that several samples of one question stay apart. A record is an append-only JSONL file
(`toolorchestra.toolscale.common.append_only`). Not covered: failures, which are not recorded.
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
from toolorchestra.toolscale.common.append_only import AppendOnly, read_appended
from toolorchestra.toolscale.common.errors import ExpertError, OptionError

_WHAT = "a recorded answer"
_CONTEXT = 30
"""Characters shown around the place where two texts differ."""


class Recorded(msgspec.Struct, frozen=True):
    """One line of a record: the `nth` answer (from 0) of a model to a request."""

    model: str
    request: ChatRequest
    nth: int
    completion: Completion

    @property
    def key(self) -> str:
        """The key of the answer."""
        return request_key(self.model, self.request, self.nth)


def request_key(model: str, request: ChatRequest, nth: int = 0) -> str:
    """Return a hash of all that the n-th answer to a request depends on.

    The order of the keys of a message or schema does not matter, nor does the ground truth. A request that cannot be
    written as JSON raises `ExpertError`.
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
    """A chat model that answers from a record only, with the recorded token counts, costs and latencies.

    Args:
        file: The record; another file raises `AppendingError`.
        name: The model whose answers are replayed; optional if the record has only one model's answers. `OptionError`
            if it has none of this model's.

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
            others = f", only of {', '.join(names)}" if names else ", nor of any other"
            raise OptionError(f"{file} holds no answer of {name}{others}.")
        self.name = name or (names[0] if names else "replay")
        self.meter = Meter()
        self.file = file
        self._requests = [line.request for line in lines if line.model == self.name]
        self._held = _Held(self.name, lines)

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Answer all requests from the record; the error for others says how they differ from the nearest recorded."""
        results: list[Completion | ExpertError] = []
        for request, nth, held in self._held.find(requests):
            results.append(held or ExpertError(f"{self.name}: {self._missing(request, nth)}"))
            if isinstance(held, Completion):
                self.meter.add(held)
        return all_or_raise(results)

    def _missing(self, request: ChatRequest, nth: int) -> str:
        count = len(self._held.completions)
        held = f"{self.file} holds {count} answer{'' if count == 1 else 's'}, but"
        if nth and request_key(self.name, request) in self._held.completions:
            text = f"{held} this request only {nth} time{'' if nth == 1 else 's'}, and it came once more."
        else:
            text = f"{held} none to this request. {_nearest(request, self._requests)}"
        return f"{text} Record it first with a RecordingChat."


class RecordingChat:
    """A chat model that records every answer of another, and asks nothing that its record already holds.

    An answer is on disk before it is returned, so a run that was cut short continues from its record.

    Args:
        chat: The model to ask.
        file: The record; made if it does not exist, and locked until `close`. One that is in use, or is not a record,
            raises `InUseError` or `AppendingError`.
        batch_size: Maximum number of requests sent at once; a killed process may lose their answers.
    """

    def __init__(self, chat: ChatModel, file: Path, *, batch_size: int = 32) -> None:
        if batch_size < 1:
            raise OptionError(f"batch_size: expected at least 1 request at once, got {batch_size}.")
        self.name = chat.name
        self._batch_size = batch_size
        self.meter = Meter()
        self._chat = chat
        self._file = AppendOnly(file, Recorded, _WHAT)
        self._held = _Held(self.name, self._file.lines)

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Answer from the record, ask the rest, and record it; `OutputError` if it cannot be written."""
        found = self._held.find(requests)
        missing = [(request, nth) for request, nth, held in found if held is None]
        failed: Counter[str] = Counter()
        answers: list[Completion | ExpertError] = []
        for start in range(0, len(missing), self._batch_size):
            answers += self._ask(missing[start : start + self._batch_size], failed)
        self._held.forget(failed)
        fresh = iter(answers)
        results = [held or next(fresh) for _, _, held in found]
        for result in results:
            if isinstance(result, Completion):
                self.meter.add(result)
        return all_or_raise(results)

    def _ask(
        self, batch: Sequence[tuple[ChatRequest, int]], failed: Counter[str]
    ) -> Sequence[Completion | ExpertError]:
        """Send a batch, record the answers, and count the requests that failed."""
        answers: Sequence[Completion | ExpertError]
        try:
            answers = self._chat.complete([request for request, _ in batch])
        except BatchError as error:
            answers = error.results
        for (request, nth), answer in zip(batch, answers, strict=True):
            key = request_key(self.name, request)
            if isinstance(answer, Completion):
                line = Recorded(self.name, _as_read(request), nth - failed[key], answer)
                self._file.add(line)
                self._held.completions[line.key] = answer
            else:
                failed[key] += 1
        return answers

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __enter__(self) -> RecordingChat:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class _Held:
    """A model's recorded answers by key, and how often each request was made so far."""

    def __init__(self, name: str, lines: Iterable[Recorded]) -> None:
        self._name = name
        self.completions = {line.key: line.completion for line in lines if line.model == name}
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def find(self, requests: Iterable[ChatRequest]) -> list[tuple[ChatRequest, int, Completion | ExpertError | None]]:
        """Count requests; return with each how often it was made before, and its answer, if there is one."""
        found: list[tuple[ChatRequest, int, Completion | ExpertError | None]] = []
        with self._lock:
            for request in requests:
                try:
                    key = request_key(self._name, request)
                    nth = self._counts[key]
                    found.append((request, nth, self.completions.get(request_key(self._name, request, nth))))
                    self._counts[key] += 1
                except ExpertError as error:
                    found.append((request, 0, error))
        return found

    def forget(self, failed: Counter[str]) -> None:
        """Take back requests that failed: made again, they count as if for the first time."""
        with self._lock:
            self._counts.subtract(failed)


def _as_read(request: ChatRequest) -> ChatRequest:
    """Return a request as a model reads it, without ground truth, not even as null."""
    return msgspec.structs.replace(request, ground_truth=msgspec.UNSET)


def _nearest(request: ChatRequest, recorded: Iterable[ChatRequest]) -> str:
    """Return a sentence that says how a request differs from the nearest of those recorded."""
    new, *others = (msgspec.json.decode(msgspec.json.encode(one)) for one in map(_as_read, (request, *recorded)))
    if not others:
        return "The record is empty."

    def differing(other: dict[str, Any]) -> list[str]:
        return [name for name in new if new[name] != other[name]]

    def distance(other: dict[str, Any]) -> tuple[int, float]:
        return len(differing(other)), -SequenceMatcher(None, _last(new), _last(other)).quick_ratio()

    other = min(others, key=distance)
    parts = []
    for name in differing(other):
        if name == "messages":
            parts.append(_messages_differ(new[name], other[name]))
        elif name == "tools":
            ours, theirs = (_tool_names(side[name]) for side in (new, other))
            parts.append(f"tools ({theirs} recorded, {ours} asked)" if ours != theirs else "the schemas of tools")
        else:
            parts.append(f"{name} ({other[name]!r} recorded, {new[name]!r} asked)")
    return f"The nearest recorded request differs in {' and '.join(parts)}."


def _last(request: dict[str, Any]) -> str:
    return str(request["messages"][-1].get("content"))[:2000]


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
