from __future__ import annotations

import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from toolorchestra.envs import make_multiagent
from toolorchestra.envs.checks.several_agents import check_multiagent
from toolorchestra.envs.multiagent.views import SingleAgentEnv
from toolorchestra.envs.records.episode import read_episodes, write_episodes
from toolorchestra.envs.task_source import QUESTIONS
from toolorchestra.envs.tmatr import TMATREnv, random_message, raw_env, single_env
from toolorchestra.envs.tmatr.actions import AGENT_ACTIONS, Action
from toolorchestra.envs.tmatr.env import ROLES
from toolorchestra.envs.tools.search.search_web import RecordedProvider, WebSearch
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError

CALL = "<ACTION>call_tool</ACTION><GOAL>Multiply 6 by 7.</GOAL>"
REASON = "<ACTION>text_reasoning</ACTION><GOAL>It printed forty-two: say so.</GOAL>"
PYTHON = "<REASON>It is exact.</REASON><SELECTED_TOOL>python</SELECTED_TOOL>"
CODE = "<TOOL_INPUT>print(6 * 7)</TOOL_INPUT>"
STEPS = "<REASONING_STEPS>Step 1: Say it.</REASONING_STEPS>"
THINK = "<THINK>Step 1: It may be.</THINK>"
JUNK = "no form at all"


def answer(text: str) -> str:
    return rf"<THINK>Step 1: I say it.</THINK><ANSWER>{text}</ANSWER>"


def new(source: str | None = "Math", seed: int = 0, **options: Any) -> TMATREnv:
    env = raw_env(source, **({"python": "simulated"} | options))
    env.reset(seed=seed)
    return env


def play(env: TMATREnv, *messages: str) -> TMATREnv:
    for message in messages:
        env.step(message)
    return env


def next_action(env: TMATREnv) -> tuple[str, str]:
    return env.agent_selection, env.infos[env.agent_selection]["action"]


# ------------------------------------------------------------------------------------------------------- turns


def test_a_turn_with_a_tool_goes_from_decide_to_select_to_execute_and_back() -> None:
    env = new()
    assert next_action(env) == ("planner", "DECIDE")
    assert next_action(play(env, CALL)) == ("planner", "SELECT")
    assert next_action(play(env, PYTHON)) == ("inferencer", "EXECUTE")
    assert next_action(play(env, CODE)) == ("planner", "DECIDE")
    assert env.observe("planner").splitlines()[:2] == ["RETURN of python, OK:", "42"]
    assert env.observe("planner").splitlines()[-1].startswith("DECIDE, turn 2 of 5: <ACTION>")


def test_a_turn_in_words_goes_from_decide_to_plan_to_infer_and_back() -> None:
    env = play(new(), REASON)
    assert next_action(env) == ("planner", "PLAN")
    assert next_action(play(env, STEPS)) == ("inferencer", "INFER")
    assert next_action(play(env, THINK)) == ("planner", "DECIDE")
    assert "RETURN of INFER, no answer yet.\nStep 1: It may be." in env.observe("planner")


@pytest.mark.parametrize(("text", "outcome"), [("", "solved"), (r"\boxed{-123456789}", "failed")])
def test_an_answer_ends_the_episode_and_is_judged(text: str, outcome: str) -> None:
    env = play(new(), REASON, STEPS)
    env.step(answer(text or env.task.answer))
    assert env.episode.outcome == outcome
    assert env.terminations == {"planner": True, "inferencer": True}
    assert env.infos["planner"]["outcome"] == outcome


def test_only_what_stands_in_the_answer_is_judged() -> None:
    env = play(new(), REASON, STEPS)
    env.step(rf"<THINK>{env.task.answer}</THINK><ANSWER>\boxed{{-123456789}}</ANSWER>")
    assert env.episode.outcome == "failed"
    assert env.episode.answer == r"\boxed{-123456789}"


def test_after_the_last_turn_the_episode_is_truncated() -> None:
    env = play(new(max_turns=2), CALL, PYTHON, CODE, REASON, STEPS, THINK)
    assert env.truncations == {"planner": True, "inferencer": True}
    assert (env.episode.outcome, env.episode.why) == ("failed", "no answer after 2 turns")


def test_a_failed_call_is_returned_with_its_status() -> None:
    env = play(new(), CALL, PYTHON, "<TOOL_INPUT>print(1 / 0)</TOOL_INPUT>")
    assert env.observe("planner").startswith("RETURN of python, EXEC_ERR:\nZeroDivisionError: division by zero\n\n")


