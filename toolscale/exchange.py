"""Tasks in the formats of others: written for them, and read from them.

Four formats: ``tau2``, the JSON of τ²-bench, in whose shape ToolScale was published; ``jsonl``, one `Task` a line;
``parquet``, one table; ``datasets``, a folder for Hugging Face `datasets` with a card and one Parquet file a split.
Rows of either shape, τ²-bench's or our own, are read from any of the containers.

Whatever is read is tried against a domain before it is returned: its calls must be ones that the domain's tools take,
its reference trajectory must run and pass, and doing nothing must not. All that is wrong is reported at once, by task.

Arguments of calls stand as JSON text in Parquet, because a column of objects would give every call the arguments of all
others, as nulls. Files made that way are read, too: such nulls are dropped.
"""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from toolorchestra.toolscale.domain import SPLITS, Domain
from toolorchestra.toolscale.errors import OptionError, TaskError, UnknownNameError, unknown_name
from toolorchestra.toolscale.intents import TEST_SHARE, difficulty
from toolorchestra.toolscale.mentions import mentions, tokens
from toolorchestra.toolscale.session import Session
from toolorchestra.toolscale.task import Call, Task, write_tasks
from toolorchestra.toolscale.tool import ArgumentError, Status

Format = Literal["tau2", "jsonl", "parquet", "datasets"]

OURS = "toolorchestra"
"""Key of a τ²-bench task under which stands what that format has no place for; others may ignore it."""

_USER = "Ask for exactly this. You know nothing beyond it."
_SUFFIXES: dict[str, Format] = {".json": "tau2", ".jsonl": "jsonl", ".parquet": "parquet", "": "datasets"}
_CHECKED = {"DB", "COMMUNICATE", "ACTION"}
_MAX_REPORTED = 200
_SCALARS = ("id", "domain", "intent", "split", "instruction", "answer", "parent", "operator")
_COLUMNS = (*_SCALARS, "difficulty", "branches", "refuses", "reference_calls", "communicate")


