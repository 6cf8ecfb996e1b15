from __future__ import annotations

import datetime
import functools
import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolorchestra.toolscale.common.errors import DomainError
from toolorchestra.toolscale.database.format import Operator
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import build_domain, load_domain
from toolorchestra.toolscale.evolution.evolution import LEAST, Evolver, evolve
from toolorchestra.toolscale.evolution.operators import OPERATORS, TaskDraft
from toolorchestra.toolscale.requests.intents import difficulty
from toolorchestra.toolscale.requests.lookups import unshown_ids, with_needed_lookups
from toolorchestra.toolscale.tasks.task import Call, Task
from toolorchestra.toolscale.validation.verifier_mutations import try_verifier

MEMO: dict[str, Any] = {
    "description": "Look a customer's orders of a day up.",
    "bindings": "SELECT o.customer_id, day, min(order_id) AS order_id FROM orders o GROUP BY 1, 2 HAVING count(*) = 1",
    "instructions": ["What did customer {customer_id} pay on {day}?", "Price of the order of {customer_id}, {day}?"],
    "reference_calls": [
        {"call": "list_orders", "arguments": {"customer_id": "$customer_id", "day": "$day"}, "save": "found"},
        {"call": "get_order", "arguments": {"order_id": "$found.0.order_id"}, "save": "order"},
    ],
    "communicate": ["{order.price}"],
    "answer": "It was {order.price}.",
}


def for_evolution(edited: Callable[..., Path]) -> Path:
    """The mini domain with what each operator needs: a search by customer and day, and a rule that refuses."""
    edited("tools.list_orders.parameters.customer_id.column", "customers.customer_id", file="tools.yaml")
    edited("tools.list_orders.parameters.day.column", "orders.day", file="tools.yaml")
    once = {"require": "NOT EXISTS (SELECT 1 FROM notes WHERE order_id = :order_id)", "error": "{order_id} has a note."}
    edited("tools.write_note.guards", [once], file="tools.yaml")
    edited(
        "intents.leave_note.bindings", "SELECT order_id FROM orders WHERE order_id NOT IN (SELECT order_id FROM notes)"
    )
    edited("intents.leave_note.held_out", False)
    return edited("intents.day_price", MEMO)


@pytest.fixture
def folder(edited: Callable[..., Path]) -> Path:
    return for_evolution(edited)


@pytest.fixture(scope="module")
def domain(edited_once: Callable[..., Path]) -> Domain:
    return load_domain(for_evolution(edited_once))


@functools.cache
def made(domain: Domain, operator: Operator, count: int = 30, seed: int = 0) -> list[Task]:
    return evolve(domain, domain.tasks(), {operator: count}, seed)[0]


@pytest.mark.parametrize("operator", OPERATORS)
def test_evolved_tasks_are_verified_and_the_verifier_holds_on_them(domain: Domain, operator: Operator) -> None:
    tasks = made(domain, operator)
    assert len(tasks) == 30
    assert len({task.instruction for task in tasks}) == len({task.id for task in tasks}) == 30
    session = domain.session()
    for task in tasks:
        assert domain.replay(task, task.reference_calls, task.answer, session).solved, task.id
        assert not domain.replay(task, (), "", session).solved, task.id
        assert not set("{}") & set(task.instruction + task.answer)
        assert task.difficulty == difficulty(len(task.reference_calls), task.branches)
        assert task.id.startswith(f"mini/{domain.task(str(task.parent)).intent}+{operator}/")
        assert task.operator == operator
    report = try_verifier(domain, tasks)
    assert [one for one in report.surprises if not one.equivalent] == []
    assert report.kill_rate >= 0.995
    assert report.acceptance_rate >= 0.995


@pytest.mark.parametrize("operator", OPERATORS)
def test_evolved_tasks_stay_in_the_split_of_all_their_parents(domain: Domain, operator: Operator) -> None:
    for task in made(domain, operator):
        parents = [task.parent, task.bindings["evolved"].get("with", task.parent)]
        assert {domain.task(parent).split for parent in parents} == {task.split}


