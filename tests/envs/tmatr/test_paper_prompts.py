"""The paper's prompts (Figs 8–14), and messages in the formats that they ask for, typed by hand."""

from __future__ import annotations

import random
from typing import Any

import pytest

from toolorchestra.envs.checks.several_agents import check_multiagent
from toolorchestra.envs.tmatr import TMATREnv, raw_env
from toolorchestra.envs.tmatr.actions import AGENT_ACTIONS, Action, read
from toolorchestra.envs.tmatr.env import ROLES, random_message
from toolorchestra.envs.tmatr.paper_prompts import asked_for, paper_request
from toolorchestra.envs.tmatr.teacher import teach
from toolorchestra.envs.tmatr.tree import decision_tree
from toolorchestra.toolscale.common.errors import UnknownNameError

TASK = "math/shared_work/train-02770"
QUESTION = "Alone, two pumps fill a tank in 5 and 6 hours. How many hours do they need together, starting empty?"

DECIDE = """\
<ACTION>call_tool</ACTION>
<GOAL>Compute the time t = 1/(1/5 + 1/6) in hours that pumps of 5 and 6 hours need together</GOAL>"""
SELECT = """\
<REASON>The computation needs exact fractions. </REASON>

<SELECTED_TOOL>Calculator </SELECTED_TOOL>"""
EXECUTE = """\
<TOOL_INPUT>

1/(1/5 + 1/6)

</TOOL_INPUT>"""
REASONING = """\
<ACTION>text_reasoning</ACTION>
<GOAL>State that the pumps need 30/11 hours together, as the calculator returned \\frac{30}{11}</GOAL>"""
PLAN = """\
<REASONING_STEPS>

Step 1: Recall the value of 1/(1/5 + 1/6).

Step 2: Check that it answers the question in hours.

Step 3: State it.

</REASONING_STEPS>"""
THINK = """\
<THINK>

Step 1: Perform the recall of the value, the result is 30/11.

Step 2: Perform the check of the unit, the result is hours.

</THINK>"""
"""What the two agents write in the formats of Figures 10 to 14."""


def begun(**options: Any) -> TMATREnv:
    env = raw_env("Math", **({"prompts": "paper"} | options))
    env.reset(seed=0, options={"task_id": TASK})
    return env


def play(env: TMATREnv, *messages: str) -> TMATREnv:
    for message in messages:
        env.step(message)
    return env


@pytest.mark.parametrize(
    "answer",
    [
        "<ANSWER>\\[ \\boxed{\\frac{30}{11}} \\]</ANSWER>",
        "<ANSWER>\\[\\boxed{{30/11}}\\]</ANSWER>",  # the braces doubled, as the figure prints them
    ],
)
def test_an_episode_in_the_formats_of_the_figures_is_read_as_the_paper_means_it(answer: str) -> None:
    env = play(begun(), DECIDE, SELECT, EXECUTE, REASONING, PLAN, f"{THINK}\n\n{answer}")
    assert env.episode.outcome == "solved", env.episode.why
    actions = [node.action for node in env.tree.nodes]
    assert actions == ["DECIDE", "SELECT", "EXECUTE", "RETURN", "DECIDE", "PLAN", "INFER", "ANSWER"]
    assert [node.choice for node in env.tree.nodes[1:3]] == ["calculator", "1/(1/5 + 1/6)"]
    assert list(dict.fromkeys(node.turn for node in env.tree.nodes)) == [1, 2]


def test_thoughts_without_an_answer_go_on() -> None:
    env = play(begun(), REASONING, PLAN, THINK)
    assert (env.play.action, env.play.turn) == (Action.DECIDE, 2)
    assert "Step 2: Perform the check of the unit" in env.observe("planner")


@pytest.mark.parametrize(
    ("written", "tool"), [("Python", "python"), ("WebSearch", "web_search"), ("web search", None), ("Search", None)]
)
def test_the_papers_names_of_tools_are_read(written: str, tool: str | None) -> None:
    message = f"<REASON>It fits.</REASON>\n<SELECTED_TOOL>{written}</SELECTED_TOOL>"
    found = read(Action.SELECT, message, dict.fromkeys(("python", "web_search", "local_search")))
    assert (found["SELECTED_TOOL"] if isinstance(found, dict) else None) == tool


def test_the_planner_reads_figures_8_to_10_and_the_inferencer_figure_14() -> None:
    env = begun()
    system, first = (str(message["content"]) for message in env.infos["planner"]["messages"])
    assert system.startswith(
        "You are an intelligent planning assistant, responsible for breaking down complex problems"
    )
    assert "Competition problems in mathematics" in system  # the rules of the world
    assert first.startswith(f"Please solve the following problem step by step:\n{QUESTION}\nYou may use")
    assert '"tool_name": "calculator",\n    "tool_description": "Compute exactly' in first
    assert first.endswith("Do not output anything other than the specified tags above.")
    assert "A = {1,2,3,4,5,6} to itself such that f(f(f(x))) = x</GOAL>" in first
    play(env, DECIDE)
    assert "Tool Usage Objective:\n\nCompute the time t = 1/(1/5 + 1/6)" in env.observe("planner")
    play(env, SELECT)
    asked = env.observe("inferencer")
    assert f"Original Question\n\n{QUESTION}\n\nTool Usage Objective\n\nCompute the time" in asked
    assert "Tool Description\n\nTool: calculator. Compute exactly" in asked


def test_the_inferencer_reads_question_goal_and_plan_in_figure_13() -> None:
    asked = play(begun(), REASONING, PLAN).observe("inferencer")
    assert f"Original Question\n\n{QUESTION}\n\nCurrent Reasoning Objective\n\nState that the pumps" in asked
    assert "Reasoning Plan\n\nStep 1: Recall the value" in asked
    assert r"<ANSWER>\[ \boxed{final_answer} \]</ANSWER>" in asked


@pytest.mark.parametrize("roles", ROLES)
def test_the_tree_is_that_of_the_same_messages_under_the_librarys_prompts(roles: str) -> None:
    trees = []
    for prompts in ("own", "paper"):
        env = begun(prompts=prompts, roles=roles)
        play(env, "It is easily done.", DECIDE, "<SELECTED_TOOL>none</SELECTED_TOOL>", SELECT)
        while not env.play.over:
            env.step(teach(env.play))
        trees.append([(node.action, node.turn, node.agent, node.choice, node.status) for node in env.tree.nodes])
    assert trees[0] == trees[1]


def test_random_play_has_a_tree_whose_actions_are_those_asked_for() -> None:
    rng = random.Random(0)
    for seed in range(20):
        env = begun(max_retries=1)
        env.reset(seed=seed)
        asked = []
        while not env.play.over:
            asked.append((str(env.play.action), env.play.turn))
            env.step(random_message(env, rng))
        nodes = decision_tree(env.episode).nodes
        assert [(str(n.action), n.turn) for n in nodes if n.action not in ("RETURN", "ANSWER")] == asked


def test_a_message_names_its_action_whatever_is_filled_in() -> None:
    decide = paper_request(Action.DECIDE)
    fields = dict.fromkeys(("question", "goal", "plan", "tool_information"), f"{decide}\n{{goal}} \\boxed{{1}}")
    for action in AGENT_ACTIONS:
        assert asked_for(paper_request(action, **fields)) is action
    assert asked_for("Write it again; 1 attempt left.") is None


def test_environments_with_the_papers_prompts_pass_the_checks() -> None:
    report = check_multiagent("TMATR-Math-v0", prompts="paper")
    assert report.passed, report


def test_prompts_that_there_are_not_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'paper'"):
        begun(prompts="papers")
