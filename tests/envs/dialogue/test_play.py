from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

from toolorchestra import environment_ids
from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.agents.policies.base import write_calls
from toolorchestra.envs import make_multiagent
from toolorchestra.envs.dialogue import ChatUser, DialogueEnv, raw_env, single_env
from toolorchestra.envs.dialogue.scenario import MAX_TEXT_CHARACTERS, STOP
from toolorchestra.envs.dialogue.teacher import DONE, inject_error, knows, teach
from toolorchestra.envs.records.episode import read_episodes
from toolorchestra.envs.registration import domain_sources
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.tasks.task import Call, write_tasks

TASK = "restaurant/pay_with_coupon/005"
PERSONAL = write_calls([Call("get_coupon", {"coupon": "DILL"})])


def new(**options: Any) -> DialogueEnv:
    env = raw_env("Restaurant", **options)
    env.reset(seed=0, options={"task_id": TASK})
    return env


def taught(env: DialogueEnv, **reset: Any) -> DialogueEnv:
    env.reset(seed=1, options=reset)
    while not env.play.over:
        env.step(teach(env.play))
    return env


@pytest.mark.parametrize("source", domain_sources())
def test_who_asks_and_plays_the_reference_trajectory_solves_every_task_and_who_does_nothing_none(source: str) -> None:
    env = raw_env(source, persona="mixed", max_cycles=60)
    for task in random.Random(1).sample(list(env.source.tasks("all")), 8):
        assert taught(env, task_id=task.id).episode.outcome == "solved", env.episode.why
        assert env.episode.rewards == {"user": 1.0, "orchestrator": 1.0}
        assert env.play.faults == ()
        assert knows(task)
        env.reset(seed=1, options={"task_id": task.id})
        while not env.play.over:
            env.step(teach(env.play) if env.agent_selection == "user" else DONE)
        assert env.episode.outcome == "failed"
        assert env.infos["user"]["faults"][0].agent == "orchestrator"


def test_texts_go_to_the_other_one_and_results_to_who_called() -> None:
    env = new()
    env.step("Hello, a coupon please.")
    assert env.agent_selection == "orchestrator"
    assert env.observe("orchestrator").endswith("Hello, a coupon please.")
    env.step(f"<think>hm</think>Let me see. {PERSONAL}")
    assert env.agent_selection == "orchestrator"
    assert '"status":"OK"' in env.observe("orchestrator")
    assert env.observe("user") == ""
    env.step("<think>It is personal.</think>Whose bill is it?")
    assert env.agent_selection == "user"
    assert env.observe("user") == "Whose bill is it?"
    seen = repr(env.infos["user"]["messages"])
    assert "tool_response" not in seen
    assert "personal" not in seen


def test_the_goal_is_the_users_alone() -> None:
    env = new()
    env.step(teach(env.play))
    seen = env.observe("orchestrator") + repr(env.infos["orchestrator"])
    assert "scenario" in env.infos["user"]
    assert env.task.instruction in env.play.histories["user"][0]["content"]
    for secret in ("DILL", "2025-08-06", env.task.instruction, "scenario"):
        assert secret not in seen


def test_the_prompt_has_the_tools_and_the_rules() -> None:
    prompt = new().observe("orchestrator")
    assert all(f'"name":"{name}"' in prompt for name in ("pay_bill", "get_order"))
    assert "Today is Wednesday, 2025-07-23" in prompt
    assert "tools of their own" not in prompt


def test_the_agent_observes_why_its_call_is_malformed() -> None:
    env = new()
    env.step("Hello.")
    env.step("<tool_call>{}</tool_call><tool_call>")
    assert env.observe("orchestrator").count("PARSE_ERR") == 2
    env.step("")
    assert env.observe("orchestrator").startswith("Nobody heard anything.")
    assert env.agent_selection == "orchestrator"