def predicate_holds(domain: Domain, text: str) -> bool:
    """Work out a condition from its words and the database alone."""
    found = re.fullmatch(r"the (\w+) of order (O\d+) is (at least|more than|below|at most|after|before) (.+)", text)
    assert found, text
    column, order, relation, bound = found.groups()
    (value,) = domain.database.base.execute(f"SELECT {column} FROM orders WHERE order_id = ?", (order,)).fetchone()
    limit: Any = datetime.datetime.strptime(bound, "%B %d, %Y").date().isoformat() if column == "day" else float(bound)
    return {
        "at least": value >= limit, "more than": value > limit, "after": value > limit,
        "below": value < limit, "at most": value <= limit, "before": value < limit,
    }[relation]  # fmt: skip


def test_a_constraint_is_decided_by_what_the_look_up_says(domain: Domain) -> None:
    outcomes = set()
    for task in made(domain, "constraint"):
        parent = domain.task(str(task.parent))
        condition = task.bindings["evolved"]["condition"]
        holds = predicate_holds(domain, condition)
        outcomes.add(holds)
        assert condition.rsplit(" is ")[1] in task.instruction
        order = re.findall(r"O\d{3}", condition)[0]
        assert task.reference_calls[0] == Call("get_order", {"order_id": order})
        assert [call.name for call in task.reference_calls[1:]] == (
            [call.name for call in parent.reference_calls] if holds else []
        )
        assert task.refuses is not holds
        assert task.branches
    assert outcomes == {True, False}


def test_a_branch_carries_out_the_request_that_the_look_up_selects(domain: Domain) -> None:
    outcomes = set()
    session = domain.session()
    for task in made(domain, "branch"):
        parents = {True: domain.task(str(task.parent)), False: domain.task(task.bindings["evolved"]["with"])}
        holds = predicate_holds(domain, task.bindings["evolved"]["condition"])
        outcomes.add(holds)
        wrong = parents[not holds]
        assert not domain.replay(
            task, (*task.reference_calls[:1], *wrong.reference_calls), wrong.answer, session
        ).solved
        for call in parents[holds].reference_calls:
            assert (call.name, call.arguments) in [(one.name, one.arguments) for one in task.reference_calls]
    assert outcomes == {True, False}


def test_a_chain_is_both_requests_in_stages_of_their_own(domain: Domain) -> None:
    for task in made(domain, "chain"):
        first, second = domain.task(str(task.parent)), domain.task(task.bindings["evolved"]["with"])
        stages = max(call.stage for call in first.reference_calls) + 1
        moved = [msgspec.structs.replace(call, stage=call.stage + stages) for call in second.reference_calls]
        assert list(task.reference_calls) == [*first.reference_calls, *moved]
        assert len(task.alternatives) == (1 + len(first.alternatives)) * (1 + len(second.alternatives)) - 1
        assert task.instruction.index(first.instruction[:-1]) < task.instruction.index(second.instruction[:-1])


def test_requests_whose_effects_meet_are_not_chained(domain: Domain) -> None:
    orders = domain.tasks()
    dropped = next(task for task in orders if task.intent == "drop_order")
    order = dropped.bindings["order_id"]
    noted = msgspec.structs.replace(
        next(task for task in orders if task.intent == "leave_note" and task.split == dropped.split),
        reference_calls=(Call("write_note", {"order_id": order, "body": "No salt!"}),),
    )
    same_order, _ = evolve(domain, [dropped, noted], {"chain": 5}, 0)
    assert same_order == []
    twice = [task for task in orders if task.intent == "order_twice" and task.split == "train"][:2]
    other_ids, _ = evolve(domain, [twice[0], msgspec.structs.replace(twice[1], intent="x")], {"chain": 5}, 0)
    assert other_ids == []  # the second request's order gets another id after the first


