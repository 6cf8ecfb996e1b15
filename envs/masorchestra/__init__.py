"""MAS-Orchestra: one decision designs a whole multi-agent system, which is then run (App. H).

env, prompts                       the environment, and what an orchestrator reads
design, parser                     designs, the rules that they obey, and reading them from text
design_runner, subagents           runs a design; the agents that it is made of
orchestrators, teacher             policies that design
workflow_search, workflow_edits    search for one workflow for all questions
figure                             designs and their runs as pictures
"""

from typing import TYPE_CHECKING

from toolorchestra.toolscale.faces import lazy_face

if TYPE_CHECKING:
    from toolorchestra.envs.masorchestra.design import Agent, Design, DesignError, DesignFault, Rule, to_text
    from toolorchestra.envs.masorchestra.design_runner import DesignRun, RunLimits, run_design
    from toolorchestra.envs.masorchestra.env import MASOrchestraEnv
    from toolorchestra.envs.masorchestra.orchestrators import Orchestrator, make_orchestrator
    from toolorchestra.envs.masorchestra.parser import parse_design
    from toolorchestra.envs.masorchestra.play import DesignPlay
    from toolorchestra.envs.masorchestra.subagents import SubAgent, sub_agents
    from toolorchestra.envs.masorchestra.teacher import DesignTeacher
    from toolorchestra.envs.masorchestra.workflow_search import Validation, WorkflowCandidate, search

__all__ = [
    "Agent",
    "Design",
    "DesignError",
    "DesignFault",
    "DesignPlay",
    "DesignRun",
    "DesignTeacher",
    "MASOrchestraEnv",
    "Orchestrator",
    "Rule",
    "RunLimits",
    "SubAgent",
    "Validation",
    "WorkflowCandidate",
    "make_orchestrator",
    "parse_design",
    "run_design",
    "search",
    "sub_agents",
    "to_text",
]
_MODULES = {
    "design": ("Agent", "Design", "DesignError", "DesignFault", "Rule", "to_text"),
    "design_runner": ("DesignRun", "RunLimits", "run_design"),
    "env": ("DesignPlay", "MASOrchestraEnv"),
    "orchestrators": ("Orchestrator", "make_orchestrator"),
    "parser": ("parse_design",),
    "subagents": ("SubAgent", "sub_agents"),
    "teacher": ("DesignTeacher",),
    "workflow_search": ("Validation", "WorkflowCandidate", "search"),
}

__getattr__, __dir__ = lazy_face(__name__, __all__, _MODULES)