def export_tasks(domain: Domain, tasks: Sequence[Task], path: Path, format: Format | None = None) -> None:
    """Write tasks of a domain.

    Args:
        domain: Their domain.
        tasks: What to write.
        path: File, or folder for ``datasets``; made if it is not there.
        format: By default from the path's ending: .json is ``tau2``, none ``datasets``.

    Raises:
        OptionError: The format is none, there is no task, or Parquet cannot be written here.
    """
    if not tasks:
        raise OptionError("There is no task to export.")
    writers: dict[Format, Callable[[Domain, Sequence[Task], Path], None]] = {
        "tau2": _write_tau2,
        "jsonl": lambda _, tasks, path: write_tasks(path, tasks),
        "parquet": lambda _, tasks, path: _write_parquet(path, tasks),
        "datasets": _write_datasets,
    }
    write = writers[_format(path, format)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write(domain, tasks, path)


def import_tasks(path: Path, domain: Domain, format: Format | None = None) -> list[Task]:
    """Return the tasks of a file, or of a folder of `datasets`, tried against a domain.

    Args:
        path: What to read.
        domain: Where the tasks take place.
        format: By default from the path's ending.

    Raises:
        OptionError: Nothing can be read there.
        TaskError: Names every task that does not fit the domain, and why.
    """
    kind = _format(path, format)
    found: dict[str, Task] = {}
    wrong: dict[str, list[str]] = {}
    session = domain.session()
    count = 0
    for source in _rows(path, kind):
        count += 1
        task_id = str(source.row.get("id") or f"{source.where} (no id)")
        reading = _Reading(domain, source, task_id)
        task = reading.task()
        if task_id in found or task_id in wrong:
            reading.wrong.append("the id stands in the file before")
        if task is not None and not reading.wrong:
            reading.wrong += _trial(domain, task, session)
        if reading.wrong:
            wrong.setdefault(task_id, []).extend(reading.wrong)
        elif task is not None:
            found[task_id] = task
    session.close()
    if wrong:
        lines = [f"{task_id}: {reason}" for task_id, reasons in wrong.items() for reason in reasons]
        more = f"\n… and {len(lines) - _MAX_REPORTED} more" if len(lines) > _MAX_REPORTED else ""
        raise TaskError(
            f"{len(wrong)} of {count} tasks of {path} do not fit the domain {domain.name}:\n"
            + "\n".join(lines[:_MAX_REPORTED])
            + more
        )
    if not found:
        raise OptionError(f"{path} holds no task.")
    return list(found.values())


def _format(path: Path, format: Format | None) -> Format:
    if format is not None:
        if format not in get_args(Format):
            raise UnknownNameError("format", format, get_args(Format))
        return format
    if path.suffix not in _SUFFIXES:
        raise OptionError(
            f"The format of {path} is unknown: expected {', '.join(filter(None, _SUFFIXES))} or a folder."
        )
    return _SUFFIXES[path.suffix]


# ----------------------------------------------------------------------------------------------------- writing


def _write_tau2(domain: Domain, tasks: Sequence[Task], path: Path) -> None:
    text = msgspec.json.format(msgspec.json.encode([tau2_row(domain, task) for task in tasks]), indent=1)
    path.write_bytes(text + b"\n")


def tau2_row(domain: Domain, task: Task) -> dict[str, Any]:
    """Return a task in τ²-bench's shape; what has no place there stands under `OURS`."""
    intent = domain.spec.intents.get(task.intent)
    whole = msgspec.to_builtins(task)
    ours = {key: value for key, value in whole.items() if key not in ("id", "instruction", "reference_calls")}
    return {
        "id": task.id,
        "description": {
            "purpose": intent.description if intent else f"A task of the kind {task.intent}.",
            "relevant_policies": None,
            "notes": None,
        },
        "user_scenario": {
            "persona": None,
            "instructions": {
                "task_instructions": _USER,
                "domain": task.domain,
                "reason_for_call": task.instruction,
                "known_info": None,
                "unknown_info": None,
            },
        },
        "initial_state": None,
        "evaluation_criteria": {
            "actions": [
                {
                    "action_id": f"{call.name}_{number}",
                    "requestor": "assistant",
                    "name": call.name,
                    "arguments": call.arguments,
                    "info": None,
                }
                for number, call in enumerate(task.reference_calls)
            ],
            "communicate_info": [options[0] for options in task.communicate],
            "nl_assertions": None,
            "reward_basis": ["DB", "COMMUNICATE"],
        },
        OURS: ours | {"stages": [call.stage for call in task.reference_calls]},
    }


def _pyarrow() -> tuple[ModuleType, ModuleType]:
    """Return pyarrow and its module for Parquet, which the extra ``train`` brings."""
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        message = "Parquet needs pyarrow, which is not installed: pip install 'toolorchestra[train]'."
        raise OptionError(message) from None


def _write_parquet(path: Path, tasks: Iterable[Task]) -> None:
    arrow, parquet = _pyarrow()
    call = arrow.struct([("name", arrow.string()), ("arguments", arrow.string()), ("stage", arrow.int64())])
    schema = arrow.schema([
        *((name, arrow.string()) for name in _SCALARS),
        ("difficulty", arrow.int64()),
        ("branches", arrow.bool_()),
        ("refuses", arrow.bool_()),
        ("reference_calls", arrow.list_(call)),
        ("communicate", arrow.list_(arrow.list_(arrow.string()))),
        ("more", arrow.string()),
    ])  # fmt: skip
    parquet.write_table(arrow.Table.from_pylist([_flat(task) for task in tasks], schema=schema), path)


def _flat(task: Task) -> dict[str, Any]:
    """Return a task as a row of Parquet: what may have any shape is JSON text."""
    row = {name: getattr(task, name) for name in _COLUMNS}
    row["reference_calls"] = [
        {"name": call.name, "arguments": msgspec.json.encode(call.arguments).decode(), "stage": call.stage}
        for call in task.reference_calls
    ]
    whole = msgspec.to_builtins(task)
    row["more"] = msgspec.json.encode({key: value for key, value in whole.items() if key not in _COLUMNS}).decode()
    return row


def _write_datasets(domain: Domain, tasks: Sequence[Task], path: Path) -> None:
    _pyarrow()
    splits = {split: [task for task in tasks if task.split == split] for split in SPLITS}
    splits = {split: chosen for split, chosen in splits.items() if chosen}
    (path / "data").mkdir(parents=True, exist_ok=True)
    for split, chosen in splits.items():
        _write_parquet(path / "data" / f"{split}.parquet", chosen)
    (path / "README.md").write_text(_card(domain, splits), encoding="utf-8")


_CARD = """\
---
language:
- en
license: {license}
pretty_name: {title}
size_categories:
- {size}
task_categories:
- text-generation
tags:
- tool-use
- agents
- orchestration
- synthetic
configs:
- config_name: default
  data_files:
{files}
dataset_info:
  features:
{features}
---

# {heading}

{count:,} verifiable tasks in the domain `{name}`, made with
[ToolOrchestra](https://github.com/toolorchestra/toolorchestra). Today is {today} in every one of them.

{description}

| split | tasks | what it holds |
|---|---|---|
{table}

Each row is one task: an `instruction`, the `reference_calls` that lead to the right state (`arguments` is JSON text;
calls of one `stage` do not need each other's results), what must be told in `communicate` (of each list, any one
phrase), and an `answer` that tells it. `difficulty` is 1 to 5; `branches` says that what is right depends on what a
look-up returns, and `refuses` that the right answer is to refuse. `more` holds the rest as JSON text.

```python
from datasets import load_dataset

tasks = load_dataset("PATH/OF/THIS/FOLDER")
```

Played in their world, they are checked: `toolorchestra import FOLDER DOMAIN --out tasks.jsonl`.
"""

_HOLDS = {
    "train": "for training",
    "test": "the same kinds of requests about other entries",
    "test_intents": "kinds of requests that the training split does not have",
}


def _card(domain: Domain, splits: Mapping[str, Sequence[Task]]) -> str:
    count = sum(map(len, splits.values()))
    bounds = (("n<1K", 1_000), ("1K<n<10K", 10_000), ("10K<n<100K", 100_000), ("100K<n<1M", 1_000_000))
    strings = [f"  - name: {name}\n    dtype: string" for name in _SCALARS]
    numbers = [f"  - name: {name}\n    dtype: {kind}" for name, kind in _KINDS.items()]
    call = [f"    - name: {name}\n      dtype: {kind}" for name, kind in _CALL.items()]
    nested = ["  - name: reference_calls\n    list:", *call, "  - name: communicate\n    list:\n      list: string"]
    return _CARD.format(
        license="apache-2.0",
        title=msgspec.json.encode(f"{domain.spec.title}: tasks").decode(),
        size=next((name for name, most in bounds if count < most), "n>1M"),
        files="\n".join(f"  - split: {split}\n    path: data/{split}.parquet" for split in splits),
        features="\n".join([*strings, *numbers, *nested, "  - name: more\n    dtype: string"]),
        heading=" ".join(domain.spec.title.split()),
        count=count,
        name=domain.name,
        today=domain.spec.today,
        description=domain.spec.description.strip(),
        table="\n".join(f"| `{split}` | {len(tasks):,} | {_HOLDS[split]} |" for split, tasks in splits.items()),
    )


_KINDS = {"difficulty": "int64", "branches": "bool", "refuses": "bool"}
_CALL = {"name": "string", "arguments": "string", "stage": "int64"}


# ----------------------------------------------------------------------------------------------------- reading


class _Source(NamedTuple):
    """A row that was read, the split that its file is named after, and where it stands."""

    row: Mapping[str, Any]
    split: str | None
    where: str


def _rows(path: Path, kind: Format) -> Iterator[_Source]:
    try:
        if kind == "datasets":
            files = sorted(f for f in path.rglob("*") if f.suffix in (".parquet", ".jsonl") and f.is_file())
            if not files:
                raise OptionError(f"Expected a folder with .parquet or .jsonl files; {path} has none.")
        else:
            files = [path]
        for file in files:
            read = _read_parquet if file.suffix == ".parquet" or kind == "parquet" else _read_json
            for number, row in enumerate(read(file), 1):
                if not isinstance(row, Mapping):
                    raise OptionError(f"{file}: expected an object for each task, found {type(row).__name__}.")
                name = re.sub(r"-\d{5}-of-\d{5}$", "", file.stem)
                yield _Source(row, name if kind == "datasets" and name in SPLITS else None, f"{file.name}:{number}")
    except OSError as error:
        raise OptionError(f"{path} cannot be read: {error.strerror or error}.") from None


def _read_json(file: Path) -> Iterable[Any]:
    data = file.read_bytes()
    try:
        if file.suffix == ".jsonl":
            return [msgspec.json.decode(line) for line in data.splitlines() if line.strip()]
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"{file}: expected JSON: {error}.") from None
    if isinstance(found, dict) and isinstance(found.get("tasks"), list):
        found = found["tasks"]
    if not isinstance(found, list):
        raise OptionError(f"{file}: expected a list of tasks, found {type(found).__name__}.")
    return found


