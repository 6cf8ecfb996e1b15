"""The records of benchmarks/results say what made them: command, date, commit, versions and processor."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
RECORDS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))
BEFORE_DATES = "made before records had a date"
OLDER = {
    "adapters": "made before its script wrote commit, versions and processor",
    "baselines": BEFORE_DATES,
    "checks": BEFORE_DATES,
    "controllability_ParaManager-Math-v0_80_batches": BEFORE_DATES,
    "controllability_ParaManager-Math-v0_filters": BEFORE_DATES,
    "controllability_ParaManager-Math-v0_filters_scaled": BEFORE_DATES,
    "controllability_ParaManager-Math-v0_seed_1": BEFORE_DATES,
    "controllability_ParaManager-Math-v0_seed_2": BEFORE_DATES,
    "controllability_ToolOrchestra-Restaurant-v0": BEFORE_DATES,
    "controllability_ToolOrchestra-Restaurant-v0_filters_scaled": BEFORE_DATES,
    "controllability_ToolOrchestra-Restaurant-v0_levels_2_3": BEFORE_DATES,
    "designs": BEFORE_DATES,
    "expert_calls": BEFORE_DATES,
    "grpo_masorchestra": BEFORE_DATES,
    "grpo_paramanager": BEFORE_DATES,
    "kills": BEFORE_DATES,
    "masbench": "made before its script wrote command, commit, versions and processor",
    "msarl": BEFORE_DATES,
    "rollouts": BEFORE_DATES,
    "routing": BEFORE_DATES,
    "study_masbench": BEFORE_DATES,
    "study_paramanager": BEFORE_DATES,
    "synth": "made before its script wrote commit, versions and processor",
    "tmatr": BEFORE_DATES,
    "vllm_cpu": BEFORE_DATES,
}
"""Records that lack a field, and why. This list only shrinks: a record that is made again has all fields."""


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("harness")


def origins(record: Any) -> Iterator[dict[str, Any]]:
    """All parts of a record that say what made them."""
    if isinstance(record, dict):
        if "commit" in record or "command" in record:
            yield record
        for part in record.values():
            yield from origins(part)
    elif isinstance(record, list):
        for part in record:
            yield from origins(part)


def complete(record: Any, fields: tuple[str, ...]) -> bool:
    found = [origin for origin in origins(record) if "versions" in origin]
    return bool(found) and all(field in origin for origin in found for field in fields)


def test_a_record_has_the_command_the_date_the_commit_and_the_machine(harness: Any) -> None:
    found = harness.provenance()
    assert tuple(found) == harness.FIELDS
    assert abs(datetime.now(UTC) - datetime.fromisoformat(found["date"])) < timedelta(minutes=1)
    assert isinstance(found["uncommitted"], bool)
    assert found["uncommitted"] or re.fullmatch("[0-9a-f]{40}", found["commit"])
    assert {"python", "toolorchestra"} <= set(found["versions"])


def test_a_changed_file_is_uncommitted_and_a_changed_record_is_not(harness: Any, tmp_path: Path) -> None:
    def git(*words: str) -> None:
        names = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(("git", *names, "-C", str(tmp_path), *words), check=True, capture_output=True)

    assert harness.state(tmp_path) == ("", True)
    git("init")
    record = tmp_path / "benchmarks" / "results" / "one.json"
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    code = tmp_path / "benchmarks" / "one.py"
    code.write_text("1\n")
    git("add", ".")
    git("commit", "-m", "One")
    commit, uncommitted = harness.state(code.parent)
    assert (len(commit), uncommitted) == (40, False)
    record.write_text("[]")
    (tmp_path / "untracked").touch()
    assert harness.state(code.parent) == (commit, False)
    code.write_text("2\n")
    assert harness.state(code.parent) == (commit, True)


@pytest.mark.parametrize("file", RECORDS, ids=lambda path: path.stem)
def test_every_record_has_all_fields_but_those_that_are_older(harness: Any, file: Path) -> None:
    found = complete(json.loads(file.read_text(encoding="utf-8")), harness.FIELDS)
    if file.stem in OLDER:
        assert not found, f"{file.stem} is complete now: take it off the list"
    else:
        assert found, f"{file.stem} lacks a field of benchmarks/harness.py: make it again from a commit"


def test_the_list_of_older_records_names_only_records() -> None:
    assert set(OLDER) <= {file.stem for file in RECORDS}
