"""Debate: several roles answer, read each other and answer again; then one decides (MAS-Orchestra App. H.3)."""

from __future__ import annotations

from collections.abc import Sequence

from toolorchestra.agents.chat.base import ChatModel
from toolorchestra.agents.subagents.prompts import DEBATE, DECIDE, ROLE, SOLVE, asked
from toolorchestra.agents.subagents.question import SubAgentQuestion, SubAgentReply
from toolorchestra.agents.subagents.reading import answer_in, spoken
from toolorchestra.agents.subagents.work import Ask, Work
from toolorchestra.toolscale.answers import count_votes
from toolorchestra.toolscale.errors import OptionError

ROLES = ("a careful expert", "a sceptic who checks every step")
"""Who debates if nobody else is named."""


def debate(
    model: ChatModel | Sequence[ChatModel],
    question: SubAgentQuestion,
    *,
    roles: Sequence[str] = ROLES,
    rounds: int = 5,
    temperature: float = 0.5,
) -> SubAgentReply:
    """Let roles argue over several rounds, then decide; for problems that gain from more than one view.

    Args:
        model: Who debates: one model in all roles, or several that take the roles in turn. The first one decides.
        question: What is asked.
        roles: Who the debaters are; at least two.
        rounds: Maximum number of rounds. The debate ends earlier when all agree.
        temperature: Of all requests.

    Raises:
        OptionError: There are fewer than two roles, or no model.
    """
    models = list(model) if isinstance(model, Sequence) else [model]
    if len(roles) < 2 or not models:
        raise OptionError(
            f"Expected at least two roles and one model for a debate, got {len(roles)} and {len(models)}."
        )
    work = Work(question, temperature)
    slots = [(models[slot % len(models)], ROLE.format(role=role)) for slot, role in enumerate(roles)]
    texts = work.ask_all([(debater, Ask(role + SOLVE, asked(question))) for debater, role in slots])
    for _ in range(rounds - 1):
        answers = [answer_in(text) for text in texts]
        if all(answers) and len(count_votes(answers)) == 1:
            break
        asks = []
        for slot, (debater, role) in enumerate(slots):
            order = [*(other for other in range(len(slots)) if other != slot), slot]
            shown = _shown([texts[other] for other in order], [roles[other] for other in order])
            known = tuple(answers[other] for other in order if answers[other])
            asks.append((debater, Ask(role + DEBATE, asked(question, answers=shown), "review", known)))
        texts = work.ask_all(asks)
    candidates = tuple(answer for answer in map(answer_in, texts) if answer)
    (decision,) = work.ask(models[0], Ask(DECIDE, asked(question, answers=_shown(texts, roles)), "choose", candidates))
    return work.reply(spoken(decision), answer_in(decision))


def _shown(texts: Sequence[str], roles: Sequence[str]) -> str:
    return "\n\n".join(f"## {role}\n\n{spoken(text)}" for role, text in zip(roles, texts, strict=True))
