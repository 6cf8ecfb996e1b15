"""Tasks, one episode's copy of the database, and the verification of what was done in it.

::

    task                             a task, with its reference calls and its answer
    answer_slots, answer_fillers     the slots of its answer, and what they may be filled with
    session                          one episode's copy of the database
    observed, net_changes            what an episode has seen and changed
    verify                           the verdict: effects, answer, and what had to be read
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
