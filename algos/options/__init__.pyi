from .config_files import parse_options as parse_options
from .one_agent import TrainGRPO as TrainGRPO, TrainSFT as TrainSFT
from .several_agents import TrainMSARL as TrainMSARL, TrainMultiGRPO as TrainMultiGRPO, TrainTMATR as TrainTMATR
