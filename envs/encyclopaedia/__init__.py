"""An encyclopaedia of a made-up world: what questions over several hops, and the simulated web, are about.

::

    encyclopaedia_world              the world: people, places, works
    encyclopaedia                    its articles
    words                            the words in which both are told
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
