"""``toolorchestra synth preferences``."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from toolorchestra.agents.chat.base import ChatRequest, ScriptedChat
from toolorchestra.cli.main import main
from toolorchestra.cli.synth.preferences import SynthPreferencesCommand
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.preferences import check_pair, read_pairs, tool_facts


def test_pairs_are_written_by_split_with_a_report(
    mini: Domain, mini_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "pairs"
    assert main(["synth", "preferences", str(mini_folder), "--count", "40", "--out", str(out)]) == 0
    report = json.loads((out / "report.json").read_text())
    pairs = {split: read_pairs(out / f"{split}.jsonl") for split in ("train", "eval")}
    assert {split: len(found) for split, found in pairs.items()} == report["kept"]
    assert sum(map(len, pairs.values())) == 40
    facts = tool_facts(mini.tools.values())
    assert all(pair.split == split and not check_pair(pair, facts) for split in pairs for pair in pairs[split])
    printed = capsys.readouterr().out
    assert "40 pairs over" in printed
    assert "validator llm did not run: no model was given" in printed


def test_only_the_tools_named_are_preferred(mini_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["synth", "preferences", str(mini_folder), "--count", "5", "--out", str(tmp_path)]
    assert main([*arguments, "--tools", "make_order", "get_order"]) == 0
    assert {pair.tools for pair in read_pairs(tmp_path / "train.jsonl")} == {("make_order", "get_order")}
    assert main([*arguments, "--tools", "mak_order"]) == 2
    assert "Did you mean 'make_order'?" in capsys.readouterr().err


def test_pairs_may_speak_of_experts_search_and_python(mini_folder: Path, tmp_path: Path):
    arguments = ["synth", "preferences", str(mini_folder), "--count", "40", "--out", str(tmp_path)]
    assert main([*arguments, "--env-options", "tools", "full", "tool_config", "training"]) == 0
    pairs = read_pairs(tmp_path / "train.jsonl")
    assert {"get_order", "web_search", "local_search", "python", "ask_deepseek_r1"} <= set(pairs[0].tools)
    assert any(" models" in pair.instruction for pair in pairs)
    assert any("ask_" in pair.instruction or "code_" in pair.instruction for pair in pairs)


def test_a_model_proposes_and_judges(mini_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def answer(request: ChatRequest) -> str:
        if "Would an assistant" in request.messages[-1]["content"]:
            return "consistent: true"
        return (
            "- instruction: Be quick.\n  weights: {latency: 0.7}\n- instruction: Be right.\n  weights: {outcome: 0.7}"
        )

    chat = ScriptedChat(answer)
    monkeypatch.setattr(SynthPreferencesCommand, "_chat", lambda self: nullcontext(chat))
    model = ["--llm", "http://localhost:1/v1", "--model", "scripted", "--count", "2", "--out", str(tmp_path)]
    assert main(["synth", "preferences", str(mini_folder), *model]) == 0
    pairs = [pair for split in ("train", "eval") if (file := tmp_path / f"{split}.jsonl").stat().st_size
             for pair in read_pairs(file)]  # fmt: skip
    assert {pair.instruction for pair in pairs} == {"Be quick.", "Be right."}
    assert json.loads((tmp_path / "report.json").read_text())["not_run"] == {}
    count = len(chat.requests)
    assert main(["synth", "preferences", str(mini_folder), *model]) == 0
    assert len(chat.requests) == count == 3  # a batch and two judgements, once


def test_options_of_a_model_need_one(mini_folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["synth", "preferences", str(mini_folder), "--model", "x"]) == 2
    assert "--model is for --llm BASE_URL" in capsys.readouterr().err
    assert main(["synth", "preferences", str(mini_folder), "--llm", "http://localhost:1/v1"]) == 2
    assert "--llm needs a model" in capsys.readouterr().err


def test_pairs_of_ones_own_are_checked_and_what_is_wrong_is_said(
    mini_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    names = ["web_search", "local_search"]
    lines = [
        {"instruction": "Use local search rather than web search.", "tools": names, "vector": [0, 1, 0, 0, 0]},
        {"instruction": "Use web search.", "tools": names, "vector": [3, 0, 0, 0, 0]},
        {"instruction": "Be quick.", "tools": names, "vector": [0, 0, 1]},
    ]
    file, out = tmp_path / "mine.jsonl", tmp_path / "out"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ["synth", "preferences", str(mini_folder), "--env-options", "tools", "basic", "--out", str(out)]
    arguments += ["--tools", *names, "--pairs", str(file)]
    assert main(arguments) == 1
    said = capsys.readouterr()
    assert f"{file}:2: expected weights in [0, 1], got 3" in said.err
    assert f"{file}:3: expected 5 weights (one for each tool, then outcome, compute, latency), got 3" in said.err
    assert "1 pairs over 2 tools" in said.out
    file.write_text(json.dumps(lines[0]))
    assert main(arguments) == 0
    assert main([*arguments, "--llm", "http://localhost:1/v1", "--model", "m"]) == 2
    assert "--pairs and --llm both give the pairs" in capsys.readouterr().err
