"""Policies that ask one expert in given words, and how far they come with them."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from toolorchestra.agents.policies.base import Policy, play_episode
from toolorchestra.agents.policies.scripted_questions import (
    FINAL,
    PLAIN,
    UNINFORMED,
    NamedStepPolicy,
    ScriptedQuestionPolicy,
    named,
)
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.yaml_reader import read_yaml
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.task import Call
from toolorchestra.toolscale.tools.tool import Tool

Make = Callable[..., Any]
OWN_WORDS: dict[str, list[str]] = read_yaml(Path(__file__).parents[2] / "data" / "own_words.yaml")


@pytest.fixture
def restaurant() -> Iterator[Any]:
    env = gym.make("ToolOrchestra-Restaurant-v0", tools="full")
    yield env
    env.close()


def solved(env: Any, mini: Domain, policy: Policy) -> float:
    tasks = mini.tasks()[::2]
    infos = (play_episode(env, policy, seed=seed, options={"task_id": task.id}) for seed, task in enumerate(tasks))
    return sum(info["outcome"] == "solved" for info in infos) / len(tasks)


def mistyped(tool: Tool, call: Call, rng: random.Random) -> str:
    """Return the question with letters exchanged in the words of its purpose."""
    purpose, _, values = named(tool, call).partition("With:")
    return " ".join(word[:1] + word[2:3] + word[1:2] + word[3:] for word in purpose.split()) + values


def test_an_expert_is_as_good_as_what_it_is_told(make_env: Make, mini: Domain) -> None:
    env = make_env(tools="full")
    everything = solved(env, mini, ScriptedQuestionPolicy())
    by_name = solved(env, mini, NamedStepPolicy())
    assert min(everything, by_name) >= 0.8
    assert solved(env, mini, ScriptedQuestionPolicy(questions=UNINFORMED, shown=0.0)) == 0.0
    assert 0.05 < solved(env, mini, ScriptedQuestionPolicy(shown=0.5)) < everything - 0.1
    assert abs(solved(env, mini, NamedStepPolicy(words=mistyped)) - by_name) <= 0.1


@pytest.mark.parametrize("language", [0, 1])
def test_it_understands_other_words_and_languages(restaurant: Any, language: int) -> None:
    """The questions of tests/data/own_words.yaml share next to no word with the tools."""

    def words(tool: Tool, call: Call, rng: random.Random) -> str:
        lists = (value if isinstance(value, list) else [value] for value in call.arguments.values())
        values = [str(item) for items in lists for item in items if item is not None]
        rng.shuffle(values)
        return f"{OWN_WORDS[tool.name][language]} {', '.join(values)}"

    env, shares = restaurant, []
    assert env.unwrapped.source.domain.tools.keys() == OWN_WORDS.keys()
    tasks = env.unwrapped.source.tasks("test")[::20]
    for policy in (NamedStepPolicy(), NamedStepPolicy(words=words)):
        infos = [play_episode(env, policy, seed=n, options={"task_id": task.id}) for n, task in enumerate(tasks)]
        shares.append(sum(info["outcome"] == "solved" for info in infos) / len(tasks))
    assert shares[1] >= 0.8
    assert abs(shares[0] - shares[1]) <= 0.1


def test_questions_are_asked_in_turn_of_the_expert_for_the_job(make_env: Make) -> None:
    env = make_env(tools="full", max_turns=4)
    play_episode(
        env,
        ScriptedQuestionPolicy(
            questions=("How are you?", "What is love?"), job="math", expert="qwen2.5-math-7b", shown=0.0
        ),
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
    for policy in (NamedStepPolicy, ScriptedQuestionPolicy):
        with pytest.raises(OptionError, match="at least once"):
            policy(tries=0)
    with pytest.raises(OptionError, match=r"`shown` in \[0, 1\], got 2"):
        ScriptedQuestionPolicy(shown=2)


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
