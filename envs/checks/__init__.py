"""Checks of whole environments: what must hold for training on them to mean anything.

- `environment`: `check_environment`, which runs all checks on any environment of the library.
- `one_agent`: the checks of environments of one agent; `hostile_trial`: the one with hostile actions.
- `several_agents`: the checks of environments of several agents.
- `report`: what checks report.
"""

from toolorchestra.envs.checks.environment import check_environment
from toolorchestra.envs.checks.report import CheckReport, CheckResult
from toolorchestra.envs.checks.several_agents import check_multiagent

__all__ = ["CheckReport", "CheckResult", "check_environment", "check_multiagent"]


def __dir__() -> list[str]:
    return __all__
