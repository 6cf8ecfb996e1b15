from .advantages import group_advantages as group_advantages, nested_advantages as nested_advantages
from .grpo import TrainGRPO as TrainGRPO
from .losses import clipped_policy_loss as clipped_policy_loss, dpo_loss as dpo_loss
from .msarl import TrainMSARL as TrainMSARL
from .multi_grpo import TrainMultiGRPO as TrainMultiGRPO
from .rollout.engine import RolloutEngine as RolloutEngine
from .selection import select_rl as select_rl, select_sft as select_sft
from .sft import TrainSFT as TrainSFT
from .tmatr import TrainTMATR as TrainTMATR
