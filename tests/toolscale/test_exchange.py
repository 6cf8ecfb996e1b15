from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolorchestra.toolscale.answers.typed_answers import TypedAnswer, judge_typed
from toolorchestra.toolscale.common.errors import OptionError, TaskError, UnknownNameError
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import builtin_domains, load_domain
from toolorchestra.toolscale.export.exchange import export_tasks, import_tasks
from toolorchestra.toolscale.export.exchange_rows import OURS, tau2_row
from toolorchestra.toolscale.tasks.task import Call, Task

needs_parquet = pytest.mark.skipif(find_spec("pyarrow") is None, reason="comes with the extra `train`")
PLACES = [
    "tasks.json",
    "tasks.jsonl",
    pytest.param("tasks.parquet", marks=needs_parquet),
    pytest.param("tasks", marks=needs_parquet),
]


def first(domain: Domain, intent: str) -> Task:
    return next(task for task in domain.tasks() if task.intent == intent)


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    def write(*rows: Any, name: str = "tasks.json") -> Path:
        (tmp_path / name).write_text(json.dumps(list(rows)))
        return tmp_path / name

    return write


@pytest.fixture
def foreign(mini: Domain) -> Callable[..., dict[str, Any]]:
    """A task as others write it, who know nothing of us: ``foreign("id", ("get_order", {...}), facts=[...])``."""

    def make(task_id: str, *calls: tuple[str, Any], facts: list[str] | None = None, **more: Any) -> dict[str, Any]:
        return {
            "id": task_id,
            "description": {"purpose": None},
            "user_scenario": {
                "persona": None,
                "instructions": {
                    "task_instructions": "You are in a hurry.",
                    "domain": "kitchen",
                    "reason_for_call": "You want to know what order O001 was.",
                    "known_info": None,
                    "unknown_info": "your customer number",
                },
            },
            "initial_state": {"initialization_data": None, "initialization_actions": None, "message_history": None},
            "evaluation_criteria": {
                "actions": [
                    {"action_id": str(number), "name": name, "arguments": given}
                    for number, (name, given) in enumerate(calls)
                ],
                "communicate_info": facts,
                "nl_assertions": None,
            },
        } | more  # fmt: skip

    return make


# ---------------------------------------------------------------------------------------------------- round trips


@pytest.mark.parametrize("place", PLACES)
def test_what_was_written_is_read_as_it_was(mini: Domain, tmp_path: Path, place: str) -> None:
    export_tasks(mini, mini.tasks(), tmp_path / place)
    read = import_tasks(tmp_path / place, mini)
    assert sorted(read, key=lambda task: task.id) == sorted(mini.tasks(), key=lambda task: task.id)


def test_what_tau2_has_no_place_for_is_kept_under_our_key(mini: Domain) -> None:
    task = next(task for task in mini.tasks() if task.communicate)
    row = tau2_row(mini, task)
    assert set(row) == {"id", "description", "user_scenario", "initial_state", "evaluation_criteria", OURS}
    assert row["user_scenario"]["instructions"]["reason_for_call"] == task.instruction
    actions = row["evaluation_criteria"]["actions"]
    assert [(action["name"], action["arguments"]) for action in actions] == [
        (c.name, c.arguments) for c in task.reference_calls
    ]
    answer = mini.slots.of(task)
    told = [value for slot, value in zip(answer.slots, answer.values, strict=True) if slot.name != "outcome"]
    assert row["evaluation_criteria"]["communicate_info"] == [str(value) for value in told]
    assert row[OURS]["intent"] == task.intent


