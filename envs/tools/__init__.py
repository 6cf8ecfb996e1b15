"""Tools that protocols add to those of a world.

toolkit      which of the tools below are available, to which agent and at which price
experts      models of the catalogue in a role, simulated or real
search       search of passages; search_vectors: by meaning; search_web: on the web
manual       search of a world's manual, or of a file of passages
python       programs in a sandbox; simulated_python: arithmetic without one
calculator   exact values of expressions
text_input   which tools take a plain text as their input
sandbox/     runs Python that a model wrote
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
