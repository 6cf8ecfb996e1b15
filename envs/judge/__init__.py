"""Models as judges: of answers in prose, and of the way to them.

::

    model_judge                      whether an answer says what it must
    path_judge                       whether the way to it is sensible
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
