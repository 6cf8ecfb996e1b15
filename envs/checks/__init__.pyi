from .asked import (
    UninformedResult as UninformedResult,
    ask_uninformed as ask_uninformed,
    uninformed_finding as uninformed_finding,
)
from .environment import check_environment as check_environment
from .failures import check_failures as check_failures
from .report import CheckReport as CheckReport, CheckResult as CheckResult
from .reverification import Reverified as Reverified, reverify as reverify
from .several_agents import check_multiagent as check_multiagent
