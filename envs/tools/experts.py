"""Experts as tools: a model of the catalogue in one of its roles, called about the current episode.

An expert sees its question, what the call names as its context, the rules of the place and the tools, and nothing else
of the conversation. In a domain, it proposes the next call or the answer to the user. In a world of questions, it
answers: a generalist and a mathematician by reasoning, a programmer by a program, a query writer by a search, where
Python and search are available. A simulated expert also gets the ground truth of the call
(`toolorchestra.envs.ground_truth.tool_calls`); a real one sees only the text.

Not covered: which experts are available (`toolorchestra.envs.tools.toolkit`), and how a simulated one errs
(`toolorchestra.agents.experts.simulated_chat`).
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.agents.chat.base import ChatModel, ChatRequest, Completion, ToolCall, WrappedModel, tool_calls_in
from toolorchestra.agents.experts.specification import ExpertSpec, Role
from toolorchestra.agents.messages.reading import read_message
from toolorchestra.agents.policies.expert_roles import REQUEST
from toolorchestra.agents.subagents.coding import code_reasoner
from toolorchestra.agents.subagents.prompts import prompt
from toolorchestra.agents.subagents.question import SubAgentQuestion, SubAgentReply
from toolorchestra.agents.subagents.searching import knowledge_searcher
from toolorchestra.agents.subagents.work import Ask, Work
from toolorchestra.envs.answer_modes import SUBMIT_TOOL
from toolorchestra.envs.ground_truth.given import Given
from toolorchestra.envs.ground_truth.tool_calls import evidence_in, problem_for, queries_for
from toolorchestra.envs.tools.python import QuickPython
from toolorchestra.toolscale.answers.answers import in_form
from toolorchestra.toolscale.answers.typed_answers import SUBMIT
from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tools.tool import Tool, ToolContext, ToolOrigin, ToolResult

TEMPERATURE = 1.0
"""Temperature of every request, so that several calls of one model differ."""

_ROLES: Mapping[Role, tuple[str, str]] = {
    "generalist": ("ask", "answers anything"),
    "math": ("math", "solves mathematics"),
    "code": ("code", "writes a program for it and has it run, where there is Python"),
    "query": ("query", "writes search queries and answers from what they find, where there is search"),
}
_QUESTION = ParameterSpec(
    type="string", description="What it is asked; what comes next if left out.", required=False, max_length=8_000
)
_CONTEXT = ParameterSpec(
    type="array",
    items="string",
    description=f'What it sees: "{REQUEST}", ids of results.',
    required=False,
    max_length=200,
)

PROPOSE = Path(__file__).with_name("propose.txt").read_text(encoding="utf-8").strip()
"""System prompt of an expert in a domain."""


class ExpertTool(Tool):
    """An expert in a role. The result is ``{"answer": …}``, or in a domain ``{"call": {"name": …, "arguments": …}}``.

    The answer to a question is in a box, as a final answer must be.

    Args:
        role: The role.
        expert: Its name in the catalogue.
        spec: Its catalogue entry, at the price of the tool configuration.
        model: Makes the model from `spec` at the first call. The tool can be pickled if this function can.
        timeout: Seconds of real time that a real model may take; None for a simulated one.

    Attributes:
        role, expert, spec: The arguments.
    """

    uses_episode = True
    effect = "read"

    def __init__(
        self,
        role: Role,
        expert: str,
        spec: ExpertSpec,
        model: Callable[[ExpertSpec], ChatModel],
        timeout: float | None = None,
    ) -> None:
        parameters = {"question": _QUESTION, "context": _CONTEXT}
        super().__init__(tool_name(role, expert), _described(role, expert, spec), parameters, latency=0.0)
        self.role = role
        self.expert = expert
        self.spec = spec
        self.origin = ToolOrigin("model", expert, spec.vendor, spec.provider, spec.open_weights)
        self.blocking = timeout is not None
        self.timeout = timeout
        self._made = model
        self._model: ChatModel | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_model": None}  # made again at the next call

    def at(self, spec: ExpertSpec) -> ExpertTool:
        """Return the same expert with another entry, such as one with another price."""
        other = copy.copy(self)
        other.spec, other._model = spec, None
        other.description = _described(self.role, self.expert, spec)
        return other

    @property
    def mean_price(self) -> float:
        """US dollars of a typical call."""
        return self.spec.typical_cost

    @property
    def mean_latency(self) -> float:
        """Seconds of a typical call."""
        return self.spec.latency.of(self.role)

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Ask the expert.

        Raises:
            ExpertError: A real model failed for good.
        """
        if self._model is None:
            self._model = self._made(self.spec)
        results, names = shown_results(context), arguments["context"] or ()
        if unknown := [name for name in names if name != REQUEST and name not in results]:
            return ToolResult.failed(
                f"There is no result {unknown[0]!r} to show. Expected of `context`: {', '.join((REQUEST, *results))}."
            )
        given = Given(
            arguments["question"] or "",
            request_of(context) if REQUEST in names else "",
            {name: results[name] for name in dict.fromkeys(names) if name != REQUEST},
        )
        reply = self._reply(self._model, given, context)
        value = None
        if reply.error is None:
            calls = tool_calls_in(reply.text) if isinstance(context.world, Domain) else []
            answer = reply.answer or reply.text
            if not isinstance(context.world, Domain) and context.task.communicate:
                answer = in_form(answer)
            value = {"call": _call(calls[0])} if calls else {"answer": answer}
        return ToolResult(reply.status, value, reply.error, (), reply.cost, reply.seconds, reply.tokens, reply.children)

    def _reply(self, model: ChatModel, given: Given, context: ToolContext) -> SubAgentReply:
        """Return the model's reply, in the form of its role."""
        in_domain = isinstance(context.world, Domain)
        search = context.tools.get("local_search") or context.tools.get("web_search")  # the cheaper one, if it is there
        python = context.tools.get("python")
        if self.role == "query" and search and not in_domain:
            question = self._question(context, given, searches=True)
            return knowledge_searcher(model, question, search=search, temperature=TEMPERATURE)
        question = self._question(context, given)
        if self.role == "code" and python and not in_domain:
            runs = python if self.blocking else QuickPython(python)
            return code_reasoner(model, question, python=runs, temperature=TEMPERATURE)
        work = Work(question, TEMPERATURE)
        work.show(question.evidence)
        system = PROPOSE if in_domain else prompt("solve")
        return work.conclude(model, Ask(system, f"<user_query>\n{question.text}\n</user_query>"))

    def _question(self, context: ToolContext, given: Given, *, searches: bool = False) -> SubAgentQuestion:
        question = SubAgentQuestion(_shown(context, given), seed=context.seed)
        if self.blocking:  # a real model is not given the problem
            return question
        return msgspec.structs.replace(
            question,
            problem=problem_for(context, given, searches=searches, role=self.role),
            queries=queries_for(context, given),
            evidence=evidence_in(context, given),
        )


