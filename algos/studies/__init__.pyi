from .masbench_results import MASBenchStudy as MASBenchStudy
from .msarl import MSARLStudy as MSARLStudy
from .paramanager import ConditionResult as ConditionResult
from .tmatr import TMATRStudy as TMATRStudy
