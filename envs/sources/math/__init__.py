"""Generated mathematics: families of problems whose answers are computed.

source      the problems of all splits        families    families, which are data, and what is drawn from them
composed    chains of links, which are data   formulas    what that data computes with
parity      problems of even and odd          programs    programs that teachers write
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
