"""ParaManager's roles that need no tool (§3.1, App. E and F); `knowledge_searcher` and `code_reasoner` do."""

from __future__ import annotations

from toolorchestra.agents.chat.base import ChatModel
from toolorchestra.agents.problems import Act
from toolorchestra.agents.subagents.general import chain_of_thought, self_consistency
from toolorchestra.agents.subagents.prompts import prompt, user_prompt
from toolorchestra.agents.subagents.question import SubAgentQuestion, SubAgentReply
from toolorchestra.agents.subagents.work import Ask, Work


def standard_reasoner(model: ChatModel, question: SubAgentQuestion, *, temperature: float = 0.5) -> SubAgentReply:
    """Solve by thought alone. It does not see the history."""
    return chain_of_thought(model, question, temperature=temperature)


def ensemble_solver(
    model: ChatModel, question: SubAgentQuestion, *, samples: int = 4, temperature: float = 1.0
) -> SubAgentReply:
    """Solve several times on different paths, and reply with the answer on which most agree."""
    return self_consistency(model, question, samples=samples, temperature=temperature)


def critical_reviewer(model: ChatModel, question: SubAgentQuestion, *, temperature: float = 0.5) -> SubAgentReply:
    """Doubt what the history says, name its errors, and give the answer that holds."""
    return _from_history(model, question, "review", "review", temperature)


def final_answer(model: ChatModel, question: SubAgentQuestion, *, temperature: float = 0.0) -> SubAgentReply:
    """Read the whole history and give the answer to the original question: the frozen summariser M_s."""
    return _from_history(model, question, "conclude", "choose", temperature)


def _from_history(
    model: ChatModel, question: SubAgentQuestion, role: str, act: Act, temperature: float
) -> SubAgentReply:
    work = Work(question, temperature)
    work.show(question.evidence)
    user = user_prompt(question, conversation_history=question.history)
    return work.conclude(model, Ask(prompt(role), user, act, question.candidates))
