from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from toolorchestra.envs import make_multiagent
from toolorchestra.envs.records.episode import read_episodes, write_episodes
from toolorchestra.envs.tmatr import TMATREnv, random_message, raw_env
from toolorchestra.envs.tmatr.env import ROLES
from toolorchestra.envs.tmatr.figure import mermaid, tree_text
from toolorchestra.envs.tmatr.tree import ENVIRONMENT, MALFORMED, DecisionTree, decision_tree
from toolorchestra.toolscale.common.errors import OptionError

MESSAGES = (
    "<ACTION>call_tool</ACTION><GOAL>Multiply 6 by 7.</GOAL>",
    "<REASON>It is a sum.</REASON><SELECTED_TOOL>abacus</SELECTED_TOOL>",
    "<REASON>It is exact.</REASON><SELECTED_TOOL>python</SELECTED_TOOL>",
    "<TOOL_INPUT>print(6 * 7)</TOOL_INPUT>",
    "<ACTION>text_reasoning</ACTION><GOAL>Say 42.</GOAL>",
    "<REASONING_STEPS>Step 1: Say it.</REASONING_STEPS>",
    r"<THINK>Step 1: It is 42.</THINK><ANSWER>\boxed{-42}</ANSWER>",
)


def new(**options: Any) -> TMATREnv:
    env = raw_env("Math", **({"python": "simulated"} | options))
    env.reset(seed=0)
    return env


@pytest.fixture
def tree() -> DecisionTree:
    env = new()
    for message in MESSAGES:
        env.step(message)
    return env.tree


def test_the_tree_names_agent_action_and_reason(tree: DecisionTree) -> None:
    rows = [(node.turn, node.agent, node.action, node.choice, node.why, node.status) for node in tree.nodes]
    assert rows == [
        (1, "planner", "DECIDE", "call_tool", "Multiply 6 by 7.", "OK"),
        (1, "planner", "SELECT", MESSAGES[1], "", MALFORMED),
        (1, "planner", "SELECT", "python", "It is exact.", "OK"),
        (1, "inferencer", "EXECUTE", "print(6 * 7)", "", "OK"),
        (1, ENVIRONMENT, "RETURN", "42", "", "OK"),
        (2, "planner", "DECIDE", "text_reasoning", "Say 42.", "OK"),
        (2, "planner", "PLAN", "", "Step 1: Say it.", "OK"),
        (2, "inferencer", "INFER", "", "Step 1: It is 42.", "OK"),
        (2, "inferencer", "ANSWER", r"\boxed{-42}", "", "failed"),
    ]
    assert (tree.outcome, tree.agents) == ("failed", ("planner", "inferencer"))


def test_actions_hang_where_they_follow(tree: DecisionTree) -> None:
    edges = [(edge.start, edge.end, edge.label) for edge in tree.edges]
    assert edges == [
        (0, 1, "turn 1"),
        (1, 2, "call_tool"),
        (1, 3, "call_tool"),
        (3, 4, "python"),
        (4, 5, ""),
        (0, 6, "turn 2"),
        (6, 7, "text_reasoning"),
        (7, 8, ""),
        (8, 9, ""),
    ]
    assert [node.id for node in tree.children(0)] == [1, 6]
    assert [node.id for node in tree.children(1)] == [2, 3]


def test_costs_stand_where_they_arise(tree: DecisionTree) -> None:
    returned = tree.nodes[4]
    assert (returned.start, returned.end, returned.tokens, returned.cost) == (0.0868, 0.2868, 0, 0.0)
    assert tree.nodes[0].tokens > 10
    assert all(tree.nodes[place].cost > 0 for place in (0, 1, 2, 3, 5, 6, 7))
    assert (tree.nodes[8].tokens, tree.nodes[8].cost) == (0, 0.0)  # it was written in the INFER


def test_a_lost_turn_ends_in_a_malformed_message() -> None:
    env = new(max_retries=0)
    for message in (MESSAGES[0], MESSAGES[1], MESSAGES[4]):
        env.step(message)
    assert [(node.turn, node.action, node.status) for node in env.tree.nodes] == [
        (1, "DECIDE", "OK"),
        (1, "SELECT", MALFORMED),
        (2, "DECIDE", "OK"),
    ]


def test_an_input_that_binds_nothing_is_malformed() -> None:
    env = raw_env(None, domain="restaurant", python="none")
    env.reset(seed=0)
    env.step(MESSAGES[0])
    env.step(MESSAGES[2].replace("python", "check_table_availability"))
    env.step("<TOOL_INPUT>tonight</TOOL_INPUT>")
    env.step('<TOOL_INPUT>{"when": "tonight"}</TOOL_INPUT>')
    assert [node.status for node in env.tree.nodes] == ["OK", "OK", MALFORMED, "OK", "PARSE_ERR"]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from(sorted(ROLES)))