def test_an_indirect_request_names_no_id_and_its_search_finds_the_one_meant(domain: Domain) -> None:
    session = domain.session()
    kinds = set()
    for task in made(domain, "indirect", 12):
        ((key, description),) = task.bindings["evolved"]["described"].items()
        assert key not in task.instruction
        assert description.lower() in task.instruction.lower()
        session.reset()
        found = []
        for call in task.reference_calls[
            : len(task.reference_calls) - len(domain.task(str(task.parent)).reference_calls)
        ]:
            tool = domain.tools[call.name]
            found.append(session.call(tool, tool.decode(msgspec.json.encode(call.arguments))).value)
        assert str(found[-1]).count(key) == 1
        if key.startswith("C"):
            sql = "SELECT customer_id FROM customers WHERE name = ?"
            values: tuple[str, ...] = (description.removeprefix("the customer called "),)
        else:
            name, _, date = description.removeprefix("the order of the customer called ").partition(" on ")
            day = datetime.datetime.strptime(date, "%B %d, %Y").date().isoformat() if date else "%"
            sql = "SELECT order_id FROM orders JOIN customers USING (customer_id) WHERE name = ? AND day LIKE ?"
            values = (name, day)
            kinds.add(len(found))
        assert domain.database.base.execute(sql, values).fetchall() == [(key,)]
    assert kinds == {2}  # the customer's id has to be looked up before the order is searched


def test_a_distraction_changes_nothing_but_the_words(domain: Domain) -> None:
    session = domain.session()
    retracted = 0
    for task in made(domain, "distract"):
        parent = domain.task(str(task.parent))
        assert (task.reference_calls, task.answer, task.communicate) == (
            parent.reference_calls,
            parent.answer,
            parent.communicate,
        )
        assert parent.instruction[:-1] in task.instruction
        if other := task.bindings["evolved"].get("with"):
            retracted += 1
            both = (*parent.reference_calls, *domain.task(other).reference_calls)
            assert not domain.replay(task, both, task.answer, session).solved
    assert 0 < retracted < 30


def test_what_is_impossible_is_refused_by_the_rules_or_not_there(domain: Domain) -> None:
    session = domain.session()
    kinds = set()
    for task in made(domain, "impossible"):
        parent = domain.task(str(task.parent))
        ((old, new),) = task.bindings["evolved"]["changed"].items()
        assert task.refuses
        assert all(domain.tools[call.name].effect == "read" for call in task.reference_calls)
        assert not domain.replay(task, parent.reference_calls, parent.answer, session).solved
        changed = msgspec.json.decode(
            msgspec.json.encode(parent.reference_calls[0]).replace(f'"{old}"'.encode(), f'"{new}"'.encode()), type=Call
        )
        tool = domain.tools[changed.name]
        session.reset()
        result = session.call(tool, tool.decode(msgspec.json.encode(changed.arguments)))
        kinds.add(parent.intent)
        if parent.intent == "leave_note":
            assert result.error == f"{new} has a note."
            assert task.reference_calls[0] == Call("get_order", {"order_id": new})
        else:
            assert result.value == []
            assert task.reference_calls == (changed,)
    assert kinds == {"leave_note", "day_price"}


def test_an_entry_that_is_only_made_on_the_way_is_left_alone(domain: Domain) -> None:
    noted = next(task for task in domain.tasks() if task.intent == "leave_note")
    order = Call("make_order", {"customer_id": "C00", "dishes": ["pie"], "price": 3})
    note = Call("write_note", {"order_id": "O041", "body": "No salt!"}, 1)
    task = msgspec.structs.replace(
        noted, instruction="Order pie for $3, which will be O041, no salt.", reference_calls=(note,)
    )
    made_before = msgspec.structs.replace(task, reference_calls=(order, note))
    assert evolve(domain, [task, made_before], {"impossible": 3}, 0)[0] == []


def test_the_same_seed_gives_the_same_tasks_and_another_seed_others(domain: Domain) -> None:
    counts = dict.fromkeys(OPERATORS, 5)
    first, again = (evolve(domain, domain.tasks(), counts, 3) for _ in range(2))
    assert first == again
    assert evolve(domain, domain.tasks(), counts, 4)[0] != first[0]


