from .coding import code_reasoner as code_reasoner
from .debate import debate as debate
from .question import SubAgentQuestion as SubAgentQuestion, SubAgentReply as SubAgentReply
from .reasoning import chain_of_thought as chain_of_thought, self_consistency as self_consistency
from .reflexion import reflexion as reflexion
from .registry import SUBAGENTS as SUBAGENTS
from .roles import (
    critical_reviewer as critical_reviewer,
    ensemble_solver as ensemble_solver,
    final_answer as final_answer,
    standard_reasoner as standard_reasoner,
)
from .searching import knowledge_searcher as knowledge_searcher, search_agent as search_agent
