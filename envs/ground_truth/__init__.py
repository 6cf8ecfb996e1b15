"""The problems that simulated models have to solve. Real models never see them.

given            what a model is given: a question, the request, results
sums             sums that are asked for in any world
parts            the parts of a question, and which of them a text asks for
questions        what is asked of a question
tool_similarity  how similar a text is to the tools of a domain
domain_steps     what is asked of the work in a domain
tool_calls       the problem that a tool call poses, found from its context
design_problems  the problems of the agents of a design
known_answers    whether there is a ground truth to err about
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
