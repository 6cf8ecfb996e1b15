"""General reasoning data beside episodes: rows of GeneralThought's columns as demonstrations (ToolOrchestra §4.4).

The paper trains on GeneralThoughtArchive together with its synthetic tasks. A row has a question, the reasoning and the
answer of a model, and a verifier's score. Not covered: its questions as tasks (`toolorchestra.envs.sources.public`).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolorchestra.algos.data.demonstrations import Demonstration
from toolorchestra.envs.sources.public import DATASETS
from toolorchestra.envs.sources.row_files import Row, split_rows
from toolorchestra.toolscale.common.errors import OptionError

GENERAL = "general-thought"
"""The public data set of these columns; ``general-thought@REVISION`` stands for its rows on the hub."""
_NEEDED = ("question", "model_answer", "verifier_score")


def general_demonstrations(
    files: Sequence[str | Path], *, min_score: float = 1.0, limit: int = 10_000
) -> list[Demonstration]:
    """Return the rows of files, or of the hub, that are verified, as conversations without tools.

    The assistant's message is the reasoning in ``<think>`` and the answer after it. Of earlier messages
    (``prev_messages``) those of a user and of an assistant stand before the question.

    Args:
        files: Files of rows (``.jsonl``, ``.json``, ``.csv``, ``.tsv``, ``.parquet``), or `GENERAL` with a revision
            (``general-thought@COMMIT``) for the hub.
        min_score: Minimum of ``verifier_score``; rows without one are left out, unless it is 0.
        limit: Maximum number of demonstrations of each file.

    Raises:
        OptionError: A file cannot be read, lacks a column, or has no row that is verified.
    """
    found = []
    for file in files:
        taken = list(itertools.islice(_verified(file, min_score), limit))
        if not taken:
            raise OptionError(
                f"{file}: expected a row with an answer and a `verifier_score` of at least {min_score}, found none. "
                "Give a lower minimum (0 for all rows), or other rows."
            )
        found += taken
    return found


def _verified(file: str | Path, min_score: float) -> Iterator[Demonstration]:
    name, _, revision = str(file).partition("@")
    given = None if name == GENERAL else {"train": Path(file)}
    origin, rows = split_rows(DATASETS[GENERAL], given, revision or None if name == GENERAL else None)["train"]
    for number, row in enumerate(rows, 1):
        if missing := [name for name in _NEEDED if name not in row]:
            raise OptionError(
                f"{origin}, row {number}: expected the columns of {GENERAL} ({', '.join(_NEEDED)}, and if there are "
                f"any model_reasoning and prev_messages), found no {missing[0]!r} among {', '.join(map(str, row))}."
            )
        question, answer = (_text(row.get(name)) for name in ("question", "model_answer"))
        if question and answer and _score(row["verifier_score"], origin, number) >= min_score:
            reasoning = _text(row.get("model_reasoning"))
            said = f"<think>\n{reasoning}\n</think>\n\n{answer}" if reasoning else answer
            asked = {"role": "user", "content": question}
            yield Demonstration((*_before(row), asked, {"role": "assistant", "content": said}), ())


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _score(value: Any, origin: str, number: int) -> float:
    """Return a verifier's score; 0 for none."""
    try:
        return 0.0 if value in (None, "") else float(value)
    except (TypeError, ValueError) as error:
        raise OptionError(f"{origin}, row {number}: expected a number as `verifier_score`, found {value!r}.") from error


def _before(row: Row) -> Iterator[Mapping[str, Any]]:
    """Yield the earlier messages of a row: a list of messages, or JSON of one, with role and content."""
    earlier = row.get("prev_messages")
    if isinstance(earlier, str):
        try:
            earlier = json.loads(earlier) if earlier.strip() else None
        except ValueError:
            earlier = None
    for message in earlier if isinstance(earlier, list) else ():
        if isinstance(message, Mapping):
            role, content = message.get("role"), _text(message.get("content"))
            if role in ("user", "assistant") and content:
                yield {"role": role, "content": content}