class Repriced(WrappedModel):
    """A model at the price of an entry of the tool configuration (`spec`) instead of its own."""

    def __init__(self, model: ChatModel, spec: ExpertSpec) -> None:
        super().__init__(model)
        self._price = spec.price

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Answer all requests."""
        return [
            msgspec.structs.replace(one, cost=self._price.cost(one.prompt_tokens, one.completion_tokens))
            for one in self._model.complete(requests)
        ]


def tool_name(role: Role, expert: str) -> str:
    """Return the name of an expert in a role as a tool.

    >>> tool_name("math", "qwen2.5-math-7b")
    'math_qwen2_5_math_7b'
    """
    return f"{_ROLES[role][0]}_{re.sub('[^a-z0-9]', '_', expert)}"


def _described(role: Role, expert: str, spec: ExpertSpec) -> str:
    price = f"${spec.price.input:g} per million tokens read and ${spec.price.output:g} per million written"
    parts = (
        f"The model {expert} {_ROLES[role][1]}.",
        spec.description,
        f"It costs {price}, and takes about {spec.latency.of(role):g} seconds.",
    )
    return " ".join(part.strip() for part in parts if part)


def _call(call: ToolCall) -> dict[str, Any]:
    return {"name": call["name"], "arguments": msgspec.json.decode(call["arguments"])}


def _shown(context: ToolContext, given: Given) -> str:
    """Return the prompt of an expert: the rules, the tools, what it is given, and the question."""
    in_domain = isinstance(context.world, Domain)
    blocks = [context.world.rules]
    if given.request:
        blocks.insert(0, f"<request>\n{given.request}\n</request>")
    if in_domain:
        blocks.append(f"<tools>\n{_tools_text(context.world, tuple(context.tools))}\n</tools>")
    if given.results:
        listed = "\n".join(given.results.values())
        blocks.append(f"<conversation>\n{listed}\n</conversation>")
    if given.question or in_domain:
        blocks.append(given.question or "What comes next?")
    return "\n\n".join(blocks)


@functools.lru_cache(maxsize=256)
def _tools_text(world: Domain, names: tuple[str, ...]) -> str:
    tools = {**world.tools, SUBMIT: SUBMIT_TOOL}
    schemas = (tools[name].schema["function"] for name in names if name in tools)
    return "\n".join(msgspec.json.encode(schema).decode() for schema in schemas)


def request_of(context: ToolContext) -> str:
    """Return what the user has said."""
    said = [str(message["content"]) for message in context.messages if message["role"] == "user"]
    return "\n".join(said) or context.episode.instruction


def shown_results(context: ToolContext) -> dict[str, str]:
    """Return the calls so far and their results as the orchestrator reads them, by the ids of the calls."""
    found: dict[str, str] = {}
    calls, said = iter(context.episode.calls), ""
    for message in context.messages:
        if message["role"] == "assistant":
            text = read_message(message).text
            said = f"Orchestrator: {text}\n" if text else ""
        elif message["role"] == "tool" and (call := next(calls, None)) is not None:
            arguments = msgspec.json.encode(call.arguments or {}).decode()
            text = f"{said}Call: {call.name} {arguments}\nResult: {message['content']}"
            found[call.id] = f"{found[call.id]}\n{text}" if call.id in found else text  # a model may repeat its ids
            said = ""
    return found
