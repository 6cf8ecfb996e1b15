"""Worker processes: units of work done side by side, on this machine or on a Ray cluster, their results in order.

A `Unit` is a function of this library with its arguments. An `Executor` does units and yields their results in the
order of the units, so that what is written of them is the same bytes for any number of workers
(``docs/cluster.md``).

    units            a unit, what executors have in common, and units done one after another in this process
    driver_calls     functions that must run in one place for all workers: rate limits and budgets
    processes        worker processes on this machine
    ray_cluster      tasks on a Ray cluster (extra ``ray``)
    executors        making an executor by its name
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
