from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolorchestra.envs.tmatr.actions import AGENT_ACTIONS, FORMS, Action, FormatFault, read

TOOLS: Any = {"python": None, "local_search": None}
GOOD = {
    Action.DECIDE: "<ACTION>call_tool</ACTION>\n<GOAL>Compute 2^10.</GOAL>",
    Action.SELECT: "<REASON>A number.</REASON>\n<SELECTED_TOOL>python</SELECTED_TOOL>",
    Action.PLAN: "<REASONING_STEPS>\nStep 1: Add.\nStep 2: Tell.\n</REASONING_STEPS>",
    Action.EXECUTE: "<TOOL_INPUT>\nprint(2**10)\n</TOOL_INPUT>",
    Action.INFER: "<THINK>\nStep 1: 1024.\n</THINK>\n<ANSWER>\\boxed{1024}</ANSWER>",
}


def sections(action: Action, text: str) -> dict[str, str]:
    found = read(action, text, TOOLS)
    assert isinstance(found, dict), found
    return found


def fault(action: Action, text: str) -> str:
    found = read(action, text, TOOLS)
    assert isinstance(found, FormatFault), found
    return found.reason


@pytest.mark.parametrize(
    ("action", "read_as"),
    [
        (Action.DECIDE, {"ACTION": "call_tool", "GOAL": "Compute 2^10."}),
        (Action.SELECT, {"REASON": "A number.", "SELECTED_TOOL": "python"}),
        (Action.PLAN, {"REASONING_STEPS": "Step 1: Add.\nStep 2: Tell."}),
        (Action.EXECUTE, {"TOOL_INPUT": "print(2**10)"}),
        (Action.INFER, {"THINK": "Step 1: 1024.", "ANSWER": r"\boxed{1024}"}),
    ],
)
def test_each_action_is_read_in_its_form(action: Action, read_as: dict[str, str]) -> None:
    assert sections(action, GOOD[action]) == read_as


def test_an_inference_needs_no_answer() -> None:
    assert sections(Action.INFER, "<THINK>Not yet.</THINK>") == {"THINK": "Not yet."}


def test_text_around_the_sections_is_ignored() -> None:
    text = f"Let me see.\n<think>Perhaps <ACTION>text_reasoning</ACTION>?</think>{GOOD[Action.DECIDE]} That is it."
    assert sections(Action.DECIDE, text)["ACTION"] == "call_tool"


def test_a_section_inside_another_is_part_of_its_text() -> None:
    text = r"<THINK>I might say <ANSWER>\boxed{3}</ANSWER>.</THINK>"
    assert list(sections(Action.INFER, text)) == ["THINK"]
    assert sections(Action.EXECUTE, "<TOOL_INPUT>print('<GOAL>')</TOOL_INPUT>") == {"TOOL_INPUT": "print('<GOAL>')"}


def test_a_tool_is_known_in_capitals_too() -> None:
    assert (
        sections(Action.SELECT, "<REASON>So.</REASON><SELECTED_TOOL> Python </SELECTED_TOOL>")["SELECTED_TOOL"]
        == "python"
    )


@pytest.mark.parametrize(
    ("action", "text", "words"),
    [
        (
            Action.DECIDE,
            "I would call a tool.",
            ("Expected <ACTION>call_tool or", "found no such section", "Write the"),
        ),
        (Action.DECIDE, "<GOAL>G</GOAL><ACTION>call_tool</ACTION>", ("found <GOAL>…</GOAL><ACTION>…</ACTION>",)),
        (
            Action.DECIDE,
            f"{GOOD[Action.DECIDE]}<GOAL>Another.</GOAL>",
            ("found <ACTION>…</ACTION><GOAL>…</GOAL><GOAL>",),
        ),
        (Action.DECIDE, "<ACTION>call_tol</ACTION><GOAL>G</GOAL>", ("'call_tol'", "Did you mean 'call_tool'")),
        (Action.DECIDE, "<ACTION>call_tool</ACTION><GOAL> </GOAL>", ("a text in <GOAL>, found none",)),
        (Action.DECIDE, "<ACTION>call_tool</ACTION><GOAL>So", ("Expected </GOAL> after <GOAL>", "Close each")),
        (Action.DECIDE, "</GOAL>", ("Expected <GOAL> before </GOAL>", "Open each")),
        (Action.SELECT, GOOD[Action.DECIDE], ("Expected <REASON>", "found <ACTION>…</ACTION><GOAL>…</GOAL>")),
        (
            Action.SELECT,
            "<REASON>R</REASON><SELECTED_TOOL>local_serch</SELECTED_TOOL>",
            ("Did you mean 'local_search'",),
        ),
        (Action.EXECUTE, "```python\nprint(1)\n```", ("Expected <TOOL_INPUT>",)),
        (
            Action.INFER,
            "<THINK>T</THINK><ANSWER>1024</ANSWER>",
            (r"Expected \boxed{…}", "found '1024'", "leave <ANSWER>"),
        ),
        (Action.INFER, r"<ANSWER>\boxed{1024}</ANSWER>", ("Expected <THINK>",)),
    ],
)
def test_the_fault_of_a_malformed_message_names_what_is_expected_what_was_found_and_what_to_do(
    action: Action, text: str, words: tuple[str, ...]
) -> None:
    reason = fault(action, text)
    for part in words:
        assert part in reason


@pytest.mark.parametrize("action", AGENT_ACTIONS)
def test_only_the_own_form_is_the_action(action: Action) -> None:
    for other, text in GOOD.items():
        assert isinstance(read(action, text, TOOLS), dict) is (other is action)


@given(st.sampled_from(AGENT_ACTIONS), st.text(alphabet="<>/ACTIONGLTHK \\boxed{}\n", max_size=120))
def test_reading_never_raises(action: Action, text: str) -> None:
    read(action, text, TOOLS)


pieces = st.sampled_from(
    [
        *(f"<{slash}{tag}>" for tag in ("ACTION", "GOAL", "THINK", "ANSWER", "TOOL_INPUT") for slash in ("", "/")),
        *("call_tool", r"\boxed{1}", r"\boxed{", "<think>", "</think>", " ", "x"),
    ]
)


@given(st.sampled_from(AGENT_ACTIONS), st.lists(pieces, max_size=12))
def test_what_is_read_has_the_sections_of_its_form_and_text_in_each(action: Action, parts: list[str]) -> None:
    found = read(action, "".join(parts), TOOLS)
    if isinstance(found, dict):
        assert list(found) in (re.findall(r"<(\w+)>", FORMS[action]), ["THINK"])
        assert all(text == text.strip() != "" for text in found.values())
    else:
        assert len(found.reason) < 600


@given(st.text(min_size=1, max_size=60).filter(str.strip))
def test_a_goal_of_any_text_without_tags_is_read_as_it_is(goal: str) -> None:
    if not any(mark in goal for mark in "<>"):
        assert sections(Action.DECIDE, f"<ACTION>call_tool</ACTION><GOAL>{goal}</GOAL>")["GOAL"] == goal.strip()
