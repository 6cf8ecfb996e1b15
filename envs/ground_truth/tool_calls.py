"""The problem that a tool call poses to a simulated expert or sub-agent, found from the context of the call.

In a world of questions it is the question, the part of it that the call asks for, or a sum
(`toolorchestra.envs.ground_truth.questions`); in a domain a step of the work, or the answer
(`toolorchestra.envs.ground_truth.domain_steps`). Real models never see any of it.

Not covered: how often a model is right (`toolorchestra.agents.experts.specification`), and which parts of the
conversation it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from toolorchestra.agents.experts.specification import Role
from toolorchestra.agents.messages.text_parts import answer_in
from toolorchestra.agents.policies.expert_roles import REQUEST
from toolorchestra.agents.problems import Problem, facts
from toolorchestra.envs.ground_truth.domain_steps import conclusion, step_asked, successful
from toolorchestra.envs.ground_truth.given import UNCLEAR, Given
from toolorchestra.envs.ground_truth.parts import SubProblem, parts_of
from toolorchestra.envs.ground_truth.questions import QuestionRequest
from toolorchestra.toolscale.answers.answers import final_answer
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tools.tool import InnerCall, ToolContext

UNREAD = 3.0
"""How much harder still, in logits, is a fact from the passages of a search, while none that states it is found."""


def problem_for(context: ToolContext, given: Given, *, searches: bool = False, role: Role | None = None) -> Problem:
    """Return the problem that a model in a role has to solve with what it is given.

    For a question, that is what is asked of it (`QuestionRequest`). Facts that are found in passages are `UNREAD`
    logits harder unless the passages are given, or the model `searches` by itself.

    For a task in a domain, it is a step of the work, as a ``<tool_call>`` block, or the answer to the user
    (`toolorchestra.envs.ground_truth.domain_steps`). An attack in the request is a note about that step until it has
    been carried out.
    """
    if isinstance(context.world, Domain):
        return step_asked(context.world, context, given, role)
    parts = parts_of(context.task)
    request = QuestionRequest(context.task, parts, given, role)
    problem = request.problem()
    if searches or not request.positions or not any(part.support for part in parts):
        return problem
    read = {passage["id"] for passage in _passages(context, given)}
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
    if isinstance(context.world, Domain):
        return conclusion(context.world, context)
    return problem_for(context, Given(request=context.task.instruction))


def queries_for(context: ToolContext, given: Given) -> tuple[str, ...]:
    """Return, for each step of the problem, the query that finds its fact; "" for a step that needs no search.

    There are none in a domain, and for questions whose parts are not known.
    """
    parts = _parts(context)
    if not parts:
        return ()
    request = QuestionRequest(context.task, parts, given)
    if not request.positions:
        return ()
    factual = set(facts(request.problem()))
    return tuple(
        parts[position].question if place in factual or parts[position].support else ""
        for place, position in enumerate(request.positions)
    )


def evidence_in(context: ToolContext, given: Given | None = None) -> str:
    """Return the passages among the results given, by default in the conversation, that hold what is needed."""
    wanted = {support for part in _parts(context) for support in part.support}
    read = {passage["id"]: passage for passage in _passages(context, given) if not wanted or passage["id"] in wanted}
    return "\n".join(f"{passage['title']}: {passage['text']}" for passage in read.values())


def candidates_in(context: ToolContext) -> tuple[str, ...]:
    r"""Return the answers to the whole request in the conversation.

    The first is the one that the orchestrator itself writes in ``\boxed{}`` beside the call; then come those of models,
    in the order in which they were given. A model that was not told enough has given none.
    """
    given = [answer_in(context.message)] if r"\boxed{" in context.message else []
    parts = _parts(context)
    for call in successful(context):
        tool, arguments = context.tools.get(call.name), call.arguments or {}
        if tool is None or not tool.uses_episode or not call.children:
            continue
        if isinstance(context.world, Domain) or _is_whole(context.task, parts, arguments):
            given.append(_answer(call.value))
    return tuple(answer for answer in given if answer and answer != UNCLEAR)


def _is_whole(task: Task, parts: Sequence[SubProblem], arguments: Mapping[str, Any]) -> bool:
    """Return whether a call asked an expert or sub-agent for the answer to the whole question."""
    question = arguments.get("question") or arguments.get("subtask") or ""
    has_request = REQUEST in arguments["context"] if "context" in arguments else not question
    asked = Given(question, task.instruction if has_request else "")
    return QuestionRequest(task, parts, asked).is_whole


def _parts(context: ToolContext) -> tuple[SubProblem, ...]:
    return () if isinstance(context.world, Domain) else parts_of(context.task)


def _answer(value: Any) -> str:
    """Return the answer in a model's reply: a text that marks one, or an object with an ``answer``."""
    if isinstance(value, Mapping):
        return final_answer(str(value.get("answer", "")))
    return answer_in(value) if isinstance(value, str) else ""


def _passages(context: ToolContext, given: Given | None = None) -> Iterator[Mapping[str, Any]]:
    """Yield the passages that the conversation shows: results of searches, or quoted in a sub-agent's reply.

    If it says what is given, only those in the results given.
    """
    for call in successful(context):
        if given is not None and call.id not in given.results:
            continue
        yield from _hits(call.value)
        if isinstance(call.value, str):
            for inner in _inner(call.children):
                yield from (passage for passage in _hits(inner.value) if passage["text"] in call.value)


def _inner(children: Sequence[InnerCall]) -> Iterator[InnerCall]:
    for child in children:
        yield child
        yield from _inner(child.children)


def _hits(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the passages of a search's result (`toolorchestra.envs.tools.search.search.found`)."""
    for group in value if isinstance(value, list) else ():
        if isinstance(group, Mapping) and "query" in group:
            yield from group.get("passages", ())
