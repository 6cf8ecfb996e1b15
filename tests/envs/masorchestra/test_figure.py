from __future__ import annotations

import re

from toolorchestra.envs.masorchestra import figure
from toolorchestra.envs.masorchestra.design import Agent, Design
from toolorchestra.envs.masorchestra.design_runner import AgentRun, DesignRun, RunLimits, run_design
from toolorchestra.toolscale.tools.tool import Status, ToolResult

DESIGN = Design(
    dom="high",
    thinking="A test.",
    agents=(
        Agent("A", "CoTAgent", "Is x < 5 & y > 3?\x00"),
        Agent("B", "SCAgent"),
        Agent("C", "CoTAgent", "Join ${A} and ${B}"),
        Agent("D", "CoTAgent", "Check ${B}"),
        Agent("END", "CoTAgent", "Answer from ${C}, ${D}"),
    ),
    edges=(("A", "C"), ("B", "C"), ("B", "D"), ("C", "END"), ("D", "END")),
)


def run() -> DesignRun:
    def ask(work: AgentRun) -> ToolResult:
        if work.agent.id == "A":
            return ToolResult.failed("x < 5 is unknown")
        return ToolResult(Status.OK, f"answer of {work.agent.id}", cost=0.25, seconds=2.0)

    return run_design(DESIGN, "?", ask, limits=RunLimits(retries=0))


def test_a_flowchart_has_a_box_for_every_agent_and_an_arrow_to_each_that_reads_it() -> None:
    lines = figure.mermaid(DESIGN).splitlines()
    assert lines[0] == "flowchart TB"
    boxes = [line.split('["')[1].split("<br/>")[:2] for line in lines if ":::agent" in line]
    assert boxes == [[agent.id, agent.kind] for agent in DESIGN.agents]
    assert [line.split() for line in lines if " --> " in line] == [
        [f"a{'ABCD'.index(start)}", "-->", "a4" if end == "END" else f"a{'ABCD'.index(end)}"]
        for start, end in DESIGN.edges
    ]


def test_a_flowchart_of_a_run_shows_times_costs_and_answers() -> None:
    drawn = figure.mermaid(DESIGN, run())
    assert drawn == figure.mermaid(DESIGN, run())
    assert re.findall(r":::(\w+)$", drawn, re.MULTILINE) == ["summary", "failed", "ok", "idle", "ok", "idle"]
    for part in ("0.0 to 2.0 s, #36;0.2500", "answer of D", "EXEC_ERR: x #60; 5 is unknown", "not run", "no answer"):
        assert part in drawn


def test_text_lists_agents_in_order_with_what_became_of_them() -> None:
    lines = figure.text(DESIGN, run()).splitlines()
    assert lines[0].startswith("A  CoTAgent: Is x < 5")
    assert lines[1] == "    0.0 to 0.0 s, $0.0000  EXEC_ERR: x < 5 is unknown"
    assert any(line.startswith("END  CoTAgent  answers  reads C, D: ") for line in lines)
    assert lines[-1] == "5 agents, 3 after another, 2 side by side; 4.0 s, $0.5000, 0 tokens; no answer"


def test_a_direct_answer_is_drawn_too() -> None:
    direct = Design(dom="low", thinking="Easy.", answer="4 < 5")
    assert figure.text(direct) == "direct answer: 4 < 5"
    assert "direct answer: 4 #60; 5" in figure.mermaid(direct)
