"""The problems that simulated models have to solve. Real models never see them.

parts        the parts of a question, and which of them a text asks for
tool_calls   the problem that a tool call poses, found from its context
designs      the problems of the agents of a design
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
