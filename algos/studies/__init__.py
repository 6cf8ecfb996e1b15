"""Studies: the comparisons of the papers, with simulated experts; each is a command (``toolorchestra study NAME``).

    masbench       when several agents beat one (MAS-Orchestra §4.4); its systems and results are modules of their own
    paramanager    the orderings of ParaManager (§5): parallel, serial, one model, budgets
    tmatr          the schedules of TMATR-HRL's learner: agents in turns, one alone, both at once

A study has `run`, `episodes`, `markdown` and `write`, and the defaults `QUESTIONS` and `SAMPLES`.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "ConditionResult": "paramanager",
    "MASBenchStudy": "masbench_results",
    "TMATRStudy": "tmatr",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
