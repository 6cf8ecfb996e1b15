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
from pathlib import Path

from harness import ROOT, cli, provenance, write

TESTS = ("tests/algos/rollout/test_vllm.py", "tests/agents/chat/test_vllm.py")
_VERSIONS = """
import json
from importlib.metadata import version
print(json.dumps({name: version(name) for name in ("vllm-cpu", "torch", "transformers")}))
"""


def main(python: Path, tests: tuple[str, ...] = TESTS, record: bool = False) -> int:
    """Run tests with the Python of an environment that has vLLM's CPU build; return their exit status."""
    python = python.absolute()
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", *tests]
    variables = os.environ | {"TOOLORCHESTRA_VLLM_PYTHON": str(python), "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True, check=False)
    print(ran.stdout)
    result = {
        **provenance(),
        "server": json.loads(subprocess.check_output([str(python), "-c", _VERSIONS], text=True)),
        "findings": re.findall(r"^\.*RECORD (.*)$", ran.stdout, re.M),
        "tests": {name: outcome for outcome, name in re.findall(r"^([A-Z]+) (\S+::\S+)", ran.stdout, re.M)},
        "summary": ran.stdout.strip().splitlines()[-1].strip("= "),
    }
    print(json.dumps(result, indent=2))
    if record:
        write("vllm_cpu", result)
    return ran.returncode


if __name__ == "__main__":
    cli(main)
