"""The problem that a tool call poses to a simulated expert or sub-agent, found from the context of the call.

In a world of questions it is the question, the part of it that the call asks for, or a sum
(`toolorchestra.envs.ground_truth.questions`); in a domain a step of the work, or the answer
(`toolorchestra.envs.ground_truth.domain_steps`). A call that asks for something else gets an answer to something else.
Real models never see any of it.

Not covered: how often a model is right (`toolorchestra.agents.experts.specification`), and which parts of the
conversation it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from toolorchestra.agents.experts.specification import Role
from toolorchestra.agents.problems import Problem, facts
from toolorchestra.agents.subagents.parsing import answer_in
from toolorchestra.envs.ground_truth.domain_steps import conclusion, step_asked, successful
from toolorchestra.envs.ground_truth.parts import Part, parts_of
from toolorchestra.envs.ground_truth.questions import QuestionRequest
from toolorchestra.envs.ground_truth.wording import BESIDE, UNCLEAR
from toolorchestra.toolscale.answers import final_answer
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tool import InnerCall, ToolContext

UNREAD = 3.0
"""How much harder still, in logits, is a fact from the passages of a search, while none that states it is found."""
_NO_ANSWERS = frozenset({*BESIDE, UNCLEAR})


def problem_for(
    context: ToolContext, text: str | None = None, *, searches: bool = False, role: Role | None = None
) -> Problem:
    """Return the problem that a model in a role is asked to solve by `text`, or by the user's request if it is None.

    For a question, that is what `text` asks for (`QuestionRequest`). Facts that are found in passages are `UNREAD`
    logits harder until the passages have been read, unless the model `searches` by itself.

    For a task in a domain, it is the step of the work that `text` asks for, as a ``<tool_call>`` block, or the answer
    to the user (`toolorchestra.envs.ground_truth.domain_steps`). An attack in the request is a note about that step
    until it has been carried out.
    """
    if isinstance(context.world, Domain):
        return step_asked(context.world, context, text, role)
    parts = parts_of(context.task)
    request = QuestionRequest(context.task, parts, text, role)
    problem = request.problem()
    if searches or not request.positions or not any(part.support for part in parts):
        return problem
    read = {passage["id"] for passage in _passages(context)}
    steps = tuple(
        msgspec.structs.replace(step, difficulty=step.difficulty + UNREAD)
        if parts[position].support and not read.issuperset(parts[position].support)
        else step
        for position, step in zip(request.positions, problem.steps, strict=True)
    )
    return msgspec.structs.replace(problem, steps=steps)


def final_problem(context: ToolContext) -> Problem:
    """Return the problem of a model that is asked for the final answer of the episode.

    In a domain, no answer is right until the results hold what must be communicated, or all steps are done.
    """
    return conclusion(context.world, context) if isinstance(context.world, Domain) else problem_for(context)


def queries_for(context: ToolContext, text: str | None = None) -> tuple[str, ...]:
    """Return, for each step of the problem, the query that finds its fact; "" for a step that needs no search.

    There are none in a domain, and for questions whose parts are not known.
    """
    parts = _parts(context)
    if not parts:
        return ()
    request = QuestionRequest(context.task, parts, text)
    if not request.positions:
        return ()
    factual = set(facts(request.problem()))
    return tuple(
        parts[position].question if place in factual or parts[position].support else ""
        for place, position in enumerate(request.positions)
    )


def evidence_in(context: ToolContext) -> str:
    """Return the passages in the conversation that hold what the question needs."""
    wanted = {support for part in _parts(context) for support in part.support}
    read = {passage["id"]: passage for passage in _passages(context) if not wanted or passage["id"] in wanted}
    return "\n".join(f"{passage['title']}: {passage['text']}" for passage in read.values())


def candidates_in(context: ToolContext) -> tuple[str, ...]:
    r"""Return the answers to the whole request in the conversation.

    The first is the one that the orchestrator itself writes in ``\boxed{}`` beside the call; then come those of models,
    in the order in which they were given. Replies to what lies beside the subject are no answers to it.
    """
    given = [answer_in(context.message)] if r"\boxed{" in context.message else []
    parts = _parts(context)
    for call in successful(context):
        tool, arguments = context.tools.get(call.name), call.arguments or {}
        if tool is not None and tool.uses_episode and call.children:
            text = arguments.get("question") or arguments.get("subtask")
            if isinstance(context.world, Domain) or QuestionRequest(context.task, parts, text).is_whole:
                given.append(_answer(call.value))
    return tuple(answer for answer in given if answer and answer not in _NO_ANSWERS)


def _parts(context: ToolContext) -> tuple[Part, ...]:
    return () if isinstance(context.world, Domain) else parts_of(context.task)


def _answer(value: Any) -> str:
    """Return the answer in a model's reply: a text that marks one, or an object with an ``answer``."""
    if isinstance(value, Mapping):
        return final_answer(str(value.get("answer", "")))
    return answer_in(value) if isinstance(value, str) else ""


def _passages(context: ToolContext) -> Iterator[Mapping[str, Any]]:
    """Yield the passages that the conversation shows: results of searches, or quoted in a sub-agent's reply."""
    for call in successful(context):
        yield from _hits(call.value)
        if isinstance(call.value, str):
            for inner in _inner(call.children):
                yield from (passage for passage in _hits(inner.value) if passage["text"] in call.value)


def _inner(children: Sequence[InnerCall]) -> Iterator[InnerCall]:
    for child in children:
        yield child
        yield from _inner(child.children)


def _hits(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the passages of a search's result (`toolorchestra.envs.tools.search.found`)."""
    for group in value if isinstance(value, list) else ():
        if isinstance(group, Mapping) and "query" in group:
            yield from group.get("passages", ())
