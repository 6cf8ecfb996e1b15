"""What a training reports: metrics, curves, and the evaluation on held-out tasks.

::

    report, stats                    metrics, curves and tables; intervals by bootstrap
    evaluation                       playing held-out tasks
    call_statistics,                 what was called,
    design_statistics                and what was designed
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