def _read_parquet(file: Path) -> Iterable[Any]:
    arrow, parquet = _pyarrow()
    try:
        rows: list[Any] = parquet.read_table(file).to_pylist()
    except arrow.ArrowInvalid as error:
        raise OptionError(f"{file}: expected Parquet: {error}.") from None
    return rows


class _Reading:
    """Makes a task of a row of either shape, and notes all that is wrong with it."""

    def __init__(self, domain: Domain, source: _Source, task_id: str) -> None:
        self.domain = domain
        self.row = source.row
        self.split = source.split
        self.id = task_id
        self.wrong: list[str] = []

    def task(self) -> Task | None:
        """Return the task, or None if it cannot even be made."""
        try:
            return self._fitted(self._tau2() if "evaluation_criteria" in self.row else self._own())
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            self.wrong.append(f"expected a task: {error}")
        return None

    def _own(self) -> Task:
        row = dict(self.row)
        more = row.pop("more", None)
        if isinstance(more, str):
            row |= msgspec.json.decode(more, type=dict[str, Any])
        row = {key: value for key, value in row.items() if value is not None}
        for call in row.get("reference_calls") or ():
            if isinstance(call, dict) and isinstance(call.get("arguments"), str):
                call["arguments"] = msgspec.json.decode(call["arguments"])
        task = msgspec.convert(row, Task)
        if task.domain != self.domain.name:
            self.wrong.append(f"it is a task of the domain {task.domain!r}")
        return task

    def _tau2(self) -> Task:
        row = msgspec.convert(self.row, _Tau2)
        criteria = row.evaluation_criteria
        ours = row.toolorchestra or {}
        if _filled(row.initial_state):
            self.wrong.append("it starts from an initial_state of its own, which a domain does not have")
        basis = criteria.reward_basis or []
        if other := [name for name in basis if name not in _CHECKED]:
            self.wrong.append(f"it is judged by {', '.join(other)}, which only τ²-bench can")
        for action in criteria.actions or ():
            if action.requestor not in (None, "assistant"):
                self.wrong.append(f"the {action.requestor} calls {action.name}; only the orchestrator has tools")
        calls = [Call(action.name, _decoded(action.arguments)) for action in criteria.actions or ()]
        instruction = _instruction(row.user_scenario.instructions)
        told = tuple((text,) for text in criteria.communicate_info or () if text.strip())
        if not instruction:
            self.wrong.append("it has no instructions")
        stages = ours.get("stages")
        if not isinstance(stages, list) or len(stages) != len(calls):
            stages = self._stages(calls, instruction)
        known = {name: value for name, value in ours.items() if name in Task.__struct_fields__ and value is not None}
        options = known.get("communicate", [])
        if [part[0] for part in options] != [part[0] for part in told]:
            known["communicate"] = told
            known.pop("answer", None)
        reference_calls = [
            msgspec.structs.replace(call, stage=stage) for call, stage in zip(calls, stages, strict=True)
        ]
        whole = {
            "intent": "imported",
            "split": self.split or _split(self.id),
            "difficulty": difficulty(len(calls), branches=False),
            "answer": ". ".join(["Done", *(part[0] for part in told)]) + ".",
            **known,
            "id": self.id,
            "domain": self.domain.name,
            "instruction": instruction,
            "reference_calls": msgspec.to_builtins(reference_calls),
        }
        return msgspec.convert(whole, Task)

    def _fitted(self, task: Task) -> Task:
        """Return a task with its calls as the domain's tools take them."""
        if task.split not in SPLITS:
            self.wrong.append(unknown_name("split", task.split, SPLITS))

        def path(calls: Iterable[Call]) -> tuple[Call, ...]:
            return tuple(msgspec.structs.replace(call, arguments=self._arguments(call)) for call in calls)

        return msgspec.structs.replace(
            task, reference_calls=path(task.reference_calls), alternatives=tuple(map(path, task.alternatives))
        )

    def _arguments(self, call: Call) -> dict[str, Any]:
        """Return a call's arguments without the nulls that stand for none, and note those that no tool takes."""
        tool = self.domain.tools.get(call.name)
        if tool is None:
            self.wrong.append(unknown_name("tool", call.name, self.domain.tools))
            return call.arguments
        kept = {}
        for name, value in call.arguments.items():
            parameter = tool.parameters.get(name)
            if value is None and (parameter is None or not parameter.required):
                continue
            if parameter is None:
                self.wrong.append(unknown_name(f"argument of {call.name}", name, tool.parameters))
                continue
            if value is None:
                self.wrong.append(f"the argument {name!r} of {call.name} is null, and it is required")
            whole = isinstance(value, float) and value.is_integer() and parameter.type == "integer"
            kept[name] = int(value) if whole else value
        if missing := [n for n, p in tool.parameters.items() if p.required and n not in call.arguments]:
            self.wrong.append(f"{call.name} needs the argument {missing[0]!r}")
        return kept

    def _stages(self, calls: Sequence[Call], instruction: str) -> list[int]:
        """Return the stages of calls: reads that need no more than the instruction go with the reads before them."""
        said = tokens(instruction)
        stages: list[int] = []
        before = False
        for call in calls:
            tool = self.domain.tools.get(call.name)
            reads = tool is not None and tool.effect != "write"
            given = [value for value in call.arguments.values() if value is not None]
            alone = reads and all(mentions(said, str(value)) for value in given)
            stages.append((stages[-1] if before and alone else stages[-1] + 1) if stages else 0)
            before = reads
        return stages


