"""Queries of a model until the answer is valid: ask, check, show the error, ask again; several at a time.

Which answers are valid is decided by the caller (`toolorchestra.toolscale.synth.stages`). Here are the repairs, the
threads, the counts, and what stops a run: an endpoint that fails, a spent budget, an interruption.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import msgspec

from toolorchestra.toolscale.common.errors import ExpertError, SynthesisError
from toolorchestra.toolscale.synth.answer_store import AnswerStore, Model, ModelAnswer, ModelQuestion
from toolorchestra.toolscale.synth.derived.templates import prompt

_MAX_SHOWN = 12_000
"""Characters of an invalid answer that are shown back."""

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741 - an item


class InvalidError(Exception):
    """An answer is not valid; the message lets a model fix it."""


class UnsettledError(Exception):
    """A matter has no valid answer after all repairs; the message is the last error."""


class _StoppedError(Exception):
    """Another thread met what ends the run."""


class StageCount(msgspec.Struct):
    """How far a stage is.

    Attributes:
        stage: Its name.
        matters: Tools, intents, batches of records and so on that it asks for.
        settled: Those with a valid answer, or given up.
        answered: Answers that the model gave in this run.
        cached: Answers that an earlier run had stored.
        repaired: Answers that were invalid and shown their error.
        dropped: Matters given up.
        prompt_tokens: Tokens read for all its answers.
        completion_tokens: Tokens written.
        cost: US dollars for all its answers.
    """

    stage: str
    matters: int = 0
    settled: int = 0
    answered: int = 0
    cached: int = 0
    repaired: int = 0
    dropped: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0


class QuerySettings(msgspec.Struct, frozen=True):
    """Sampling of answers, repairs and budget.

    Attributes:
        repairs: Most times that a matter's invalid answer is shown its error.
        parallel: Questions under way at a time.
        budget: US dollars, those of earlier runs included, after which no question is sent.
        temperature: Sampling temperature.
        max_tokens: Most tokens of one answer.
        seed: Seed of sampling.
    """

    repairs: int = 3
    parallel: int = 4
    budget: float | None = None
    temperature: float = 0.7
    max_tokens: int = 8_000
    seed: int = 0


class ModelQueries:
    """Asks a model until the answers are valid, and stores every answer; to be used in a ``with`` statement.

    Args:
        model: The model that answers.
        store: Where answers are kept.
        settings: Sampling, repairs and budget.
        watch: Called with the counts of all stages whenever they change.

    Attributes:
        counts: The stages so far, in order.
    """

    def __init__(
        self,
        model: Model,
        store: AnswerStore,
        settings: QuerySettings,
        watch: Callable[[Sequence[StageCount]], object] = lambda counts: None,
    ) -> None:
        self.counts: list[StageCount] = []
        self._model, self._store, self._settings, self._watch = model, store, settings, watch
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = ThreadPoolExecutor(settings.parallel, "synth")

    def begin(self, stage: str) -> StageCount:
        """Return the count of a stage, a new one if it has not begun."""
        found = next((count for count in self.counts if count.stage == stage), None)
        if found is None:
            found = StageCount(stage)
            self.counts.append(found)
        return found

    def settle(self, count: StageCount, matter: str, question: str, check: Callable[[str], T]) -> T:
        """Return what `check` makes of the answer to `question`.

        An answer for which `check` raises `InvalidError` is shown its error, and asked for again.

        Raises:
            UnsettledError: The repairs are spent.
        """
        start = (("system", prompt("system")), ("user", question))
        messages: tuple[tuple[str, str], ...] = start
        problem = ""
        for attempt in range(self._settings.repairs + 1):
            if attempt:
                self._note(count, repaired=1)
            answer = self._ask(count, matter, messages, attempt)
            try:
                return check(answer.text)
            except InvalidError as error:
                problem = str(error)
            if answer.cut:
                problem = f"The answer was cut off at {self._settings.max_tokens} tokens: write less. ({problem})"
            shown = answer.text[:_MAX_SHOWN] or "(nothing)"
            messages = (*start, ("assistant", shown), ("user", prompt("repair", problem=problem)))
        raise UnsettledError(problem)

    def settle_each(
        self, count: StageCount, questions: Mapping[str, str], check: Callable[[str, str], T]
    ) -> list[T | UnsettledError]:
        """Return what `check` makes of the answer to each question, or why it could not; it is given the matter too.

        Raises:
            SynthesisError: As `each` raises it.
        """
        return self.each(
            count,
            list(questions),
            lambda matter: self.settle(count, matter, questions[matter], functools.partial(check, matter)),
        )

    def each(self, count: StageCount, matters: Sequence[I], work: Callable[[I], T]) -> list[T | UnsettledError]:
        """Return what `work` makes of each matter, or why it could not, in their order.

        Raises:
            SynthesisError: The endpoint failed or the budget is spent; what was under way is stored.
        """
        self._note(count, matters=len(matters))

        def one(matter: I) -> T | UnsettledError:
            try:
                return work(matter)
            except UnsettledError as error:
                self._note(count, dropped=1)
                return error
            except BaseException:
                self._stop.set()
                raise
            finally:
                self._note(count, settled=1)

        futures = [self._threads.submit(one, matter) for matter in matters]
        try:
            wait(futures)
        except BaseException:  # an interruption: begin nothing more, and keep what is under way
            self._stop.set()
            for future in futures:
                future.cancel()
            wait(futures)
            raise
        errors = [error for future in futures if (error := future.exception()) is not None]
        for error in sorted(errors, key=lambda error: isinstance(error, _StoppedError)):
            raise error
        return [future.result() for future in futures]

    def _ask(self, count: StageCount, matter: str, messages: tuple[tuple[str, str], ...], attempt: int) -> ModelAnswer:
        """Return the stored answer to a question, or that of the model, which is then stored."""
        settings = self._settings
        seed = settings.seed + attempt  # the same words again are to get another answer
        question = ModelQuestion(messages, settings.temperature, settings.max_tokens, seed, attempt)
        key = question.key(self._model.name)
        answer = self._store.get(key)
        known = answer is not None
        if answer is None:
            if self._stop.is_set():
                raise _StoppedError
            if settings.budget is not None and self._store.spent >= settings.budget:
                spent = f"${settings.budget:g} is spent (${self._store.spent:.4f}, earlier runs included)"
                again = f"{self.saved} Raise --budget and run the same command again to go on."
                raise SynthesisError(f"The budget of {spent}. {again}", resumable=True)
            try:
                answer = self._model.ask(question)
            except ExpertError as error:
                message = f"No answer for {count.stage}: {error} {self.saved} Run the same command again to go on."
                raise SynthesisError(message, resumable=True) from error
            self._store.add(key, f"{count.stage}/{matter}/{attempt}", self._model.name, answer)
        tokens = {"prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.completion_tokens}
        self._note(count, answered=not known, cached=known, cost=answer.cost, **tokens)
        return answer

    @property
    def saved(self) -> str:
        """Where the answers so far are, in a sentence."""
        return f"{len(self._store)} answers are saved in {self._store.file}."

    def _note(self, count: StageCount, **changes: float) -> None:
        with self._lock:
            for name, change in changes.items():
                setattr(count, name, getattr(count, name) + change)
            self._watch(self.counts)

    def __enter__(self) -> ModelQueries:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        self._threads.shutdown()
