"""A sub-agent that programs: one program, at most one repair, and nothing is run but by the tool."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.agents.experts.simulated_chat import SimulatedChat
from toolorchestra.agents.subagents import SubAgentQuestion, code_reasoner, standard_reasoner
from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.tools.tool import Status, Tool, ToolContext, ToolResult

QUESTION = SubAgentQuestion("What is 2 + 2?")


def test_the_reply_shows_the_program_and_what_it_printed(python: Any) -> None:
    chat = ScriptedChat(["<reasoning>Add.</reasoning>\n<code>\nprint(4)\n</code>"])
    reply = code_reasoner(chat, QUESTION, python=python)
    assert (reply.answer, reply.status, reply.error) == ("4", Status.OK, None)
    assert reply.text == (
        "<reasoning>Add.</reasoning>\n<code>\nprint(4)\n</code>\n<execution_result>\n4\n</execution_result>"
    )
    assert [child.name for child in reply.children] == ["scripted", "python"]


def test_a_program_that_failed_is_fixed_once_knowing_the_error(python: Any) -> None:
    chat = ScriptedChat(["<code>1 +</code>", "```python\nprint(4)\n```"])
    reply = code_reasoner(chat, QUESTION, python=python)
    assert (reply.answer, python.programs) == ("4", ["1 +", "print(4)"])
    *_, wrong, error_message = chat.requests[1].messages
    assert wrong == {"role": "assistant", "content": "<code>1 +</code>"}
    assert "NameError" in error_message["content"]
    assert [child.status for child in reply.children] == [Status.OK, Status.EXEC_ERR, Status.OK, Status.OK]


@pytest.mark.parametrize(
    ("text", "status", "error"),
    [
        ("<code>1 +</code>", Status.EXEC_ERR, "NameError: name 'results' is not defined"),
        ("<code>silence</code>", Status.EXEC_ERR, "The program ran and printed nothing."),
        ("<code>while True: pass</code>", Status.TIMEOUT, "It ran longer than 10 s."),
        ("I would rather not.", Status.EXEC_ERR, "There is no program in <code>."),
    ],
)
def test_a_program_that_fails_for_good_gives_the_error(python: Any, text: str, status: Status, error: str) -> None:
    reply = code_reasoner(ScriptedChat([text] * 2), QUESTION, python=python)
    assert (reply.status, reply.error, reply.answer) == (status, error, "")
    assert reply.text.endswith(f"<execution_result>\n{error}\n</execution_result>")


def test_an_answer_without_a_program_counts(python: Any) -> None:
    assert code_reasoner(ScriptedChat([r"Plainly \boxed{4}"]), QUESTION, python=python).answer == "4"
    assert python.programs == []


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ({"stdout": "Computing\n\\boxed{4}\n", "stderr": ""}, "4"),
        ({"stdout": "4", "stderr": "A warning."}, "4"),
        ([1, 2], "[1,2]"),
        (4, "4"),
    ],
)
def test_the_last_line_that_is_printed_is_the_answer(value: Any, answer: str) -> None:
    class Other(Tool):
        def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
            return ToolResult.ok(value)

    tool = Other("python", "Runs Python.", {"code": ParameterSpec(type="string", description="The program.")})
    assert code_reasoner(ScriptedChat(["<code>x</code>"]), QUESTION, python=tool).answer == answer


def test_the_error_stream_is_shown_when_a_program_printed_nothing() -> None:
    class Other(Tool):
        def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
            return ToolResult.ok({"stdout": "", "stderr": "ZeroDivisionError"})

    tool = Other("python", "Runs Python.", {"code": ParameterSpec(type="string", description="The program.")})
    assert code_reasoner(ScriptedChat(["<code>x</code>"] * 2), QUESTION, python=tool).error == "ZeroDivisionError"


def test_code_beats_thought_on_long_chains_for_a_model_that_codes_well(
    simulated: Callable[..., SimulatedChat], share: Callable[..., float], python: Any
) -> None:
    model = simulated(skills={"code": 0.97, "other": 0.88})
    for length in (4, 8):
        coded = share(functools.partial(code_reasoner, model, python=python), length)
        assert coded > share(functools.partial(standard_reasoner, model), length) + 0.25


def test_code_does_not_help_a_weak_coder_on_short_problems(
    simulated: Callable[..., SimulatedChat], share: Callable[..., float], python: Any
) -> None:
    model = simulated(skills={"code": 0.7, "other": 0.95})
    coded = share(functools.partial(code_reasoner, model, python=python), 1)
    assert coded < share(functools.partial(standard_reasoner, model), 1) - 0.05
