"""English names for a database's tables and columns, by one question to a model; it is shown names, and no records."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from toolorchestra.toolscale.common.errors import unknown_name
from toolorchestra.toolscale.common.writing import make_folder
from toolorchestra.toolscale.requests.naming import snake_case
from toolorchestra.toolscale.synth.answer_checks import read_answer
from toolorchestra.toolscale.synth.answer_store import AnswerStore, Model
from toolorchestra.toolscale.synth.derived.templates import prompt
from toolorchestra.toolscale.synth.model_queries import (
    InvalidError,
    ModelQueries,
    QuerySettings,
    StageCount,
    UnsettledError,
)
from toolorchestra.toolscale.synth.pipeline import ANSWERS
from toolorchestra.toolscale.synth.tables.names_file import GivenNames

_ENGLISH = re.compile(r"[A-Za-z][A-Za-z0-9 ]{0,39}")


@contextmanager
def queries_in(
    folder: Path,
    model: Model,
    settings: QuerySettings | None = None,
    watch: Callable[[Sequence[StageCount]], object] = lambda counts: None,
) -> Iterator[ModelQueries]:
    """Yield what asks a model; its answers are kept in a domain's folder."""
    make_folder(folder)
    with AnswerStore(folder / ANSWERS) as store, ModelQueries(model, store, settings or QuerySettings(), watch) as made:
        yield made


def ask_names(queries: ModelQueries, used: GivenNames, given: GivenNames) -> GivenNames:
    """Return the names that a file gives, with those that a model gives to everything else.

    Args:
        queries: Asks the model.
        used: What all tables and columns are called so far.
        given: The names that a file gives; they stay.

    Raises:
        UnsettledError: No answer was valid; the message is the last error.
        SynthesisError: The endpoint failed or the budget is spent.
    """
    known = {name.lower() for name in (*given.tables, *given.columns)}
    bare = {name: name.partition(".")[2].lower() for name in used.columns}
    tables = [name for name in used.tables if name.lower() not in known]
    columns = [name for name in used.columns if not {name.lower(), bare[name]} & known]
    asked = "\n".join([*tables, *columns])

    def check(_: str, text: str) -> dict[str, str]:
        answer = read_answer(text, dict[str, str])
        for name, words in answer.items():
            if name not in tables and name not in columns:
                raise InvalidError(unknown_name("name", name, [*tables, *columns]))
            if not _ENGLISH.fullmatch(words):
                expected = "at most 40 letters, digits and spaces, a letter first"
                raise InvalidError(f"{name}: expected {expected}; found {words!r:.80}.")
        _check_distinct({name: answer.get(name, called) for name, called in used.tables.items()})
        for table in used.tables:
            of_table = {name: called for name, called in used.columns.items() if name.startswith(f"{table}.")}
            _check_distinct({name: answer.get(name, called) for name, called in of_table.items()})
        return answer

    (answer,) = queries.settle_each(queries.begin("names"), {"all": prompt("names", asked=asked)}, check)
    if isinstance(answer, UnsettledError):
        raise answer
    return GivenNames(
        given.tables | {name: answer[name] for name in tables if name in answer},
        given.columns | {name: answer[name] for name in columns if name in answer},
        given.values,
    )


def _check_distinct(called: dict[str, str]) -> None:
    """Refuse two names that are one.

    Raises:
        InvalidError: Names both.
    """
    first: dict[str, str] = {}
    for name, words in called.items():
        other = first.setdefault(snake_case(words), name)
        if other != name:
            raise InvalidError(f"{other} and {name}: expected different names, found {words!r} for both.")
