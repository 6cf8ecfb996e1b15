"""The MAS-Orchestra protocol as a Gymnasium environment (MAS-Orchestra §3, App. H).

An episode is one decision: an orchestrator reads a question and writes a whole multi-agent system, which is parsed,
checked and run. The reward is 1 if its answer is right. The orchestrator never sees intermediate results.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Unpack, get_args

from toolorchestra.agents.chat.base import ChatModel, LimitedModel
from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.experts.simulated_chat import SimulatedChat
from toolorchestra.envs.base import OrchestrationEnv, OrchestrationOptions
from toolorchestra.envs.ground_truth.known_answers import check_ground_truth
from toolorchestra.envs.masorchestra.design import Design
from toolorchestra.envs.masorchestra.design_runner import RunLimits
from toolorchestra.envs.masorchestra.play import PARSERS, Credit, DesignPlay, Parser
from toolorchestra.envs.masorchestra.prompts import orchestrator_prompt
from toolorchestra.envs.masorchestra.rules import AGENTS, DesignFault, DoM
from toolorchestra.envs.masorchestra.subagents import Exchange, SubAgent, sub_agents
from toolorchestra.envs.play import EpisodeLimits
from toolorchestra.envs.task_env import EpisodeSetup
from toolorchestra.envs.task_source import TaskSource
from toolorchestra.envs.world import World
from toolorchestra.toolscale.answers.typed_answers import TypedAnswer
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError, unknown_name
from toolorchestra.toolscale.tasks.task import Task

DEFAULT_MODEL = "gpt-oss-120b"
"""The model behind all agents (MAS-Orchestra §4.3)."""


class MASOrchestraEnv(OrchestrationEnv):
    """Design of a multi-agent system for one question.

    **Action**: text in the design language: ``<thinking>``, then ``<agent>`` blocks and (high degree) one ``<edge>``
    block, or an ``<answer>``. An OpenAI assistant message is accepted too.

    **Observation**: text. After `reset` the prompt, with the kinds of agent, and the question; after `step` the answer
    of the system, or why it has none.

    **Reward**: 1.0 if the system's answer is right, else 0.0 (or a share, see `credit`). A design that breaks a rule
    is not run and gets 0.0.

    **End**: always after one step; truncated by an infrastructure error, such as a model that cannot be reached.

    **Info**: see `OrchestrationEnv`. ``tools`` are the signatures of the agents; ``calls`` has one record per agent,
    with its ``id``; at the end also ``shape`` (agents, length, width; None for an invalid design) and ``rule``, the
    rule that was broken.

    Args:
        source: Name of a source of questions (``Math``, ``MultiHopQA``), or a `TaskSource`.
        dom: Degree of MAS: ``low`` (at most one agent) or ``high`` (a graph).
        model: The model of all agents: a name in the catalogue, simulated, or any chat model.
        agents: Kinds of agent that a design may use; by default all whose tools the question's world has.
        concurrency: Maximum number of agents running at a time (MAS-Orchestra Table B.1: 128).
        timeout: Maximum seconds of one agent.
        retries: Further attempts of an agent that failed.
        agent_cost: Maximum US dollars of one agent.
        max_cost: US dollars, those of the design itself included, after which no further agent is started.
        credit: The reward where several answers are asked for (MASBench's horizon): ``all``: 1 if all of them are
            right; ``share``: the share that is, intermediate answers included.
        exchange: What agents read of each other: ``replies``, reasoning and answer, of which only the last must be
            boxed; ``answers`` alone, which is cheaper, with debates that end when all agree.
        reply_tokens: Maximum tokens of one reply of an agent's model (512 in MAS-Orchestra §4.6); a longer one is cut.
        parser: ``strict``: a design that is not in the design language is refused. ``paper``: it is read as the paper's
            authors read it (App. I).
        known_answers: Whether simulated agents may play questions of which only the answer is known, as of public data
            sets, without a `KnownAnswersWarning`.
        options: See `TaskOptions` and `OrchestrationOptions`; tools of a `preference` are the kinds of agent.

    >>> import gymnasium as gym, toolorchestra
    >>> env = gym.make("MASOrchestra-High-Math-v0")
    >>> observation, info = env.reset(seed=0)
    >>> observation, reward, terminated, truncated, info = env.step("<thinking>Easy.</thinking><answer>7</answer>")
    >>> reward, terminated, info["shape"]
    (0.0, True, Shape(agents=0, length=0, width=0))
    """

    protocol: ClassVar[str] = "MASOrchestra"
    schemas_read = False  # the prompt lists the kinds of agent

    def __init__(
        self,
        source: str | TaskSource | None = None,
        *,
        dom: DoM = "high",
        model: str | ChatModel = DEFAULT_MODEL,
        agents: Sequence[str] | None = None,
        concurrency: int = 128,
        timeout: float | None = None,
        retries: int = 1,
        agent_cost: float | None = None,
        max_cost: float | None = None,
        credit: Credit = "all",
        exchange: Exchange = "replies",
        reply_tokens: int | None = None,
        parser: Parser = "strict",
        known_answers: bool = False,
        **options: Unpack[OrchestrationOptions],
    ) -> None:
        super().__init__(source, EpisodeLimits(turns=1), options)
        if dom not in get_args(DoM):
            raise UnknownNameError("degree of MAS", str(dom), get_args(DoM))
        if credit not in get_args(Credit):
            raise UnknownNameError("credit", str(credit), get_args(Credit))
        if exchange not in get_args(Exchange):
            raise UnknownNameError("exchange", str(exchange), get_args(Exchange))
        if parser not in PARSERS:
            raise UnknownNameError("parser", str(parser), PARSERS)
        if wrong := [kind for kind in agents or () if kind not in AGENTS]:
            raise OptionError(unknown_name("agent", wrong[0], AGENTS))
        self.dom: DoM = dom
        limits = RunLimits(concurrency, timeout, retries, agent_cost, max_cost)
        self._rules = functools.partial(
            DesignPlay, dom=dom, limits=limits, credit=credit, exchange=exchange, parser=parser
        )
        self.exchange: Exchange = exchange
        self.parser: Parser = parser
        self._kinds = AGENTS if agents is None else tuple(agents)
        self.model: ChatModel = SimulatedChat(Catalog.load().simulated(model)) if isinstance(model, str) else model
        if reply_tokens is not None:
            whole = self.model
            self.model = (
                whole.limited(reply_tokens) if isinstance(whole, SimulatedChat) else LimitedModel(whole, reply_tokens)
            )
        self._known_answers = known_answers
        self._worlds: dict[str, tuple[dict[str, SubAgent], str]] = {}

    def _setup_episode(
        self, task: Task, world: World, chosen: Mapping[str, Any], typed: TypedAnswer | None
    ) -> EpisodeSetup:
        if isinstance(self.model, SimulatedChat):
            check_ground_truth(world, task, remedy="model=a chat model", known_answers=self._known_answers)
        if world.name not in self._worlds:
            agents = sub_agents(self.model, world.tools, self._kinds, self.exchange)
            prompt = orchestrator_prompt(
                self.dom, agents, self.model.name, world.rules, self.exchange, lenient=self.parser == "paper"
            )
            self._worlds[world.name] = agents, prompt
        agents, prompt = self._worlds[world.name]
        return EpisodeSetup(prompt, agents, self._rules, preference=chosen["preference"])

    def final(self, text: str) -> str:
        """Return the design that answers `text` directly."""
        return f"<thinking>\nThis needs no agent.\n</thinking>\n<answer>{text}</answer>"

    def _info(self, play: DesignPlay) -> dict[str, Any]:
        info = super()._info(play)
        if play.over:
            design = play.design
            info["rule"] = design.rule if isinstance(design, DesignFault) else None
            info["shape"] = design.shape if isinstance(design, Design) else None
        return info
