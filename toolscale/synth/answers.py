"""Questions to a model, and the store of its answers: what is answered once is never asked again.

The store is one append-only JSONL file. An answer is on disk before anything is made of it, so that a run killed at
any moment loses only answers that were still under way; a line that was being written then is cut off when the file
is opened again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
from pathlib import Path
from typing import Protocol

import msgspec

from toolorchestra.toolscale.errors import ExpertError, SynthesisError
from toolorchestra.toolscale.reading import convert, parse_yaml


class Question(msgspec.Struct, frozen=True):
    """One question, with how to sample its answer.

    Attributes:
        messages: Pairs of role (``system``, ``user`` or ``assistant``) and text.
        temperature: 0 is greedy.
        max_tokens: Most tokens of the answer.
        seed: Makes sampling repeatable where the model can do so.
        attempt: Which answer to the same matter it asks for, from 0.
    """

    messages: tuple[tuple[str, str], ...]
    temperature: float
    max_tokens: int
    seed: int
    attempt: int = 0

    def key(self, model: str) -> str:
        """Return what the question is known by in a store: a hash of all that its answer depends on."""
        return hashlib.sha256(msgspec.json.encode((model, self))).hexdigest()


class Answer(msgspec.Struct, frozen=True):
    """One answer.

    Attributes:
        text: What the model wrote.
        prompt_tokens: Tokens read.
        completion_tokens: Tokens written.
        cost: US dollars.
        cut: It ended at the most tokens allowed, not by itself.
    """

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    cut: bool = False


class Model(Protocol):
    """What answers the questions."""

    @property
    def name(self) -> str:
        """The model's name; its answers are not taken for another's."""
        ...

    def ask(self, question: Question) -> Answer:
        """Answer a question; called from several threads.

        Raises:
            ExpertError: No answer can be had.
        """
        ...


class RecordedModel:
    """A public fake: answers from a file, in which bad ones may stand before good ones.

    Args:
        file: YAML list of objects with ``asked`` (texts that a question holds) and ``answers``. The first entry
            of which a question holds all texts answers it, with its first answer; shown one of its answers and
            that answer's error, with the next one.
    """

    def __init__(self, file: Path) -> None:
        self.name = "recorded"
        self._entries = convert(parse_yaml(file.read_text(encoding="utf-8")), list[_Recorded])

    def ask(self, question: Question) -> Answer:
        """Answer from the recording; a token is a word.

        Raises:
            ExpertError: Nothing is recorded for the question.
        """
        texts = [text for _, text in question.messages]
        for entry in self._entries:
            if all(asked in texts[1] for asked in entry.asked):
                shown = entry.answers.index(texts[2]) if len(texts) > 2 else -1
                text = entry.answers[min(shown + 1, len(entry.answers) - 1)]
                return Answer(text, sum(len(asked.split()) for asked in texts), len(text.split()))
        raise ExpertError(f"{self.name}: nothing is recorded for the question {texts[1][-200:]!r}.")


class _Recorded(msgspec.Struct, forbid_unknown_fields=True):
    asked: list[str]
    answers: list[str]


class Stored(msgspec.Struct, frozen=True):
    """One line of the store."""

    key: str
    matter: str
    model: str
    answer: Answer


class AnswerStore:
    """The answers that a domain was made of.

    Args:
        file: JSONL file; made when it is not there, and locked while the store is open.

    Raises:
        SynthesisError: Another run is at work on it, or it is not a file of answers.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()
        self._answers: dict[str, Answer] = {}
        self._spent = 0.0
        file.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._read()
            _sync_folder(file.parent)
        except BlockingIOError:
            os.close(self._fd)
            raise SynthesisError(f"Another run is at work on {file}. Wait for it, or end it.") from None
        except BaseException:
            os.close(self._fd)
            raise

    def _read(self) -> None:
        content = self.file.read_bytes()
        whole = content.rfind(b"\n") + 1
        decoder = msgspec.json.Decoder(Stored)
        for number, line in enumerate(content[:whole].splitlines(), 1):
            try:
                stored = decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                message = f"{self.file}, line {number}: expected a stored answer, found {line[:60]!r} ({error})."
                raise SynthesisError(f"{message} Remove that line to ask again.") from None
            self._answers.setdefault(stored.key, stored.answer)
            self._spent += stored.answer.cost
        if whole < len(content):  # a kill cut its writing short
            os.ftruncate(self._fd, whole)
            os.fsync(self._fd)

    @property
    def spent(self) -> float:
        """US dollars that all answers in it cost."""
        return self._spent

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: str) -> Answer | None:
        """Return the answer to a question, or None."""
        return self._answers.get(key)

    def add(self, key: str, matter: str, model: str, answer: Answer) -> None:
        """Store an answer; it is on disk when this returns.

        Raises:
            SynthesisError: It cannot be written.
        """
        line = msgspec.json.encode(Stored(key, matter, model, answer)) + b"\n"
        with self._lock:
            if self._fd < 0:
                raise SynthesisError(f"{self.file} is closed.", resumable=True)
            size = os.fstat(self._fd).st_size
            try:
                written = os.write(self._fd, line)
                if written != len(line):
                    raise OSError(f"{written} of {len(line)} bytes written")
                os.fsync(self._fd)
            except OSError as error:
                os.ftruncate(self._fd, size)  # leave no torn line before the next one
                raise SynthesisError(
                    f"{self.file} cannot be written ({error}). Make room and run the same command again.",
                    resumable=True,
                ) from None
            self._answers[key] = answer
            self._spent += answer.cost

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> AnswerStore:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _sync_folder(folder: Path) -> None:
    """See that a file made in `folder` is found there after a crash."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
