from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolorchestra.envs.checks.hostile import KINDS, HostileCheck, hostile_actions
from toolorchestra.envs.tool_calling import ToolCallingPlay
from toolorchestra.envs.toolorchestra.env import ToolOrchestraEnv
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tools.guess import Guesser
from toolorchestra.toolscale.tools.sqltool import SqlTool
from toolorchestra.toolscale.tools.tool import Status, ToolResult

ACTIONS = 400


def rows(session: Session) -> dict[str, list[Any]]:
    return {t: session.connection.execute(f"SELECT * FROM {t}").fetchall() for t in session.database.tables}


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_actions_raise_nothing_and_change_nothing_that_a_valid_call_would_not(
    kind: str, mini: Domain, make_env: Callable[..., Any]
) -> None:
    rng = random.Random(f"hostile {kind}")
    env = make_env(disable_env_checker=True).unwrapped
    tools = [tool for name, tool in mini.tools.items() if not name.startswith("spin")]
    kinds = ("valid_call", kind)
    count = ACTIONS // 8 if kind == "huge_arguments" else ACTIONS
    actions = hostile_actions(rng, tools, Guesser(mini.database, rng).arguments, kinds)
    statuses: Counter[Status] = Counter()
    over = True
    for number in range(count):
        if over:
            env.reset(seed=number)
        session = env.play.session
        before, all_before = session.touched(), rows(session) if number % 10 == 0 else None
        observation, reward, terminated, truncated, info = env.step(next(actions))
        over = terminated or truncated
        assert env.observation_space.contains(observation)
        assert reward == 0.0
        assert info.get("outcome") not in ("infra_error", "judge_error"), info
        assert info["calls"] or terminated or "There is no call in this message" in observation
        for record in info["calls"]:
            statuses[record.status] += 1
            assert record.status is Status.OK or len(record.error) > 10, record
        if not any(record.status is Status.OK for record in info["calls"]):
            assert session.touched() == before
            assert all_before is None or rows(session) == all_before
    assert statuses[Status.OK]
    assert kind == "valid_call" or statuses[Status.PARSE_ERR]


def test_the_same_seed_gives_the_same_actions(mini: Domain) -> None:
    kinds = [kind for kind in KINDS if kind not in ("not_an_action", "deep_nesting", "huge_arguments")]
    one, other = (hostile_actions(random.Random(3), list(mini.tools.values()), None, kinds) for _ in range(2))
    assert [repr(next(one)) for _ in range(100)] == [repr(next(other)) for _ in range(100)]


def test_error_messages_say_how_to_fix_a_call(make_env: Callable[..., Any]) -> None:
    env = make_env(disable_env_checker=True)

    def error(action: Any) -> str:
        env.reset(seed=0)
        (record,) = env.step(action)[4]["calls"]
        assert record.status is not Status.OK
        return str(record.error)

    assert "Did you mean 'get_order'" in error([{"name": "get_ordr", "arguments": {}}])
    assert "needs the argument 'order_id'" in error([{"name": "get_order", "arguments": {}}])
    assert "Did you mean 'order_id'" in error([{"name": "get_order", "arguments": {"orderid": "O001"}}])
    assert "Argument 'order_id' of get_order: Expected string, got integer" in error(
        [{"name": "get_order", "arguments": {"order_id": 7}}]
    )
    assert "a date as YYYY-MM-DD" in error([{"name": "list_orders", "arguments": {"day": "tomorrow"}}])
    assert "at most 20" in error([{"name": "list_orders", "arguments": {"most": 21}}])
    assert "nested too deep" in error('<tool_call>{"name": "get_order", "arguments": ' + "[" * 10_000 + "</tool_call>")
    assert "not closed" in error('<tool_call>{"name": "get_order"')
    assert "No order O999." in error([{"name": "get_order", "arguments": {"order_id": "O999"}}])
    assert "at most 1,000,000" in error([{"name": "get_order", "arguments": {"order_id": "x" * 2_000_000}}])


# What the check finds


@pytest.fixture
def wrong(make_env: Callable[..., Any], quick_folder: Path) -> Callable[..., list[str]]:
    """Send hostile actions to an environment on the mini domain and return the faults found."""

    def run(count: int = 40) -> list[str]:
        check = HostileCheck(make_env(domain=quick_folder, disable_env_checker=True).unwrapped, random.Random(0))
        for _ in range(count):
            check.step()
        check.end_episode(whole=True)
        return check.wrong

    return run


