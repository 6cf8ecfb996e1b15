"""Tests that environments of others can be put to: ``from toolorchestra.testing import check_failures``.

- `check_failures`: limits, actions and exceptions are the failure of whom they should be.
- `check_environment`: whatever training relies on, for environments of this library.
"""

from toolorchestra.envs.checks.environment import check_environment
from toolorchestra.envs.checks.failures import check_failures
from toolorchestra.envs.checks.report import CheckReport, CheckResult

__all__ = ["CheckReport", "CheckResult", "check_environment", "check_failures"]
