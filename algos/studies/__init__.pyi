from .masbench_results import MASBenchStudy as MASBenchStudy
from .paramanager import ConditionResult as ConditionResult
from .tmatr import TMATRStudy as TMATRStudy
