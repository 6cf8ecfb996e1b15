from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import BuildInfo, build_domain, load_domain, save_tasks
from toolorchestra.toolscale.requests.filters import BUILD, Report, apply_filters
from toolorchestra.toolscale.tasks.task import Call, Task


def results(report: Report) -> dict[str, int]:
    return {one.name: one.dropped for stage in report.stages if stage.name != BUILD for one in stage.filters}


def dropped_by(domain: Domain, tasks: list[Task], name: str) -> set[str]:
    """Return the ids that one filter dropped, and check that no other dropped any."""
    left, report = apply_filters(domain, tasks)
    assert {other for other, count in results(report).items() if count} <= {name}
    return {task.id for task in tasks} - {task.id for task in left}


def clean(domain: Domain, split: str = "train") -> list[Task]:
    return [task for task in domain.tasks() if task.split == split]


def altered(task: Task, **fields: Any) -> Task:
    return msgspec.structs.replace(task, **({"id": f"{task.id}/copy"} | fields))


def test_a_sound_set_loses_nothing(mini: Domain) -> None:
    left, report = apply_filters(mini, mini.tasks())
    assert left == mini.tasks()
    assert set(results(report).values()) == {0}
    assert [(one.name, one.why) for one in report.not_run] == [("unsolved in pass@8", "no solver was given")]


def test_a_reference_trajectory_that_errs_or_does_not_pass_is_dropped(mini: Domain) -> None:
    one, two, *rest = clean(mini)
    errs = msgspec.structs.replace(one, reference_calls=(Call("get_order", {"order_id": "O999"}),))
    unknown = msgspec.structs.replace(two, reference_calls=(Call("get_ordr", {"order_id": "O001"}),))
    unsaid = msgspec.structs.replace(rest[0], communicate=(("not in the answer",),))
    found = dropped_by(mini, [errs, unknown, unsaid, *rest[1:]], "reference call errs")
    assert found == {errs.id, unknown.id, unsaid.id}


def test_a_task_that_silence_solves_is_dropped(mini: Domain) -> None:
    first, *rest = clean(mini)
    idle = msgspec.structs.replace(first, reference_calls=(), communicate=(), bindings={})
    assert dropped_by(mini, [idle, *rest], "solvable without action") == {idle.id}


def test_a_task_that_no_solver_solves_in_k_attempts_is_dropped(mini: Domain) -> None:
    tasks = clean(mini)[:6]
    attempts: list[tuple[str, int]] = []

    def never(domain: Domain, task: Task, seed: int) -> bool:
        attempts.append((task.id, seed))
        return False

    def third_time(domain: Domain, task: Task, seed: int) -> bool:
        return task in tasks[:4] and seed == 2

    left, report = apply_filters(mini, tasks, solvers={"a": never, "b": third_time}, k=3)
    assert left == tasks[:4]
    assert results(report)["unsolved in pass@3"] == 2
    assert report.not_run == []
    assert attempts == [(task.id, seed) for task in tasks for seed in range(3)]
    assert apply_filters(mini, tasks, solvers={"b": third_time}, k=2)[0] == []
    with pytest.raises(OptionError, match="at least one attempt"):
        apply_filters(mini, tasks, k=0)


def test_the_same_instruction_and_the_same_bindings_are_kept_once(mini: Domain) -> None:
    tasks = clean(mini)
    again = altered(tasks[0], intent="other", bindings={}, instruction=tasks[0].instruction.replace(" ", "  "))
    assert dropped_by(mini, [*tasks, again], "exact duplicate") == {again.id}
    reworded = altered(tasks[0], instruction="In other words altogether: what is it about this one?")
    assert dropped_by(mini, [*tasks, reworded], "same intent and bindings") == {reworded.id}


def long_task(task: Task, instruction: str, **bindings: Any) -> Task:
    return altered(task, id=instruction, instruction=instruction, bindings=bindings)


