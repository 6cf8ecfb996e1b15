"""The public MASBench rows as a task source: from the hub, or from local files of the same columns.

A row has ``prompt_json`` (a list of chat messages), ``reward_model_json`` (whose ``ground_truth`` holds the answers,
several of them joined by ``<<horizon>>``), ``extra_info_json``, ``axis`` and ``value``. Nothing of the set is shipped.
Its graphs are not published, so only the answers of its problems are known, and its prompts are asked as they stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.envs.sources.masbench.sets import check_axis
from toolorchestra.envs.sources.masbench.world import NAME, MASBenchWorld
from toolorchestra.envs.sources.public import PublicSet, Row, _file_rows, _hub_rows
from toolorchestra.envs.sources.questions import QuestionSource, make_question
from toolorchestra.toolscale.domain import SPLITS
from toolorchestra.toolscale.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.task import Task

HUB = "Salesforce/MASBench"
COLUMNS = ("prompt_json", "reward_model_json", "extra_info_json", "axis", "value")
_SEPARATOR = "<<horizon>>"


def load_masbench(
    axis: str | None = None, files: str | Path | Mapping[str, str | Path] | None = None, *, limit: int | None = None
) -> QuestionSource:
    """Return the public MASBench as a task source.

    Args:
        axis: One of the five axes; None for all that the files hold, or for the hub's training set of all axes.
        files: None: the hub is asked (needs the extra ``train``). A local file (``.jsonl``, ``.json``, ``.csv``,
            ``.tsv`` or ``.parquet``) is the split ``test``; a mapping says which file is which.
        limit: Maximum number of problems of each split; None for all.

    Raises:
        UnknownNameError: There is no such axis or split.
        OptionError: A file cannot be read, lacks a column, or has no problem of the axis.
    """
    if axis is not None:
        check_axis(axis)
    if files is None:
        splits = {"train": "train", "test": "test"} if axis else {"train": "train"}
        known = PublicSet(HUB, axis or "combine", splits, lambda row: None, "math")
        read = {split: _hub_rows(known, split) for split in splits}
    else:
        named = files if isinstance(files, Mapping) else {"test": files}
        if wrong := [split for split in named if split not in SPLITS]:
            raise UnknownNameError("split", wrong[0], SPLITS)
        read = {split: _file_rows(Path(file)) for split, file in named.items()}
    tasks = [task for split, rows in read.items() for task in _tasks(rows, split, axis, limit)]
    return QuestionSource(f"MASBench{axis.title() if axis else ''}", MASBenchWorld(), tasks)


def _tasks(rows: Iterable[Row], split: str, axis: str | None, limit: int | None) -> Iterator[Task]:
    count = 0
    for number, row in enumerate(rows):
        if limit is not None and count >= limit:
            return
        try:
            task = _task(row, split, number)
        except (KeyError, TypeError, ValueError, IndexError, msgspec.MsgspecError) as error:
            raise OptionError(
                f"{HUB}, {split}, row {number + 1}: expected the columns {', '.join(COLUMNS)}, found "
                f"{', '.join(map(str, row))} ({type(error).__name__}: {error})."
            ) from None
        if axis is None or task.bindings["axis"] == axis:
            count += 1
            yield task


def _task(row: Row, split: str, number: int) -> Task:
    axis, value = str(row["axis"]).strip().lower(), str(row.get("value") or "").strip()  # "2", or "2,4,6" of a mixture
    asked = "\n\n".join(str(message["content"]).strip() for message in _decoded(row["prompt_json"]))
    answers = [one.strip() for one in str(_decoded(row["reward_model_json"])["ground_truth"]).split(_SEPARATOR)]
    if not asked or not all(answers):
        raise ValueError("a prompt or an answer is empty")
    digits = value.split(",")[-1].strip()
    task = make_question(
        id=f"masbench-public/{axis}{value.replace(',', '_').replace(' ', '')}/{split}-{number:05d}",
        domain=NAME,
        intent=f"{axis}{value}",
        split=split,
        difficulty=min(5, max(1, -(-int(digits) // 2))) if digits.isdecimal() else 3,
        question=asked,
        answers=answers[:1],
        subject="math",
        axis=axis,
        value=value,
        extra=_decoded(row.get("extra_info_json") or "{}"),
    )
    if len(answers) == 1:
        return task
    listed = "\n".join(f"Problem {place}: {answer}" for place, answer in enumerate(answers, 1))
    return msgspec.structs.replace(task, communicate=tuple((answer,) for answer in answers), answer=listed)


def _decoded(text: Any) -> Any:
    """Return what JSON holds; what is decoded already is returned as it is."""
    return msgspec.json.decode(text) if isinstance(text, str | bytes) else text
