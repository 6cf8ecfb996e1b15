r"""Public data sets as task sources: from where they are published, or from local files of the same columns.

`load_public` knows the sets that the papers train and evaluate on (`DATASETS`, read from ``public.yaml``). A row
becomes a question with the answers that are accepted; where a set comes with paragraphs, they are searched with the
tool ``local_search``; where it comes with a decomposition, its parts are known. Nothing of these sets is shipped, and
their licences are their authors'. Not covered: questions with images, and judging by a model: an answer is right by the
rules of `toolorchestra.toolscale.answers.answers`, or, of LiveCodeBench, by its tests.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.envs.sources.bfcl import DOWNLOAD, load_bfcl
from toolorchestra.envs.sources.code_questions import CodeWorld, ProgramTests
from toolorchestra.envs.sources.public_rows import Paragraph, PublicSet, read_row
from toolorchestra.envs.sources.questions import QuestionSource, QuestionWorld, make_question
from toolorchestra.envs.sources.row_files import FILE_KINDS, Files, Row, split_rows, tasks_of
from toolorchestra.envs.task_source import TaskSource
from toolorchestra.envs.tools.search.search import BM25Index, Index, LocalSearch, Passage
from toolorchestra.envs.tools.search.search_vectors import model_index
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.common.yaml_reader import read_yaml
from toolorchestra.toolscale.domain import SPLITS
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tools.tool import Tool

RULES = "Give your final answer as \\boxed{…}, without explanation inside."

DATASETS: dict[str, PublicSet] = msgspec.convert(
    read_yaml(Path(__file__).with_name("public.yaml")), dict[str, PublicSet], strict=False
)
"""The sets known, by name."""
SOURCES = (*DATASETS, "bfcl")
"""Names of public sets of questions, and of BFCL's tasks."""


def load_public(
    name: str,
    files: Files = None,
    *,
    limit: int | None = None,
    revision: str | None = None,
    held_out: float = 0.0,
    tools: Sequence[Tool] = (),
    index: Callable[[Sequence[Passage]], Index] = BM25Index,
) -> QuestionSource:
    """Return a public data set as a task source.

    Args:
        name: One of `DATASETS`.
        files: None for where the set is published (needs the extra ``train``). A local file (``.jsonl``, ``.json``,
            ``.csv``, ``.tsv`` or ``.parquet``, with the set's columns) is the split ``test``; a mapping says which file
            is which, and so does a folder with files that are named as the splits are (``train.jsonl``).
        limit: Maximum number of questions of each split; None for all.
        revision: Commit, tag or branch that is read; None for the commit in `DATASETS`, which two sets have not: theirs
            has to be given.
        held_out: For a set with one split: the share of its questions that are the split ``test``, all others being
            ``train``. The id of a question decides where it goes.
        tools: Tools that are available beside the search in the set's paragraphs.
        index: Makes the index of the paragraphs.

    Raises:
        UnknownNameError: The set is not known.
        OptionError: The set cannot be read where it is published; a file cannot be read, lacks a column, or has no
            question; or `held_out` is no share, or the set has a split ``test`` beside another.
    """
    if name not in DATASETS:
        raise UnknownNameError("public data set", name, DATASETS)
    if not 0.0 <= held_out < 1.0:
        raise OptionError(f"held_out: expected a share of at least 0 and below 1, got {held_out}.")
    known = DATASETS[name]
    passages: dict[Paragraph, str] = {}
    tests: dict[str, ProgramTests] = {}
    questions: list[Task] = []
    found = split_rows(known, _by_split(files), revision)
    if held_out and len(found) > 1:
        raise OptionError(f"held_out: expected a set or files of one split, {name} has {', '.join(found)}.")
    for split, (origin, rows) in found.items():
        make = partial(_question, name, split, held_out, set(), passages, tests)
        questions += tasks_of(rows, make, limit, origin, f"of {name} ({', '.join(known.needed)})")
    if passages:
        texts = [Passage(passage_id, title, text) for (title, text), passage_id in passages.items()]
        tools = [LocalSearch(index(texts), description="Search the set's paragraphs."), *tools]
    world = CodeWorld(name, tests, tools) if known.tests else QuestionWorld(name, RULES, tools)
    return QuestionSource(name, world, questions)


class PublicOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The options of `load_public` that a command line can give."""

    files: str | dict[str, str] | None = None
    limit: int | None = None
    revision: str | None = None
    held_out: float = 0.0
    embeddings: str | None = None


def public_source(name: str, options: Mapping[str, Any]) -> TaskSource:
    """Return `load_public` (`load_bfcl` for ``bfcl``) with options by name, as a command line gives them.

    It is the same once per process.

    Raises:
        OptionError: There is no such option, or its value is of another type.
    """
    try:
        given = msgspec.convert(dict(options), PublicOptions)
    except msgspec.ValidationError as error:
        raise OptionError(
            f"The source {name!r} cannot be loaded with {dict(options)}: {error}. "
            f"It takes {', '.join(PublicOptions.__struct_fields__)}."
        ) from None
    if name == "bfcl":
        if given != PublicOptions(files=given.files) or not isinstance(given.files, str):
            raise OptionError(f"The source 'bfcl' takes the option `files` alone: the wheel that `{DOWNLOAD}` gets.")
        return load_bfcl(given.files)
    return _loaded(name, msgspec.json.encode(given))


@functools.lru_cache(maxsize=8)
def _loaded(name: str, options: bytes) -> QuestionSource:
    given = msgspec.json.decode(options, type=PublicOptions)
    index = BM25Index if given.embeddings is None else partial(model_index, model=given.embeddings)
    return load_public(
        name, given.files, limit=given.limit, revision=given.revision, held_out=given.held_out, index=index
    )


def _by_split(files: Files) -> Files:
    """Return the files of a folder by their split; anything else as it is."""
    if files is None or isinstance(files, Mapping) or not Path(files).is_dir():
        return files
    found: dict[str, str | Path] = {
        file.stem: file for file in sorted(Path(files).iterdir()) if file.stem in SPLITS and file.suffix in FILE_KINDS
    }
    if not found:
        raise OptionError(f"{files}: expected a folder with files named {', '.join(SPLITS)}, e.g. train.jsonl.")
    return found


def _question(
    name: str,
    split: str,
    held_out: float,
    seen: set[str],
    passages: dict[Paragraph, str],
    tests: dict[str, ProgramTests],
    row: Row,
    number: int,
) -> Task | None:
    """Return the question of a row unless it was `seen` before, and note its paragraphs and tests."""
    known = DATASETS[name]
    read = read_row(known, row)
    if read is None or read.question in seen:
        return None
    seen.add(read.question)
    identity = read.id or str(number)
    if held_out:
        split = "test" if zlib.crc32(f"{name}/{identity}".encode()) < held_out * 2**32 else "train"
    task_id = f"{name}/{split}/{identity}"
    if task_id in seen:  # some sets have an id twice
        task_id = f"{task_id}-{number}"
    seen.add(task_id)
    ids = [passages.setdefault(paragraph, f"p{len(passages) + 1:06d}") for paragraph in read.paragraphs]
    if read.tests is not None:
        tests[task_id] = read.tests
        return Task(
            id=task_id,
            domain=name,
            intent=read.topic,
            split=split,
            difficulty=read.level,
            instruction=read.question,
            reference_calls=(),
            answer="",
            bindings={"subject": known.subject},
        )
    return make_question(
        id=task_id,
        domain=name,
        intent=read.topic,
        split=split,
        difficulty=read.level,
        question=read.question,
        answers=read.answers,
        parts=[
            msgspec.structs.replace(part, support=tuple(ids[int(at)] for at in part.support)) for part in read.parts
        ],
        subject=known.subject,
    )
