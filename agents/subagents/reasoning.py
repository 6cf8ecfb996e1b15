r"""Sub-agents that reason without tools: one chain of thought, or a vote over several."""

from __future__ import annotations

from toolorchestra.agents.chat.base import ChatModel
from toolorchestra.agents.subagents.prompts import SOLVE, asked
from toolorchestra.agents.subagents.question import SubAgentQuestion, SubAgentReply
from toolorchestra.agents.subagents.reading import answer_in, spoken
from toolorchestra.agents.subagents.work import Ask, Work
from toolorchestra.toolscale.answers import count_votes


def chain_of_thought(model: ChatModel, question: SubAgentQuestion, *, temperature: float = 0.5) -> SubAgentReply:
    """Think step by step, then answer: one call of the model, the cheapest way to an answer."""
    work = Work(question, temperature)
    (text,) = work.ask(model, Ask(SOLVE, asked(question)))
    return work.reply(spoken(text), answer_in(text))


def self_consistency(
    model: ChatModel, question: SubAgentQuestion, *, samples: int = 5, temperature: float = 0.5
) -> SubAgentReply:
    """Answer several times independently and take the answer given most often; for answers that vary by chance."""
    work = Work(question, temperature)
    texts = work.ask(model, *[Ask(SOLVE, asked(question))] * samples)
    return work.reply(*voted(texts))


def voted(texts: list[str]) -> tuple[str, str]:
    """Return what is shown of a vote, the first text for the winning answer, and that answer.

    Of answers given equally often the first wins.
    """
    answers = [answer_in(text) for text in texts]
    counted = count_votes(answers)
    if not counted:
        return spoken(texts[0]) if texts else "", ""
    winner, _ = max(counted, key=lambda pair: pair[1])
    votes = ", ".join(f"{answer}: {count}" for answer, count in counted)
    first = texts[answers.index(winner)]
    return f"Votes of {len(texts)}: {votes}.\n{spoken(first)}", winner
