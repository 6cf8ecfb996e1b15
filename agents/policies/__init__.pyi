from .base import Policy as Policy, play_episode as play_episode, write_calls as write_calls
from .baselines import (
    Baseline as Baseline,
    Cheapest as Cheapest,
    Direct as Direct,
    DirectWithTools as DirectWithTools,
    FixedWorkflow as FixedWorkflow,
    MajorityVote as MajorityVote,
    SelfRefine as SelfRefine,
    Strongest as Strongest,
)
from .chat_policy import ChatPolicy as ChatPolicy
from .consensus import ConsensusPolicy as ConsensusPolicy
from .exploration import ExplorerPolicy as ExplorerPolicy, QueryingOraclePolicy as QueryingOraclePolicy
from .human import HumanPolicy as HumanPolicy
from .reference import (
    NoisyOraclePolicy as NoisyOraclePolicy,
    NullPolicy as NullPolicy,
    OraclePolicy as OraclePolicy,
    RandomPolicy as RandomPolicy,
)
from .registry import POLICIES as POLICIES, make_policy as make_policy, policy_class as policy_class
from .scripted_questions import NamedStepPolicy as NamedStepPolicy, ScriptedQuestionPolicy as ScriptedQuestionPolicy
