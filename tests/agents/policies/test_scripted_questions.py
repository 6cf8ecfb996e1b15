"""Policies that ask one expert in given words, and how far they come with them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.agents.policies.base import Policy, play_episode
from toolorchestra.agents.policies.scripted_questions import (
    FINAL,
    NONSENSE,
    PLAIN,
    NamedStepPolicy,
    ScriptedQuestionPolicy,
    named,
)
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.errors import OptionError
from toolorchestra.toolscale.task import Call

Make = Callable[..., Any]


def solved(env: Any, mini: Domain, policy: Policy) -> float:
    tasks = mini.tasks()[::2]
    infos = (play_episode(env, policy, seed=seed, options={"task_id": task.id}) for seed, task in enumerate(tasks))
    return sum(info["outcome"] == "solved" for info in infos) / len(tasks)


def test_plain_words_solve_most_and_nonsense_nothing(make_env: Make, mini: Domain) -> None:
    env = make_env(tools="full")
    assert solved(env, mini, ScriptedQuestionPolicy(questions=PLAIN)) >= 0.8
    assert solved(env, mini, NamedStepPolicy()) >= 0.8
    assert solved(env, mini, ScriptedQuestionPolicy(questions=NONSENSE)) == 0.0


def test_questions_are_asked_in_turn_of_the_expert_for_the_job(make_env: Make) -> None:
    env = make_env(tools="full", max_turns=4)
    play_episode(
        env,
        ScriptedQuestionPolicy(questions=("How are you?", "What is love?"), job="math", expert="qwen2.5-math-7b"),
        seed=0,
    )
    calls = list(env.unwrapped.episode.calls)
    assert {call.name for call in calls} == {"math_qwen2_5_math_7b", "submit"}
    assert calls[0].arguments["question"] in ("How are you?", "What is love?")


def test_steps_are_named_by_their_purpose_and_values(make_env: Make, mini: Domain) -> None:
    call = Call("make_order", {"customer_id": "C01", "dishes": ["soup", "pie"], "price": 9})
    words = named(mini.tools["make_order"], call)
    assert words == "Make an order. With: customer_id C01, dishes soup and pie, price 9."
    assert named(mini.tools["count_orders"], Call("count_orders", {})) == "Number of orders."
    env = make_env(tools="full")
    task = next(task for task in mini.tasks() if task.intent == "order_twice")
    play_episode(env, NamedStepPolicy(), seed=0, options={"task_id": task.id})
    asked = [call.arguments["question"] for call in env.unwrapped.episode.calls if call.name.startswith("ask_")]
    assert asked[0] == named(mini.tools["get_customer"], task.reference_calls[0])
    assert asked[-1] == FINAL


def test_a_policy_asks_at_least_one_question() -> None:
    with pytest.raises(OptionError, match="at least one question"):
        ScriptedQuestionPolicy(questions=())
    with pytest.raises(OptionError, match="at least once"):
        NamedStepPolicy(tries=0)


def test_without_experts_there_is_nobody_to_ask(make_env: Make) -> None:
    env, policy = make_env(), ScriptedQuestionPolicy()
    with pytest.raises(OptionError, match="tools='full'"):
        play_episode(env, policy, seed=0)


def test_they_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(ScriptedQuestionPolicy(questions=("Now?",)))).questions == ("Now?",)
    assert pickle.loads(pickle.dumps(NamedStepPolicy(tries=2))).tries == 2


def test_look_ups_are_asked_for_before_what_needs_them(make_env: Make, named_folder: Path) -> None:
    env = make_env(tools="full", domain=named_folder)
    tasks = [task for task in env.unwrapped.source.tasks("all") if task.lookups]
    for policy in (NamedStepPolicy(), ScriptedQuestionPolicy(questions=PLAIN)):
        infos = [play_episode(env, policy, seed=n, options={"task_id": task.id}) for n, task in enumerate(tasks)]
        assert sum(info["outcome"] == "solved" for info in infos) >= 0.8 * len(tasks)
    play_episode(env, NamedStepPolicy(), seed=0, options={"task_id": tasks[0].id})
    asked = [call.arguments["question"] for call in env.unwrapped.episode.calls if call.name.startswith("ask_")]
    tools = env.unwrapped.source.domain.tools
    assert asked[0] == named(tools["get_customer"], tasks[0].lookups[0])
