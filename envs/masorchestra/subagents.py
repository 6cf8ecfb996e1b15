"""The sub-agents that designs are made of, as tools: their signatures, and how each is called.

What a kind does is in `toolorchestra.agents.subagents`; here it becomes a tool with a name, a description and typed
arguments, which is all that an orchestrator's prompt says of it.
"""

from __future__ import annotations

import copy
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from toolorchestra.agents.chat.base import ChatModel, ChatRequest, Completion, WrappedModel
from toolorchestra.agents.experts.simulated_chat import SimulatedChat
from toolorchestra.agents.messages.text_parts import answer_in
from toolorchestra.agents.subagents.general import SUBAGENTS
from toolorchestra.agents.subagents.question import SubAgentQuestion, SubAgentReply
from toolorchestra.envs.ground_truth.design_problems import DesignProblems, ReadingModel
from toolorchestra.envs.masorchestra.design import Design
from toolorchestra.envs.masorchestra.design_runner import AgentRun, Ask
from toolorchestra.envs.masorchestra.rules import DEBATE
from toolorchestra.toolscale.common.errors import ExpertError
from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tools.tool import Status, Tool, ToolContext, ToolResult

Exchange = Literal["replies", "answers"]
"""What agents read of each other: whole replies, or the answers in them alone."""
SEARCHES = {"SearchAgent": "local_search", "WebSearchAgent": "web_search"}
"""Kinds of agent that search, and the tool that each needs."""
_INPUT = ParameterSpec(
    type="string",
    description="what it is to do; empty for the original question",
    max_length=100_000,
    required=False,
    default="",
)
_ROLES = ParameterSpec(
    type="array", items="string", description="who debates: two or more roles", max_length=16, required=False
)


class SubAgent(Tool):
    """A kind of sub-agent.

    Args:
        kind: Its name in designs.
        model: Who answers.
        search: The tool that it searches with, if it is one that does.
        exchange: ``replies``: it replies with reasoning and answer, and debates last all their rounds (App. H.3).
            ``answers``: it replies with its answer alone, and debates end when all agree.
    """

    uses_episode = True

    def __init__(
        self, kind: str, model: ChatModel, search: Tool | None = None, *, exchange: Exchange = "replies"
    ) -> None:
        self._function: Callable[..., SubAgentReply] = SUBAGENTS["SearchAgent" if search else kind]
        description = str(self._function.__doc__).partition("\n")[0]
        parameters = {"agent_input": _INPUT, "debate_roles": _ROLES} if kind == DEBATE else {"agent_input": _INPUT}
        super().__init__(kind, description, parameters, latency=0.0)
        self.model = model
        self.blocking = not isinstance(model, SimulatedChat)
        self._search = search
        self._whole = exchange == "replies"
        self._more: dict[str, Any] = {"search": search} if search else {}
        if kind == DEBATE and not self._whole:
            self._more["until_agreed"] = True

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Ask the agent by itself, outside a design, about its input alone."""
        rules = context.world.rules if context.world is not None else ""
        question = SubAgentQuestion(arguments["agent_input"], seed=context.seed, rules=rules)
        return self.answer(question, tuple(arguments.get("debate_roles") or ()))

    def answer(self, question: SubAgentQuestion, roles: Sequence[str] = ()) -> ToolResult:
        """Ask the agent as part of a design; `roles` are those who debate, where it is a debate."""
        more = self._more | {"roles": list(roles)} if roles else self._more
        review = self._search is not None or not any(question.queries)
        model = self.model if self.blocking else ReadingModel(self.model, question.candidates, review=review)
        reply = self._function(model, question, **more)
        whole = reply.text if self._whole else reply.answer or reply.text
        spent = reply.cost, reply.seconds, reply.tokens
        value = whole if reply.status is Status.OK else None
        return ToolResult(reply.status, value, reply.error, (), *spent, reply.children)

    def heeding(self, stop: threading.Event) -> SubAgent:
        """Return the same agent, which asks its model nothing more once `stop` is set."""
        other = copy.copy(self)
        other.model = _Stoppable(self.model, stop)
        return other


class _Stoppable(WrappedModel):
    """A model that is not asked once the answer is no longer needed."""

    def __init__(self, model: ChatModel, stop: threading.Event) -> None:
        super().__init__(model)
        self._stop = stop

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Answer all requests, unless the answer is no longer needed."""
        if self._stop.is_set():
            raise ExpertError(f"{self.name} was not asked: the answer is no longer needed.")
        return self._model.complete(requests)


def answer_of(reply: str) -> str:
    r"""Return the answer that an agent's reply marks as one, or the whole reply if it marks none.

    >>> answer_of(r"<reasoning>2 + 2</reasoning><answer>\boxed{4}</answer>"), answer_of("x = 4; y = 5")
    ('4', 'x = 4; y = 5')
    """
    return answer_in(reply) or reply


def sub_agents(
    model: ChatModel, tools: Mapping[str, Tool], kinds: Sequence[str], exchange: Exchange = "replies"
) -> dict[str, SubAgent]:
    """Return those of the `kinds` of agent that are available with a model and tools, by name."""
    available = {kind: tools.get(SEARCHES.get(kind, "")) for kind in kinds}
    return {
        kind: SubAgent(kind, model, search, exchange=exchange)
        for kind, search in available.items()
        if search is not None or kind not in SEARCHES
    }


def ask_agents(
    agents: Mapping[str, SubAgent],
    task: Task,
    design: Design,
    noise_seed: int,
    rules: str = "",
    exchange: Exchange = "replies",
) -> Ask:
    """Return the function that asks the agents of a design, whose kinds are given by name.

    Simulated models need the ground truth of `task`, real ones the `rules` of its world: an agent reads nothing but its
    input. Only the agent that answers must box its answer, if whole replies are exchanged. Each agent and attempt has a
    seed derived from `noise_seed`.
    """
    problems = DesignProblems(task, [design.agent(agent_id) for agent_id in design.order])

    def ask(work: AgentRun) -> ToolResult:
        agent, kind = work.agent, agents[work.agent.kind]
        own = zlib.crc32(f"{noise_seed}/{agent.id}/{work.attempt}".encode())
        if kind.blocking:
            boxed = exchange == "answers" or agent.id == design.sink
            question = SubAgentQuestion(work.text, seed=own, rules=rules, boxed=boxed)
            return kind.heeding(work.stop).answer(question, agent.roles)
        found = problems.problem_of(agent, work.given)
        question = SubAgentQuestion(work.text, found.problem, found.queries, candidates=found.candidates, seed=own)
        return kind.answer(question, agent.roles)

    return ask