def test_neither_the_order_of_sets_nor_the_process_matters(domain: Domain, folder: Path) -> None:
    counts = dict.fromkeys(OPERATORS, 5)
    script = (
        "import sys, hashlib, msgspec\n"
        "from pathlib import Path\n"
        "from toolorchestra.toolscale.domain_folder import load_domain\n"
        "from toolorchestra.toolscale.evolution.evolution import evolve\n"
        "domain = load_domain(Path(sys.argv[1]))\n"
        f"found = evolve(domain, domain.tasks(), {counts!r}, 0)[0]\n"
        "print(hashlib.sha256(msgspec.json.encode(found)).hexdigest())"
    )
    here = hashlib.sha256(msgspec.json.encode(evolve(domain, domain.tasks(), counts, 0)[0])).hexdigest()
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        env={**os.environ, "PYTHONHASHSEED": "1"},  # this process has another
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == here


def test_a_domain_that_asks_for_evolution_is_built_with_it(folder: Path, edited: Callable[..., Path]) -> None:
    edited("evolution", {"chain": 4, "impossible": 3})
    built = build_domain(folder)
    assert [task.operator for task in built.tasks() if task.operator] == ["chain"] * 4 + ["impossible"] * 3
    assert load_domain(folder).tasks() == built.tasks()


def test_what_cannot_be_made_is_counted_and_no_error(mini: Domain) -> None:
    tasks, dropped = evolve(mini, mini.tasks(), {"indirect": 3}, 0)  # it has no search that the operator could use
    assert tasks == []
    assert dropped == {"indirect: no further task found": 3}
    assert evolve(mini, [], {"chain": 2}, 0) == ([], {"chain: no further task found": 2})


def test_an_operator_that_is_none_is_refused(edited: Callable[..., Path]) -> None:
    with pytest.raises(DomainError, match="mutate"):
        load_domain(edited("evolution", {"mutate": 4}))


def evolved_share(tasks: list[Task]) -> float:
    return sum(task.operator is not None for task in tasks) / len(tasks)


def test_a_share_is_reached_by_all_operators_in_equal_numbers(domain: Domain) -> None:
    tasks, _ = evolve(domain, domain.tasks(), {"share": 0.5}, 0)
    assert 0.5 <= evolved_share([*domain.tasks(), *tasks]) < 0.54
    by = Counter(task.operator for task in tasks)
    assert set(by) == set(OPERATORS)
    assert max(by.values()) - min(by.values()) <= 1
    assert len({task.id for task in tasks}) == len({task.instruction for task in tasks}) == len(tasks)
    assert evolve(domain, domain.tasks(), {"share": 0.5}, 0)[0] == tasks


def test_tasks_that_are_evolved_already_count_for_the_share_and_every_operator_makes_some(domain: Domain) -> None:
    given = [*domain.tasks(), *made(domain, "chain", 60)]
    tasks, _ = evolve(domain, given, {"share": 0.2}, 0)
    assert Counter(task.operator for task in tasks) == dict.fromkeys(OPERATORS, LEAST)
    more, _ = evolve(domain, given, {"branch": 7, "share": 0.2}, 0)
    assert Counter(task.operator for task in more) == {**dict.fromkeys(OPERATORS, LEAST), "branch": 7 + LEAST}
    assert len({task.id for task in more}) == len(more)


def test_other_operators_make_up_for_one_that_finds_too_few(mini: Domain) -> None:
    tasks, dropped = evolve(mini, mini.tasks(), {"share": 0.4}, 0)
    by = Counter(task.operator for task in tasks)
    assert "indirect" not in by  # it has no search that the operator could use
    assert evolved_share([*mini.tasks(), *tasks]) >= 0.4
    assert len({task.id for task in tasks}) == len({task.instruction for task in tasks}) == len(tasks)
    assert dropped["indirect: no further task found"]


