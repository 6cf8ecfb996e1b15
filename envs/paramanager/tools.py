"""Sub-agents as tools: ParaManager's Agent-as-Tool (§3.1, Table 7), over real or simulated models.

Each `RoleTool` puts one role of `toolorchestra.agents.subagents` behind the interface of any other tool. Its requests
to models and calls of tools are the children of its call. Not covered: search and Python, which are tools of
`toolorchestra.envs.tools`, and the rules of the protocol.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from toolorchestra.agents.chat.base import ChatModel
from toolorchestra.agents.experts.specification import Role as ExpertRole
from toolorchestra.agents.messages.reading import read_message
from toolorchestra.agents.messages.text_parts import answer_in
from toolorchestra.agents.subagents.coding import code_reasoner
from toolorchestra.agents.subagents.question import SubAgentQuestion, SubAgentReply
from toolorchestra.agents.subagents.roles import critical_reviewer, ensemble_solver, final_answer, standard_reasoner
from toolorchestra.agents.subagents.searching import knowledge_searcher
from toolorchestra.envs.ground_truth.given import Given
from toolorchestra.envs.ground_truth.tool_calls import (
    candidates_in,
    evidence_in,
    final_problem,
    problem_for,
    queries_for,
)
from toolorchestra.envs.paramanager.prompts import TEXTS
from toolorchestra.envs.paramanager.rewards import FINAL
from toolorchestra.envs.tool_calling import shown_result
from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tools.tool import Tool, ToolContext, ToolResult

TEMPERATURE = 1.0
"""Of every request to a model (§4.4)."""

Role = Callable[..., SubAgentReply]
ROLES: dict[str, Role] = {
    "standard_reasoner": standard_reasoner,
    "critical_reviewer": critical_reviewer,
    "knowledge_searcher": knowledge_searcher,
    "code_reasoner": code_reasoner,
    "ensemble_solver": ensemble_solver,
    FINAL: final_answer,
}
"""Sub-agents by the name under which they are called."""
UNITS = dict.fromkeys(ROLES, 1.0) | {"ensemble_solver": 4.0}
"""Cost units of a call (Table 7); every other tool costs none."""
_BOX = re.compile(r"\\boxed\{([^{}]*)\}")
_MAX_CHARACTERS = 16_384  # of a result in the history
_TRADES: Mapping[str, ExpertRole] = {"code_reasoner": "code", "knowledge_searcher": "query"}
_SEES_HISTORY = ("critical_reviewer", FINAL)


class RoleTool(Tool):
    """A sub-agent that an orchestrator calls as it calls any tool.

    Args:
        name: One of `ROLES`.
        models: Models that may be asked, by name; the first is asked by default.
        simulated: Whether the models are simulated, and get the ground truth with each request.
        uses: Tools that the role works with, as arguments of its function.
        timeout: Seconds of real time after which a real model is given up.
        own_answer: Of `final_answer`: whether what the orchestrator concludes beside the call is the answer.

    Attributes:
        units: What a call costs, in cost units.
    """

    uses_episode = True

    def __init__(
        self,
        name: str,
        models: Mapping[str, ChatModel],
        *,
        simulated: bool,
        uses: Mapping[str, Tool] | None = None,
        timeout: float | None = None,
        own_answer: bool = False,
    ) -> None:
        parameters = {}
        if name not in ("ensemble_solver", FINAL):
            optional = functools.partial(ParameterSpec, type="string", required=False)
            default = next(iter(models))
            which = TEXTS["model_id"].format(default=default)
            parameters = {
                "subtask": optional(description=TEXTS["subtask"], max_length=8_000),
                "model_id": optional(description=which, default=default, enum=list(models)),
            }
        super().__init__(name, TEXTS["descriptions"][name], parameters, latency=0.0)
        self.units = UNITS[name]
        self.effect = "write" if name == FINAL else "read"  # the answer waits for all calls of its turn
        self.blocking = not simulated
        self.timeout = None if simulated else timeout
        self._models = dict(models)
        self._simulated, self._own_answer = simulated, own_answer
        self._role = functools.partial(ROLES[name], temperature=TEMPERATURE, **(uses or {}))

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Let the sub-agent work on a subtask, or on the original problem."""
        model = self._models[arguments.get("model_id") or next(iter(self._models))]
        reply = self._role(model, self._question(arguments.get("subtask") or None, context))
        text = reply.text if reply.error is None else None
        return ToolResult(reply.status, text, reply.error, (), reply.cost, reply.seconds, reply.tokens, reply.children)

    def _question(self, subtask: str | None, context: ToolContext) -> SubAgentQuestion:
        sees = self.name in _SEES_HISTORY
        known = history(context) if sees else ""
        question = SubAgentQuestion(subtask or original(context), history=known, seed=context.seed)
        if not self._simulated:  # a subtask says nothing of the place, the original problem does
            return msgspec.structs.replace(question, rules=of_the_place(context)) if subtask else question
        given = Given(subtask or "")
        if sees or subtask is None:
            given = Given(subtask or "", context.episode.instruction, {"history": known or history(context)})
        if self.name == FINAL:
            problem, candidates = final_problem(context), conclusions(context, own_answer=self._own_answer)
        else:  # what is not in the request a model must recall: a model may know it, or not
            problem = problem_for(context, given, searches=True, role=_TRADES.get(self.name))
            candidates = candidates_in(context) if sees else ()
        evidence = evidence_in(context) if sees else ""
        queries = queries_for(context, given) if evidence or self.name == "knowledge_searcher" else ()
        return msgspec.structs.replace(
            question, problem=problem, queries=queries, candidates=candidates, evidence=evidence
        )


