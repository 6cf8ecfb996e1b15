"""Sub-agents: small functions over any chat model, real or simulated, that an orchestrator can call.

::

    chain_of_thought, self_consistency      reasoning
    debate, reflexion                       several rounds
    search_agent, knowledge_searcher        with a search tool
    code_reasoner                           with a Python tool
    standard_reasoner, critical_reviewer,
    ensemble_solver, final_answer           ParaManager's roles

Each takes a model and a `SubAgentQuestion`, and tools where it needs them, and returns a `SubAgentReply` with its total
cost and the calls that it made. Not covered: which environment has them as tools, and which model each may ask.
"""

from __future__ import annotations

from collections.abc import Callable

from toolorchestra.agents.subagents.coding import code_reasoner
from toolorchestra.agents.subagents.debate import debate
from toolorchestra.agents.subagents.question import SubAgentQuestion, SubAgentReply
from toolorchestra.agents.subagents.reasoning import chain_of_thought, self_consistency
from toolorchestra.agents.subagents.reflexion import reflexion
from toolorchestra.agents.subagents.roles import critical_reviewer, ensemble_solver, final_answer, standard_reasoner
from toolorchestra.agents.subagents.searching import knowledge_searcher, search_agent

__all__ = [
    "SUBAGENTS",
    "SubAgentQuestion",
    "SubAgentReply",
    "chain_of_thought",
    "code_reasoner",
    "critical_reviewer",
    "debate",
    "ensemble_solver",
    "final_answer",
    "knowledge_searcher",
    "reflexion",
    "search_agent",
    "self_consistency",
    "standard_reasoner",
]

SUBAGENTS: dict[str, Callable[..., SubAgentReply]] = {
    "CoTAgent": chain_of_thought,
    "SCAgent": self_consistency,
    "DebateAgent": debate,
    "ReflexionAgent": reflexion,
    "SearchAgent": search_agent,
}
"""General sub-agents by the names that MAS-Orchestra gives them (App. H); a docstring's first line describes each."""


def __dir__() -> list[str]:
    return __all__
