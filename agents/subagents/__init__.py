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

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
