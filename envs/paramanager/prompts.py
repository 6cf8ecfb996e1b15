"""ParaManager's prompt and the descriptions of its tools (after App. E and F, reworded)."""

from __future__ import annotations

from collections.abc import Mapping

PROMPT = """\
You manage a team that solves problems. You do not solve them yourself: you split what is asked into subtasks, give \
each to the tool or sub-agent that suits it, compare what comes back, and decide when the work is done.

Every message of yours has this form: your reasoning, then {calls}.

<reasoning>
What is known, what is missing, and what this round is to find out.
</reasoning>
{form}

Results come back as <tool_response> blocks with a status: OK, PARSE_ERR (the call was not one, mend it), EXEC_ERR \
(the tool failed, try otherwise) or TIMEOUT. You have {rounds} messages; what is left of your budget stands at the end \
of each observation. When the answer is settled, call final_answer, which ends the work: its author reads the whole \
history and what you reason beside the call. A conclusion that you write there as \\boxed{{…}} is the one it is given.

- A subtask must be complete in itself: only the reviewer and final_answer see the history.
- Replies may be wrong. Let different models or different tools work on the same thing, and trust what they agree on; \
have numbers checked by code_reasoner or python, and conclusions by critical_reviewer with another model.
- Small subtasks succeed more often than large ones{together}.
- Sub-agents cost units; search, python and the tools of the place are free. Short and cheap work is worth more.

Models for `model_id`; {default} is asked if you name none:
{models}
"""

NO_CALL = """\
That message called no tool, so nothing was done. Write <reasoning>…</reasoning>, then at least one \
<tool_call>{"name": "…", "arguments": {…}}</tool_call>; to end, call final_answer."""
TOO_MANY = "The limit is {most} in a message, and this call is beyond it. Make it in the next message."
AFTER_FINAL = "final_answer ends the episode, so that nothing after it is run. Make this call before it."

SUBTASK = "What is to be done, complete in itself. The original problem by default."
MODEL_ID = "Model that does it; {default} by default."

DOMAIN_TASK = """\
It is done by calling the tools below. Give as the answer the next call to make, written \
<tool_call>{"name": "…", "arguments": {…}}</tool_call>, or what is to be told to the user when nothing is left to do."""

DESCRIPTIONS = {
    "standard_reasoner": "A sub-agent that thinks a subtask through and answers it, without any tool. Costs 1 unit.",
    "critical_reviewer": "A sub-agent that reads the history, looks for errors in it, and says what holds. "
    "Costs 1 unit.",
    "knowledge_searcher": "A sub-agent that writes search queries for a subtask, searches, and answers from what it "
    "finds. Costs 1 unit.",
    "code_reasoner": "A sub-agent that writes a Python program for a subtask, runs it, and replies with the output. "
    "Costs 1 unit.",
    "ensemble_solver": "Solves the original problem four times independently and replies with the commonest answer. "
    "Costs 4 units.",
    "final_answer": "Ends the work: a frozen model reads the history and gives the final answer. Costs 1 unit.",
}
"""Descriptions of the sub-agents."""


_FORM = '<tool_call>{"name": "…", "arguments": {…}}</tool_call>'


def orchestrator_prompt(*, most: int, rounds: int, models: Mapping[str, str], rules: str) -> str:
    """Return the system prompt.

    Args:
        most: Calls allowed in a message.
        rounds: Messages allowed.
        models: Descriptions of the models by name; the first is asked by default.
        rules: What must be known of the place.
    """
    several = most > 1
    said = PROMPT.format(
        calls=f"one to {most} calls, which run at the same time" if several else "one call",
        form="\n".join([_FORM] * min(2, most)),
        rounds=rounds,
        together=", and independent ones belong into one round" if several else "",
        default=next(iter(models)),
        models="\n".join(f"- {name}: {text}" if text else f"- {name}" for name, text in models.items()),
    )
    return f"{said}\n{rules}".strip()
