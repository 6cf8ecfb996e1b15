from __future__ import annotations

import xml.etree.ElementTree as ET

from toolorchestra.envs.masorchestra import figure
from toolorchestra.envs.masorchestra.design import Agent, Design
from toolorchestra.envs.masorchestra.design_runner import AgentRun, DesignRun, RunLimits, run_design
from toolorchestra.toolscale.tools.tool import Status, ToolResult

SVG = "{http://www.w3.org/2000/svg}"
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


def test_a_picture_has_a_box_for_every_agent_below_all_that_it_reads() -> None:
    root = ET.fromstring(figure.svg(DESIGN))
    boxes = root.findall(f"{SVG}g")
    assert [box.find(f"{SVG}text").text for box in boxes] == ["A", "B", "C", "D", "END"]  # type: ignore[union-attr]
    places = [tuple(map(float, box.get("transform", "")[10:-1].split())) for box in boxes]
    height = {agent.id: y for agent, (_, y) in zip(DESIGN.agents, places, strict=True)}
    assert all(height[start] < height[end] for start, end in DESIGN.edges)
    assert len(set(places)) == len(places)
    assert len(root.findall(f"{SVG}path")) == len(DESIGN.edges)
    width, tall = (float(root.get(name, "0")) for name in ("width", "height"))
    assert all(x >= 0 and x + 210 <= width and y >= 0 and y + 76 <= tall for x, y in places)


def test_a_picture_of_a_run_shows_times_costs_and_answers() -> None:
    drawn = figure.svg(DESIGN, run())
    assert drawn == figure.svg(DESIGN, run())
    words = " ".join(ET.fromstring(drawn).itertext())
    assert "0.0 to 2.0 s, $0.2500" in words
    assert "answer of D" in words
    assert "EXEC_ERR: x < 5 is unknown" in words
    assert "not run" in words
    assert "no answer" in words
    assert figure.svg(DESIGN) != drawn


def test_text_lists_agents_in_order_with_what_became_of_them() -> None:
    lines = figure.text(DESIGN, run()).splitlines()
    assert lines[0].startswith("A  CoTAgent: Is x < 5")
    assert lines[1] == "    0.0 to 0.0 s, $0.0000  EXEC_ERR: x < 5 is unknown"
    assert any(line.startswith("END  CoTAgent  answers  reads C, D: ") for line in lines)
    assert lines[-1] == "5 agents, 3 after another, 2 side by side; 4.0 s, $0.5000, 0 tokens; no answer"


def test_a_direct_answer_is_drawn_too() -> None:
    direct = Design(dom="low", thinking="Easy.", answer="4 < 5")
    assert figure.text(direct) == "direct answer: 4 < 5"
    assert "direct answer: 4 < 5" in " ".join(ET.fromstring(figure.svg(direct)).itertext())
