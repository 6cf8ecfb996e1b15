"""The rules of a round, the budget, and the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.envs.paramanager.play import concluding_answer
from toolorchestra.envs.paramanager.rewards import reward_parts, total
from toolorchestra.toolscale.common.errors import ExpertError, OptionError

Make = Callable[..., Any]
Say = Callable[..., str]


def statuses(info: dict[str, Any]) -> list[str]:
    return [str(call.status) for call in info["calls"]]


def test_a_round_runs_up_to_four_calls_and_refuses_the_rest(make_env: Make, say: Say) -> None:
    env = make_env()
    env.reset(seed=0)
    _, _, _, _, info = env.step(say(*["standard_reasoner"] * 6))
    assert statuses(info) == ["OK"] * 4 + ["PARSE_ERR"] * 2
    assert "The limit is 4" in info["calls"][4].error
    assert info["budget"]["cost"] == 16 - 4


def test_a_serial_round_runs_one_call(make_env: Make, say: Say) -> None:
    env = make_env(serial=True)
    observation, _ = env.reset(seed=0)
    assert "then one call." in observation
    _, _, _, _, info = env.step(say("standard_reasoner", "code_reasoner"))
    assert statuses(info) == ["OK", "PARSE_ERR"]
    assert "The limit is 1" in info["calls"][1].error
    assert env.max_calls_per_message == 1


def test_an_invalid_call_is_refused_and_the_others_run(make_env: Make, say: Say) -> None:
    env = make_env()
    env.reset(seed=0)
    wrong = [
        ("standard_reasoner", {"model_id": "gpt-7"}),
        ("standard_reasoner", {"topic": "sums"}),
        ("standard_raesoner", {}),
    ]
    _, _, terminated, _, info = env.step(say(*wrong, "standard_reasoner"))
    assert statuses(info) == ["PARSE_ERR"] * 3 + ["OK"]
    assert "gpt-oss-20b" in info["calls"][0].error
    assert "Did you mean 'standard_reasoner'?" in info["calls"][2].error
    assert not terminated


def test_parallel_calls_start_together_and_last_as_long_as_the_slowest(make_env: Make, say: Say) -> None:
    env = make_env()
    env.reset(seed=0)
    _, _, _, _, info = env.step(say("standard_reasoner", "code_reasoner", "ensemble_solver"))
    (turn,) = env.unwrapped.episode.turns
    assert {call.start for call in info["calls"]} == {turn.seconds}
    assert info["clock"] == max(call.end for call in info["calls"]) > turn.seconds
    assert info["cost"] == pytest.approx(turn.cost + sum(call.cost for call in info["calls"]))


def test_a_message_without_a_call_is_answered_and_costs_a_round(make_env: Make) -> None:
    env = make_env()
    env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step("It is 12.")
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert "<tool_call>" in observation
    assert observation.endswith("Budget left: 11 rounds, 16 cost units, 24500 tokens.")
    assert info["messages"][-2:] == [
        {"role": "assistant", "content": "It is 12."},
        {"role": "user", "content": observation},
    ]


def test_the_budget_ends_every_observation(make_env: Make, say: Say) -> None:
    env = make_env(count_tokens=lambda text: len(text.split()), length_target=500, cost_target=3)
    observation, info = env.reset(seed=0)
    assert observation.endswith("Budget left: 12 rounds, 6 cost units, 1000 tokens.")
    assert info["budget"] == {"rounds": 12, "cost": 6.0, "tokens": 1000}
    assert info["messages"][-1]["content"].endswith("1000 tokens.")
    message = say("ensemble_solver", "standard_reasoner")
    observation, _, _, _, info = env.step(message)
    shown = "\n".join(m["content"] for m in info["messages"][3:] if m["role"] == "tool")
    assert observation.splitlines()[-1].startswith("Budget left: 11 rounds, 1 cost units")
    left = info["budget"]["tokens"]
    assert left == 1000 - len(message.split()) - len(observation.split())
    assert len(shown.split()) < 1000 - left
    observation, _, _, _, info = env.step(say("ensemble_solver"))
    assert info["budget"]["cost"] == 0.0  # overdrawn, which is no end
    assert info["messages"][-1] == {"role": "user", "content": observation.splitlines()[-1]}


def test_the_final_answer_waits_for_its_round_and_ends_the_episode(make_env: Make, say: Say) -> None:
    env = make_env()
    env.reset(seed=0, options={"task_id": "sums/3"})
    message = say("ensemble_solver", "final_answer", "standard_reasoner", thought=r"So \boxed{12}.")
    _, reward, terminated, truncated, info = env.step(message)
    assert statuses(info) == ["OK", "OK", "PARSE_ERR"]
    assert "final_answer ends the episode" in info["calls"][2].error
    assert info["calls"][1].start == info["calls"][0].end
    assert (terminated, truncated, info["outcome"]) == (True, False, "solved")
    assert env.episode.answer == r"\boxed{12}"
    assert reward == total(info["reward_parts"]) == env.episode.reward
    assert info["M"][-3] == 1.0
    with pytest.raises(OptionError, match="over"):
        env.step("More.")


def test_a_final_call_that_is_none_ends_nothing(make_env: Make, say: Say) -> None:
    env = make_env()
    env.reset(seed=0)
    _, _, terminated, truncated, info = env.step(say(("final_answer", {"answer": "12"})))
    assert statuses(info) == ["PARSE_ERR"]
    assert (terminated, truncated) == (False, False)


def test_after_twelve_rounds_the_episode_is_truncated_without_a_task_reward(make_env: Make, say: Say) -> None:
    env = make_env()
    env.reset(seed=0)
    for number in range(12):
        assert env.episode.outcome is None, number
        _, reward, terminated, truncated, info = env.step(
            say(("python", {"code": ""}), ("local_search", {"query_list": []}))
        )
    assert (terminated, truncated, info["outcome"]) == (False, True, "failed")
    assert info["verdict"] == "no answer after 12 turns"
    assert info["reward_parts"] == {
        "task": 0.0,
        "format": 1.0,
        "diversity": 0.5,
        "efficiency": 1.0,
        "parallelism": 1.0,
        "tools": 0.0,
        "length": 1.0,
        "cost": 1.0,
    }
    assert reward == 2.5


def test_the_reward_can_be_computed_again_from_the_record(make_env: Make, say: Say) -> None:
    env = make_env()
    env.reset(seed=0)
    env.step("Hm.")
    env.step(say("ensemble_solver", "code_reasoner", "critical_reviewer"))
    env.step(say("final_answer"))
    episode = env.episode
    units = {name: tool.units for name, tool in env.play.tools.items() if hasattr(tool, "units")}
    assert reward_parts(episode.turns, solved=episode.outcome == "solved", units=units) == episode.reward_parts
    assert episode.reward_parts["format"] == 2 / 3


def test_without_the_reward_for_diversity_it_is_reported_all_the_same(make_env: Make, say: Say) -> None:
    rewards = {}
    for without in (False, True):
        env = make_env(no_diversity=without)
        env.reset(seed=0)
        env.step(say("standard_reasoner", "code_reasoner", "critical_reviewer"))
        *_, info = env.step(say("final_answer"))
        assert info["reward_parts"]["diversity"] == 1.0
        rewards[without] = env.episode.reward
    assert rewards[False] - rewards[True] == 1.0


def test_long_results_are_cut_to_4096_tokens(make_env: Make, say: Say, scripted: Callable[..., ScriptedChat]) -> None:
    long = 'A "quoted" word. ' * 3_000
    for count in (None, lambda text: len(text) // 2, lambda text: len(text.split())):
        env = make_env(experts={"ada": scripted("ada", long)}, **({"count_tokens": count} if count else {}))
        env.reset(seed=0)
        *_, info = env.step(say("standard_reasoner"))
        (shown,) = [m["content"] for m in info["messages"] if m["role"] == "tool"]
        tokens = (count or (lambda text: len(text) / 4))(shown)
        assert 3_500 < tokens <= 4_096
        assert "cut" in json.loads(shown)["result"][-60:]
        assert info["calls"][0].value == long.strip()


def test_a_summariser_that_fails_is_no_fault_of_the_orchestrator(
    make_env: Make, say: Say, scripted: Callable[..., ScriptedChat]
) -> None:
    down = ScriptedChat(lambda _: ExpertError("The server is down."), name="down")
    env = make_env(experts={"ada": scripted("ada"), "down": down}, summariser="down")
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step(say("final_answer"))
    assert (terminated, truncated, info["outcome"]) == (False, True, "infra_error")
    assert "The server is down." in info["verdict"]
    assert (reward, env.episode.reward, "rewards" in info) == (0.0, None, False)


def test_a_sub_agent_that_fails_is_a_result_to_recover_from_where_that_is_asked_for(
    make_env: Make, say: Say, scripted: Callable[..., ScriptedChat]
) -> None:
    down = ScriptedChat(lambda _: ExpertError("The server is down."), name="down")
    experts = {"ada": scripted("ada"), "down": down}
    message = say(("standard_reasoner", {"model_id": "down"}), "standard_reasoner")
    env = make_env(experts=experts, outages="observed")
    env.reset(seed=0)
    *_, info = env.step(message)
    assert statuses(info) == ["EXEC_ERR", "OK"]
    assert info["budget"]["cost"] == 14.0
    env = make_env(experts=experts)
    env.reset(seed=0)
    *_, info = env.step(message)
    assert (info["outcome"], info["verdict"]) == ("infra_error", "BatchError: The server is down.")


def test_the_final_answer_is_the_reply_without_the_reasoning() -> None:
    assert concluding_answer("<think>Hm.</think><reasoning>7 or 8.</reasoning>\n<answer>\n8\n</answer>") == "8"
    assert concluding_answer("<reasoning>7 or 8.</reasoning> It is 8.") == "It is 8."


PUBLISHED = r"""<reasoning>
### State Analysis
The problem is to find the sum. We must verify the representation and the logic using independent tools.

