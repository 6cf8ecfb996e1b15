"""The problems that simulated models really have to solve. Real models never see any of it.

parts        the parts of a question, and which of them a text asks for
tool_calls   the problem that a tool call poses, found from its context
designs      the problems of the agents of a design
"""

from typing import TYPE_CHECKING

from toolorchestra.toolscale.faces import lazy_face

if TYPE_CHECKING:
    from toolorchestra.envs.ground_truth.designs import AgentProblem, DesignProblems, ReadingModel
    from toolorchestra.envs.ground_truth.parts import Part, find_part, parts_of, problem_of
    from toolorchestra.envs.ground_truth.tool_calls import (
        candidates_in,
        evidence_in,
        final_problem,
        problem_for,
        queries_for,
    )

__all__ = [
    "AgentProblem",
    "DesignProblems",
    "Part",
    "ReadingModel",
    "candidates_in",
    "evidence_in",
    "final_problem",
    "find_part",
    "parts_of",
    "problem_for",
    "problem_of",
    "queries_for",
]
_MODULES = {
    "designs": ("AgentProblem", "DesignProblems", "ReadingModel"),
    "parts": ("Part", "find_part", "parts_of", "problem_of"),
    "tool_calls": ("candidates_in", "evidence_in", "final_problem", "problem_for", "queries_for"),
}

__getattr__, __dir__ = lazy_face(__name__, __all__, _MODULES)
