"""Studies: the comparisons of the papers, with simulated experts; each is a command (``toolorchestra study NAME``).

    msarl          a helper that reads outputs, against one agent that does it itself, by length and number of outputs
    masbench       one agent against several (MAS-Orchestra §4.4); its systems and results are modules of their own
    paramanager    the comparisons of ParaManager (§5): parallel, serial, one model, budgets
    tmatr          the schedules of TMATR-HRL's learner: agents in turns, one alone, both at once

A study has `run`, `episodes`, `markdown` and `write`, and the defaults `QUESTIONS` and `SAMPLES`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
