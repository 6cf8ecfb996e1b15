"""Finding experts and sub-agents in the schemas of an orchestrator's tools, and reading their replies.

ToolOrchestra has a tool for each expert in each role (``math_gpt_5``), ParaManager one for each role with the model as
an argument (``standard_reasoner``, ``model_id``); here both are `ExpertRole`s. A reply is an answer, or in a domain a
proposed next call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.messages.reading import read_message
from toolorchestra.agents.messages.text_parts import answer_in, spoken
from toolorchestra.toolscale.answers.answers import equal, group_equal
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.tasks.task import Call

Job = Literal["answer", "review", "code", "search", "math"]
"""The kinds of work of experts."""

SUBAGENT_JOBS: dict[str, Job] = {
    "standard_reasoner": "answer",
    "critical_reviewer": "review",
    "code_reasoner": "code",
    "knowledge_searcher": "search",
}
"""Jobs of ParaManager's tools, which take a ``model_id`` and a ``subtask``."""
PREFIX_JOBS: dict[str, Job] = {"ask": "answer", "math": "math", "code": "code", "query": "search"}
"""Jobs by the prefix of the names of ToolOrchestra's expert tools, which take a ``question`` and its ``context``."""

REQUEST = "request"
"""What the user's request is called in the `context` of an expert tool, beside the ids of results."""
Proposal = Call | str
"""The next step that an expert proposes: a call, or an answer."""

_PRICE = re.compile(r"\$(\d[\d.e-]*) per million")
_ODD = re.compile(r"[^a-z0-9]")


class ExpertRole(msgspec.Struct, frozen=True):
    """An expert in a role.

    Attributes:
        expert: Its name; where a tool is named after it, the `slug` in the tool's name.
        job: The kind of work.
        tool: The tool that asks it.
        parameter: The tool's parameter for the question; the user's request by default.
        fixed: Arguments of every call.
        context: What it is shown, where the tool has a parameter for that: "request", and ids of results.
        price: Its price in the tool's description, US dollars per million tokens read plus written, or None.
    """

    expert: str
    job: Job
    tool: str
    parameter: str
    fixed: Mapping[str, Any] = {}
    price: float | None = None
    context: tuple[str, ...] | None = None

    def call(self, words: str | None = None) -> Call:
        """Return the call that asks it a question, by default what comes next, or for the whole."""
        arguments = dict(self.fixed)
        if words is not None:
            arguments[self.parameter] = words
        if self.context:
            arguments["context"] = list(self.context)
        return Call(self.tool, arguments)

    def shown(self, messages: Iterable[Mapping[str, Any]]) -> ExpertRole:
        """Return the same, shown the user's request and all results in a conversation, where the tool can be."""
        if self.context is None:
            return self
        results = (str(message["tool_call_id"]) for message in messages if message["role"] == "tool")
        return msgspec.structs.replace(self, context=(REQUEST, *dict.fromkeys(results)))

    def limited(self, keep: Callable[[str], bool]) -> ExpertRole:
        """Return the same, shown of what it is shown only what is kept, where the tool has a parameter for it."""
        return (
            self if self.context is None else msgspec.structs.replace(self, context=tuple(filter(keep, self.context)))
        )

    @property
    def alone(self) -> ExpertRole:
        """The same, shown nothing but its question."""
        return self.limited(lambda _: False)

    def cost(self) -> float:
        """Return its price per million tokens read plus written, from the tool's description or the shipped catalogue.

        `OptionError` if neither gives a price.
        """
        if self.price is not None:
            return self.price
        for name, spec in Catalog.load().experts.items():
            if slug(name) == slug(self.expert):
                return spec.price.input + spec.price.output
        raise OptionError(f"Nothing says what {self.expert} costs: name the expert to ask instead (expert=…).")


def slug(name: str) -> str:
    """Return an expert's name as it appears in the names of tools.

    >>> slug("Qwen2.5-Math-72B")
    'qwen2_5_math_72b'
    """
    return _ODD.sub("_", name.lower())


def expert_roles(tools: Iterable[Mapping[str, Any]]) -> list[ExpertRole]:
    """Return the experts among tools (OpenAI function schemas), in the order of the tools."""
    found = []
    for function in (tool["function"] for tool in tools):
        name, parameters = function["name"], function["parameters"]["properties"]
        if name in SUBAGENT_JOBS and "model_id" in parameters:
            models = parameters["model_id"]["enum"]
            found += [ExpertRole(model, SUBAGENT_JOBS[name], name, "subtask", {"model_id": model}) for model in models]
        prefix, _, expert = name.partition("_")
        if prefix in PREFIX_JOBS and expert and set(parameters) == {"question", "context"}:
            prices = [float(price) for price in _PRICE.findall(function.get("description", ""))]
            price = sum(prices) if prices else None
            found.append(ExpertRole(expert, PREFIX_JOBS[prefix], name, "question", {}, price, (REQUEST,)))
    return found


def choose(found: Sequence[ExpertRole], job: Job, expert: str | None = None) -> ExpertRole | None:
    """Return the role for a job (that of the expert of this name, or the first), or None.

    The name of no expert in any role raises `UnknownNameError`.
    """
    able = [role for role in found if role.job == job]
    if expert is None:
        return able[0] if able else None
    if slug(expert) not in {slug(role.expert) for role in found}:
        raise UnknownNameError("available expert", expert, {role.expert for role in found})
    return next((role for role in able if slug(role.expert) == slug(expert)), None)


def proposal(value: Any) -> Proposal | None:
    r"""Return what an expert proposes in its reply; None if it proposes nothing.

    >>> proposal({"call": {"name": "get_dish", "arguments": {"dish": "D07"}}})
    Call(name='get_dish', arguments={'dish': 'D07'}, stage=0)
    >>> proposal(r"<answer>\boxed{12}</answer>"), proposal({"answer": "It is booked."}), proposal(None)
    ('12', 'It is booked.', None)
    """
    if isinstance(value, Mapping):
        if "call" in value:
            return _call(value["call"])
        value = value.get("answer")
    if not isinstance(value, str):
        return None
    text = answer_in(value) or spoken(value)
    calls = read_message(text).calls
    if not calls:
        return text or None
    try:
        call = {"name": calls[0].name, "arguments": msgspec.json.decode(calls[0].arguments)}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return _call(call) if calls[0].error is None else None


def _call(written: Any) -> Call | None:
    try:
        return msgspec.convert(written, Call)
    except msgspec.ValidationError:
        return None


def same_proposal(one: Proposal, other: Proposal) -> bool:
    """Return whether two proposals are the same: equal answers, or the same call."""
    return equal(one, other) if isinstance(one, str) and isinstance(other, str) else one == other


def plurality(proposals: Sequence[Proposal]) -> Proposal | None:
    """Return the most common proposal, the first one where there is a tie; None without proposals.

    >>> plurality(["1/2", "2", "0.5"]), plurality([])
    ('1/2', None)
    """
    group = max(group_equal(proposals, same_proposal), key=len, default=None)
    return group[0] if group else None