def test_a_share_that_cannot_be_reached_is_refused(
    mini: Domain, edited: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolorchestra.toolscale.evolution.evolution.OPERATORS", {"indirect": OPERATORS["indirect"]})
    with pytest.raises(DomainError, match=r"Expected 20% evolved tasks, and 13 more are needed .*\(indirect 0\)"):
        evolve(mini, mini.tasks(), {"share": 0.2}, 0)
    for wrong in ({"share": 2}, {"share": 1.5}, {"chain": 0.5}):
        with pytest.raises(DomainError, match="evolution"):
            load_domain(edited("evolution", wrong))


def test_a_domain_that_asks_for_a_share_is_built_with_it(folder: Path, edited: Callable[..., Path]) -> None:
    edited("evolution", {"share": 0.3})
    built = build_domain(folder)
    assert evolved_share(built.tasks()) >= 0.3
    assert load_domain(folder).tasks() == built.tasks()


@pytest.mark.parametrize("operator", ["constraint", "branch"])
def test_where_every_request_that_writes_branches_conditions_are_put_on_those_in_paragraphs_of_their_own(
    domain: Domain, operator: Operator
) -> None:
    def written(task: Task) -> bool:
        return any(domain.tools[call.name].effect == "write" for call in task.reference_calls)

    given = [msgspec.structs.replace(task, branches=task.branches or written(task)) for task in domain.tasks()]
    tasks, _ = evolve(domain, given, {operator: 12}, 0)
    assert len(tasks) == 12
    by_id = {task.id: task for task in given}
    for task in tasks:
        parents = [
            by_id[str(task.parent)],
            *(by_id[other] for other in [task.bindings["evolved"].get("with")] if other),
        ]
        assert ("\n\n" in task.instruction) == any(parent.branches for parent in parents)
        assert all(parent.instruction.rstrip(".") in task.instruction for parent in parents) or operator == "branch"
    assert any("\n\n" in task.instruction for task in tasks)
    assert all("\n\n" not in task.instruction for task in made(domain, operator))  # it has requests that do not branch
    assert [one for one in try_verifier(domain, tasks).surprises if not one.equivalent] == []


@pytest.mark.parametrize("operator", ["chain", "distract"])
def test_what_an_evolved_request_names_can_be_looked_up(named: Domain, operator: Operator) -> None:
    evolver = Evolver(named, named.tasks())
    session = named.session()
    found, _ = evolver.tasks(operator, "names", 12)
    assert any(task.lookups for task in found.values())
    for task in found.values():
        assert not unshown_ids(named, task, task.whole_path, session)
        assert with_needed_lookups(named, task, session) == task
    session.close()
    evolver.close()


def test_a_draft_with_an_id_that_nothing_shows_is_dropped(named: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolorchestra.toolscale.evolution.operators._lookups", lambda *_, **__: ())
    evolver = Evolver(named, named.tasks())
    found, dropped = evolver.tasks("chain", "names", 12)
    evolver.close()
    assert dropped["chain: an id that nothing shows"]
    assert found


@pytest.mark.parametrize(
    ("operator", "facts", "answer", "reason"),
    [
        (
            "chain",
            ("booked", "reserved"),
            "Nothing was reserved.",
            "one answer says that nothing was done, and another",
        ),
        ("impossible", ("not found",), "I found Two Spoons, No Soup.", "a name says no already"),
    ],
)
def test_drafts_of_which_another_answer_has_the_words_are_dropped(
    mini: Domain, monkeypatch: pytest.MonkeyPatch, operator: Operator, facts: tuple[str, ...], answer: str, reason: str
) -> None:
    task = msgspec.structs.replace(
        mini.tasks()[0], communicate=(facts,), answer=f"It is {facts[0]}.", operator=operator, instruction="Is it?"
    )
    monkeypatch.setitem(OPERATORS, operator, lambda *_: TaskDraft(task, "key", (((), answer),)))
    evolver = Evolver(mini, mini.tasks())
    found, dropped = evolver.tasks(operator, "seed", 1)
    evolver.close()
    assert found == {}
    assert all(key.startswith(f"{operator}: {reason}") for key in dropped)
    assert dropped.total() > 0
