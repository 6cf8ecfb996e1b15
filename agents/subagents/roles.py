"""ParaManager's roles that need no tool (§3.1, App. E and F); `knowledge_searcher` and `code_reasoner` do."""

from __future__ import annotations

from toolorchestra.agents.chat.base import ChatModel
from toolorchestra.agents.subagents.prompts import CONCLUDE, REVIEW, SOLVE, asked
from toolorchestra.agents.subagents.question import SubAgentQuestion, SubAgentReply
from toolorchestra.agents.subagents.reading import answer_in, spoken
from toolorchestra.agents.subagents.reasoning import voted
from toolorchestra.agents.subagents.work import Ask, Work


def standard_reasoner(model: ChatModel, question: SubAgentQuestion, *, temperature: float = 0.5) -> SubAgentReply:
    """Solve by thought alone. It does not see the history."""
    work = Work(question, temperature)
    (text,) = work.ask(model, Ask(SOLVE, asked(question)))
    return work.reply(spoken(text), answer_in(text))


def critical_reviewer(model: ChatModel, question: SubAgentQuestion, *, temperature: float = 0.5) -> SubAgentReply:
    """Doubt what the history says, name its errors, and give the answer that holds."""
    work = Work(question, temperature)
    work.show(question.evidence)
    user = asked(question, conversation_history=question.history)
    (text,) = work.ask(model, Ask(REVIEW, user, "review", question.candidates))
    return work.reply(spoken(text), answer_in(text))


def ensemble_solver(
    model: ChatModel, question: SubAgentQuestion, *, samples: int = 4, temperature: float = 1.0
) -> SubAgentReply:
    """Solve several times on different paths, and reply with the answer on which most agree."""
    work = Work(question, temperature)
    return work.reply(*voted(work.ask(model, *[Ask(SOLVE, asked(question))] * samples)))


def final_answer(model: ChatModel, question: SubAgentQuestion, *, temperature: float = 0.0) -> SubAgentReply:
    """Read the whole history and give the answer to the original question: the frozen summariser M_s."""
    work = Work(question, temperature)
    work.show(question.evidence)
    user = asked(question, conversation_history=question.history)
    (text,) = work.ask(model, Ask(CONCLUDE, user, "choose", question.candidates))
    return work.reply(spoken(text), answer_in(text))
