"""Who can be asked: experts and sub-agents as an orchestrator finds them among the schemas of its tools.

ToolOrchestra has a tool for each expert in each role (``math_gpt_5``), ParaManager one for each role with the model as
an argument (``standard_reasoner``, ``model_id``); here both are `ExpertRole`s. What they reply is read here, too: an
answer, or on tasks of a domain the call that they would make next.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.subagents.reading import answer_in, spoken
from toolorchestra.toolscale.answers import equal
from toolorchestra.toolscale.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.task import Call

Job = Literal["answer", "review", "code", "search", "math"]
"""What a mind is there for."""

ROLES: dict[str, Job] = {
    "standard_reasoner": "answer",
    "critical_reviewer": "review",
    "code_reasoner": "code",
    "knowledge_searcher": "search",
}
"""ParaManager's tools, which take a ``model_id`` and a ``subtask``."""
PREFIXES: dict[str, Job] = {"ask": "answer", "math": "math", "code": "code", "query": "search"}
"""How the names of ToolOrchestra's expert tools begin, which take a ``question``."""

Proposal = Call | str
"""What a mind would do next: make a call, or give an answer."""

_PRICE = re.compile(r"\$(\d[\d.e-]*) per million")
_ODD = re.compile(r"[^a-z0-9]")


class ExpertRole(msgspec.Struct, frozen=True):
    """An expert in a role.

    Attributes:
        expert: Its name; where a tool is named after it, as it stands there.
        job: What it is there for.
        tool: The tool by which it is asked.
        words: Parameter that says what is asked; the user's request by default.
        fixed: Arguments that every call of it has.
        price: What the offer says it costs, US dollars per million tokens read and as many written; None: nothing.
    """

    expert: str
    job: Job
    tool: str
    words: str
    fixed: Mapping[str, Any] = {}
    price: float | None = None

    def asked(self, words: str | None = None) -> Call:
        """Return the call that asks it, in these words or about the user's request."""
        return Call(self.tool, {**self.fixed, **({} if words is None else {self.words: words})})

    def costs(self) -> float:
        """Return what it costs; where the offer does not say, what the shipped catalogue says.

        Raises:
            OptionError: Neither does.
        """
        if self.price is not None:
            return self.price
        for name, spec in Catalog.load().experts.items():
            if plain(name) == plain(self.expert):
                return spec.price.input + spec.price.output
        raise OptionError(f"Nothing says what {self.expert} costs: name the expert to ask instead (expert=…).")


def plain(name: str) -> str:
    """Return an expert's name as it stands in the names of tools.

    >>> plain("Qwen2.5-Math-72B")
    'qwen2_5_math_72b'
    """
    return _ODD.sub("_", name.lower())


def minds(tools: Iterable[Mapping[str, Any]]) -> list[ExpertRole]:
    """Return who can be asked, in the order in which they are listed.

    Args:
        tools: OpenAI function schemas of the tools on offer.
    """
    found = []
    for tool in tools:
        name, description = tool["function"]["name"], tool["function"].get("description", "")
        parameters = tool["function"]["parameters"]["properties"]
        if name in ROLES and "model_id" in parameters:
            models = parameters["model_id"]["enum"]
            found += [ExpertRole(model, ROLES[name], name, "subtask", {"model_id": model}) for model in models]
        prefix, _, expert = name.partition("_")
        if prefix in PREFIXES and expert and set(parameters) == {"question"}:
            prices = [float(price) for price in _PRICE.findall(description)]
            found.append(ExpertRole(expert, PREFIXES[prefix], name, "question", {}, sum(prices) if prices else None))
    return found


def choose(found: Sequence[ExpertRole], job: Job, expert: str | None = None) -> ExpertRole | None:
    """Return who is there for a job (the expert of this name, or the first), or None.

    Raises:
        UnknownNameError: An expert is named who is not on offer at all.
    """
    able = [mind for mind in found if mind.job == job]
    if expert is None:
        return able[0] if able else None
    if plain(expert) not in {plain(mind.expert) for mind in found}:
        raise UnknownNameError("expert on offer", expert, {mind.expert for mind in found})
    return next((mind for mind in able if plain(mind.expert) == plain(expert)), None)


def proposal(value: Any) -> Proposal | None:
    r"""Return what a mind proposes in its reply; None if it proposes nothing.

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
    _, opened, written = text.partition("<tool_call>")
    if not opened:
        return text or None
    try:
        return _call(msgspec.json.decode(written.partition("</tool_call>")[0]))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _call(written: Any) -> Call | None:
    try:
        return msgspec.convert(written, Call)
    except msgspec.ValidationError:
        return None


def same(one: Proposal, other: Proposal) -> bool:
    """Return whether two minds propose the same: equal answers, or the same call."""
    if isinstance(one, str) and isinstance(other, str):
        return equal(one, other)
    return one == other


def plurality(proposals: Sequence[Proposal]) -> Proposal | None:
    """Return what most propose, the first of them where there is a tie; None where nobody proposes anything.

    >>> plurality(["1/2", "2", "0.5"]), plurality([])
    ('1/2', None)
    """
    votes = [sum(same(other, one) for other in proposals) for one in proposals]
    return proposals[votes.index(max(votes))] if votes else None