def test_a_datasets_folder_loads_with_a_split_for_each_of_ours(
    mini: Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    export_tasks(mini, mini.tasks(), tmp_path / "out", "datasets")
    loaded = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert {split: len(rows) for split, rows in loaded.items()} == {
        split: len(mini.tasks(split)) for split in ("train", "test", "test_intents") if mini.tasks(split)
    }
    by_id = {task.id: task for task in mini.tasks()}
    for row in loaded["train"]:
        for call, reference_calls in zip(row["reference_calls"], by_id[row["id"]].reference_calls, strict=True):
            assert json.loads(call["arguments"]) == reference_calls.arguments  # and not those of other calls, as nulls
    card = (tmp_path / "out" / "README.md").read_text()
    for line in ("license: apache-2.0", "- en", "- n<1K", "- split: train", "  - name: reference"):
        assert line in card


def test_a_split_of_datasets_goes_by_its_file(mini: Domain, tmp_path: Path, foreign: Callable[..., Any]) -> None:
    order = first(mini, "ask_price").reference_calls[0]
    (tmp_path / "data").mkdir()
    row = foreign("a", (order.name, order.arguments))
    (tmp_path / "data" / "test_intents-00000-of-00001.jsonl").write_text(json.dumps(row))
    assert [task.split for task in import_tasks(tmp_path, mini, "datasets")] == ["test_intents"]


# --------------------------------------------------------------------------------------------------- foreign tasks


FACTS = ["$1,012.50", "7", "July 30, 2025", "19:05", "yes", "no", "gold member", "Ada Byron", "O001"]
SLOTS = (
    'outcome ("answered" | "cannot be done" | "done" | "nothing to do"), amount (money in USD), number (number), '
    "date (date), time (time), answer_1 (true or false), answer_2 (true or false), value (text), name (name), "
    "order_id (id)"
)


def test_what_is_to_be_communicated_becomes_typed_slots(
    mini: Domain, written: Callable[..., Path], foreign: Callable[..., Any]
) -> None:
    call = Call("get_order", {"order_id": "O001"})
    (task,) = import_tasks(written(foreign("7", (call.name, call.arguments), facts=FACTS)), mini)
    expected = mini.slots.of(task)
    assert str(expected) == SLOTS
    right = {
        "outcome": "answered",
        "amount": 1012.5,
        "number": "7",
        "date": "2025-07-30",
        "time": "7:05 pm",
        "answer_1": True,
        "answer_2": False,
        "value": "Gold member",
        "name": "Byron, Ada",
        "order_id": "o001",
    }
    assert judge_typed(json.dumps({"answer": right}), expected) == []
    for slot, wrong in (
        ("outcome", "done"),
        ("amount", 1012),
        ("answer_2", True),
        ("value", "gold"),
        ("time", "07:05"),
    ):
        (why,) = judge_typed(json.dumps({"answer": {**right, slot: wrong}}), expected)
        assert f"the slot {slot!r}" in why
    session = mini.session()
    mini.call(call, session)
    assert mini.verify(task, session, expected.written(), expected).solved


@pytest.mark.parametrize("name", builtin_domains())
def test_tasks_of_the_shipped_domains_that_go_out_and_come_back_have_the_same_values(name: str, tmp_path: Path) -> None:
    domain = load_domain(name)
    tasks = random.Random(name).sample(domain.tasks(), 25)
    export_tasks(domain, tasks, tmp_path / "tasks.json")
    assert import_tasks(tmp_path / "tasks.json", domain) == tasks
    rows = json.loads((tmp_path / "tasks.json").read_text())
    for row in rows:
        del row[OURS]
    (tmp_path / "tasks.json").write_text(json.dumps(rows))
    table = domain.slots.with_tasks(back := import_tasks(tmp_path / "tasks.json", domain))
    for task, other in zip(tasks, back, strict=True):
        before, after = domain.slots.of(task), table.of(other)
        assert judge_typed(after.written(), after) == []
        told = values(before)  # where it is nothing, the phrases go out, as of a reason that is always the same
        assert values(after) == told or (not told and set(values(after)) <= {one[0] for one in task.communicate}), (
            task.id
        )


def values(answer: TypedAnswer) -> list[Any]:
    """Return what an answer tells, beside its outcome."""
    slots = zip(answer.slots, answer.values, strict=True)
    listed = [value if slot.several else [value] for slot, value in slots if not slot.name.endswith("outcome")]
    return [one for value in listed for one in value if one is not None]


def test_an_imported_task_gets_what_it_lacks(
    mini: Domain, written: Callable[..., Path], foreign: Callable[..., Any]
) -> None:
    ask = first(mini, "ask_price")
    row = foreign("7", *((call.name, call.arguments) for call in ask.reference_calls), facts=[ask.communicate[0][0]])
    (task,) = import_tasks(written(row), mini)
    assert (task.id, task.domain, task.intent, task.difficulty) == ("7", "mini", "imported", 1)
    assert task.split in ("train", "test")
    assert task.answer == f"Done. {ask.communicate[0][0]}."
    assert task.instruction.splitlines() == [
        "You want to know what order O001 was.",
        "You are in a hurry.",
        "Not known to the user: your customer number",
    ]
    assert import_tasks(written(row), mini) == [task]


def test_nulls_that_stand_for_no_argument_are_dropped(
    mini: Domain, written: Callable[..., Path], foreign: Callable[..., Any], tmp_path: Path
) -> None:
    reference_calls = first(mini, "ask_price").reference_calls[0]
    bloated = reference_calls.arguments | {"of_another_tool": None, "and_another": None}
    (task,) = import_tasks(written(foreign("a", (reference_calls.name, bloated))), mini)
    assert task.reference_calls[0].arguments == reference_calls.arguments
    (task,) = import_tasks(written(foreign("a", (reference_calls.name, json.dumps(bloated)))), mini)
    assert task.reference_calls[0].arguments == reference_calls.arguments


def test_nulls_that_parquet_added_to_arguments_are_dropped(
    mini: Domain, foreign: Callable[..., Any], tmp_path: Path
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    tasks = [first(mini, intent) for intent in dict.fromkeys(task.intent for task in mini.tasks())]
    tasks = [task for task in tasks if task.reference_calls]
    rows = [
        foreign(t.id, *((c.name, c.arguments) for c in t.reference_calls), facts=[o[0] for o in t.communicate])
        for t in tasks
    ]
    plain = [
        task
        for task in tasks
        if not any(isinstance(v, (list, dict)) for c in task.reference_calls for v in c.arguments.values())
    ]
    rows = [row for row in rows if row["id"] in {task.id for task in plain}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "theirs.parquet")
    stored = pyarrow.parquet.read_table(tmp_path / "theirs.parquet").to_pylist()
    names = {call.name for task in plain for call in task.reference_calls}
    assert len(names) > 1
    assert any(None in a["arguments"].values() for row in stored for a in row["evaluation_criteria"]["actions"])
    read = {task.id: task for task in import_tasks(tmp_path / "theirs.parquet", mini)}
    for task in plain:
        assert [call.arguments for call in read[task.id].reference_calls] == [
            {k: v for k, v in call.arguments.items() if v is not None} for call in task.reference_calls
        ]


def test_all_that_does_not_fit_is_reported_at_once_by_task(
    mini: Domain, written: Callable[..., Path], foreign: Callable[..., Any]
) -> None:
    reference_calls = first(mini, "ask_price").reference_calls[0]
    good = (reference_calls.name, reference_calls.arguments)
    key = next(iter(reference_calls.arguments))
    with pytest.raises(TaskError) as error:
        import_tasks(
            written(
                foreign("fine", good),
                foreign("tool", ("get_ordr", {}), ("bake", {})),
                foreign("argument", (reference_calls.name, reference_calls.arguments | {"flavour": "sweet"})),
                foreign("null", (reference_calls.name, {key: None})),
                foreign("lacking", (reference_calls.name, {})),
                foreign("type", (reference_calls.name, {key: 3})),
                foreign("errs", (reference_calls.name, {key: "O999"})),
                foreign("nothing-to-say", good, facts=[""]),
                foreign("nothing"),
                foreign("state", good, initial_state={"initialization_data": {"agent_data": {"x": 1}}}),
                foreign("twice", good),
                foreign("twice", good),
                foreign("broken", good) | {"user_scenario": 3},
                {"no": "task"},
            ),
            mini,
        )
    message = str(error.value)
    assert message.startswith("11 of 14 tasks of ")
    for line in (
        "tool: Unknown tool 'get_ordr'. Did you mean 'get_order'?",
        "tool: Unknown tool 'bake'",
        f"argument: Unknown argument of {reference_calls.name} 'flavour'",
        f"null: the argument {key!r} of {reference_calls.name} is null, and it is required",
        f"lacking: {reference_calls.name} needs the argument {key!r}",
        "type: Argument",
        "errs: the reference call",
        "nothing: it is solved by doing and saying nothing",
        "state: it starts from an initial_state of its own",
        "twice: the id stands in the file before",
        "broken: expected a task",
        "tasks.json:14 (no id): expected a task",
    ):
        assert line in message, line
    assert "fine:" not in message


@pytest.mark.parametrize("basis", [["DB", "NL_ASSERTION"], ["ENV_ASSERTION"]])
def test_a_task_that_only_a_model_can_judge_is_not_taken(
    mini: Domain, written: Callable[..., Path], foreign: Callable[..., Any], basis: list[str]
) -> None:
    reference_calls = first(mini, "ask_price").reference_calls[0]
    row = foreign("a", (reference_calls.name, reference_calls.arguments))
    row["evaluation_criteria"]["reward_basis"] = basis
    with pytest.raises(TaskError, match=r"a: it is judged by \w+, which only"):
        import_tasks(written(row), mini)


def test_a_fact_changed_by_hand_counts_more_than_what_we_noted(mini: Domain, written: Callable[..., Path]) -> None:
    task = next(task for task in mini.tasks() if len(task.communicate) == 1)
    row = msgspec.json.decode(msgspec.json.encode(tau2_row(mini, task)))
    row["evaluation_criteria"]["communicate_info"] = ["thank you"]
    (read,) = import_tasks(written(row), mini)
    assert (read.communicate, read.answer) == ((("thank you",),), "Done. thank you.")


def test_reads_that_need_the_instruction_only_share_a_stage(
    mini: Domain, written: Callable[..., Path], foreign: Callable[..., Any]
) -> None:
    row = foreign(
        "a",
        ("get_order", {"order_id": "O001"}),
        ("get_order", {"order_id": "O001"}),
        ("get_order", {"order_id": "O002"}),
    )
    (task,) = import_tasks(written(row), mini)
    assert [call.stage for call in task.reference_calls] == [0, 0, 1]


# --------------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", "{", "expected JSON"),
        ("x.json", "3", "expected a list of tasks, found int"),
        ("x.json", "[3]", "expected an object for each task, found int"),
        ("x.json", "[]", "holds no task"),
        ("x.jsonl", "[", "expected JSON"),
        pytest.param("x.parquet", "PAR1", "expected Parquet", marks=needs_parquet),
        ("x.csv", "", r"expected \.json, \.jsonl, \.parquet or a folder"),
    ],
)
def test_what_is_no_file_of_tasks_is_an_error(
    mini: Domain, tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(OptionError, match=message):
        import_tasks(tmp_path / name, mini)


def test_what_is_not_there_is_an_error(mini: Domain, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="cannot be read: No such file"):
        import_tasks(tmp_path / "none.json", mini)
    with pytest.raises(OptionError, match="Expected a folder with"):
        import_tasks(tmp_path, mini)
    with pytest.raises(UnknownNameError, match="Unknown format 'csv'"):
        import_tasks(tmp_path, mini, "csv")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="There is no task to export"):
        export_tasks(mini, [], tmp_path / "x.json")


