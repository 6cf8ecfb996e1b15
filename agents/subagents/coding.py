"""A sub-agent that programs: it writes Python, has it run, and mends it once (ParaManager App. E and F)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from toolorchestra.agents.chat import ChatModel
from toolorchestra.agents.subagents.prompts import CODE, REPAIR, asked
from toolorchestra.agents.subagents.question import Question, Reply
from toolorchestra.agents.subagents.reading import answer_in, code_in, spoken
from toolorchestra.agents.subagents.work import Ask, Work
from toolorchestra.toolscale.answers import final_answer
from toolorchestra.toolscale.tool import Status, Tool, ToolResult


def code_reasoner(
    model: ChatModel, question: Question, *, python: Tool, repairs: int = 1, temperature: float = 0.5
) -> Reply:
    """Write a program, run it, and reply with what it printed.

    Args:
        model: Who writes it.
        question: What is asked.
        python: Takes ``code``. It alone runs programs.
        repairs: How often a program that failed or printed nothing may be mended.
        temperature: Of all requests.
    """
    work = Work(question, temperature)
    ask = Ask(CODE, asked(question), "code")
    for attempt in range(repairs + 1):
        (text,) = work.ask(model, ask)
        code = code_in(text)
        if not code and (answer := answer_in(text)):
            return work.reply(spoken(text), answer)
        result = work.run(python, {"code": code}) if code else ToolResult.failed("There is no program in <code>.")
        output = printed(result.value) if result.error is None else ""
        if output:
            text = f"{_before_code(text)}<code>\n{code}\n</code>\n<execution_result>\n{output}\n</execution_result>"
            return work.reply(text, final_answer(output.splitlines()[-1]))
        outcome = result.error or "The program ran and printed nothing."
        if attempt < repairs:
            mending = {"role": "user", "content": REPAIR.format(outcome=outcome)}
            ask = msgspec.structs.replace(ask, more=(*ask.more, {"role": "assistant", "content": text}, mending))
    status = result.status if result.error is not None else Status.EXEC_ERR
    return work.reply(f"{spoken(text)}\n<execution_result>\n{outcome}\n</execution_result>", "", status, outcome)


def printed(value: object) -> str:
    """Return what a program printed, of the result of a tool that ran it: text, or an object with ``stdout``."""
    if isinstance(value, Mapping):
        value = value.get("stdout", "")
    return value.strip() if isinstance(value, str) else msgspec.json.encode(value).decode()


def _before_code(text: str) -> str:
    before, _, _ = spoken(text).partition("<code>")
    return f"{before.strip()}\n" if before.strip() else ""
