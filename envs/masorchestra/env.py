"""The MAS-Orchestra protocol as a Gymnasium environment (MAS-Orchestra §3, App. H).

One decision is an episode: an orchestrator reads a question and writes a whole multi-agent system, which is parsed,
checked, run, and paid 1 if its answer is right. It never sees intermediate results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from toolorchestra.agents.chat.base import ChatModel
from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.experts.simulated_chat import SimulatedChat
from toolorchestra.envs.base import OrchestrationEnv
from toolorchestra.envs.episode import Turn
from toolorchestra.envs.masorchestra.design import AGENTS, Design, DesignFault, DoM
from toolorchestra.envs.masorchestra.design_runner import Clock, DesignRun, RunLimits, run_design
from toolorchestra.envs.masorchestra.parser import MAX_DESIGN_CHARACTERS, parse_design
from toolorchestra.envs.masorchestra.prompts import orchestrator_prompt
from toolorchestra.envs.masorchestra.subagents import SubAgent, ask_agents, sub_agents
from toolorchestra.envs.parsing import parse
from toolorchestra.envs.play import EpisodeLimits, Play, PlaySnapshot, World
from toolorchestra.envs.sources.base import TaskSource
from toolorchestra.envs.sources.masbench.world import credit as share
from toolorchestra.toolscale.errors import OptionError, UnknownNameError, unknown_name
from toolorchestra.toolscale.task import Task

Credit = Literal["all", "share"]
DEFAULT_MODEL = "gpt-oss-120b"
"""The model behind all agents (MAS-Orchestra §4.3)."""


@dataclass(frozen=True)
class DesignRules:
    """What a `DesignPlay` goes by.

    Attributes:
        dom: Degree of MAS asked for.
        limits: What a run may take.
        credit: Whether one of several answers that is right is worth something.
    """

    dom: DoM = "high"
    limits: RunLimits = field(default_factory=RunLimits)
    credit: Credit = "all"


class DesignPlay(Play):
    """An episode of one decision; its tools are the kinds of sub-agent.

    Attributes:
        rules: What it goes by.
        design: The design, once there is one, or the rule that it broke.
        run: What became of the design, once it was run.
    """

    rules = DesignRules()
    design: Design | DesignFault | None = None
    run: DesignRun | None = None

    def act(self, action: Any) -> Turn:
        """Take the design, run it and end the episode; never raises for what the action says."""
        if self.over:
            raise OptionError("The episode is over. Call reset() to begin another.")
        text = action if isinstance(action, str) else parse(action).text
        written = {"role": "assistant", "content": text[:MAX_DESIGN_CHARACTERS].encode("utf-8", "replace").decode()}
        self.messages.append(written)
        self.design = parse_design(text, self.rules.dom, tuple(self.tools))
        if isinstance(self.design, DesignFault):
            turn = Turn(written, (), str(self.design))
            self.episode.turns.append(turn)
            self._close("failed", str(self.design))
            return turn
        return self._run(self.design, written)

    def _run(self, design: Design, written: dict[str, Any]) -> Turn:
        agents = {name: tool for name, tool in self.tools.items() if isinstance(tool, SubAgent)}
        clock: Clock = "wall" if any(agent.blocking for agent in agents.values()) else "virtual"
        try:
            ask = ask_agents(agents, self.task, design, self.episode.noise_seed)
            run = run_design(design, self.task.instruction, ask, limits=self.rules.limits, clock=clock)
        except Exception as error:  # a fault of the library, not of the design
            turn = Turn(written)
            self.episode.turns.append(turn)
            self._break_off("infra_error", error)
            return turn
        self.run = run
        self._book(list(run.calls))
        turn = Turn(written, run.calls, _shown(run))
        self.episode.turns.append(turn)
        if run.answer is not None:
            self._judge(run.answer)
            if self.rules.credit == "share" and self.episode.reward is not None:
                self.episode.reward = share(self.task, run.answer)
        elif run.broken:
            self.truncated = True
            self.episode.outcome, self.episode.why = "infra_error", run.broken
        else:
            self._close("failed", _shown(run))
        return turn


class MASOrchestraEnv(OrchestrationEnv):
    """Design of a multi-agent system for one question.

    **Action**: text in the design language: ``<thinking>``, then ``<agent>`` blocks and (high degree) one ``<edge>``
    block, or an ``<answer>``. An OpenAI assistant message is accepted too.

    **Observation**: text. After `reset` the prompt, with the agents on offer, and the question; after `step` the answer
    of the system, or why it has none.

    **Reward**: 1.0 if the system's answer is right, else 0.0 (or a share, see `credit`). A design that breaks a rule
    is not run and gets 0.0.

    **End**: always after one step; truncated by an error of the library's own or of a model that cannot be reached.

    **Info**: see `OrchestrationEnv`. ``tools`` are the signatures of the agents; ``calls`` has one record per agent,
    with its ``id``; at the end also ``shape`` (agents, length, width; None for an invalid design) and ``rule``, the
    rule that was broken.

    Args:
        source: Name of a source of questions (``Math``, ``MultiHopQA``), or a `TaskSource`.
        domain: Folder (or name) of a domain to play instead of a named source.
        tasks: JSONL file of tasks to play instead.
        split: Split from which `reset` draws unless told otherwise.
        difficulty: Level or levels from which `reset` draws; None for all.
        dom: Degree of MAS: ``low`` (at most one agent) or ``high`` (a graph).
        model: Who is behind all agents: a name in the catalogue, simulated, or any chat model.
        agents: Kinds of agent on offer; by default all for which the question's world has the tools.
        concurrency: Most agents at work at a time (MAS-Orchestra Table B.1: 128).
        timeout: Most seconds of one agent.
        retries: Further attempts of an agent that failed.
        agent_cost: Most US dollars of one agent.
        max_cost: US dollars after which no further agent is started.
        credit: What is paid where several answers are asked for (MASBench's horizon): ``all``: 1 if all of them are
            right; ``share``: the share that is, intermediate answers included.
        preference: See `OrchestrationEnv`; its tools are the kinds of agent.
        render_mode: ``ansi`` (`render` returns the transcript) or ``human`` (turns are printed as they come).

    >>> import gymnasium as gym, toolorchestra
    >>> env = gym.make("MASOrchestra-High-Math-v0")
    >>> observation, info = env.reset(seed=0)
    >>> observation, reward, terminated, truncated, info = env.step("<thinking>Easy.</thinking><answer>7</answer>")
    >>> reward, terminated, info["shape"]
    (0.0, True, Shape(agents=0, length=0, width=0))
    """

    protocol: ClassVar[str] = "MASOrchestra"

    def __init__(
        self,
        source: str | TaskSource | None = None,
        *,
        domain: str | Path | None = None,
        tasks: str | Path | None = None,
        split: str = "train",
        difficulty: int | Iterable[int] | None = None,
        dom: DoM = "high",
        model: str | ChatModel = DEFAULT_MODEL,
        agents: Sequence[str] | None = None,
        concurrency: int = 128,
        timeout: float | None = None,
        retries: int = 1,
        agent_cost: float | None = None,
        max_cost: float | None = None,
        credit: Credit = "all",
        preference: Any = None,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(
            source,
            domain=domain,
            tasks=tasks,
            split=split,
            difficulty=difficulty,
            limits=EpisodeLimits(turns=1),
            preference=preference,
            render_mode=render_mode,
        )
        if dom not in ("low", "high"):
            raise UnknownNameError("degree of MAS", str(dom), ("low", "high"))
        if credit not in ("all", "share"):
            raise UnknownNameError("credit", str(credit), ("all", "share"))
        if wrong := [kind for kind in agents or () if kind not in AGENTS]:
            raise OptionError(unknown_name("agent", wrong[0], AGENTS))
        self._rules = DesignRules(dom, RunLimits(concurrency, timeout, retries, agent_cost, max_cost), credit)
        self._kinds = AGENTS if agents is None else tuple(agents)
        self.model = SimulatedChat(Catalog.load().simulated(model)) if isinstance(model, str) else model
        self._worlds: dict[str, tuple[dict[str, SubAgent], str]] = {}

    def _begin(self, task: Task, world: World, chosen: Mapping[str, Any], seed: int | None) -> Play:
        agents, prompt = self._offered(world)
        episode = self._new_episode(
            task,
            seed,
            prompt,
            task.instruction,
            agents,
            noise_seed=self._draw_noise_seed(),
            preference=chosen["preference"],
        )
        play = DesignPlay(world, self._session(world), task, episode, self._limits, agents)
        play.rules = self._rules
        return play

    def _restored(self, snapshot: PlaySnapshot, world: World) -> Play:
        play = DesignPlay.restored(snapshot, world, self._session(world), self._limits)
        assert isinstance(play, DesignPlay)
        play.rules = self._rules
        return play

    @property
    def dom(self) -> DoM:
        """The degree of MAS that is asked for."""
        return self._rules.dom

    def final(self, text: str) -> str:
        """Return the design that answers `text` directly."""
        return f"<thinking>\nThis needs no agent.\n</thinking>\n<answer>{text}</answer>"

    def _offered(self, world: World) -> tuple[dict[str, SubAgent], str]:
        """Return the kinds of agent on offer in a world, and the prompt that tells of them; both are made once."""
        if world.name not in self._worlds:
            agents = sub_agents(self.model, world.tools, self._kinds)
            prompt = orchestrator_prompt(self._rules.dom, agents, self.model.name, world.rules)
            self._worlds[world.name] = agents, prompt
        return self._worlds[world.name]

    def _info(self, play: Play) -> dict[str, Any]:
        info = super()._info(play)
        if play.over:
            design = getattr(play, "design", None)
            info["rule"] = design.rule if isinstance(design, DesignFault) else None
            info["shape"] = design.shape if isinstance(design, Design) else None
        return info


def _shown(run: DesignRun) -> str:
    """Return what came of a run, as the orchestrator reads it."""
    if run.answer is not None:
        return f"The system answers: {run.answer}"
    failed = next(call for call in run.calls if call.error)
    return f"The system gives no answer: agent {failed.id!r} ({failed.name}) {failed.error}"
