"""Claims: one writer for a file or a folder, until it ends in whatever way."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from toolorchestra.toolscale.common import claim as module
from toolorchestra.toolscale.common.claim import Claim
from toolorchestra.toolscale.common.errors import InUseError, OutputError

HOLD = """
import sys
from pathlib import Path
from toolorchestra.toolscale.common.claim import Claim
claim = Claim.of_folder(Path(sys.argv[1])) if sys.argv[2] == "folder" else Claim(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def hold(path: Path, kind: str) -> subprocess.Popen[bytes]:
    """Start a process that has a claim."""
    command = [sys.executable, "-c", HOLD, str(path), kind]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_second_process_is_refused_with_the_firsts_id_until_that_is_killed(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "new" / "runs"
    take = Claim.of_folder if kind == "folder" else Claim
    with hold(path, kind) as process:
        with pytest.raises(InUseError) as refused:
            take(path)
        assert str(refused.value).startswith(f"{path} is being written by process {process.pid}. Wait until")
        process.send_signal(signal.SIGKILL)
        process.wait()
    with take(path):
        pass
    assert [file for file in (tmp_path / "new").rglob("*") if file.is_file()] == []  # nothing is left lying about


def test_other_files_of_the_folder_are_free_and_a_claim_given_up_can_be_taken(tmp_path: Path) -> None:
    with Claim(tmp_path / "a"), Claim(tmp_path / "b"):
        with pytest.raises(InUseError, match=str(os.getpid())):
            Claim(tmp_path / "a")
        os.symlink("a", tmp_path / "link")
        with pytest.raises(InUseError, match="link is being written"):
            Claim(tmp_path / "link")
    Claim(tmp_path / "a").close()


def test_a_folder_that_is_renamed_takes_its_claim_along(tmp_path: Path) -> None:
    with Claim.of_folder(tmp_path / "run") as claim:
        (tmp_path / "run").rename(tmp_path / "run.1")
        with Claim.of_folder(tmp_path / "run"):
            claim.moved_to(tmp_path / "run.1").close()
            assert not (tmp_path / "run.1" / ".lock").exists()
            with pytest.raises(InUseError):
                Claim.of_folder(tmp_path / "run")


def test_a_fork_does_not_keep_the_claim_of_a_process_that_ends(tmp_path: Path) -> None:
    claim = Claim(tmp_path / "a")
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.write(ready[1], b".")
        os.read(go[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    claim.close()
    Claim(tmp_path / "a").close()  # the child is still there
    os.write(go[1], b".")
    os.waitpid(child, 0)
    for descriptor in (*ready, *go):
        os.close(descriptor)


@pytest.mark.parametrize("kind", ["no fcntl", "no locks in the file system"])
def test_without_locks_of_the_system_the_files_existence_is_the_claim(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    if kind == "no fcntl":
        monkeypatch.setattr(module, "fcntl", None)
    else:
        monkeypatch.setattr("fcntl.flock", refuse)
    with Claim(tmp_path / "a"):
        lock = tmp_path / ".a.lock"
        assert lock.read_text() == f"{os.getpid()}\n"
        with pytest.raises(InUseError, match=rf"process {os.getpid()}\..* If that process is no more, remove {lock}\."):
            Claim(tmp_path / "a")
    assert not lock.exists()


def test_the_library_writes_where_there_is_no_fcntl(tmp_path: Path) -> None:
    program = """
import sys
sys.modules["fcntl"] = None
from pathlib import Path
from toolorchestra.toolscale.common.append_only import AppendOnly
lines = AppendOnly(Path(sys.argv[1]), int, "a number")
lines.add(3)
lines.close()
"""
    subprocess.run([sys.executable, "-c", program, tmp_path / "a.jsonl"], check=True)
    assert (tmp_path / "a.jsonl").read_bytes() == b"3\n"


def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / ".a.lock").symlink_to("precious")
    with pytest.raises(OutputError, match=f"{tmp_path / 'a'} cannot be written"):
        Claim(tmp_path / "a")
    assert (tmp_path / "precious").read_text() == "mine"