def test_without_pyarrow_the_error_names_the_extra(
    mini: Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(OptionError, match=r"pip install -e '.*\[train\]'"):
        export_tasks(mini, mini.tasks(), tmp_path / "x.parquet")


# ------------------------------------------------------------------------------------------------------- look-ups


@pytest.mark.parametrize("place", PLACES)
def test_look_ups_are_kept(named: Domain, tmp_path: Path, place: str) -> None:
    tasks = [task for task in named.tasks() if task.lookups]
    export_tasks(named, tasks, tmp_path / place)
    assert sorted(import_tasks(tmp_path / place, named), key=lambda task: task.id) == tasks


@pytest.mark.parametrize(
    ("lookup", "message"),
    [
        (Call("get_ordr", {}), "Unknown tool 'get_ordr'"),
        (Call("get_order", {"order_id": "O999"}), "the look-up get_order"),
        (Call("cancel_order", {"order_id": "O001"}), "the look-up cancel_order({'order_id': 'O001'}) writes"),
    ],
)
def test_look_ups_must_fit_the_domain(named: Domain, tmp_path: Path, lookup: Call, message: str) -> None:
    task = next(task for task in named.tasks() if task.lookups)
    export_tasks(named, [msgspec.structs.replace(task, lookups=(lookup,))], tmp_path / "tasks.jsonl")
    with pytest.raises(TaskError, match=re.escape(message)):
        import_tasks(tmp_path / "tasks.jsonl", named)