def test_long_results_goals_and_plans_are_cut() -> None:
    env = play(new(shown_characters=30), CALL.replace("Multiply", "Multiply" + " x" * 999), PYTHON)
    assert f"Goal: {'Multiply' + ' x' * 11}… (cut)\n" in env.observe("inferencer")
    play(env, "<TOOL_INPUT>print(10 ** 99)</TOOL_INPUT>")
    assert "\n1" + "0" * 29 + "… (cut)\n" in env.observe("planner")
    play(env, REASON, STEPS.replace("Say", "Say" * 99))
    assert "Plan:\nStep 1: SaySaySaySaySaySaySayS… (cut)\n" in env.observe("inferencer")


# ------------------------------------------------------------------------------------------------- wrong forms


@pytest.mark.parametrize(
    ("before", "action"),
    [((), "DECIDE"), ((CALL,), "SELECT"), ((CALL, PYTHON), "EXECUTE"), ((REASON,), "PLAN"), ((REASON, STEPS), "INFER")],
)
def test_a_malformed_message_may_be_written_again_and_then_the_turn_is_lost(
    before: tuple[str, ...], action: str
) -> None:
    env = play(new(max_retries=2), *before)
    current_agent = env.agent_selection
    for left in ("2 attempts left", "1 attempt left"):
        play(env, JUNK)
        assert next_action(env) == (current_agent, action)
        observed = env.observe(current_agent)
        assert observed.startswith("Expected <")
        assert left in observed
        assert observed.splitlines()[-1].startswith(f"{action}, turn 1 of 5: <")
    play(env, JUNK)
    assert next_action(env) == ("planner", "DECIDE")
    assert f"RETURN of {action}, none" in env.observe("planner")
    assert "DECIDE, turn 2 of 5" in env.observe("planner")


def test_retries_are_counted_for_each_action_anew() -> None:
    env = play(new(max_retries=1), JUNK, CALL, JUNK, PYTHON, JUNK, CODE)
    assert "turn 2 of 5" in env.observe("planner")


def test_without_retries_a_malformed_message_loses_the_turn() -> None:
    env = play(new(max_retries=0, max_turns=2), JUNK, JUNK)
    assert env.episode.why == "no answer after 2 turns"


def test_the_turns_bound_the_messages() -> None:
    env = new(max_turns=2, max_retries=2)
    rng = random.Random(0)
    for seed in range(40):
        env.reset(seed=seed)
        while not env.play.over:
            env.step(random_message(env, rng) if rng.random() < 0.3 else JUNK)
        assert len(env.episode.turns) <= 18
        assert "messages" not in env.episode.why


def test_an_unknown_tool_is_a_malformed_choice() -> None:
    env = play(new(), CALL, PYTHON.replace("python", "pithon"))
    assert next_action(env) == ("planner", "SELECT")
    assert "Did you mean 'python'?" in env.observe("planner")


# ------------------------------------------------------------------------------------------------------ privacy


def test_each_agent_observes_what_its_actions_need_and_nothing_else() -> None:
    env = new(noise=3)
    play(env, CALL, PYTHON.replace("exact", "sesame"), CODE.replace("6 * 7", "31 * 37"))
    play(env, REASON, STEPS, THINK)
    planner, inferencer = (
        "\n".join(m["content"] for m in env.infos[a]["messages"] if m["role"] == "user")
        for a in ("planner", "inferencer")
    )
    question = env.task.instruction
    for text, sees in [
        (question, (True, True)),
        ("Multiply 6 by 7.", (False, True)),  # the planner wrote it
        ("sesame", (False, False)),  # why a tool was selected
        ("Tool: python.", (False, True)),
        ("Input: text. The program.", (False, True)),
        ("Output: what the program prints", (False, True)),
        ("Example: print(2 + 2)", (False, True)),
        ("31 * 37", (False, False)),  # the inferencer wrote it
        ("result 1147", (True, False)),
        ("It printed forty-two", (False, True)),
        ("Step 1: Say it.", (False, True)),
        ("Step 1: It may be.", (True, False)),
    ]:
        assert (text in planner, text in inferencer) == sees, text
    assert inferencer.count(question) == 1


def test_five_agents_each_observe_the_question_once_and_only_their_part() -> None:
    env = new(roles="per_action")
    assert env.possible_agents == ["decider", "selector", "planner", "executor", "inferencer"]
    for text in (CALL, PYTHON, CODE, REASON, STEPS, THINK, CALL, PYTHON, CODE):
        play(env, text)
    observed = {
        agent: "\n".join(m["content"] for m in env.infos[agent]["messages"] if m["role"] == "user")
        for agent in env.possible_agents
    }
    assert all(text.count(env.task.instruction) == 1 for text in observed.values())
    assert {agent for agent, text in observed.items() if "RETURN of python, OK:\n42" in text} == {"decider"}
    assert {agent for agent, text in observed.items() if "Goal: Multiply 6 by 7." in text} == {"selector", "executor"}
    assert {agent for agent, text in observed.items() if "It printed forty-two" in text} == {"planner", "inferencer"}
    assert {agent for agent, text in observed.items() if "Step 1: Say it." in text} == {"inferencer"}
    assert {agent for agent, text in observed.items() if "Tool: python." in text} == {"executor"}


