"""Sub-agents: small functions over any chat model, real or simulated, that an orchestrator can call.

::

    general      chain_of_thought, self_consistency, reflexion, debate (MAS-Orchestra)
    roles        standard_reasoner, critical_reviewer, ensemble_solver, final_answer (ParaManager)
    searching    search_agent, knowledge_searcher, with a search tool
    coding       code_reasoner, with a Python tool

Each takes a model and a `SubAgentQuestion`, and tools where it needs them, and returns a `SubAgentReply` with its total
cost and the calls that it made. Not covered: which environment has them as tools, and which model each may ask.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
