"""A sub-agent that writes a Python program, runs it, and fixes it once if it fails (ParaManager App. E and F)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from toolorchestra.agents.chat.base import ChatModel
from toolorchestra.agents.messages.text_parts import answer_in, as_text, before_code, code_in, spoken
from toolorchestra.agents.subagents.prompts import prompt, user_prompt
from toolorchestra.agents.subagents.question import SubAgentQuestion, SubAgentReply
from toolorchestra.agents.subagents.work import Ask, Work
from toolorchestra.toolscale.answers.answers import final_answer
from toolorchestra.toolscale.tools.tool import Status, Tool, ToolResult


def code_reasoner(
    model: ChatModel, question: SubAgentQuestion, *, python: Tool, repairs: int = 1, temperature: float = 0.5
) -> SubAgentReply:
    """Write a program, run it, and reply with its output.

    The tool `python`, which takes ``code``, runs programs. One that failed or printed nothing is fixed up to `repairs`
    times.
    """
    work = Work(question, temperature)
    work.show(question.evidence)
    ask = Ask(prompt("code"), user_prompt(question), "code")
    for attempt in range(repairs + 1):
        (text,) = work.ask(model, ask)
        code = code_in(text)
        if not code and (answer := answer_in(text)):
            return work.reply(spoken(text), answer)
        result = work.run(python, {"code": code}) if code else ToolResult.failed("There is no program in <code>.")
        output, outcome = _outcome(result)
        if output:
            shown = f"{before_code(text)}\n<code>\n{code}\n</code>\n{_executed(output)}".strip()
            return work.reply(shown, final_answer(output.splitlines()[-1]))
        if attempt < repairs:
            correction = {"role": "user", "content": prompt("repair").format(outcome=outcome)}
            ask = msgspec.structs.replace(ask, more=(*ask.more, {"role": "assistant", "content": text}, correction))
    status = Status.TIMEOUT if result.status is Status.TIMEOUT else Status.EXEC_ERR
    return work.reply(f"{spoken(text)}\n{_executed(outcome)}", "", status, outcome)


def _outcome(result: ToolResult) -> tuple[str, str]:
    """Return the output of a program, and an explanation in case it is empty.

    The value of a tool that runs programs is their text, or an object with ``stdout`` and ``stderr``.
    """
    if result.error is not None:
        return "", result.error
    streams = result.value if isinstance(result.value, Mapping) else {"stdout": result.value}
    complaint = streams.get("stderr") or "The program ran and printed nothing."
    return as_text(streams.get("stdout") or "").strip(), str(complaint).strip()


def _executed(text: str) -> str:
    return f"<execution_result>\n{text}\n</execution_result>"
