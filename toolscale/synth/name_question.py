"""English names for a database's tables and columns, by one question to a model; it is shown names, and no records."""

from __future__ import annotations

import re

from toolorchestra.toolscale.common.errors import unknown_name
from toolorchestra.toolscale.requests.naming import snake_case
from toolorchestra.toolscale.synth.answer_checks import read_answer
from toolorchestra.toolscale.synth.derived.templates import prompt
from toolorchestra.toolscale.synth.model_queries import InvalidError, ModelQueries, UnsettledError
from toolorchestra.toolscale.synth.tables.names_file import GivenNames

_ENGLISH = re.compile(r"[A-Za-z][A-Za-z0-9 ]{0,39}")


def ask_names(queries: ModelQueries, used: GivenNames, given: GivenNames) -> tuple[GivenNames, list[str]]:
    """Return the names that a file gives with those that a model gives to everything else, and why not if it gave none.

    Args:
        queries: Asks the model.
        used: What all tables and columns are called so far.
        given: The names that a file gives; they stay.

    Raises:
        SynthesisError: The endpoint failed or the budget is spent.
    """
    known = {name.lower() for name in (*given.tables, *given.columns)}
    tables = [name for name in used.tables if name.lower() not in known]
    columns = [n for n in used.columns if not {n.lower(), n.partition(".")[2].lower()} & known]
    asked = [*tables, *columns]

    def check(_: str, text: str) -> dict[str, str]:
        answer = read_answer(text, dict[str, str])
        for name, words in answer.items():
            if name not in asked:
                raise InvalidError(unknown_name("name", name, asked))
            if not _ENGLISH.fullmatch(words):
                raise InvalidError(f"{name}: expected at most 40 letters, digits and spaces; found {words!r:.80}.")
        first: dict[tuple[str, str], str] = {}
        for name, words in (used.tables | used.columns | answer).items():
            other = first.setdefault((name.rpartition(".")[0], snake_case(words)), name)
            if other != name:
                raise InvalidError(f"{other} and {name}: expected different names, found {words!r} for both.")
        return answer

    question = prompt("names", asked="\n".join(asked))
    (answer,) = queries.settle_each(queries.begin("names"), {"all": question}, check)
    if isinstance(answer, UnsettledError):
        return given, [f"The model gave no names that can be used, and all names are as they were: {answer}"]
    of_tables = given.tables | {name: answer[name] for name in tables if name in answer}
    of_columns = given.columns | {name: answer[name] for name in columns if name in answer}
    return GivenNames(of_tables, of_columns, given.values), []