def results_with(monkeypatch: pytest.MonkeyPatch, change: Callable[[list[Any]], None]) -> None:
    """Let `step` return something else."""
    step = ToolOrchestraEnv.step

    def changed(self: ToolOrchestraEnv, action: Any) -> Any:
        results = list(step(self, action))
        change(results)
        return tuple(results)

    monkeypatch.setattr(ToolOrchestraEnv, "step", changed)


def test_a_step_that_raises_is_found_with_its_action(
    wrong: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(self: ToolOrchestraEnv, action: Any) -> Any:
        raise KeyError("oops")

    monkeypatch.setattr(ToolOrchestraEnv, "step", step)
    found = wrong(80)
    assert len(found) == 80
    assert all(line.startswith("step raised KeyError: 'oops'; action ") for line in found)
    assert any(line.endswith("nested too deep to show") for line in found)


@pytest.mark.parametrize(("place", "value"), [(0, 7), (0, "\ud800"), (1, 1.5), (1, -0.1), (1, float("nan"))])
def test_what_is_outside_its_space_is_found(
    wrong: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, place: int, value: Any
) -> None:
    results_with(monkeypatch, lambda results: results.__setitem__(place, value))
    found = wrong()
    assert len(found) == 40
    assert all(line.startswith("observation or reward outside its space; action ") for line in found)


def test_a_status_without_a_message_is_found(wrong: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    def silence(results: list[Any]) -> None:
        results[4]["calls"] = tuple(msgspec.structs.replace(call, error="  ") for call in results[4]["calls"])

    results_with(monkeypatch, silence)
    found = wrong()
    assert found
    assert all(re.search(r": (PARSE_ERR|EXEC_ERR|TIMEOUT) without a message; action ", line) for line in found)


def test_an_error_of_the_judge_is_found(wrong: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(*_: Any) -> Any:
        raise ZeroDivisionError("the judge has a fault")

    monkeypatch.setattr(Domain, "verify", judge)
    found = wrong(300)
    assert found
    assert all(line.startswith("judge_error: ZeroDivisionError: the judge has a fault; action ") for line in found)


def test_an_error_of_a_tool_is_found(wrong: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    def take(self: ToolCallingPlay, agent: str, message: Any) -> None:
        raise OSError("no disk")

    monkeypatch.setattr(ToolCallingPlay, "_on_message", take)
    found = wrong()
    assert len(found) == 40
    assert all(line.startswith("infra_error: OSError: no disk; action ") for line in found)


def test_arguments_that_make_a_tool_fail_are_found(
    wrong: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(self: SqlTool, arguments: dict[str, Any], context: Any) -> ToolResult:
        raise OverflowError("too large")

    monkeypatch.setattr(SqlTool, "run", run)
    found = wrong(300)
    assert any(line.startswith("infra_error: ToolFaultWarning: The tool ") for line in found)


@pytest.mark.parametrize(
    ("hidden", "fault"),
    [(False, "the database changed beyond what its valid calls change"), (True, "rows changed that no journal has")],
    ids=["journalled", "hidden"],
)
def test_a_change_that_no_valid_call_made_is_found(
    wrong: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, hidden: bool, fault: str
) -> None:
    act = ToolCallingPlay.act

    def careless(self: ToolCallingPlay, action: Any) -> Any:
        execute = self.session.connection.execute
        self.session.connection.set_authorizer(None)  # it would refuse this
        find = "SELECT sql FROM temp.sqlite_master WHERE name = '_update_orders'"
        trigger = execute(find).fetchone()[0].replace("CREATE TRIGGER", "CREATE TEMP TRIGGER")
        if hidden:
            execute("DROP TRIGGER temp._update_orders")
        execute("UPDATE orders SET price = price + 1 WHERE order_id = 'O040'")
        if hidden:
            execute(trigger)
        self.session.wrote = True
        return act(self, action)

    monkeypatch.setattr(ToolCallingPlay, "act", careless)
    found = wrong()
    assert len(found) == (1 if hidden else 4)  # of 4 episodes; all rows are compared after the last
    assert not [line for line in found if not re.fullmatch(rf"mini/\w+/\d+: {fault}", line)]
