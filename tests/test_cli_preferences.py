"""``toolorchestra synth preferences``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolorchestra import cli
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.preferences import check_pair, read_pairs, tool_facts


def test_pairs_are_written_by_split_with_a_report(
    mini: Domain, mini_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "pairs"
    assert cli.main(["synth", "preferences", str(mini_folder), "--count", "40", "--out", str(out)]) == 0
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
    assert cli.main([*arguments, "--tools", "make_order", "get_order"]) == 0
    assert {pair.tools for pair in read_pairs(tmp_path / "train.jsonl")} == {("make_order", "get_order")}
    assert cli.main([*arguments, "--tools", "mak_order"]) == 2
    assert "Did you mean 'make_order'?" in capsys.readouterr().err