def original(context: ToolContext) -> str:
    """Return the original problem, with what must be known of the place.

    In a domain that is also what can be called there, and what was done and found so far.
    """
    text = f"{context.episode.instruction}\n\n{of_the_place(context)}".strip()
    if isinstance(context.world, Domain) and context.calls:
        text += f"\n\n<history>\n{history(context)}\n</history>"
    return text


def of_the_place(context: ToolContext) -> str:
    """Return what must be known of the place of a problem; in a domain, also what can be called there."""
    rules: str = context.world.rules
    if not isinstance(context.world, Domain):
        return rules
    listed = _listed(context.world, tuple(context.tools))
    return f"{rules}\n\n{TEXTS['domain_task']}\n<tools>\n{listed}\n</tools>"


@functools.lru_cache(maxsize=256)
def _listed(world: Domain, names: tuple[str, ...]) -> str:
    schemas = (world.tools[name].schema["function"] for name in names if name in world.tools)
    return "\n".join(msgspec.json.encode(schema).decode() for schema in schemas)


def history(context: ToolContext) -> str:
    """Return the conversation so far, the message in progress included, as a sub-agent reads it."""
    lines = []
    for message in context.messages[1:]:
        if message["role"] == "tool":
            lines.append(f"Result: {message['content']}")
        else:
            lines.append(f"{message['role'].capitalize()}: {message['content']}")
            for call in message.get("tool_calls") or ():
                lines.append(f"Call: {call['function']['name']} {call['function']['arguments']}")
    if context.message:
        lines.append(f"Assistant: {context.message}")
    for record in context.earlier:
        lines.append(f"Result: {shown_result(record, _MAX_CHARACTERS)}")
    return "\n".join(lines)


def conclusions(context: ToolContext, *, own_answer: bool = False) -> tuple[str, ...]:
    r"""Return the answers that the summariser chooses among: those of sub-agents, each a vote.

    What the orchestrator concludes in ``\boxed{}`` beside the last call is the first of them, one vote like the others
    (Eq. 7: the summariser reads r_T as part of the history); with `own_answer` it is the only one.
    """
    own, given = _concluded(context), candidates_in(context)
    if own and own_answer:
        return (own,)
    if own:  # the first of those given is the same conclusion, read as one box
        given = given[1:]
    return (*([own] if own else []), *(answer for answer in given if not read_message(answer).calls))  # a step is none


def _concluded(context: ToolContext) -> str:
    """Return what the orchestrator itself concludes: its last box, or as many as answers are wanted."""
    if r"\boxed{" not in context.message:
        return ""
    wanted = 1 if isinstance(context.world, Domain) else len(context.task.communicate)
    boxes = _BOX.findall(context.message)
    return ", ".join(boxes[-wanted:]) if 1 < wanted <= len(boxes) else answer_in(context.message)
