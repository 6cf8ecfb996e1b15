from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.agents.policies.base import Policy, play_episode, write_calls
from toolorchestra.agents.policies.chat_policy import ChatPolicy
from toolorchestra.agents.policies.human import HumanPolicy
from toolorchestra.agents.policies.reference import NoisyOraclePolicy, OraclePolicy, RandomPolicy
from toolorchestra.agents.policies.registry import POLICIES, make_policy
from toolorchestra.toolscale.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.tool import Status

ALL = {"split": "all"}


@pytest.fixture
def env(make_env: Callable[..., Any]) -> Any:
    return make_env(disable_env_checker=True).unwrapped


def success(env: Any, policy: Policy, episodes: int = 60) -> float:
    return (
        sum(play_episode(env, policy, seed=i, options=ALL)["outcome"] == "solved" for i in range(episodes)) / episodes
    )


def records(env: Any, policy: Policy, episodes: int = 20) -> list[bytes]:
    found = []
    for i in range(episodes):
        play_episode(env, policy, seed=i, options=ALL)
        found.append(env.episode.to_json())
    return found


def test_the_oracle_solves_every_task(env: Any):
    for task in env.source.tasks("all"):
        info = play_episode(env, OraclePolicy(), options={"task_id": task.id})
        assert info["outcome"] == "solved", info["verdict"]


def test_the_oracle_makes_the_calls_of_one_stage_in_one_turn(env: Any):
    task = next(task for task in env.source.tasks("all") if task.intent == "order_twice")
    play_episode(env, OraclePolicy(), options={"task_id": task.id})
    assert [[call.name for call in turn.calls] for turn in env.episode.turns] == [
        ["get_customer"],
        ["make_order", "make_order"],
        ["get_order"],
        [],
    ]


def test_the_null_policy_solves_nothing(env: Any):
    assert success(env, make_policy("null")) == 0.0


def test_the_random_policy_makes_valid_calls_that_mostly_succeed(env: Any):
    statuses: Counter[Status] = Counter()
    names = [name for name in env.source.domain.tools if not name.startswith("spin")]
    for i in range(60):
        play_episode(env, RandomPolicy(), seed=i, options={**ALL, "tools": names})
        statuses.update(call.status for call in env.episode.calls)
    assert statuses[Status.PARSE_ERR] == 0
    assert statuses[Status.OK] > 0.6 * statuses.total() > 60


def test_the_random_policy_hardly_ever_solves(env: Any):
    assert success(env, RandomPolicy()) < 0.1


def test_a_noisy_oracle_that_never_errs_is_the_oracle(env: Any):
    assert records(env, NoisyOraclePolicy(error=0.0)) == records(env, OraclePolicy())


def test_the_more_a_noisy_oracle_errs_the_less_it_solves(env: Any):
    shares = [success(env, NoisyOraclePolicy(error=error)) for error in (0.0, 0.2, 0.5, 1.0)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 1.0
    assert shares[-1] < 0.2


@pytest.mark.parametrize("kind", NoisyOraclePolicy.MISTAKES)
def test_each_kind_of_mistake_costs_success(env: Any, kind: str):
    assert success(env, NoisyOraclePolicy(error=1.0, mistakes=(kind,))) < 0.8


@pytest.mark.parametrize("name", ["random", "oracle", "noisy-oracle", "null"])
def test_equal_seeds_give_equal_episodes_whatever_was_played_before(env: Any, name: str):
    used = make_policy(name, seed=3)
    play_episode(env, used, seed=99, options=ALL)
    assert records(env, used) == records(env, make_policy(name, seed=3))


def test_other_seeds_give_other_episodes(env: Any):
    assert records(env, RandomPolicy(0)) != records(env, RandomPolicy(1))


def test_a_chat_model_is_given_conversation_and_tools_and_its_reply_is_played(env: Any):
    def reply(request: Any) -> str:
        if len(request.messages) == 2:
            return write_calls(task.reference_calls, "Let me see. ")
        return task.answer

    model = ScriptedChat(reply)
    task = next(task for task in env.source.tasks("all") if task.intent == "ask_price")
    info = play_episode(env, ChatPolicy(model), options={"task_id": task.id})
    assert info["outcome"] == "solved"
    first, second = model.requests
    assert [message["role"] for message in first.messages] == ["system", "user"]
    assert [message["role"] for message in second.messages] == ["system", "user", "assistant", "tool"]
    assert {tool["function"]["name"] for tool in first.tools} == set(env.source.domain.tools)
    assert first.temperature == 0.0


def a_person(*lines: str) -> tuple[HumanPolicy, list[str]]:
    script, shown = iter(lines), []
    return HumanPolicy(read=lambda prompt: next(script), show=shown.append), shown


def test_a_person_solves_a_task_by_typing(env: Any):
    task = next(task for task in env.source.tasks("all") if task.intent == "ask_price")
    policy, shown = a_person(f"get_order order_id={task.bindings['order_id']}", f"answer {task.answer}")
    assert play_episode(env, policy, options={"task_id": task.id})["outcome"] == "solved"
    assert "answer TEXT" in shown[0]


def test_a_person_may_type_values_in_order_several_calls_and_quotes(env: Any):
    policy, _ = a_person('make_order C01 "soup, pie" 9; get_order O001', 'write_note O001 "a; b"', "answer done")
    play_episode(env, policy, seed=0, options=ALL)
    calls = [(call.name, call.arguments) for call in env.episode.calls]
    assert calls[0] == ("make_order", {"customer_id": "C01", "dishes": ["soup", "pie"], "price": 9.0})
    assert calls[1] == ("get_order", {"order_id": "O001"})
    assert calls[2][1]["body"] == "a; b"


def test_a_person_is_told_what_is_wrong_and_asked_again(env: Any):
    policy, shown = a_person("get_ordr O1", 'get_order "O1', "get_order O1 O2", "answer done")
    play_episode(env, policy, seed=0, options=ALL)
    assert "Did you mean 'get_order'?" in shown[1]
    assert "No closing quotation" in shown[2]
    assert "get_order takes order_id" in shown[3]
    assert not list(env.episode.calls)


def test_a_person_can_look_at_the_tools(env: Any):
    policy, shown = a_person("?", "? make_order", "? make_ordr", "", "answer done")
    play_episode(env, policy, seed=0, options=ALL)
    assert all(name in shown[1] for name in env.source.domain.tools)
    assert "dishes (array)" in shown[2]
    assert "Did you mean 'make_order'?" in shown[3]


def test_a_person_can_leave(env: Any):
    policy, _ = a_person("quit")
    with pytest.raises(KeyboardInterrupt):
        play_episode(env, policy, seed=0, options=ALL)


def test_policies_are_made_by_name():
    options: dict[str, dict[str, Any]] = {"llm": {"model": ScriptedChat([])}}
    for name, kind in POLICIES.items():
        assert isinstance(make_policy(name, **options.get(name, {})), kind)


def test_an_unknown_policy_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'oracle'"):
        make_policy("orcale")


def test_wrong_options_are_refused():
    with pytest.raises(OptionError, match="cannot be made so"):
        make_policy("oracle", error=0.1)
    with pytest.raises(OptionError, match=r"\[0, 1\]"):
        make_policy("noisy-oracle", error=1.5)
    with pytest.raises(UnknownNameError, match="Did you mean 'skip'"):
        make_policy("noisy-oracle", mistakes=["skips"])
