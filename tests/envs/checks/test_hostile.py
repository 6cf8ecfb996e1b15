from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from toolorchestra.envs.checks.hostile import KINDS, hostile_actions
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.guess import Guesser
from toolorchestra.toolscale.session import Session
from toolorchestra.toolscale.tool import Status

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
        assert info["calls"] or terminated
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
