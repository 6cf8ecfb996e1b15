from .coding import code_reasoner as code_reasoner
from .general import (
    SUBAGENTS as SUBAGENTS,
    chain_of_thought as chain_of_thought,
    debate as debate,
    reflexion as reflexion,
    self_consistency as self_consistency,
)
from .question import SubAgentQuestion as SubAgentQuestion, SubAgentReply as SubAgentReply
from .roles import (
    critical_reviewer as critical_reviewer,
    ensemble_solver as ensemble_solver,
    final_answer as final_answer,
    standard_reasoner as standard_reasoner,
)
from .searching import knowledge_searcher as knowledge_searcher, search_agent as search_agent
