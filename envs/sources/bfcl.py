"""BFCL v4's multi-turn tasks as a task source, read from the wheel of the package `bfcl-eval`.

The wheel is not installed, as it needs other versions of libraries than this one. Its data are read, and its classes,
which make up the state, are imported from it. What runs calls there gives text to `eval`, and is not used: reference
calls are read by `ast`, and a policy's are JSON. Not covered: BFCL's other categories.
"""

from __future__ import annotations

import ast
import datetime
import functools
import importlib
import inspect
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.envs.sources.bfcl_world import BfclTool, BfclWorld
from toolorchestra.envs.task_source import TaskSource
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.domain import SPLITS
from toolorchestra.toolscale.tasks.task import Call, Task

DOWNLOAD = "pip download --no-deps bfcl-eval"
"""The command that downloads the wheel."""
_ROWS = "BFCL_v4_multi_turn_base.json"


class _Row(msgspec.Struct):
    id: str
    question: list[list[dict[str, str]]]
    initial_config: msgspec.Raw
    involved_classes: list[str]
    excluded_function: list[str] = []


class _Datetime(datetime.datetime):
    """Stands in for the clock in a module of BFCL's: the day on which the wheel was made is always today."""

    @classmethod
    def today(cls) -> _Datetime:
        return cls(2026, 3, 23)


class BfclSource(TaskSource):
    """The 200 tasks of BFCL's category ``multi_turn_base``, each in a world of its own; `load_bfcl` makes one.

    All are of the split ``test``. The difficulty, 1 to 5, is the number of the user's requests.
    """

    name = "bfcl"
    default_answer = "text"

    def __init__(self, path: str) -> None:
        root = zipfile.Path(path) if zipfile.is_zipfile(path) else Path(path)
        data = root / "bfcl_eval" / "data"
        if not (data / _ROWS).is_file():
            raise OptionError(f"{path}: expected the wheel of bfcl-eval, or its folder. Get it by `{DOWNLOAD}`.")
        self._path = path
        rows = _lines(data / _ROWS, _Row)
        classes, documents = _classes(path, sorted({owner for row in rows for owner in row.involved_classes}))
        tools = [
            BfclTool(owner, found)
            for owner in classes
            for found in _lines(data / "multi_turn_func_doc" / documents[owner], dict[str, Any])
        ]
        methods = {tool.name: getattr(classes[tool.owner], tool.name) for tool in tools}
        references = _lines(data / "possible_answer" / _ROWS, dict[str, Any])
        self._worlds: dict[str, BfclWorld] = {}
        for row, reference in zip(rows, references, strict=True):
            task = _task(row, reference["ground_truth"], methods)
            own = {
                tool.name: tool
                for tool in tools
                if tool.owner in row.involved_classes and tool.name not in row.excluded_function
            }
            requests = [messages[0]["content"] for messages in row.question]
            objects = functools.partial(_objects, [*map(classes.get, row.involved_classes)], bytes(row.initial_config))
            self._worlds[task.id] = BfclWorld(self, task, requests, own, objects)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle it by where it was read from."""
        return load_bfcl, (self._path,)

    def tasks(self, split: str) -> list[Task]:
        """Return the tasks of a split, in BFCL's order."""
        if split != "all" and split not in SPLITS:
            raise UnknownNameError("split", split, ("all", *SPLITS))
        return [world.task for world in self._worlds.values() if split in ("all", world.task.split)]

    def world(self, task: Task) -> BfclWorld:
        """Return the task's own world."""
        return self._worlds[task.id]


def load_bfcl(files: str | Path) -> BfclSource:
    """Return BFCL's multi-turn tasks; each wheel is read once per process.

    Args:
        files: The wheel of `bfcl-eval`, or the folder into which it was unpacked.

    Raises:
        OptionError: It is none, or a class cannot be imported.
    """
    return _loaded(str(Path(files).resolve()))


@functools.cache
def _loaded(path: str) -> BfclSource:
    return BfclSource(path)


def _classes(path: str, names: Sequence[str]) -> tuple[dict[str, Any], Mapping[str, str]]:
    """Return BFCL's classes by name, and the files of their documentation."""
    sys.path.insert(0, path)
    try:
        listed = importlib.import_module("bfcl_eval.constants.executable_backend_config")
        modules = {name: importlib.import_module(listed.CLASS_FILE_PATH_MAPPING[name]) for name in names}
    except ImportError as error:
        raise OptionError(f"{path}: BFCL's classes cannot be imported: {error}. They need `mpmath`.") from None
    finally:
        sys.path.remove(path)
    vars(modules["TravelAPI"])["datetime"] = _Datetime
    return {name: getattr(found, name) for name, found in modules.items()}, listed.MULTI_TURN_FUNC_DOC_FILE_MAPPING


def _lines(file: Path | zipfile.Path, kind: type[Any]) -> list[Any]:
    return msgspec.json.Decoder(kind).decode_lines(file.read_bytes())


def _objects(classes: list[Any], scenario: bytes) -> dict[str, Any]:
    """Return new objects of classes in the state of a scenario."""
    states, made = msgspec.json.decode(scenario), {one.__name__: one() for one in classes}
    for name, one in made.items():
        if hasattr(one, "_load_scenario"):  # one class has no state
            one._load_scenario(states.get(name, {}))
    return made


def _task(row: _Row, reference: Sequence[Sequence[str]], methods: Mapping[str, Any]) -> Task:
    requests = row.question
    return Task(
        id=f"bfcl/{row.id}",
        domain=f"bfcl/{row.id}",
        intent="+".join(sorted(row.involved_classes)),
        split="test",
        difficulty=min(len(requests), 5),
        instruction=requests[0][0]["content"],
        reference_calls=tuple(_call(text, number, methods) for number, calls in enumerate(reference) for text in calls),
        answer="Done.",
    )


def _call(text: str, stage: int, methods: Mapping[str, Any]) -> Call:
    """Return a call that is written in Python, all of its arguments being literals."""
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call), text
    assert isinstance(call.func, ast.Name), text
    name = call.func.id
    _, *names = inspect.signature(methods[name]).parameters
    given = dict(zip(names, call.args, strict=False)) | {str(one.arg): one.value for one in call.keywords}
    return Call(name, {one: ast.literal_eval(value) for one, value in given.items()}, stage)
