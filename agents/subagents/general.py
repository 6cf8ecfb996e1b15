r"""The general sub-agents without tools of MAS-Orchestra (App. H.3), and all general ones by name (`SUBAGENTS`).

The first line of each docstring describes the sub-agent to orchestrators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toolorchestra.agents.chat.base import ChatModel
from toolorchestra.agents.messages.text_parts import answer_in, spoken, tag
from toolorchestra.agents.subagents.prompts import prompt, user_prompt
from toolorchestra.agents.subagents.question import SubAgentQuestion, SubAgentReply
from toolorchestra.agents.subagents.searching import search_agent
from toolorchestra.agents.subagents.work import Ask, Work
from toolorchestra.toolscale.answers.answers import count_votes
from toolorchestra.toolscale.common.errors import OptionError

ROLES = ("a careful expert", "a sceptic who checks every step")
"""The default roles of a debate."""


def chain_of_thought(model: ChatModel, question: SubAgentQuestion, *, temperature: float = 0.5) -> SubAgentReply:
    """Think step by step, then answer: one call of the model, the cheapest way to an answer."""
    return Work(question, temperature).conclude(
        model, Ask(prompt("solve", boxed=question.boxed), user_prompt(question))
    )


def self_consistency(
    model: ChatModel, question: SubAgentQuestion, *, samples: int = 5, temperature: float = 0.5
) -> SubAgentReply:
    """Answer several times independently and take the answer given most often; for answers that vary by chance."""
    work = Work(question, temperature)
    texts = work.ask(model, *[Ask(prompt("solve", boxed=question.boxed), user_prompt(question))] * samples)
    answers = [answer_in(text) for text in texts]
    counted = count_votes(answers)
    if not counted:
        return work.reply(spoken(texts[0]) if texts else "", "")
    winner, _ = max(counted, key=lambda pair: pair[1])  # of answers given equally often, the first
    votes = ", ".join(f"{answer}: {count}" for answer, count in counted)
    return work.reply(f"Votes of {len(texts)}: {votes}.\n{spoken(texts[answers.index(winner)])}", winner)


def reflexion(
    model: ChatModel, question: SubAgentQuestion, *, rounds: int = 5, temperature: float = 0.5
) -> SubAgentReply:
    """Answer, criticise the answer and mend it, until the critic finds nothing; for problems that reward checking.

    There are at most `rounds` rounds of criticism; they end when the critic says "True".
    """
    work = Work(question, temperature)
    (attempt,) = work.ask(model, Ask(prompt("solve", boxed=question.boxed), user_prompt(question)))
    answer, history = answer_in(attempt), list[str]()
    for _ in range(rounds):
        user = user_prompt(question, answers=spoken(attempt))
        (criticism,) = work.ask(model, Ask(prompt("critic"), user, "review", _given(answer)))
        if (tag(spoken(criticism), "correct") or spoken(criticism)).strip(" .").casefold() == "true":
            break
        history.append(f"## Attempt\n\n{spoken(attempt)}\n\n## Criticism\n\n{spoken(criticism)}")
        user = user_prompt(question, answers="\n\n".join(history))
        (attempt,) = work.ask(
            model, Ask(prompt("reflect", boxed=question.boxed), user, "review", _given(answer_in(criticism), answer))
        )
        answer = answer_in(attempt)
    return work.reply(spoken(attempt), answer)


def debate(
    model: ChatModel | Sequence[ChatModel],
    question: SubAgentQuestion,
    *,
    roles: Sequence[str] = ROLES,
    rounds: int = 5,
    until_agreed: bool = False,
    temperature: float = 0.5,
) -> SubAgentReply:
    """Let roles argue over several rounds, then decide; for problems that gain from more than one view.

    One model takes all roles; several take them in turn, and the first one decides. Each reads what all said in the
    round before, reasoning and answer. The debate ends after `rounds` rounds or, `until_agreed`, as soon as all answers
    are equal. Fewer than two roles, or no model, raise `OptionError`.
    """
    models = list(model) if isinstance(model, Sequence) else [model]
    if len(roles) < 2 or not models:
        raise OptionError(
            f"Expected at least two roles and one model for a debate, got {len(roles)} and {len(models)}."
        )
    work = Work(question, temperature)
    slots = [(models[slot % len(models)], prompt("role").format(role=role)) for slot, role in enumerate(roles)]
    texts = work.ask_all(
        [(debater, Ask(role + prompt("solve", boxed=question.boxed), user_prompt(question))) for debater, role in slots]
    )
    for _ in range(rounds - 1):
        answers = [answer_in(text) for text in texts]
        if until_agreed and all(answers) and len(count_votes(answers)) == 1:
            break
        asks = []
        for slot, (debater, role) in enumerate(slots):
            order = [*(other for other in range(len(slots)) if other != slot), slot]
            user = user_prompt(
                question, answers=_shown([texts[other] for other in order], [roles[other] for other in order])
            )
            given = _given(*(answers[other] for other in order))
            asks.append((debater, Ask(role + prompt("debate", boxed=question.boxed), user, "review", given)))
        texts = work.ask_all(asks)
    user = user_prompt(question, answers=_shown(texts, roles))
    decide = Ask(prompt("decide", boxed=question.boxed), user, "choose", _given(*map(answer_in, texts)))
    return work.conclude(models[0], decide)


def _shown(texts: Sequence[str], roles: Sequence[str]) -> str:
    return "\n\n".join(f"## {role}\n\n{spoken(text)}" for role, text in zip(roles, texts, strict=True))


def _given(*answers: str) -> tuple[str, ...]:
    return tuple(answer for answer in answers if answer)


SUBAGENTS: dict[str, Callable[..., SubAgentReply]] = {
    "CoTAgent": chain_of_thought,
    "SCAgent": self_consistency,
    "DebateAgent": debate,
    "ReflexionAgent": reflexion,
    "SearchAgent": search_agent,
}
"""General sub-agents by the names that MAS-Orchestra gives them (App. H)."""
