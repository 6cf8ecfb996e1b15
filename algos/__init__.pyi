from .data.selection import select_rl as select_rl, select_sft as select_sft
from .loss.advantages import group_advantages as group_advantages, nested_advantages as nested_advantages
from .loss.losses import clipped_policy_loss as clipped_policy_loss, dpo_loss as dpo_loss
from .options.one_agent import TrainGRPO as TrainGRPO, TrainSFT as TrainSFT
from .options.several_agents import TrainMSARL as TrainMSARL, TrainMultiGRPO as TrainMultiGRPO, TrainTMATR as TrainTMATR
from .rollout.engine import RolloutEngine as RolloutEngine
