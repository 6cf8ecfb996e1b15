"""Generated mathematics: families of problems whose answers are computed.

source      draws problems of all families    sketch      what a family draws
algebra, counting, geometry, numbers          the families
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
