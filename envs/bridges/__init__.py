"""Bridges: the environments as other libraries expect them, one file for each library.

A bridge translates and adds no rules: an episode that is played through it has the reward that `gymnasium.make`'s
environment gives for the same task, seed and messages. Each needs the extra of its name, and imports it when it is
used; `routing` needs none.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
