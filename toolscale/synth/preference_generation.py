"""Preference pairs from a model: one proposes them, the same or another one judges them (ToolOrchestra §3.4).

The rules of `toolorchestra.toolscale.preferences` come first: a proposal that breaks one is shown its faults and
asked for again.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from toolorchestra.toolscale.errors import unknown_name
from toolorchestra.toolscale.preferences import COMPONENTS, Judge, PreferencePair, ToolFacts, check_pair
from toolorchestra.toolscale.synth.answer_checks import read_answer
from toolorchestra.toolscale.synth.model_queries import InvalidError, ModelQueries, UnsettledError

BATCH = 8
"""Pairs asked for in one question."""

_USERS = (
    "a small business with a tight budget",
    "somebody at a counter with a queue behind them",
    "a firm that trusts only some of its tools",
    "an auditor who must be able to rely on the result",
    "a student with little money and much time",
    "a company that wants to keep data on its own machines",
    "an assistant on the telephone",
    "a researcher who compares tools",
    "a manager who gets the bill at the end of the month",
    "a person who cares about one thing only",
    "a team that has just bought one of the tools",
    "somebody with two wishes that pull in different directions",
)


class _Proposal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    instruction: str
    weights: dict[str, float]


class _Verdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    consistent: bool
    why: str = ""


def propose_pairs(tools: Sequence[ToolFacts], count: int, queries: ModelQueries) -> list[PreferencePair]:
    """Return about `count` pairs that a model proposes and that keep the rules.

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
    stage = queries.begin("judgements")

    def verdict(number: int) -> _Verdict:
        prompt = _judging(pairs[number], tools)
        return queries.settle(stage, f"pair {number}", prompt, lambda text: read_answer(text, _Verdict))

    verdicts = dict(zip(pairs, queries.each(stage, range(len(pairs)), verdict), strict=True))

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
    instruction = " ".join(proposal.instruction.split())[:2_000]
    pair = PreferencePair(instruction, names, tuple(proposal.weights.get(name, 0.0) for name in known))
    faults = [unknown_name("entry", name, known) for name in proposal.weights if name not in known]
    return pair, faults or check_pair(pair, tools)


def _listed(tools: Sequence[ToolFacts]) -> str:
    return "\n".join(
        f"- {tool.name}: ${tool.price:.4f} a call, {tool.latency:g} seconds, "
        f"{'changes records' if tool.writes else 'only reads'}. {tool.description}".rstrip()
        for tool in tools
    )


def _proposing(tools: Sequence[ToolFacts], number: int) -> str:
    return f"""\
An assistant solves requests with these tools:

{_listed(tools)}

Users differ in what they would like it to optimise. Write {BATCH} different preferences (set {number + 1}), this time \
as {_USERS[number % len(_USERS)]} would put them. Each has

- instruction: one to three sentences to the assistant, in the user's voice, about how to work, not about a request.
- weights: what is rewarded, from above 0 to 1. Keys are names of tools (rewarded for being used), outcome (rewarded \
for being right), compute (for spending little) and latency (for being quick). What is left out has weight 0.

The instruction names everything that has a weight and asks for nothing else. Tools go by their names as above, or as \
"tools that cost nothing", "tools that cost at most $0.001 a call", "tools that answer within 0.1 seconds", "tools \
that only read" or "tools that change records" (then every such tool has a weight); outcome, compute and latency go by \
everyday words (right, cheap, quick …). What must not be used is named with "avoid". A sentence with "above all" goes \
with weights from 0.5 up, one with "a little" with weights up to 0.5.

```yaml
- instruction: Above all be quick, my guests are waiting. I lean a little towards {tools[0].name}.
  weights: {{latency: 1.0, {tools[0].name}: 0.2}}
```"""


def _judging(pair: PreferencePair, tools: Sequence[ToolFacts]) -> str:
    weights = "\n".join(f"- {name}: {weight:g}" for name, weight in pair.rewarded.items())
    return f"""\
An assistant solves requests with these tools:

{_listed(tools)}

A user says how it should work:

{pair.instruction}

It is rewarded by these weights (tools for being used, outcome for being right, compute for spending little, latency \
for being quick; everything else has weight 0):

{weights}

Would an assistant that earns this reward do what the user asks for, and is nothing that the user asks for missing? \
Answer with

```yaml
consistent: true
why: one sentence
```"""
