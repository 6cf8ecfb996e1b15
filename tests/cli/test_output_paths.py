"""Places that cannot be written: a line that names what was asked for, status 4, and nothing half-written.

The full disk is a tiny tmpfs and the read-only folder a mount, in a bubblewrap sandbox, where root cannot write either.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from waiting import until

from examples.exchange import main as exchange
from toolorchestra.envs.records.episode import read_episodes
from toolorchestra.toolscale.tasks.task import read_tasks

Run = Callable[..., Any]
COMMAND = [sys.executable, "-m", "toolorchestra"]


@functools.cache
def sandbox() -> tuple[str, ...]:
    """Return the command that runs another with 64 KiB at /mnt, and /srv read-only; empty where that is impossible."""
    binds = ["--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--ro-bind", "/srv", "/srv"]
    command = ("bwrap", *binds, "--size", str(1 << 16), "--tmpfs", "/mnt")
    able = shutil.which("bwrap") and subprocess.run([*command, "true"], capture_output=True).returncode == 0
    return command if able else ()


def run_inside(*arguments: object) -> tuple[int, str]:
    """Run a command there; return its status and the last line that it wrote to standard error."""
    if not sandbox():
        pytest.skip("needs bubblewrap with user namespaces: apt-get install bubblewrap")
    ended = subprocess.run([*sandbox(), *COMMAND, *map(str, arguments)], capture_output=True, text=True)
    return ended.returncode, ended.stderr.strip().splitlines()[-1] if ended.stderr.strip() else ""


def test_a_full_disk_ends_a_rollout_with_what_was_played_and_the_path(folder: str, tmp_path: Path) -> None:
    script = f'{" ".join(COMMAND)} "$@"; code=$?; cp /mnt/* {tmp_path}; exit $code'
    if not sandbox():
        pytest.skip("needs bubblewrap with user namespaces: apt-get install bubblewrap")
    options = ["rollout", folder, "--split", "all", "--episodes", "300", "--out", "/mnt/run.jsonl"]
    ended = subprocess.run([*sandbox(), "sh", "-c", script, "sh", *options], capture_output=True, text=True)
    assert ended.returncode == 4
    lines = [line for line in ended.stderr.splitlines() if line.startswith("error:")]
    remedy = "Make room, or give another path. Then run the same command again."
    assert lines == [f"error: /mnt/run.jsonl cannot be written: No space left on device. {remedy}"]
    assert "Traceback" not in ended.stderr
    content = (tmp_path / "run.jsonl").read_bytes()
    assert content.endswith(b"\n")  # no half of an episode
    assert 0 < len(list(read_episodes(tmp_path / "run.jsonl"))) < 300


@pytest.mark.parametrize(
    ("place", "reason"),
    [("/mnt", "No space left on device. Make room"), ("/srv", "Read-only file system. Give a path")],
)
def test_a_full_and_a_read_only_place_are_named(folder: str, tmp_path: Path, place: str, reason: str) -> None:
    command = ["synth", "masbench", "--depth", 2, "--count", 60, "--out", f"{place}/new/tasks.jsonl"]
    status, message = run_inside(*command)
    assert status == 4
    assert message.startswith(f"error: {place}/new/tasks.jsonl cannot be written: {reason}")


def test_a_file_where_a_folder_should_be_is_named_by_every_command(run: Run, folder: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    out, domain = tmp_path / "file" / "x.jsonl", tmp_path / "file" / "x"
    commands: list[tuple[tuple[object, ...], Path]] = [
        (("rollout", folder, "--out", out), out),
        (("synth", "masbench", "--depth", 2, "--out", out), out),
        (("experts", "ask", "qwen3-8b", "--count", 5, "--out", out), out),
        (("synth", "preferences", folder, "--out", domain), domain),
        (("synth", "tasks", folder, "--count", 5, "--out", out), out),
        (("synth", "adversarial", "--domains", "restaurant", "--count", 1, "--out", out), out),
        (("synth", domain, "--llm", "http://127.0.0.1:1/v1", "--model", "m", "--title", "Zoo"), domain),
    ]
    for command, path in commands:
        output = run(*command)
        told = f"error: {path} cannot be written: {tmp_path / 'file'} is a file, not a folder. Give another path.\n"
        assert (output.code, output.err) == (4, told), command
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder in which nothing can be made, as /proc")
def test_a_place_that_cannot_be_written_is_found_before_any_work_is_done(run: Run, folder: str) -> None:
    commands = [("rollout", folder, "--out"), ("experts", "fit", "answers.jsonl", "--name", "x", "--plot")]
    for command in commands:
        output = run(*command, "/proc/x.svg")
        told = "error: /proc/x.svg cannot be written: No such file or directory. Give another path.\n"
        assert (output.code, output.err) == (4, told), command


def test_looking_whether_a_place_can_be_written_leaves_nothing_there(tmp_path: Path) -> None:
    from toolorchestra.toolscale.common.writing import check_place

    for path in (tmp_path / "new" / "deep" / "x.json", tmp_path, Path("/dev/null"), Path("x.json")):
        check_place(path)
    assert not list(tmp_path.iterdir())


def test_a_folder_where_a_file_should_be_is_named(run: Run, folder: str, tmp_path: Path) -> None:
    for command in (("rollout", folder, "--out"), ("synth", "masbench", "--depth", 2, "--out")):
        output = run(*command, tmp_path)
        assert output.code == 4
        assert output.err.startswith(f"error: {tmp_path} cannot be written: Is a directory. Give the path of a file.")


def test_standard_output_that_is_full_is_one_line(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run([*COMMAND, "build", "--schema"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.stderr == "error: the output cannot be written: No space left on device.\n"
    assert ended.returncode == 4


# one writer


def test_a_recording_that_another_process_writes_is_refused_with_its_id(
    run: Run, folder: str, tmp_path: Path, blocking: Path
) -> None:
    out = tmp_path / "run.jsonl"
    options = ["rollout", folder, "--split", "all", "--episodes", "400", "--out", str(out), "--resume"]
    command = [sys.executable, str(blocking), *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        until(lambda: first.poll() is not None or (out.exists() and out.stat().st_size), "an episode is written")
        assert first.poll() is None, "all was played, though it waits to be ended"
        output = run(*options)
        assert (output.code, output.out) == (4, "")
        assert output.err.startswith(f"error: {out} is being written by process {first.pid}. Wait until it has ended")
        first.kill()
    assert run(*options[:5], "100", *options[6:]).code == 0
    seeds = [episode.seed for episode in read_episodes(out)]
    assert len(seeds) == len(set(seeds)) >= 100


def test_a_domain_that_is_being_made_is_refused(run: Run, edited: Callable[..., Path]) -> None:
    from toolorchestra.toolscale.common.claim import Claim

    domain = edited()
    with Claim.of_folder(domain):
        for command in (("build", domain), ("synth", domain)):
            output = run(*command)
            assert (output.code, output.out) == (4, "")
            assert f"{domain} is being written by process {os.getpid()}" in output.err
    assert run("build", domain).code == 0
    assert not (domain / ".lock").exists()


def test_an_interrupted_copy_of_a_domain_is_no_domain(
    run: Run, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`import` writes domain.yaml last, and so does the same command when it is run again."""
    tasks, copy = tmp_path / "tasks.jsonl", tmp_path / "copy"
    assert exchange(["export", folder, str(tasks)]) == 0

    def cut(file: Path, content: bytes | str) -> None:
        assert file.name == "domain.yaml", "written last"
        raise KeyboardInterrupt

    whole = "examples.exchange.write_whole"
    with monkeypatch.context() as patch:
        patch.setattr(whole, lambda file, content: None if file.name != "domain.yaml" else cut(file, content))
        assert exchange(["import", str(tasks), folder, "--out", str(copy)]) == 130
    assert run("envs", copy).code == 2
    assert exchange(["import", str(tasks), folder, "--out", str(copy)]) == 0
    assert len(read_tasks(copy / "tasks.jsonl")) == len(read_tasks(tasks))
