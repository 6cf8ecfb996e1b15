from __future__ import annotations

from typing import Any

import pytest

from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.human import HumanPolicy

ALL = {"split": "all"}


def a_person(*lines: str) -> tuple[HumanPolicy, list[str]]:
    script, shown = iter(lines), []
    return HumanPolicy(read=lambda prompt: next(script), show=shown.append), shown


def test_a_person_solves_a_task_by_typing(env: Any):
    task = next(task for task in env.source.tasks("all") if task.intent == "ask_price")
    policy, shown = a_person(
        f"get_order order_id={task.bindings['order_id']}", f"answer {task.answer}", task.communicate[0][0]
    )
    assert play_episode(env, policy, options={"task_id": task.id})["outcome"] == "solved"
    assert "answer TEXT" in shown[0]


def test_a_person_may_type_values_in_order_several_calls_and_quotes(env: Any):
    policy, _ = a_person(
        'make_order C01 "soup, pie" 9; get_order O001', 'write_note O001 "a; b"', "answer done", "done"
    )
    play_episode(env, policy, seed=0, options=ALL)
    calls = [(call.name, call.arguments) for call in env.episode.calls]
    assert calls[0] == ("make_order", {"customer_id": "C01", "dishes": ["soup", "pie"], "price": 9.0})
    assert calls[1] == ("get_order", {"order_id": "O001"})
    assert calls[2][1]["body"] == "a; b"


def test_a_person_sees_the_error_and_can_try_again(env: Any):
    policy, shown = a_person("get_ordr O1", 'get_order "O1', "get_order O1 O2", "answer done", "done")
    play_episode(env, policy, seed=0, options=ALL)
    assert "Did you mean 'get_order'?" in shown[1]
    assert "No closing quotation" in shown[2]
    assert "get_order takes order_id" in shown[3]
    assert [call.name for call in env.episode.calls] == ["submit"]


def test_a_person_can_look_at_the_tools(env: Any):
    policy, shown = a_person("?", "? make_order", "? make_ordr", "", "answer done", "done")
    play_episode(env, policy, seed=0, options=ALL)
    assert all(name in shown[1] for name in env.source.domain.tools)
    assert "dishes (array)" in shown[2]
    assert "Did you mean 'make_order'?" in shown[3]


def test_a_person_can_leave(env: Any):
    policy, _ = a_person("quit")
    with pytest.raises(KeyboardInterrupt):
        play_episode(env, policy, seed=0, options=ALL)
