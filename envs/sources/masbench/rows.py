"""The public MASBench rows as a task source: from the hub, or from local files of the same columns.

A row has ``prompt_json`` (a list of chat messages), ``reward_model_json`` (whose ``ground_truth`` holds the answers,
several of them joined by ``<<horizon>>``), ``extra_info_json``, ``axis`` and ``value``. Nothing of the set is shipped.
Its graphs are not published, so only the answers of its problems are known, and its prompts are asked as they stand.
"""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from toolorchestra.envs.sources.masbench.sets import check_axis
from toolorchestra.envs.sources.masbench.world import NAME, MASBenchWorld, with_answers
from toolorchestra.envs.sources.questions import QuestionSource, make_question
from toolorchestra.envs.sources.row_files import Files, HubSet, Row, split_rows, tasks_of
from toolorchestra.toolscale.tasks.task import Task

HUB = "Salesforce/MASBench"
REVISION = "e85fc3e60107c87b690f9cdc478bad375a243ed0"
"""The commit of it that is read."""
COLUMNS = ("prompt_json", "reward_model_json", "extra_info_json", "axis", "value")
_SEPARATOR = "<<horizon>>"


def load_masbench(
    axis: str | None = None, files: Files = None, *, limit: int | None = None, revision: str | None = None
) -> QuestionSource:
    """Return the public MASBench as a task source.

    Args:
        axis: One of the five axes; None for all that the files hold, or for the hub's training set of all axes.
        files: None for the hub, or local files, as for `toolorchestra.envs.sources.public.load_public`.
        limit: Maximum number of problems of each split; None for all.
        revision: Commit, tag or branch on the hub; None for the one that was read when this was written.

    Raises:
        UnknownNameError: There is no such axis or split.
        OptionError: A file cannot be read, lacks a column, or has no problem of the axis.
    """
    if axis is not None:
        check_axis(axis)
    splits = {"train": "train", "test": "test"} if axis else {"train": "train"}
    known = HubSet(hub=HUB, config=axis or "combine", splits=splits, revision=REVISION)
    questions: list[Task] = []
    for split, (_, rows) in split_rows(known, files, revision).items():
        make = functools.partial(_task, axis, split)
        questions += tasks_of(rows, make, limit, f"{HUB}, {split}", ", ".join(COLUMNS))
    return QuestionSource(f"MASBench{axis.title() if axis else ''}", MASBenchWorld(), questions)


def _task(wanted: str | None, split: str, row: Row, number: int) -> Task | None:
    """Return a row as a task, or None if it is of another axis than the one wanted."""
    axis, value = str(row["axis"]).strip().lower(), str(row.get("value") or "").strip()  # "2", or "2,4,6" of a mixture
    question = "\n\n".join(str(message["content"]).strip() for message in _decoded(row["prompt_json"]))
    answers = [one.strip() for one in str(_decoded(row["reward_model_json"])["ground_truth"]).split(_SEPARATOR)]
    if not question or not all(answers):
        raise ValueError("a prompt or an answer is empty")
    if wanted not in (None, axis):
        return None
    digits = value.split(",")[-1].strip()
    task = make_question(
        id=f"masbench-public/{axis}{value.replace(',', '_').replace(' ', '')}/{split}-{number:05d}",
        domain=NAME,
        intent=f"{axis}{value}",
        split=split,
        difficulty=min(5, max(1, -(-int(digits) // 2))) if digits.isdecimal() else 3,
        question=question,
        answers=answers[:1],
        subject="math",
        axis=axis,
        value=value,
        extra=_decoded(row.get("extra_info_json") or "{}"),
    )
    return with_answers(task, answers)


def _decoded(text: Any) -> Any:
    """Return what JSON holds; what is decoded already is returned as it is."""
    return msgspec.json.decode(text) if isinstance(text, str | bytes) else text