@pytest.mark.parametrize(
    ("wording", "near"),
    [
        ("please tell me what the order o001 of last week has cost US in total!", True),
        ("Please tell me  what the order O001 of last week has cost us in total, thanks.", True),
        ("Please tell me what the order O002 of last week has cost us in total.", False),
        ("Please tell me what the order O001 of Zoe has cost us in total.", False),
        ("How much money did we spend on O001?", False),
    ],
)
def test_a_near_duplicate_differs_in_an_irrelevant_word_but_in_no_value(mini: Domain, wording: str, near: bool) -> None:
    task = next(task for task in clean(mini) if task.intent == "ask_price")
    first = long_task(
        task, "Please tell me what the order O001 of last week has cost us in total.", order="O001", other="O002"
    )
    second = long_task(task, wording, order="O001", other="O002", who="Zoe")
    assert dropped_by(mini, [first, second], "near-duplicate") == ({second.id} if near else set())


def test_the_same_words_for_another_solution_are_no_near_duplicate(mini: Domain) -> None:
    one, two = [task for task in clean(mini) if task.intent == "ask_price"][:2]
    first = long_task(one, "Tell me what the order on the table over there by the window has cost.", a=1)
    second = long_task(two, "Tell me what the order on the table over there by a window has cost.", a=2)
    assert dropped_by(mini, [first, second], "near-duplicate") == set()


WORDS = st.lists(st.sampled_from(list("abcdefgh")), min_size=1, max_size=12)


@given(st.lists(WORDS, min_size=2, max_size=8))
def test_the_index_finds_every_near_duplicate_that_comparing_all_pairs_finds(
    mini: Domain, texts: list[list[str]]
) -> None:
    from toolorchestra.toolscale.requests.filters import NEAR, _near

    task = clean(mini)[0]
    tasks = [altered(task, id=str(i), instruction=" ".join(text), bindings={}) for i, text in enumerate(texts)]
    kept: list[Counter[str]] = []
    expected = []
    for bag in map(Counter, texts):
        near = any(Fraction((bag & other).total(), (bag | other).total()) >= NEAR for other in kept)
        expected.append(near)
        kept += [] if near else [bag]
    assert [bool(reason) for reason in _near(tasks)] == expected