class _Action(msgspec.Struct):
    name: str
    arguments: dict[str, Any] | str | None = None
    requestor: str | None = None


class _Criteria(msgspec.Struct):
    actions: list[_Action] | None = None
    communicate_info: list[str] | None = None
    reward_basis: list[str] | None = None


class _Scenario(msgspec.Struct):
    instructions: dict[str, Any] | str


class _Tau2(msgspec.Struct):
    """What is read of a task in τ²-bench's shape; whatever else stands there does not matter."""

    user_scenario: _Scenario
    evaluation_criteria: _Criteria
    initial_state: dict[str, Any] | None = None
    toolorchestra: dict[str, Any] | None = None


def _decoded(arguments: dict[str, Any] | str | None) -> dict[str, Any]:
    if isinstance(arguments, str):
        return msgspec.json.decode(arguments, type=dict[str, Any])
    return arguments or {}


def _filled(value: Any) -> bool:
    """Whether there is anything but nulls in a value."""
    if isinstance(value, dict):
        return any(map(_filled, value.values()))
    return bool(value) if isinstance(value, (list, str)) else value is not None


def _instruction(instructions: dict[str, Any] | str) -> str:
    """Return what the user wants, from τ²-bench's instructions for one."""
    if isinstance(instructions, str):
        return instructions.strip()
    parts = [instructions.get(key) for key in ("reason_for_call", "known_info", "task_instructions")]
    texts = dict.fromkeys(part.strip() for part in parts if isinstance(part, str) and part.strip() not in ("", _USER))
    unknown = instructions.get("unknown_info")
    if isinstance(unknown, str) and unknown.strip():
        texts[f"Not known to the user: {unknown.strip()}"] = None
    return "\n".join(texts)


def _split(task_id: str) -> str:
    digest = hashlib.blake2b(task_id.encode(), digest_size=8).digest()
    return "test" if digest[0] % TEST_SHARE == 0 else "train"


def _trial(domain: Domain, task: Task, session: Session) -> list[str]:
    """Return what is wrong with a task when it is played: its reference trajectories, its answer, and silence."""
    for path in (*task.alternatives, task.reference_calls):
        session.reset()
        for call in path:
            tool = domain.tools[call.name]
            try:
                result = session.call(tool, tool.decode(msgspec.json.encode(call.arguments)))
            except ArgumentError as error:
                return [str(error)]
            if result.status is not Status.OK:
                return [f"the reference call {call.name}({call.arguments}) errs: {result.error}"]
    verdict = domain.verify(task, session, task.answer)
    if not verdict.solved:
        return [f"the reference trajectory does not pass: {verdict}"]
    session.reset()
    if domain.verify(task, session, "").solved:
        return ["it is solved by doing and saying nothing"]
    return []


__all__ = ["OURS", "Format", "export_tasks", "import_tasks", "tau2_row"]
