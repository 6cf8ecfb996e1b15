"""Designs and their runs as pictures: SVG for documents, text for a terminal.

Agents stand in rows by how far they are from the start, each below all that it reads; a run adds what became of each,
when it worked, what it cost and what it answered. The same run gives the same bytes, and each box shows its whole input
when the pointer rests on it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from toolorchestra.envs.masorchestra.design import Agent, Design
from toolorchestra.envs.masorchestra.design_runner import DesignRun, was_run
from toolorchestra.envs.masorchestra.subagents import answer_of
from toolorchestra.envs.records.episode import CallRecord
from toolorchestra.envs.records.svg import EDGE, STYLE, Point, box, curve, cut, document, escaped
from toolorchestra.toolscale.common.visible import visible
from toolorchestra.toolscale.tools.tool import Status

_WIDTH, _HEIGHT = _SIZE = (210, 76)  # of a box
_BESIDE, _BELOW = 26, 58  # between boxes
_MARGIN = 24
_COLOURS = {
    "": ("#eef3fb", "#5b7fb5"),
    "ok": ("#e3f4e4", "#3d8b45"),
    "failed": ("#fbe3e1", "#b5402f"),
    "late": ("#fdeacb", "#c07a12"),
    "idle": ("#ececec", "#8a8a8a"),
}  # fill and frame of a box, by what became of its agent
_HEAD = (
    f"<style>{STYLE}.edge{{fill:none;stroke:{EDGE};stroke-width:1.4}}</style>",
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    f'<path d="M0 0L8 4L0 8z" fill="{EDGE}"/></marker></defs>',
)


def svg(design: Design, run: DesignRun | None = None) -> str:
    """Return a design as SVG text, with what became of it if it was run."""
    records = _records(run)
    places = _places(design)
    rows = design.levels or ((),)
    width = 2 * _MARGIN + max(1, *map(len, rows)) * (_WIDTH + _BESIDE) - _BESIDE
    below = textwrap.wrap(cut(_summary(design, run), 300), (width - 2 * _MARGIN) // 7)
    top = 2 * _MARGIN + max(1, len(rows)) * (_HEIGHT + _BELOW) - _BELOW + 12
    height = top + 16 * len(below)
    edges = (curve(places[start], places[end], _SIZE, ' marker-end="url(#tip)"') for start, end in design.edges)
    whole = run.seconds if run else 0.0
    boxes = (_box(agent, places[agent.id], records.get(agent.id), whole) for agent in design.agents)
    summary = (f'<text x="{_MARGIN}" y="{top + 16 * n}">{escaped(line)}</text>' for n, line in enumerate(below))
    return document(width, height, _HEAD, [*edges, *boxes, *summary])


def text(design: Design, run: DesignRun | None = None) -> str:
    """Return a design as lines of text, agent by agent in an order in which each comes after those that it reads.

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


def _places(design: Design) -> dict[str, Point]:
    """Return the left upper corner of every box: rows are centred, and ordered so that edges cross little."""
    rows = [list(row) for row in design.levels]
    widest = max(map(len, rows), default=1)
    places: dict[str, Point] = {}
    for number, row in enumerate(rows):
        if number:
            above = {one: [places[parent][0] for parent in design.parents(one)] for one in row}
            row.sort(key=lambda one: sum(above[one]) / len(above[one]))
        left = _MARGIN + (widest - len(row)) * (_WIDTH + _BESIDE) / 2
        for place, one in enumerate(row):
            places[one] = (left + place * (_WIDTH + _BESIDE), _MARGIN + number * (_HEIGHT + _BELOW))
    return places


def _box(agent: Agent, corner: Point, record: CallRecord | None, whole: float) -> str:
    """Return the box of an agent; a bar at its bottom shows when it worked in a run of `whole` seconds."""
    colours = _COLOURS[_state(record)]
    task = agent.input or "(the question)"
    elements = [
        f'<text class="id" x="10" y="19">{escaped(agent.id, 28)}</text>',
        f'<text class="small" x="10" y="35">{escaped(agent.kind, 30)}</text>',
    ]
    if record is None:
        elements.append(f'<text class="small" x="10" y="54">{escaped(task, 34)}</text>')
    else:
        elements.append(f'<text class="small" x="10" y="50">{escaped(_times(record), 36)}</text>')
        elements.append(f'<text x="10" y="66">{escaped(_result_of(record), 32)}</text>')
        if whole and was_run(record):
            at, long = record.start / whole * (_WIDTH - 20), (record.end - record.start) / whole * (_WIDTH - 20)
            bar = f'<rect x="{10 + at:.1f}" y="{_HEIGHT - 5}" width="{max(long, 1):.1f}" height="3"'
            elements.append(f'{bar} fill="{colours[1]}"/>')
    hint = [agent.description, task, *([_result_of(record)] if record else [])]
    return box(corner, _SIZE, colours, "\n".join(hint), elements)


def _records(run: DesignRun | None) -> Mapping[str, CallRecord]:
    return {call.id: call for call in run.calls} if run else {}


def _state(record: CallRecord | None) -> str:
    if record is None:
        return ""
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