def test_long_texts_and_results_are_cut() -> None:
    env = new(result_characters=50)
    env.step("x" * 100_000)
    assert len(env.play.new_messages("orchestrator")[-1]["content"]) == MAX_TEXT_CHARACTERS
    env.step(write_calls([Call("find_dishes", {})]))
    assert "(cut: the result is too long" in env.observe("orchestrator")


def test_calls_cost_and_take_time() -> None:
    env = new()
    env.step("Hello.")
    env.step(PERSONAL)
    (call,) = env.episode.calls
    assert env.episode.clock == call.end > 0
    env.step(PERSONAL)
    assert [call.id for call in env.episode.calls] == ["call_1", "call_2"]


def test_all_texts_of_the_orchestrator_are_verified() -> None:
    env = new(answer="text")
    while DONE not in (message := teach(env.play)):
        env.step(message)
    env.step("The bill was 44.1.")
    env.step("Is everything done?")
    env.step("Yes.")
    env.step(f"Thanks. {STOP}")
    assert env.episode.outcome == "solved"
    assert env.episode.answer == "Please tell me the customer, the date, the coupon.\n\nThe bill was 44.1.\n\nYes."


def test_the_orchestrator_ends_the_dialogue_with_a_typed_answer_and_a_last_word() -> None:
    env = new()
    assert env.observe("orchestrator").endswith(f"The slots of the answer: {env.play.typed}")
    assert "The slots" not in env.observe("user") + env.play.scenario.goal
    while "submit" not in (message := teach(env.play)):
        env.step(message)
    env.step(message)
    assert env.episode.outcome == "solved"
    assert env.episode.turns[-1].agent == "orchestrator"
    assert [*env.episode.calls][-1].arguments["message"] == env.task.answer


def test_when_the_user_has_left_the_orchestrator_may_still_act_but_nobody_hears_it() -> None:
    env = new()
    while "submit" not in (message := teach(env.play)):
        env.step(message)
    branch = env.snapshot()
    for ends in (True, False):
        env.restore(branch)
        env.step("One moment.")
        env.step(f"I have no time. {STOP}")
        assert "Call submit" in env.observe("orchestrator")
        env.step(write_calls([Call("find_dishes", {})]))
        assert not env.play.over
        env.step(message if ends else "Hello?")
        assert env.play.over
        assert env.episode.outcome == ("solved" if ends else "failed")
    assert "a message to nobody, the answer is given with submit" in env.episode.why


def test_a_user_cannot_submit() -> None:
    env = new()
    env.step('<tool_call>{"name": "submit", "arguments": {"answer": {}}}</tool_call>')
    assert "PARSE_ERR" in env.observe("user")
    assert not env.play.over


def test_users_can_have_tools_that_only_they_can_call() -> None:
    env = new(user_tools=["pay_bill"])
    assert "pay_bill" in env.observe("user")
    assert "tools of their own" in env.observe("orchestrator")
    env.step("Hello.")
    env.step(write_calls([Call("pay_bill", {"order": "O1222", "amount": 44.1, "method": "app"})]))
    assert "PARSE_ERR" in env.observe("orchestrator")
    env.step("Please wait.")
    env.step(PERSONAL)
    assert "PARSE_ERR" in env.observe("user")


def test_both_together_do_what_neither_can_alone() -> None:
    env = taught(raw_env("Restaurant", user_tools=["pay_bill", "get_coupon"]), task_id=TASK)
    calls = {(move.agent, call.name) for move in env.episode.turns for call in move.calls}
    assert {("user", "pay_bill"), ("user", "get_coupon"), ("orchestrator", "apply_coupon")} <= calls
    assert env.episode.outcome == "solved"


def test_an_injected_error_is_a_mistake_of_the_current_agent() -> None:
    env, rng = new(), random.Random(0)
    assert inject_error(env.play, rng) in env.play.scenario.persona.insists
    env.step("Hello.")
    assert inject_error(env.play, rng) == DONE


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"persona": "plane"}, "plain"),
        ({"reveal": "al"}, "all"),
        ({"user_tools": ["pay_bil"]}, "pay_bill"),
        ({"result_characters": 0}, "at least 1"),
    ],
)
def test_options_that_cannot_be_are_refused_with_the_nearest(options: dict[str, Any], error: str) -> None:
    with pytest.raises((OptionError, UnknownNameError), match=error):
        new(**options)


