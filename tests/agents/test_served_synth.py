"""Synthesis with a real server, whose model is too small to write anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolorchestra.cli import main as cli


@pytest.mark.slow
def test_a_model_that_cannot_write_fails_in_bounds_with_all_its_answers_saved(
    served: str, caller_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["synth", str(tmp_path), "--llm", served, "--model", str(caller_model), "--title", "Public library"]
    arguments += ["--max-tokens", "24", "--repairs", "2", "--price", "1", "2"]
    assert cli.main(arguments) == 1
    message = capsys.readouterr().err
    assert "failed: The stage subjects failed: the answers for this stage remained invalid after all repairs" in message
    assert "3 answers are saved in" in message
    assert "Raise --repairs to go on from there, or ask another --model." in message
    lines = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert [line["matter"] for line in lines] == [f"subjects/subjects/{attempt}" for attempt in range(3)]
    assert all(line["answer"]["cost"] > 0 for line in lines)
    assert cli.main(arguments) == 1  # from the store
    assert len((tmp_path / "answers.jsonl").read_text().splitlines()) == 3
    assert not (tmp_path / "domain.yaml").exists()
