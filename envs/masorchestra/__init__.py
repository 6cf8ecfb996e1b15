"""MAS-Orchestra: one decision designs a whole multi-agent system, which is then run (App. H).

env, prompts                         the environment, and what an orchestrator reads
design, rules, parser                designs, the rules that they obey, and reading them from text
design_runner, subagents             runs a design; the agents that it is made of
orchestrators, teacher               policies that design
figure                               designs and their runs as pictures
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
