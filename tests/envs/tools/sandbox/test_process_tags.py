"""Containers, processes, control groups and files are removed when their owner closes, exits or is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from waiting import until

from toolorchestra.envs.tools.sandbox import DockerSandbox, Sandbox, docker as docker_module, process_tags
from toolorchestra.envs.tools.sandbox.bubblewrap import CGROUPS, ControlGroup
from toolorchestra.toolscale.common.errors import SandboxError

KINDS = ["docker", "bubblewrap", "process"]
OWNER = '''
import sys, threading, warnings
warnings.simplefilter("ignore")
from toolorchestra.envs.tools.sandbox import ProgramLimits, make_sandbox
sandbox = make_sandbox(sys.argv[1], workers=2)
sandbox.run("")
busy = """
import ctypes, os, signal
ctypes.CDLL(None).prctl(15, b'%s', 0, 0, 0)
os.fork()
open('f', 'w')
signal.pause()"""
limits = ProgramLimits(seconds=999)
threading.Thread(target=sandbox.run, args=[busy % sys.argv[2]], kwargs={"limits": limits}, daemon=True).start()
input()  # until that program runs
sandbox.run("")  # by another worker
print("ready", flush=True)
input()
if sys.argv[3] == "close":
    sandbox.close()
'''


def dead_tag() -> str:
    """Return the tag of a process of this machine that has ended."""
    process = subprocess.Popen(["sleep", "60"])
    tag = process_tags.tag(process.pid)
    process.kill()
    process.wait()
    return tag


def left(pid: int) -> list[str]:
    """Return what this machine holds of an owner besides processes: temporary files, control groups, containers."""
    found = [str(path) for path in Path(tempfile.gettempdir()).glob(f"toolorchestra-{pid}-*")]
    found += [str(path) for path in CGROUPS.glob(f"*/toolorchestra-{pid}-*/")]
    found += [str(path) for path in CGROUPS.glob(f"toolorchestra-{pid}-*/")]
    try:
        client = docker_module.connect()
    except SandboxError:
        return found
    containers = client.api.containers(all=True, filters={"label": docker_module.LABEL})
    found += [one["Id"] for one in containers if one["Labels"][docker_module.LABEL].startswith(f"{pid}-")]
    client.close()
    return found


@pytest.mark.parametrize("end", ["close", "exit", "kill"])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_outlives_its_owner(
    kind: str, end: str, make: Callable[..., Sandbox], named: Callable[[str], list[int]]
) -> None:
    make(kind, workers=1).close()
    name = f"o{os.getpid()}{kind[:3]}{end}"[:15]
    command = [sys.executable, "-c", OWNER, kind, name, end]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        until(lambda: len(named(name)) == 2 or process.poll() is not None, "the program and its fork run")
        print(file=process.stdin, flush=True)
        assert process.stdout.readline() == "ready\n"
        assert left(process.pid)
        if end == "kill":
            process.send_signal(signal.SIGKILL)
        else:
            print(file=process.stdin, flush=True)
        process.wait()
        if end != "close":  # control groups may stay, empty, for the next one to clear away
            until(lambda: not named(name) and all("cgroup" in found for found in left(process.pid)), "all is gone")
            make(kind, workers=1).close()
        assert (named(name), left(process.pid)) == ([], [])


def test_containers_whose_owner_is_gone_are_removed_and_no_others(make: Callable[..., Sandbox]) -> None:
    with make("docker", workers=1) as sandbox:
        assert isinstance(sandbox, DockerSandbox)
        api = sandbox.client.api
        tags = {"gone": dead_tag(), "alive": process_tags.tag(), "elsewhere": "1-0-another-machine"}
        made = {
            who: api.create_container(sandbox.image, "true", labels={docker_module.LABEL: tag})["Id"]
            for who, tag in tags.items()
        }
        try:
            docker_module.reap(sandbox.client)
            kept = {found["Id"] for found in api.containers(all=True)}
            assert {made["alive"], made["elsewhere"]} <= kept
            assert made["gone"] not in kept
        finally:
            for who in ("alive", "elsewhere"):
                docker_module.remove(sandbox.client, made[who])


def test_control_groups_whose_owner_is_gone_are_removed(make: Callable[..., Sandbox]) -> None:
    make("bubblewrap", workers=1).close()
    if not ControlGroup.works():
        pytest.skip("Only root makes control groups here.")
    place = CGROUPS if (CGROUPS / "cgroup.controllers").exists() else CGROUPS / "memory"
    gone, alive = (place / f"toolorchestra-{tag}-99" for tag in (dead_tag(), process_tags.tag()))
    gone.mkdir()
    alive.mkdir()
    ControlGroup.reap()
    assert (gone.exists(), alive.exists()) == (False, True)
    alive.rmdir()


def test_a_process_is_known_by_its_start_and_machine_too() -> None:
    mine = process_tags.tag()
    pid, started, where = mine.split("-", 2)
    assert not process_tags.is_gone(mine)
    assert process_tags.is_gone(f"{pid}-{int(started) - 1}-{where}")  # the number was given to another process since
    assert process_tags.is_gone(dead_tag())
    assert not process_tags.is_gone(f"{pid}-1-{where}-elsewhere")
    assert not process_tags.is_gone("nonsense")


def test_without_the_python_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(SandboxError, match=r"pip install -e '.*\[docker\]'"):
        DockerSandbox()


def test_without_an_engine_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("docker")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    with pytest.raises(SandboxError, match="Is the engine running"):
        DockerSandbox()


def test_an_image_that_is_missing_is_not_fetched(make: Callable[..., Sandbox]) -> None:
    make("docker", workers=1).close()
    with pytest.raises(SandboxError, match="docker pull no-such-image"):
        DockerSandbox("no-such-image")


def test_without_bubblewrap_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxError, match="apt-get install bubblewrap"):
        make_bubblewrap()


def make_bubblewrap(**options: Any) -> Sandbox:
    from toolorchestra.envs.tools.sandbox import BubblewrapSandbox

    return BubblewrapSandbox(**options)


def test_an_interpreter_that_cannot_run_is_refused(make: Callable[..., Sandbox], tmp_path: Path) -> None:
    make("bubblewrap", workers=1).close()
    with pytest.raises(SandboxError, match="Expected a Python that"):
        make_bubblewrap(python=str(tmp_path / "python"))


def test_a_process_that_cannot_start_says_why(make: Callable[..., Sandbox], tmp_path: Path) -> None:
    silent = tmp_path / "python"
    silent.write_text("#!/bin/sh\necho no Python here >&2\n")
    silent.chmod(0o755)
    for python, message in (("/no/python", "/no/python"), (str(silent), "no Python here")):
        with make("process", python=python) as sandbox, pytest.raises(SandboxError, match=message):
            sandbox.run("")


def test_a_container_that_cannot_start_says_why(make: Callable[..., Sandbox]) -> None:
    make("docker", workers=1).close()
    with DockerSandbox(python="no-python") as sandbox, pytest.raises(SandboxError, match="no-python"):
        sandbox.run("")
