"""Experts as tools: a model of the catalogue in one of its roles, asked about the current episode.

An expert sees the conversation. Asked in a domain, it proposes the next call or the answer to the user; asked in a
world of questions, it answers: a generalist and a mathematician by thought, a programmer by a program, a query writer
by a search, where Python and search are on offer. A simulated expert is given the
problem that the call really poses (`toolorchestra.envs.ground_truth.tool_calls`); a real one sees only the text.

Not covered: which experts are on offer (`toolorchestra.envs.tools.toolkit`), and how one errs
(`toolorchestra.agents.experts.simulated_chat`).
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from toolorchestra.agents.chat.base import (
    ChatModel,
    ChatRequest,
    Completion,
    Price,
    ToolCall,
    WrappedModel,
    hermes_calls,
)
from toolorchestra.agents.experts.specification import TYPICAL_STEPS, ExpertSpec, Role
from toolorchestra.agents.subagents.coding import code_reasoner
from toolorchestra.agents.subagents.prompts import prompt
from toolorchestra.agents.subagents.question import SubAgentQuestion, SubAgentReply
from toolorchestra.agents.subagents.searching import knowledge_searcher
from toolorchestra.agents.subagents.work import Ask, Work
from toolorchestra.envs.ground_truth.tool_calls import evidence_in, problem_for, queries_for
from toolorchestra.envs.tools.python import QuickPython
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.format import ParameterSpec
from toolorchestra.toolscale.tool import Tool, ToolContext, ToolResult

TEMPERATURE = 1.0
"""Of every request: calls of one model are samples that differ."""

_ROLES: Mapping[Role, tuple[str, str]] = {
    "generalist": ("ask", "answers anything"),
    "math": ("math", "solves mathematics"),
    "code": ("code", "writes a program for it and has it run, where there is Python"),
    "query": ("query", "writes search queries and answers from what they find, where there is search"),
}
_QUESTION = ParameterSpec(
    type="string",
    description="What it is asked; the user's request if left out. It sees the conversation.",
    required=False,
    max_length=8_000,
)
_TYPICAL_READING = 2_000  # tokens that a call reads, of a typical call, for its mean price

PROPOSE = """\
You are consulted by an orchestrator who serves a user by calling tools. <user_query> holds the user's request, the
tools, what was said and found so far, and what you are asked. Propose the one next call that brings the request
forward: what was done already need not be done again, and values that you do not know are to be looked up first. When
nothing is left to be done, give the answer to the user: short, with all that was asked for.

Write your reasoning first, then the call or the answer, in one of these forms:

<reasoning>
What is known, what is missing, what comes next.
</reasoning>
<tool_call>{"name": "the tool", "arguments": {"its": "arguments"}}</tool_call>

<reasoning>
Why nothing is left to be done.
</reasoning>
<answer>
the answer to the user
</answer>"""


class ExpertTool(Tool):
    """An expert in a role. The result is ``{"answer": …}``, or in a domain ``{"call": {"name": …, "arguments": …}}``.

    Args:
        role: What it is asked as.
        expert: Its name in the catalogue.
        spec: Its entry, at the price on offer.
        model: Makes the model behind it at the first call; a function that can be pickled, for a tool that can.
        timeout: Seconds of real time after which a real model is given up; None for a simulated one.

    Attributes:
        role: What it is asked as.
        expert: Its name in the catalogue.
        spec: Its entry, at the price on offer.
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
        super().__init__(tool_name(role, expert), _described(role, expert, spec), {"question": _QUESTION}, latency=0.0)
        self.role = role
        self.expert = expert
        self.spec = spec
        self.blocking = timeout is not None
        self.timeout = timeout
        self._made = model
        self._model: ChatModel | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_model": None}  # made again at the next call

    def at(self, spec: ExpertSpec) -> ExpertTool:
        """Return the same expert by another entry, as a rule at another price."""
        other = copy.copy(self)
        other.spec, other._model = spec, None
        other.description = _described(self.role, self.expert, spec)
        return other

    @property
    def mean_price(self) -> float:
        """US dollars of a typical call."""
        return self.spec.price.cost(_TYPICAL_READING, round(self.spec.tokens.mean(TYPICAL_STEPS)))

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
        reply = self._reply(self._model, arguments["question"] or None, context)
        value = None
        if reply.error is None:
            calls = hermes_calls(reply.text) if isinstance(context.world, Domain) else []
            value = {"call": _call(calls[0])} if calls else {"answer": reply.answer or reply.text}
        return ToolResult(reply.status, value, reply.error, (), reply.cost, reply.seconds, reply.tokens, reply.children)

    def _reply(self, model: ChatModel, asked: str | None, context: ToolContext) -> SubAgentReply:
        """Return the model's reply, given in the way of its role."""
        in_domain = isinstance(context.world, Domain)
        search, python = context.tools.get("search"), context.tools.get("python")
        if self.role == "query" and search and not in_domain:
            question = self._question(context, asked, searches=True)
            return knowledge_searcher(model, question, search=search, temperature=TEMPERATURE)
        question = self._question(context, asked)
        if self.role == "code" and python and not in_domain:
            runs = python if self.blocking else QuickPython(python)
            return code_reasoner(model, question, python=runs, temperature=TEMPERATURE)
        work = Work(question, TEMPERATURE)
        work.show(question.evidence)
        system = PROPOSE if in_domain else prompt("solve")
        return work.conclude(model, Ask(system, f"<user_query>\n{question.text}\n</user_query>"))

    def _question(self, context: ToolContext, asked: str | None, *, searches: bool = False) -> SubAgentQuestion:
        question = SubAgentQuestion(_shown(context, asked), seed=context.seed)
        if self.blocking:  # a real model is not given the problem
            return question
        return msgspec.structs.replace(
            question,
            problem=problem_for(context, asked, searches=searches),
            queries=queries_for(context, asked),
            evidence=evidence_in(context),
        )


class Repriced(WrappedModel):
    """A model at the price of the tool configuration instead of its own.

    Args:
        model: The model.
        price: The price of its tokens.
    """

    def __init__(self, model: ChatModel, price: Price) -> None:
        super().__init__(model)
        self._price = price

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


# ------------------------------------------------------------------------------------------- what an expert is shown


def _shown(context: ToolContext, asked: str | None) -> str:
    """Return what an expert reads: the request, the place, the tools, the conversation and what is asked."""
    request = context.episode.instruction
    blocks = [f"<request>\n{request}\n</request>", context.world.rules]
    if isinstance(context.world, Domain):
        blocks.append(f"<tools>\n{_tools_text(context.world, tuple(context.tools))}\n</tools>")
    if conversation := _conversation(context):
        blocks.append(f"<conversation>\n{conversation}\n</conversation>")
    if asked is not None:
        blocks.append(asked)
    elif isinstance(context.world, Domain):
        blocks.append("What comes next?")
    return "\n\n".join(blocks)


@functools.lru_cache(maxsize=256)
def _tools_text(world: Domain, offered: tuple[str, ...]) -> str:
    schemas = (world.tools[name].schema["function"] for name in offered if name in world.tools)
    return "\n".join(msgspec.json.encode(schema).decode() for schema in schemas)


def _conversation(context: ToolContext) -> str:
    lines = []
    for message in context.messages[2:]:
        if message["role"] == "tool":
            lines.append(f"Result: {message['content']}")
            continue
        lines.append(f"Orchestrator: {message['content']}")
        for call in message.get("tool_calls") or ():
            lines.append(f"Call: {call['function']['name']} {call['function']['arguments']}")
    if context.message:
        lines.append(f"Orchestrator: {context.message}")
    return "\n".join(lines)
