"""The rules of MAS-Orchestra: one message designs a whole system of agents, which is run and judged."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import msgspec

from toolorchestra.agents.messages.model_message import ModelMessage
from toolorchestra.envs.masorchestra.design import Design
from toolorchestra.envs.masorchestra.design_runner import Clock, DesignRun, RunLimits, result_of, run_design
from toolorchestra.envs.masorchestra.paper_parser import parse_paper_design
from toolorchestra.envs.masorchestra.parser import MAX_DESIGN_CHARACTERS, parse_design
from toolorchestra.envs.masorchestra.rules import DesignFault, DoM
from toolorchestra.envs.masorchestra.subagents import Exchange, SubAgent, answer_of, ask_agents
from toolorchestra.envs.play import PlayStart
from toolorchestra.envs.sources.masbench.world import credit as share
from toolorchestra.envs.tool_calling import ToolCallingPlay

Credit = Literal["all", "share"]
Parser = Literal["strict", "paper"]
PARSERS = {"strict": parse_design, "paper": parse_paper_design}
"""What reads designs, by the value of the option `parser`."""
AGENT_SECONDS = 600.0
"""Seconds of real time that an agent may take where no `timeout` is given: a message has a bound, whatever it says."""


class DesignPlay(ToolCallingPlay):
    """An episode of one decision; its tools are the kinds of sub-agent.

    `limits` are those of a run; the other options are those of `toolorchestra.envs.masorchestra.env.MASOrchestraEnv`.

    Attributes:
        design: The design, once there is one, or the rule that it broke.
        run: The run of the design, once it was run.
    """

    def __init__(
        self, start: PlayStart, *, dom: DoM, limits: RunLimits, credit: Credit, exchange: Exchange, parser: Parser
    ) -> None:
        super().__init__(start)
        self.dom, self.run_limits, self.credit, self.exchange, self.parser = dom, limits, credit, exchange, parser
        self.design: Design | DesignFault | None = None
        self.run: DesignRun | None = None

    def _written(self, message: ModelMessage) -> dict[str, Any]:
        return {**message.recorded, "content": message.raw[:MAX_DESIGN_CHARACTERS]}

    def _on_message(self, agent: str, message: ModelMessage) -> None:
        self.design = PARSERS[self.parser](message.raw, self.dom, tuple(self.tools))
        if isinstance(self.design, DesignFault):
            self.observe(agent, str(self.design), ())
            self.close(solved=False, why=str(self.design))
        else:
            self._run_design(agent, self.design)

    def _run_design(self, agent: str, design: Design) -> None:
        agents = {name: tool for name, tool in self.tools.items() if isinstance(tool, SubAgent)}
        clock: Clock = "wall" if any(agent.blocking for agent in agents.values()) else "virtual"
        limits = self.run_limits
        if clock == "wall" and limits.timeout is None:
            limits = dataclasses.replace(limits, timeout=AGENT_SECONDS)
        spent, begin = self.episode.cost, self.episode.clock  # on the design itself
        read = answer_of if self.exchange == "replies" else str
        if self.recorded is not None:
            calls, begin = {agent.id: self.recorded.reply(agent.kind) for agent in design.agents}, 0.0
            run = result_of(design, calls, read)
        else:
            ask = ask_agents(agents, self.task, design, self.episode.noise_seed, self.world.rules, self.exchange)
            run = run_design(design, self.task.instruction, ask, limits=limits, clock=clock, spent=spent, read=read)
        self.run = run
        self._book(
            [msgspec.structs.replace(call, start=begin + call.start, end=begin + call.end) for call in run.calls]
        )
        self.observe(agent, _result_text(run), ())
        if run.answer is not None:
            self.judge(self.stated(run.answer))
        elif run.broken and self.outages == "infra_error":
            self._break_off("infra_error", run.broken)
        else:
            self.close(solved=False, why=_result_text(run))

    def _set_reward(self, *, solved: bool) -> None:
        super()._set_reward(solved=solved)
        if self.credit == "share" and self.run is not None and self.run.answer is not None:
            self._reward(share(self.task, self.stated(self.run.answer)))


def _result_text(run: DesignRun) -> str:
    """Return the result of a run, as the orchestrator observes it."""
    if run.answer is not None:
        return f"The system answers: {run.answer}"
    failed = next(call for call in run.calls if call.error)
    return f"The system gives no answer: agent {failed.id!r} ({failed.name}) {failed.error}"
