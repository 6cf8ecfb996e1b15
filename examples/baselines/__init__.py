"""Baselines of other papers, as policies: each names its paper and states what is simplified.

    KNNRouter, RouteLLM, Avengers, IRTRouter    send a question to one expert, by evaluations of experts on others
    FrugalGPT                                   asks a dearer expert where the cheap one's answer is doubtful
    ReAct, RestGPT, DepthFirstSearch            use tools: step by step, by a plan, and with going back
    DyLAN, Puppeteer, RouterR1, Trinity         ask several experts: in rounds, or by a policy that chooses the next

They ask the experts of the environment, simulated or real, so that all they do is recorded and paid for. In the root of
a clone, `toolorchestra rollout ENV --policy examples.baselines:RouteLLM` plays one.
"""

from examples.baselines.acting import DepthFirstSearch, ReAct, RestGPT
from examples.baselines.cascade import FrugalGPT
from examples.baselines.network import DyLAN
from examples.baselines.next_agent import AgentHead, Puppeteer, RouterR1
from examples.baselines.routers import Avengers, IRTRouter, RouteLLM
from examples.baselines.routing import EvaluationBank, KNNRouter
from examples.baselines.trinity import Trinity
from toolorchestra.agents.policies.base import Policy

BASELINES: dict[str, type[Policy]] = {
    "avengers": Avengers,
    "dfs": DepthFirstSearch,
    "dylan": DyLAN,
    "frugal-gpt": FrugalGPT,
    "irt-router": IRTRouter,
    "knn-router": KNNRouter,
    "puppeteer": Puppeteer,
    "react": ReAct,
    "rest-gpt": RestGPT,
    "route-llm": RouteLLM,
    "router-r1": RouterR1,
    "trinity": Trinity,
}
"""The policies by the names of tables."""
__all__ = ["BASELINES", "AgentHead", "EvaluationBank", *sorted(kind.__name__ for kind in BASELINES.values())]
