"""The learners' mathematics: advantages and losses.

::

    advantages                       from rewards to advantages
    losses, product_ratio            clipped policy losses, and ratios of whole sequences
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
