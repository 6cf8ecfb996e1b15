"""Preference pairs from a model: one proposes them, the same or another one judges them (ToolOrchestra §3.4).

A proposal whose vector is none is shown its faults and requested again; whether its words mean its vector, the judge
says.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from toolorchestra.toolscale.common.errors import unknown_name
from toolorchestra.toolscale.preferences import COMPONENTS, MAX_CHARACTERS, Judge, PreferencePair, ToolFacts, check_pair
from toolorchestra.toolscale.synth.answer_checks import read_answer
from toolorchestra.toolscale.synth.derived.templates import prompt, read_templates
from toolorchestra.toolscale.synth.model_queries import InvalidError, ModelQueries, UnsettledError
from toolorchestra.toolscale.tools.tool import ToolOrigin

BATCH = 8
"""Pairs requested in one question."""


class _Proposal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    instruction: str
    weights: dict[str, float]


class _Verdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    consistent: bool
    why: str = ""


def propose_pairs(tools: Sequence[ToolFacts], count: int, queries: ModelQueries) -> list[PreferencePair]:
    """Return about `count` pairs that a model proposes, without faults.

    Of a batch whose errors the repairs do not fix, the pairs without errors are kept.

    Raises:
        SynthesisError: The endpoint failed or the budget is spent; what was answered is stored.
    """
    stage = queries.begin("preferences")

    def batch(number: int) -> list[PreferencePair]:
        good: list[PreferencePair] = []

        def check(text: str) -> list[PreferencePair]:
            pairs: list[PreferencePair] = []
            faults: list[str] = []
            for position, proposal in enumerate(read_answer(text, list[_Proposal]), 1):
                pair, found = _pair(proposal, tools)
                faults += [f"pair {position}: {fault}" for fault in found]
                pairs += [] if found else [pair]
            if len(pairs) > len(good):
                good[:] = pairs
            if faults or not pairs:
                raise InvalidError("\n".join(faults) or f"Expected {BATCH} pairs, found none.")
            return pairs

        try:
            return queries.settle(stage, f"batch {number}", _proposing(tools, number), check)
        except UnsettledError:
            if good:
                return good
            raise

    batches = queries.each(stage, range(-(-count // BATCH)), batch)
    return [pair for found in batches if not isinstance(found, UnsettledError) for pair in found]


def judge_pairs(pairs: Sequence[PreferencePair], tools: Sequence[ToolFacts], queries: ModelQueries) -> Judge:
    """Ask a model about each pair and return the judge that knows its verdicts.

    Raises:
        SynthesisError: The endpoint failed or the budget is spent; what was answered is stored.
    """
    questions = {f"pair {number}": _judging(pair, tools) for number, pair in enumerate(pairs)}
    found = queries.settle_each(queries.begin("judgements"), questions, lambda _, text: read_answer(text, _Verdict))
    verdicts = dict(zip(pairs, found, strict=True))

    def judge(pair: PreferencePair) -> str | None:
        found = verdicts[pair]
        if isinstance(found, UnsettledError):
            return "the judge gave no valid answer"
        return None if found.consistent else (found.why or "no reason given")[:300]

    return judge


def _pair(proposal: _Proposal, tools: Sequence[ToolFacts]) -> tuple[PreferencePair, list[str]]:
    """Return what a model proposed as a pair, and its faults."""
    names = tuple(tool.name for tool in tools)
    known = (*names, *COMPONENTS)
    instruction = " ".join(proposal.instruction.split())[:MAX_CHARACTERS]
    pair = PreferencePair(instruction, names, tuple(proposal.weights.get(name, 0.0) for name in known))
    faults = [unknown_name("entry", name, known) for name in proposal.weights if name not in known]
    return pair, faults or check_pair(pair, tools)


def _listed(tools: Sequence[ToolFacts]) -> str:
    return "\n".join(
        f"- {tool.name}: ${tool.price:.4f} a call, {tool.latency:g} seconds, "
        f"{'changes records' if tool.writes else 'only reads'}{_origin(tool.origin)}. {tool.description}".rstrip()
        for tool in tools
    )


def _origin(origin: ToolOrigin) -> str:
    """Return what a tool is, who made it and who runs it; nothing for the world's own."""
    if origin.kind == "function":
        return ""
    weights = f" with {'open' if origin.self_hosted else 'closed'} weights" if origin.kind == "model" else ""
    made = f" made by {origin.vendor}" if origin.vendor else ""
    host = "local" if origin.provider == "local" else f"hosted by {origin.provider}"
    return f"; a {origin.kind}{weights}{made}, {host}"


def _proposing(tools: Sequence[ToolFacts], number: int) -> str:
    users = read_templates("prompts.yaml")["preference_users"]
    values = {"tools": _listed(tools), "tool": tools[0].name, "user": users[number % len(users)]}
    return prompt("preferences", count=BATCH, number=number + 1, **values)


def _judging(pair: PreferencePair, tools: Sequence[ToolFacts]) -> str:
    weights = "\n".join(f"- {name}: {weight:g}" for name, weight in pair.rewarded.items())
    return prompt("preference_judge", tools=_listed(tools), instruction=pair.instruction, weights=weights)
