from .design import Agent as Agent, Design as Design, to_text as to_text
from .design_runner import DesignRun as DesignRun, RunLimits as RunLimits, run_design as run_design
from .env import MASOrchestraEnv as MASOrchestraEnv
from .orchestrators import Orchestrator as Orchestrator, make_orchestrator as make_orchestrator
from .parser import parse_design as parse_design
from .play import DesignPlay as DesignPlay
from .rules import DesignError as DesignError, DesignFault as DesignFault, Rule as Rule
from .subagents import SubAgent as SubAgent, sub_agents as sub_agents
from .teacher import DesignTeacher as DesignTeacher
