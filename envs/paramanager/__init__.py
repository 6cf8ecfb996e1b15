"""ParaManager: parallel orchestration of sub-agents and tools, in rounds of up to four calls, with a budget.

`env` is the Gymnasium environment with its pool of models and tools, `play` has the rules (rounds, the budget, the end
by ``final_answer``), `tools` the sub-agents as tools, `rewards` the reward in four parts.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