def test_a_dialogue_takes_place_in_a_domain() -> None:
    with pytest.raises(OptionError, match="math is none"):
        raw_env("Math")


def test_tasks_and_domains_of_ones_own_are_played(tmp_path: Path) -> None:
    tasks = new().source.tasks("train")[:2]
    write_tasks(tmp_path / "mine.jsonl", tasks)
    env = make_multiagent("Dialogue-Custom-v0", tasks=tmp_path / "mine.jsonl")
    assert isinstance(env, DialogueEnv)
    assert taught(env).task in tasks
    assert make_multiagent("Dialogue-Custom-v0", domain="weather").source.name == "Weather"


def test_the_record_has_the_persona_and_is_read_back(tmp_path: Path) -> None:
    env = taught(raw_env("Restaurant", persona="chatty"), task_id=TASK)
    (tmp_path / "one.jsonl").write_bytes(env.episode.to_json())
    (again,) = read_episodes(tmp_path / "one.jsonl")
    assert again.turns == env.episode.turns
    assert env.episode.details["persona"] == "chatty"
    assert env.episode.env_id == "Dialogue-Restaurant-v0"


def test_a_branch_goes_on_as_if_there_had_been_no_other() -> None:
    env = new(answer="text")
    env.step(teach(env.play))
    branch = env.snapshot()
    for message in ("Everything is done.", f"Goodbye. {STOP}"):
        env.step(message)
    assert env.play.over
    env.restore(branch)
    while not env.play.over:
        env.step(teach(env.play))
    assert env.episode.outcome == "solved"


def test_the_orchestrators_view_is_a_gymnasium_environment() -> None:
    env = gym.make("toolorchestra.envs.dialogue:DialogueSingle-Restaurant-v0", disable_env_checker=True)
    observation, info = env.reset(seed=0, options={"task_id": TASK})
    assert "[coupon]" in observation
    assert "scenario" not in info
    game: DialogueEnv = env.unwrapped.multi_agent_env  # type: ignore[attr-defined]  # the view has its game
    over = False
    while not over:
        observation, reward, over, truncated, info = env.step(teach(game.play))
    assert (reward, truncated, info["outcome"]) == (1.0, False, "solved")
    assert not [env_id for env_id in environment_ids() if "Single" in env_id]


def test_a_chat_model_can_be_the_user_of_the_view() -> None:
    chat = ScriptedChat(["Hello, I need nothing.", f"Goodbye. {STOP}"])
    env = gym.make(
        "toolorchestra.envs.dialogue:DialogueSingle-Custom-v0", domain="weather", answer="text", user=ChatUser(chat)
    )
    assert env.reset(seed=0)[0].endswith("Hello, I need nothing.")
    assert env.step("Everything is done.")[2]


@pytest.mark.filterwarnings("ignore")  # the checker advises against spaces of text
def test_the_view_passes_gymnasiums_checker() -> None:
    check_env(single_env("Restaurant"), skip_render_check=True)


def test_the_teacher_looks_up_what_the_user_names(named_folder: Path) -> None:
    env = raw_env(domain=named_folder, reveal="all")
    tasks = [task for task in env.source.tasks("all") if task.lookups]
    for task in tasks:
        taught(env, task_id=task.id)
        assert env.episode.outcome == "solved"
        *calls, last = env.episode.calls
        assert last.name == "submit"
        made = [
            (call.name, {**call.arguments, **wanted.arguments})
            for call, wanted in zip(calls, task.whole_path, strict=True)
        ]
        assert made == [(call.name, call.arguments) for call in calls]
        assert [name for name, _ in made] == ["get_customer", "list_orders", "get_order"]
