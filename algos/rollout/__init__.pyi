from .engine import RolloutEngine as RolloutEngine, RolloutRequest as RolloutRequest, Row as Row
from .generation import Generation as Generation, make_generation as make_generation
from .multi_agent import MultiAgentEngine as MultiAgentEngine, Slot as Slot
from .sampling import (
    AsyncSampler as AsyncSampler,
    ModelSampler as ModelSampler,
    Sample as Sample,
    Sampler as Sampler,
    draw_key as draw_key,
)
from .trajectory import TokenTrajectory as TokenTrajectory, TrainRow as TrainRow, row_logps as row_logps
from .vllm_sampler import VLLMSampler as VLLMSampler
from .vllm_server import VLLMServer as VLLMServer
