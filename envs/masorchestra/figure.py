"""Designs and their runs as pictures: Mermaid for documents, text for a terminal.

Arrows lead from agents to those that read them; a run adds what became of each, when it worked, what it cost and what
it answered. The same run gives the same text.
"""

from __future__ import annotations

from collections.abc import Mapping

from toolorchestra.envs.masorchestra.design import Design
from toolorchestra.envs.masorchestra.design_runner import DesignRun, was_run
from toolorchestra.envs.masorchestra.subagents import answer_of
from toolorchestra.envs.records.episode import CallRecord
from toolorchestra.envs.records.mermaid import Box, flowchart
from toolorchestra.toolscale.common.visible import cut, visible
from toolorchestra.toolscale.tools.tool import Status

_STYLES = {
    "summary": "fill:none,stroke:none",
    "agent": "fill:#eef3fb,stroke:#5b7fb5,color:#000",
    "ok": "fill:#e3f4e4,stroke:#3d8b45,color:#000",
    "failed": "fill:#fbe3e1,stroke:#b5402f,color:#000",
    "late": "fill:#fdeacb,stroke:#c07a12,color:#000",
    "idle": "fill:#ececec,stroke:#8a8a8a,color:#000",
}


def mermaid(design: Design, run: DesignRun | None = None) -> str:
    """Return a design as a Mermaid flowchart, with what became of it if it was run; texts are cut to a line."""
    records = _records(run)
    names = {agent.id: f"a{number}" for number, agent in enumerate(design.agents)}
    boxes = [Box("summary", (_summary(design, run),), "summary")]
    for agent in design.agents:
        record = records.get(agent.id)
        lines = (agent.input or "(the question)",) if record is None else (_times(record), _result_of(record))
        boxes.append(Box(names[agent.id], (agent.id, agent.kind, *lines), _state(record)))
    return flowchart(boxes, ((names[start], names[end], "") for start, end in design.edges), _STYLES)


def text(design: Design, run: DesignRun | None = None) -> str:
    """Return a design as lines of text, agent by agent in an order in which each comes after those that it reads.

    >>> from toolorchestra.envs.masorchestra.design import Agent
    >>> print(text(Design(dom="high", thinking="One is enough.", agents=(Agent("A", "CoTAgent"),))))
    A  CoTAgent  answers: (the question)
    1 agent, 1 after another, 1 side by side
    """
    records = _records(run)
    lines = []
    for agent_id in design.order:
        agent = design.agent(agent_id)
        parents = design.parents(agent_id)
        task = agent.input or "(the question)"
        line = f"{agent_id}  {agent.kind}{'  answers' if agent_id == design.sink else ''}"
        line += f"  reads {', '.join(parents)}: {cut(task, 90)}" if parents else f": {cut(task, 90)}"
        lines.append(line)
        if record := records.get(agent_id):
            lines.append(f"    {_times(record)}  {cut(_result_of(record), 100)}")
    return visible("\n".join([*lines, _summary(design, run)]))


def _records(run: DesignRun | None) -> Mapping[str, CallRecord]:
    return {call.id: call for call in run.calls} if run else {}


def _state(record: CallRecord | None) -> str:
    if record is None:
        return "agent"
    if not was_run(record):
        return "idle"
    return {Status.OK: "ok", Status.TIMEOUT: "late"}.get(record.status, "failed")


def _times(record: CallRecord) -> str:
    if not was_run(record):
        return "not run"
    return f"{record.start:.1f} to {record.end:.1f} s, ${record.cost:.4f}"


def _result_of(record: CallRecord) -> str:
    return answer_of(str(record.value)) if record.status is Status.OK else f"{record.status}: {record.error}"


def _summary(design: Design, run: DesignRun | None) -> str:
    if not design.agents:
        return f"direct answer: {cut(str(design.answer), 100)}"
    shape = design.shape
    agents = f"{shape.agents} agent{'s' if shape.agents > 1 else ''}"
    summary = f"{agents}, {shape.length} after another, {shape.width} side by side"
    if run is None:
        return summary
    read, written = run.tokens
    ending = "no answer" if run.answer is None else f"answer: {cut(run.answer, 100)}"
    return f"{summary}; {run.seconds:.1f} s, ${run.cost:.4f}, {read + written:,} tokens; {ending}"
