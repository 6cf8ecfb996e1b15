from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from examples.designs import main
from toolorchestra.envs.masorchestra.design import Agent, Design, to_text
from toolorchestra.envs.records.episode import read_episodes

PAIR = Design(
    dom="high",
    thinking="Check it.",
    agents=(Agent("A", "CoTAgent"), Agent("B", "SCAgent", "Check ${A}.")),
    edges=(("A", "B"),),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "design.txt"
    file.write_text(to_text(PAIR))
    return file


def test_a_valid_design_is_called_valid(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "B  SCAgent  answers  reads A: Check ${A}." in shown
    assert shown.endswith("2 agents, 2 after another, 1 side by side\n")
    assert main(["check", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"valid": True, "agents": 2, "length": 2, "width": 1}


def test_an_invalid_design_is_reported_with_its_rule(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(to_text(PAIR).replace("${A}", "A"))
    assert main(["check", str(file)]) == 1
    assert capsys.readouterr().out.startswith("Rule `edge_data`: ")
    assert main(["check", str(file), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["rule"] == "edge_data"
    assert main(["check", str(file), "--dom", "low"]) == 1
    assert capsys.readouterr().out.startswith("Rule `fields`: ")
    assert main(["check", str(file.parent / "none.txt")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_design_is_drawn(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = file.with_suffix(".mmd")
    assert main(["check", str(file), "--mermaid", str(picture)]) == 0
    assert picture.read_text().startswith("flowchart")


def test_a_design_is_run_on_a_question(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture, record = file.parent / "new" / "run.mmd", file.parent / "here" / "run.jsonl"
    command = ["run", "--design", str(file), "--mermaid", str(picture), "--record", str(record)]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "2 agents, 2 after another" in out
    assert "answer: " in out
    (episode,) = read_episodes(record)
    assert f"{episode.outcome}: {episode.why}" in out
    assert [call.id for call in episode.calls] == ["A", "B"]
    assert "answer:" in picture.read_text()


def test_an_orchestrator_is_run_on_many_questions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--orchestrator", "oracle", "--episodes", "6", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["episodes"] == 6 == sum(summary["outcomes"].values())
    assert main(["run", "--episodes", "3", "--dom", "low"]) == 0
    assert capsys.readouterr().out.startswith("3 questions: ")
    assert main(["run", "--episodes", "0"]) == 2
    assert "at least 1" in capsys.readouterr().err


def test_a_design_that_breaks_a_rule_is_reported(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("I would ask two agents.")
    assert main(["run", "--design", str(file)]) == 1
    assert "Rule `thinking`" in capsys.readouterr().out


def test_a_design_is_run_with_a_real_model(file: Path, fake_server: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def respond(body: dict[str, Any]) -> tuple[int, Any]:
        message = {"role": "assistant", "content": "<answer>\\boxed{7}</answer>"}
        usage = {"prompt_tokens": 100, "completion_tokens": 10}
        return 200, {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}

    fake_server.respond = respond
    catalog = file.with_suffix(".yaml")
    catalog.write_text(
        "experts:\n  local:\n    provider: me\n    roles: [generalist]\n    price: {input: 1, output: 10}\n"
        "    latency: {mean: 1}\n    context: 1000\n    skills: {other: 0.5}\n"
        f"    endpoint: {{base_url: '{fake_server.url}'}}\n"
    )
    command = ["run", "--design", str(file), "--endpoint", "--model", "local", "--catalog", str(catalog)]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "answer: 7" in out
    assert "660 tokens" in out
    assert len(fake_server.bodies) == 6  # a chain of thought, and five samples of the one that checks it
    assert "Check <answer>" in str(fake_server.bodies[-1])
    fake_server.respond = lambda body: (400, {"error": {"message": "no such model"}})
    assert main(command) == 1
    assert "infra_error" in capsys.readouterr().out


def test_a_design_in_the_authors_style_is_checked_by_their_parser(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "design.txt"
    file.write_text("<agent><agent_id>a-1</agent_id><agent_name>cotagent</agent_name></agent>")
    assert main(["check", str(file)]) == 1
    assert "Rule `thinking`" in capsys.readouterr().out
    assert main(["check", str(file), "--parser", "paper"]) == 0
    assert "1 agent, " in capsys.readouterr().out