def test_one_agent_for_all_does_not_observe_its_own_messages_again() -> None:
    env = play(new(roles="single"), CALL, PYTHON, CODE, REASON, STEPS, THINK)
    (observed,) = ["\n".join(m["content"] for m in env.infos["solver"]["messages"] if m["role"] == "user")]
    assert "Goal:" not in observed
    assert "Plan:" not in observed
    assert "It may be" not in observed
    assert observed.count(env.task.instruction) == 1


@pytest.mark.parametrize("roles", [*ROLES, dict.fromkeys(AGENT_ACTIONS, "b") | dict.fromkeys(("DECIDE", "INFER"), "a")])
def test_any_roles_play_to_the_end(roles: str | Mapping[str, str]) -> None:
    env = new(roles=roles)
    play(env, CALL, PYTHON, CODE, JUNK, REASON, STEPS, JUNK, answer(env.task.answer))
    assert env.episode.outcome == "solved"
    assert set(env.rewards) == set(env.possible_agents)


def test_the_agent_that_selects_is_not_sent_the_goal_again_to_execute() -> None:
    roles = dict.fromkeys(AGENT_ACTIONS, "worker") | {Action.DECIDE: "boss"}
    env = play(new(roles=roles), CALL, PYTHON)
    observed = "\n".join(m["content"] for m in env.infos["worker"]["messages"] if m["role"] == "user")
    assert observed.count("Goal: Multiply 6 by 7.") == 1


@pytest.mark.parametrize("env_id", ["TMATR-Math-v0", "TMATR-MultiHopQA-v0"])
@pytest.mark.parametrize("options", [{"roles": "single"}, {"roles": "per_action", "max_turns": 2, "max_retries": 0}])
def test_every_cast_passes_the_checks(env_id: str, options: dict[str, Any]) -> None:
    report = check_multiagent(env_id, python="simulated", episodes=6, **options)
    assert report, str(report)


# -------------------------------------------------------------------------------------------------------- tools


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("Math", ["python", "calculator", "local_search"]),
        ("MASBenchDepth", ["python", "calculator", "local_search"]),
        ("MultiHopQA", ["python", "local_search"]),
    ],
)
def test_python_the_tools_of_the_world_and_a_search_are_available(source: str, names: list[str]) -> None:
    env = new(source)
    assert list(env.play.tools) == names
    prompt = env.infos["planner"]["messages"][0]["content"]
    assert all(f"\n- {name}: " in prompt for name in names)
    assert "- search:" not in env.infos["inferencer"]["messages"][0]["content"]


def test_a_search_takes_a_query_a_line() -> None:
    env = play(new("MultiHopQA"), CALL, PYTHON.replace("python", "local_search"))
    assert "One a line." in env.observe("inferencer")
    play(env, "<TOOL_INPUT>old mill\nmayor of the town</TOOL_INPUT>")
    (call,) = env.episode.calls
    assert call.arguments == {"query_list": ["old mill", "mayor of the town"], "k": 5}


def test_further_tools_are_available_too(tmp_path: Path) -> None:
    file = tmp_path / "web.jsonl"
    file.write_text("")
    env = new(tools=[WebSearch(RecordedProvider(file))])
    play(env, CALL, PYTHON.replace("python", "web_search"), "<TOOL_INPUT>old mill</TOOL_INPUT>")
    assert env.observe("planner").startswith("RETURN of web_search, EXEC_ERR:")


def test_a_tool_of_several_parameters_takes_a_json_object() -> None:
    env = raw_env(None, domain="restaurant", python="none")
    env.reset(seed=0)
    play(env, CALL, PYTHON.replace("python", "check_table_availability"))
    assert 'Input: a JSON object, {"' in env.observe("inferencer")
    play(env, "<TOOL_INPUT>next Monday</TOOL_INPUT>")
    assert "Expected a JSON object as the input of check_table_availability" in env.observe("inferencer")
    play(env, '<TOOL_INPUT>{"dya": 1}</TOOL_INPUT>')
    assert env.observe("planner").startswith("RETURN of check_table_availability, PARSE_ERR:")