def test_every_episode_has_a_tree_that_holds_all_of_it(seed: int, roles: str) -> None:
    env = new(roles=roles, max_retries=1)
    rng = random.Random(seed)
    expected = []
    while not env.play.over:
        expected.append((env.agent_selection, env.infos[env.agent_selection]["action"], env.play.turn))
        env.step(random_message(env, rng))
    tree = env.tree
    messages = [node for node in tree.nodes if node.action not in ("RETURN", "ANSWER")]
    assert [(node.agent, str(node.action), node.turn) for node in messages] == expected
    assert sum(node.cost for node in tree.nodes) == env.episode.cost
    assert [edge.end for edge in tree.edges] == [node.id for node in tree.nodes]
    assert all(edge.start < edge.end for edge in tree.edges)
    calls = [node for node in tree.nodes if node.end]
    assert len(calls) == sum(1 for _ in env.episode.calls)


def test_a_record_that_was_written_down_gives_the_same_tree(tree: DecisionTree, tmp_path: Path) -> None:
    env = new()
    for message in MESSAGES:
        env.step(message)
    write_episodes(tmp_path / "played.jsonl", [env.episode])
    (read,) = read_episodes(tmp_path / "played.jsonl")
    assert decision_tree(read) == tree


def test_an_episode_of_another_protocol_is_refused() -> None:
    env = make_multiagent("MSARL-Math-v0", python="simulated")
    env.reset(seed=0)
    env.step("Let me think.")
    with pytest.raises(OptionError, match="Expected an episode of TMATR"):
        decision_tree(env.episode)


def test_the_json_is_the_tree(tree: DecisionTree) -> None:
    assert msgspec.json.decode(tree.to_json(), type=DecisionTree) == tree


# ----------------------------------------------------------------------------------------------------- pictures


def test_the_terminal_shows_the_tree(tree: DecisionTree) -> None:
    lines = tree_text(tree).splitlines()
    assert lines[0] == tree.task_id
    drawn_lines = [line for line in lines if re.match(r"[├└│ ]", line)]
    assert [line.rstrip() for line in drawn_lines] == [
        "├── turn 1: planner DECIDE call_tool – Multiply 6 by 7.",
        "│   ├── planner SELECT malformed <REASON>It is a sum.</REASON><SELECTED_TOOL>abacus</SELECTED_TOOL>",
        "│   └── planner SELECT python – It is exact.",
        "│       └── inferencer EXECUTE print(6 * 7)",
        "│           └── RETURN 42  0.1 to 0.3 s, $0.0000",
        "└── turn 2: planner DECIDE text_reasoning – Say 42.",
        "    └── planner PLAN Step 1: Say it.",
        "        └── inferencer INFER Step 1: It is 42.",
        r"            └── inferencer ANSWER failed \boxed{-42}",
    ]
    assert lines[-1].startswith("failed · reward 0.")
    assert "turns: 2 · calls: 1" in lines[-1]
    assert "\x1b[" in tree_text(tree, color=True)


def test_the_flowchart_shows_every_action_below_the_one_that_it_follows(tree: DecisionTree) -> None:
    lines = mermaid(tree).splitlines()
    assert lines[0] == "flowchart TB"
    boxes = [line.strip() for line in lines if re.match(r"  n\d+\[", line)]
    assert boxes[0].endswith(
        '<br/>math/factorial_power/train-02551: failed · reward 0.300 · turns: 2 · calls: 1 · tokens: 99"]:::question'
    )
    assert boxes[1] == 'n1["planner DECIDE<br/>call_tool<br/>Multiply 6 by 7."]:::agent0'
    assert [box.rpartition(":::")[2] for box in boxes] == [
        "question", "agent0", "bad", "agent0", "agent1", "good", "agent0", "agent0", "agent1", "bad",
    ]  # fmt: skip
    edges = [re.fullmatch(r"  n(\d+) -->(?:\|.*\|)? n(\d+)", line) for line in lines if "-->" in line]
    assert [(int(edge[1]), int(edge[2])) for edge in edges if edge] == [(edge.start, edge.end) for edge in tree.edges]
    assert mermaid(tree) == mermaid(msgspec.json.decode(tree.to_json(), type=DecisionTree))


def test_an_episode_that_has_not_begun_is_drawn_too() -> None:
    tree = new().tree
    assert "in progress" in mermaid(tree)
    assert tree_text(tree).splitlines()[0] == tree.task_id


@given(st.text(max_size=60))
def test_hostile_text_is_drawn_as_text(text: str) -> None:
    env = new()
    for message in (
        f"<ACTION>call_tool</ACTION><GOAL>{text}</GOAL>",
        f'"]--></svg><script>%%{{init}}%%{text}[bold]',
        text,
    ):
        env.step(message)
    tree_text(env.tree)
    line = re.compile(
        r"flowchart TB|  classDef \w+ [\w#:,-]+|  n\d+ --> n\d+"
        r'|  n\d+ -->\|"[^"<>]*"\| n\d+|  n\d+\["(?:[^"<>&%{}\[\]`]|<br/>)*"\]:::\w+'
    )
    assert all(line.fullmatch(one) for one in mermaid(env.tree).splitlines())
