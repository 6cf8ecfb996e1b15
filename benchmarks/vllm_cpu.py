"""Run the tests against a real vLLM server in its CPU build, and record what they found, with versions and processor.

bash .ci/vllm                                                       makes an environment with vLLM
python benchmarks/vllm_cpu.py --python .venv-vllm/bin/python --record
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import tyro
from provenance import provenance

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results" / "vllm_cpu.json"
TESTS = ("tests/algos/rollout/test_vllm.py", "tests/agents/chat/test_vllm.py")
_VERSIONS = """
import json
from importlib.metadata import version
print(json.dumps({name: version(name) for name in ("vllm-cpu", "torch", "transformers")}))
"""


@dataclass(frozen=True)
class Benchmark:
    """Run the tests against a real vLLM server, and record what they found."""

    python: Path
    """The Python of an environment that has vLLM's CPU build."""
    tests: tuple[str, ...] = TESTS
    """Files of tests."""
    record: bool = False
    """Write the outcomes to benchmarks/results/vllm_cpu.json."""


def main(benchmark: Benchmark) -> int:
    """Run the benchmark, and return the exit status of the tests."""
    python, source = benchmark.python.absolute(), provenance()  # of the code that the tests begin with
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", *benchmark.tests]
    variables = os.environ | {"TOOLORCHESTRA_VLLM_PYTHON": str(python), "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True, check=False)
    print(ran.stdout)
    result = {
        **source,
        "server": json.loads(subprocess.check_output([str(python), "-c", _VERSIONS], text=True)),
        "findings": re.findall(r"^\.*RECORD (.*)$", ran.stdout, re.M),
        "tests": {name: outcome for outcome, name in re.findall(r"^([A-Z]+) (\S+::\S+)", ran.stdout, re.M)},
        "summary": ran.stdout.strip().splitlines()[-1].strip("= "),
    }
    print(json.dumps(result, indent=2))
    if benchmark.record:
        RESULTS.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return ran.returncode


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Benchmark)))
