from .design_problems import (
    AgentProblem as AgentProblem,
    DesignProblems as DesignProblems,
    ReadingModel as ReadingModel,
)
from .given import Given as Given
from .known_answers import KnownAnswersWarning as KnownAnswersWarning, check_ground_truth as check_ground_truth
from .parts import SubProblem as SubProblem, find_part as find_part, parts_of as parts_of, problem_of as problem_of
from .questions import QuestionRequest as QuestionRequest
from .tool_calls import (
    candidates_in as candidates_in,
    evidence_in as evidence_in,
    final_problem as final_problem,
    problem_for as problem_for,
    queries_for as queries_for,
)