def test_only_tasks_that_share_a_rare_word_are_compared(mini: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    from toolorchestra.toolscale.requests import filters

    compared: list[object] = []
    similarity = filters._similarity
    monkeypatch.setattr(filters, "_similarity", lambda *bags: compared.append(bags) or similarity(*bags))
    said = [f"Of many words that all of them share, one is w{n}x and w{n}y and w{n}z." for n in range(200)]
    tasks = [altered(clean(mini)[0], id=text, instruction=text) for text in said]
    assert not any(filters._near(tasks))
    assert not compared  # there are 19,900 pairs
    assert any(filters._near([*tasks, altered(tasks[7], id="again")]))
    assert len(compared) == 1


def test_a_test_task_that_was_seen_in_training_takes_the_training_task_out(mini: Domain) -> None:
    tasks = mini.tasks()
    tested = next(task for task in tasks if task.split == "test" and task.reference_calls)
    held_out = next(task for task in tasks if task.split == "test_intents")
    leaks = [
        altered(tested, split="train", intent="x", bindings={"y": 1}, instruction="Something quite different, O001?"),
        altered(held_out, split="train", intent="z", bindings={"y": 2}, instruction="And another thing for you to do."),
    ]
    assert dropped_by(mini, [*tasks, *leaks], "leak between splits") == {task.id for task in leaks}


def test_the_same_bindings_of_an_intent_in_train_and_test_are_a_leak(mini: Domain) -> None:
    from toolorchestra.toolscale.requests.filters import _leaks

    tested = next(task for task in mini.tasks() if task.split == "test")
    leak = altered(tested, split="train", reference_calls=(), instruction="x")
    reasons = list(_leaks([tested, leak]))
    assert reasons[0] == ""
    assert reasons[1] == f"solved like {tested.id} of test"


@pytest.mark.parametrize("where", ["parent", "with"])
def test_a_parent_in_another_split_is_a_leak(mini: Domain, where: str) -> None:
    train = next(task for task in mini.tasks() if task.split == "train")
    tested = next(task for task in mini.tasks() if task.split == "test" and task.intent != train.intent)
    parent, other = (tested, train) if where == "parent" else (train, tested)
    child = altered(
        train,
        intent="x+chain",
        operator="chain",
        parent=parent.id,
        reference_calls=(*train.reference_calls, *tested.reference_calls),
        communicate=(*train.communicate, *tested.communicate),
        answer=f"{train.answer} {tested.answer}",
        instruction="Two things at once, if you would be so kind.",
        bindings={"evolved": {"with": other.id}},
    )
    assert dropped_by(mini, [*mini.tasks(), child], "leak between splits") == {child.id}


def test_the_report_names_examples_and_what_the_build_dropped(broken: Callable[..., Domain], tmp_path: Path) -> None:
    noted = broken("intents.drop_order.bindings", "SELECT order_id FROM orders")
    dropped = sum(noted.dropped.values())
    tasks = clean(noted)
    again = altered(tasks[0], id="mini/again/000")
    left, report = apply_filters(noted, [*tasks, again])
    report.save(tmp_path / "report.json")
    read = msgspec.json.decode((tmp_path / "report.json").read_bytes(), type=Report)
    assert read == report
    build, filters = read.stages
    assert (build.name, sum(one.dropped for one in build.filters)) == (BUILD, dropped)
    duplicate = next(one for one in filters.filters if one.name == "exact duplicate")
    assert duplicate.examples == [f"mini/again/000: like {tasks[0].id}"]
    assert (duplicate.kept, duplicate.dropped) == (len(left), 1)
    assert report.dropped == {"filter: exact duplicate": 1}


def test_filtered_tasks_are_saved_as_a_build_that_loads(mini_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mini"
    shutil.copytree(mini_folder, folder)
    domain = build_domain(folder)
    left, report = apply_filters(domain, domain.tasks()[:10])
    save_tasks(folder, domain, left, domain.dropped + report.dropped)
    loaded = load_domain(folder)
    assert loaded.tasks() == left
    assert loaded.dropped == domain.dropped + report.dropped


def test_every_solver_tries_where_the_report_is_to_say_how_many_each_solves(mini: Domain) -> None:
    tasks = clean(mini)[:6]
    attempts: list[tuple[str, int]] = []

    def first(domain: Domain, task: Task, seed: int) -> bool:
        return task in tasks[:3]

    def second(domain: Domain, task: Task, seed: int) -> bool:
        attempts.append((task.id, seed))
        return task in tasks[2:5] and seed == 1

    left, report = apply_filters(mini, tasks, solvers={"a": first, "b": second}, k=2, every=True)
    assert left == tasks[:5]
    (found,) = (one for one in report.stages[-1].filters if one.name == "unsolved in pass@2")
    assert found.solved == {"a": 3, "b": 3}
    assert len(attempts) == 2 * len(tasks)
    assert all(one.solved is msgspec.UNSET for one in report.stages[-1].filters if one is not found)


def test_a_build_names_what_the_filters_dropped(mini_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mini"
    shutil.copytree(mini_folder, folder)
    domain = build_domain(folder)
    assert msgspec.json.decode((folder / "build.json").read_bytes(), type=BuildInfo).filters == []
    solvers = {"none of level 3": lambda domain, task, seed: task.difficulty < 3}
    left, report = apply_filters(domain, domain.tasks(), solvers=solvers, k=1)
    save_tasks(folder, domain, left, domain.dropped + report.dropped, report)
    info = msgspec.json.decode((folder / "build.json").read_bytes(), type=BuildInfo)
    assert info.filtered == [task.id for task in domain.tasks() if task.difficulty == 3] != []
    assert info.filters == report.stages[-1].filters
    assert info.dropped["filter: unsolved in pass@1"] == len(info.filtered)
    assert load_domain(folder).tasks() == left