@pytest.mark.parametrize(
    "text",
    [
        '{"table": 1e999}',
        '{"table": "\\ud800"}',
        '{"table": NaN}',
        "[]",
        "null",
        '{"a":' * 5000,
        f'{{"n": {"9" * 99}}}',
    ],
)
def test_hostile_json_is_answered(text: str) -> None:
    env = raw_env(None, domain="restaurant", python="none")
    env.reset(seed=0)
    play(env, CALL, PYTHON.replace("python", "check_table_availability"), f"<TOOL_INPUT>{text}</TOOL_INPUT>")
    assert env.episode.outcome is None
    assert re.match("Expected a JSON object|RETURN of .*, PARSE_ERR", env.observe(env.agent_selection))
    env.episode.to_json()


def test_tasks_of_a_file_are_played(tmp_path: Path) -> None:
    from toolorchestra.toolscale.tasks.task import write_tasks

    write_tasks(tmp_path / "mine.jsonl", new().source.tasks("train")[:3])
    env = make_multiagent("TMATR-Custom-v0", tasks=tmp_path / "mine.jsonl", python="simulated")
    env.reset(seed=0)
    assert env.episode.env_id == "TMATR-Mine-v0"


@pytest.mark.parametrize("source", QUESTIONS)
def test_the_right_answer_in_a_box_is_right_in_every_source(source: str) -> None:
    env = new(source)
    for seed in range(5):
        env.reset(seed=seed)
        boxes = env.task.answer if r"\boxed" in env.task.answer else rf"\boxed{{{env.task.answer}}}"
        play(env, REASON, STEPS, answer(boxes))
        assert env.episode.outcome == "solved", (env.task.answer, env.episode.why)


# ------------------------------------------------------------------------------------- records, options, views


def test_the_record_is_read_back_as_it_was(tmp_path: Path) -> None:
    env = play(new(), CALL, PYTHON, CODE, REASON, STEPS)
    env.step(answer(env.task.answer))
    write_episodes(tmp_path / "played.jsonl", [env.episode])
    (episode,) = read_episodes(tmp_path / "played.jsonl")
    assert episode.to_json() == env.episode.to_json()
    assert episode.reward_parts["reward"] == episode.reward == env.rewards["planner"]


@pytest.mark.parametrize(
    "options",
    [
        {"max_turns": 0},
        {"max_retries": -1},
        {"shown_characters": 0},
        {"max_cycles": 0},
        {"noise": 3, "python": "none"},
        {"roles": {"DECIDE": "a"}},
        {"rule": {"alpha": -1}},
        {"rule": {"epsilon_min": 0.5}},
        {"rule": {"alfa": 1}},
        {"rule": {"length_cap": 0}},
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        new(**options)


def test_unknown_roles_or_an_unknown_action_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'single'"):
        new(roles="singel")
    with pytest.raises(UnknownNameError, match="Did you mean 'DECIDE'"):
        new(roles=dict.fromkeys(AGENT_ACTIONS, "a") | {"DECIDES": "b"})


def test_one_agent_plays_with_the_others_as_fixed_policies() -> None:
    def inferencer(observation: str, info: dict[str, Any]) -> str:
        return CODE if info["action"] == "EXECUTE" else answer(game.task.answer)

    game = raw_env("Math", python="simulated")
    env = SingleAgentEnv(game, "planner", {"inferencer": inferencer})
    observation, _ = env.reset(seed=0)
    for text, begins in [(CALL, "SELECT"), (PYTHON, "RETURN of python, OK:\n42"), (REASON, "PLAN")]:
        observation, reward, over, _, _ = env.step(text)
        assert observation.startswith(begins)
        assert (reward, over) == (0.0, False)
    _, reward, over, _, info = env.step(STEPS)
    assert over
    assert reward == info["reward_parts"]["reward"] > 0.9


def test_a_solver_of_all_actions_is_a_gymnasium_environment() -> None:
    env = gymnasium.make("toolorchestra.envs.tmatr:TMATRSingle-Math-v0", python="simulated")
    env.reset(seed=0)
    for text in (REASON, STEPS):
        env.step(text)
    assert env.step(answer(env.unwrapped.multi_agent_env.task.answer))[1] > 0.9  # type: ignore[attr-defined]  # of our view
    assert single_env(python="simulated").agent == "solver"


def test_branches_of_an_episode_go_on_apart() -> None:
    env = play(new(), CALL, PYTHON)
    one, other = env.play.branch(), env.play.branch()
    one.act(CODE)
    other.act(CODE.replace("6", "5"))
    assert [str(twin.new_messages("planner")[-1]["content"]).split("\n")[1] for twin in (one, other)] == ["42", "35"]
    assert next_action(env) == ("inferencer", "EXECUTE")
