"""The benchmark for a GPU runs at toy size on any machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra `train`", exc_type=ImportError)

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.long
def test_one_command_measures_speed_grpo_beside_trl_the_longest_context_and_waiting(tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    command = [sys.executable, "benchmarks/gpu.py", "--toy", "--output", str(file)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True, capture_output=True)
    record = json.loads(file.read_text(encoding="utf-8"))
    for found in record["speed"]["toy"].values():
        assert min(found[f"{name}_tokens_per_second"] for name in ("written", "training")) > 0
    assert set(record["speed"]["toy"]) == {"16 bits", "autocast"}
    assert min(record["grpo_step"]["toy"][f"{name}_seconds"] for name in ("toolorchestra", "trl")) > 0
    assert record["longest_context"]["toy"]["tokens"] == 512
    idle = record["idle"]
    assert 0 < idle["asynchronous_idle"] < 1
    assert 0 < idle["blocking_idle"] < 1
