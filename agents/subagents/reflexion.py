"""Reflexion: an attempt, a critic, another attempt, until the critic is content (MAS-Orchestra App. H.3)."""

from __future__ import annotations

from toolorchestra.agents.chat.base import ChatModel
from toolorchestra.agents.subagents.prompts import CRITIC, REFLECT, SOLVE, asked
from toolorchestra.agents.subagents.question import SubAgentQuestion, SubAgentReply
from toolorchestra.agents.subagents.reading import answer_in, spoken, tag
from toolorchestra.agents.subagents.work import Ask, Work


def reflexion(
    model: ChatModel, question: SubAgentQuestion, *, rounds: int = 5, temperature: float = 0.5
) -> SubAgentReply:
    """Answer, criticise the answer and mend it, until the critic finds nothing; for problems that reward checking.

    Args:
        model: Who answers and criticises.
        question: What is asked.
        rounds: Maximum number of rounds of criticism; they end when the critic says "True".
        temperature: Of all requests.
    """
    work = Work(question, temperature)
    (attempt,) = work.ask(model, Ask(SOLVE, asked(question)))
    answer = answer_in(attempt)
    rounds_so_far: list[str] = []
    for _ in range(rounds):
        known = _known(answer)
        (criticism,) = work.ask(model, Ask(CRITIC, asked(question, answers=spoken(attempt)), "review", known))
        if (tag(spoken(criticism), "correct") or spoken(criticism)).strip(" .").casefold() == "true":
            break
        rounds_so_far.append(f"## Attempt\n\n{spoken(attempt)}\n\n## Criticism\n\n{spoken(criticism)}")
        known = _known(answer_in(criticism), answer)
        (attempt,) = work.ask(model, Ask(REFLECT, asked(question, answers="\n\n".join(rounds_so_far)), "review", known))
        answer = answer_in(attempt)
    return work.reply(spoken(attempt), answer)


def _known(*answers: str) -> tuple[str, ...]:
    return tuple(answer for answer in answers if answer)