### Strategy Planning and Tool Selection
Multi-Model Consensus: dispatch the same sub_task to two models, and search for the formula.
</reasoning>
<tool_call>
{"name": "code_reasoner", "arguments": {"sub_task": "Add 3 to 2 and double it.", "model": "qwen3-coder-30b"}}
</tool_call>
<tool_call>
{"name": "standard_reasoner", "arguments": {"subtask": "Is \\frac{9}{1} \"nine\"?", "model_id": "gpt-oss-20b"}}
</tool_call>
<tool_call>
{"name": "search", "arguments": {"query_list": ["stars and bars"]}}
</tool_call>
<tool_call>
{"name": "ensemble_solver", "arguments": {}}
</tool_call>"""
"""A round in the form of Figures 7, 8 and 10, with the names of Table 7 and of the prompt."""


def test_a_message_in_the_form_that_the_paper_publishes_is_read_as_it_is_meant(make_env: Make) -> None:
    env = make_env()
    env.reset(seed=0)
    *_, info = env.step(PUBLISHED)
    assert [(call.name, str(call.status)) for call in info["calls"]] == [
        (name, "OK") for name in ("code_reasoner", "standard_reasoner", "local_search", "ensemble_solver")
    ]
    assert info["calls"][0].arguments == {"subtask": "Add 3 to 2 and double it.", "model_id": "qwen3-coder-30b"}
    assert info["calls"][1].arguments["subtask"] == 'Is \\frac{9}{1} "nine"?'
    *_, info = env.step(
        "<reasoning>\n### Final Answer Submission\nNow call the final_answer tool.\n</reasoning>\n<tool_call>\n"
        '{"name": "final_answer", "arguments": {}}\n</tool_call>'
    )
    assert info["reward_parts"]["format"] == 1.0
    assert (info["reward_parts"]["parallelism"], info["reward_parts"]["tools"]) == (1.0, 1.0)
    both = {"name": "standard_reasoner", "arguments": {"subtask": "1 + 1", "sub_task": "2 + 2"}}
    env.reset(seed=0)
    *_, info = env.step([both])
    assert str(info["calls"][0].status) == "PARSE_ERR"  # which of the two is meant cannot be known
