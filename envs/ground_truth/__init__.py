"""The problems that simulated models have to solve. Real models never see them.

wording        what words ask for in any world: all of the request, a sum, or something beside the subject
parts          the parts of a question, and which of them a text asks for
questions      what a text asks of a question
tool_words     which tool of a domain a text is about, and which values it names
domain_steps   what a text asks of the work in a domain
tool_calls     the problem that a tool call poses, found from its context
designs        the problems of the agents of a design
known_answers  whether there is a ground truth to err about
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
