"""Search as a tool: in passages of one's own, by words or vectors, and on the web.

::

    search, search_vectors           local indexes
    search_web, search_providers     the web, and who searches it
    page_summaries                   pages shortened by a model
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
