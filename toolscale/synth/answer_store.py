"""Questions to a model, and the store of its answers: an answered question is not sent again.

The store is one append-only JSONL file (`toolorchestra.toolscale.common.append_only`): an answer is on disk before
anything is made of it.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from toolorchestra.toolscale.common.append_only import AppendingError, AppendOnly
from toolorchestra.toolscale.common.errors import ExpertError, InUseError, OutputError, SynthesisError
from toolorchestra.toolscale.common.yaml_reader import convert, read_yaml


class ModelQuestion(msgspec.Struct, frozen=True):
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


class ModelAnswer(msgspec.Struct, frozen=True):
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

    def ask(self, question: ModelQuestion) -> ModelAnswer:
        """Answer a question; called from several threads.

        Raises:
            ExpertError: No answer can be had.
        """
        ...


class RecordedModel:
    """A public fake: answers from a file, in which invalid answers may come before valid ones.

    Args:
        file: YAML list of objects with ``question`` (a list of texts) and ``answers``. The first entry whose texts
            all occur in a question answers it, with its first answer; a question that shows one of its answers
            and that answer's error gets the next one.
    """

    def __init__(self, file: Path) -> None:
        self.name = "recorded"
        self._entries = convert(read_yaml(file), list[_Recorded])

    def ask(self, question: ModelQuestion) -> ModelAnswer:
        """Answer from the recording; a token is a word.

        Raises:
            ExpertError: Nothing is recorded for the question.
        """
        texts = [text for _, text in question.messages]
        for entry in self._entries:
            if all(text in texts[1] for text in entry.question):
                shown = entry.answers.index(texts[2]) if len(texts) > 2 else -1
                text = entry.answers[min(shown + 1, len(entry.answers) - 1)]
                return ModelAnswer(text, sum(len(text.split()) for text in texts), len(text.split()))
        raise ExpertError(f"{self.name}: nothing is recorded for the question {texts[1][-200:]!r}.")


class _Recorded(msgspec.Struct, forbid_unknown_fields=True):
    question: list[str]
    answers: list[str]


class Stored(msgspec.Struct, frozen=True):
    """One line of the store."""

    key: str
    matter: str
    model: str
    answer: ModelAnswer


class AnswerStore:
    """The answers that a domain was made of.

    Args:
        file: JSONL file; made when it is not there, and locked while the store is open.

    Attributes:
        spent: US dollars that all answers in it cost.

    Raises:
        InUseError: Another run is at work on it.
        SynthesisError: It is not a file of answers, or cannot be written.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        with _synthesis_errors():
            self._lines = AppendOnly(file, Stored, "a stored answer")
        self._answers = {stored.key: stored.answer for stored in reversed(self._lines.lines)}  # the first of each
        self.spent = sum(stored.answer.cost for stored in self._lines.lines)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: str) -> ModelAnswer | None:
        """Return the answer to a question, or None."""
        return self._answers.get(key)

    def add(self, key: str, matter: str, model: str, answer: ModelAnswer) -> None:
        """Store an answer; it is on disk when this returns.

        Raises:
            SynthesisError: It cannot be written.
        """
        with _synthesis_errors():
            self._lines.add(Stored(key, matter, model, answer))
        with self._lock:
            self._answers[key] = answer
            self.spent += answer.cost

    def __enter__(self) -> AnswerStore:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._lines.close()


@contextmanager
def _synthesis_errors() -> Iterator[None]:
    """Raise what is wrong with the file as a `SynthesisError`."""
    try:
        yield
    except InUseError:
        raise
    except (AppendingError, OutputError) as error:
        raise SynthesisError(str(error), resumable=isinstance(error, OutputError) or error.resumable) from None
