from .design import Agent as Agent, Design as Design, to_text as to_text
from .design_runner import DesignRun as DesignRun, RunLimits as RunLimits, run_design as run_design
from .env import MASOrchestraEnv as MASOrchestraEnv
from .mas_gpt import MASGPT as MASGPT, MASPair as MASPair
from .mas_zero import MASZero as MASZero
from .orchestrators import Orchestrator as Orchestrator, make_orchestrator as make_orchestrator
from .parser import parse_design as parse_design
from .play import DesignPlay as DesignPlay
from .rules import DesignError as DesignError, DesignFault as DesignFault, Rule as Rule
from .subagents import SubAgent as SubAgent, sub_agents as sub_agents
from .supernet import MaAS as MaAS, ScoreFlow as ScoreFlow, Supernet as Supernet
from .teacher import DesignTeacher as DesignTeacher
from .workflow_search import Validation as Validation, search as search
from .workflow_strategies import WorkflowCandidate as WorkflowCandidate
