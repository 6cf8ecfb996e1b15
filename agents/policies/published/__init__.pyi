from .acting import ReAct as ReAct, RestGPT as RestGPT
from .agent_head import AgentHead as AgentHead
from .cascade import FrugalGPT as FrugalGPT
from .evolution_strategy import SepCMAES as SepCMAES
from .network import DyLAN as DyLAN
from .puppeteer import Puppeteer as Puppeteer
from .router_r1 import RouterR1 as RouterR1
from .routers import Avengers as Avengers, IRTRouter as IRTRouter, RouteLLM as RouteLLM
from .tree import DepthFirstSearch as DepthFirstSearch
from .trinity import Trinity as Trinity
