"""The general sub-agents, by name."""

from __future__ import annotations

from collections.abc import Callable

from toolorchestra.agents.subagents.debate import debate
from toolorchestra.agents.subagents.question import SubAgentReply
from toolorchestra.agents.subagents.reasoning import chain_of_thought, self_consistency
from toolorchestra.agents.subagents.reflexion import reflexion
from toolorchestra.agents.subagents.searching import search_agent

SUBAGENTS: dict[str, Callable[..., SubAgentReply]] = {
    "CoTAgent": chain_of_thought,
    "SCAgent": self_consistency,
    "DebateAgent": debate,
    "ReflexionAgent": reflexion,
    "SearchAgent": search_agent,
}
"""General sub-agents by the names that MAS-Orchestra gives them (App. H); a docstring's first line describes each."""
