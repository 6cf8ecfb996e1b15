"""What runs a training: processes, their share of the work, precision and memory.

::

    launch, distributed, parent      the processes of a run
    sharding                         weights divided among them
    autocast, four_bits              numbers of fewer bits
    memory, batching, logits         how much fits at a time
    mismatch                         how far what samples is from what is trained
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
