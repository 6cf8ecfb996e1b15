from .asked import NonsenseResult as NonsenseResult, ask_nonsense as ask_nonsense, nonsense_finding as nonsense_finding
from .environment import check_environment as check_environment
from .report import CheckReport as CheckReport, CheckResult as CheckResult
from .several_agents import check_multiagent as check_multiagent
