"""Writing: whole or not at all, and errors that name the path that was asked for."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from toolorchestra.toolscale.common.claim import Claim
from toolorchestra.toolscale.common.errors import OutputError
from toolorchestra.toolscale.common.jsonl import write_jsonl
from toolorchestra.toolscale.common.writing import make_folder, whole_file, whole_folder, write_whole
from toolorchestra.toolscale.tasks.task import Task


@contextmanager
def small_files(bytes_: int) -> Iterator[None]:
    """Let no file grow above a size, as if the disk were full then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def files(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*"))


def test_a_file_is_there_whole_or_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "new" / "a.txt"
    write_whole(file, "χ²")
    file.chmod(0o640)
    with pytest.raises(ZeroDivisionError), whole_file(file) as stream:
        stream.write(b"half%d" % (1 / 0))
    assert file.read_bytes() == "χ²".encode()
    write_whole(file, b"new")
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"new", 0o640)
    assert files(tmp_path) == ["new", "new/a.txt"]


def test_a_file_that_no_longer_fits_names_the_path_and_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    write_whole(file, b"before")
    with small_files(1000), pytest.raises(OutputError, match=rf"^{file} cannot be written: File too large\. Raise"):
        write_whole(file, bytes(2000))
    assert file.read_bytes() == b"before"
    assert files(tmp_path) == ["a.bin"]


def test_a_full_disk_names_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"/a cannot be written: No space left on device\. Make room, or give"):
        write_whole(tmp_path / "a", b"1")
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    "write",
    [lambda path: write_whole(path, b"1"), make_folder, lambda path: write_jsonl(path, [])],
    ids=["a file", "a folder", "lines"],
)
def test_a_file_where_a_folder_should_be_is_named(tmp_path: Path, write: Callable[[Path], object]) -> None:
    (tmp_path / "a").touch()
    path = tmp_path / "a" / "b" / "c.jsonl"
    with pytest.raises(OutputError) as error:
        write(path)
    assert str(error.value) == f"{path} cannot be written: {tmp_path / 'a'} is a file, not a folder. Give another path."


def test_a_folder_where_a_file_should_be_and_a_place_for_no_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=rf"{tmp_path} cannot be written: Is a directory\. Give the path of a file\."):
        write_whole(tmp_path, b"1")
    with pytest.raises(OutputError, match=r"^/proc/x\.jsonl cannot be written: "):
        write_whole(Path("/proc/x.jsonl"), b"1")


def test_a_folder_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    user = os.geteuid()
    if not user:
        os.seteuid(65534)  # root may write everywhere
    try:
        for write in (lambda path: write_whole(path, b"1"), Claim, make_folder):
            with pytest.raises(OutputError, match=r"/a cannot be written: Permission denied\. Give a path that"):
                write(tmp_path / "a")
    finally:
        os.seteuid(user)


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", b"1")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"1"
    write_jsonl(Path("/dev/null"), [])
    assert Path("/dev/null").is_char_device()


def test_lines_that_are_still_being_made_are_in_no_file(tmp_path: Path, mini: object) -> None:
    file = tmp_path / "tasks.jsonl"
    (tmp_path / ".tasks.jsonl.4194304.part").touch()  # of a process that was killed

    def tasks() -> Iterator[Task]:
        assert not file.exists()
        yield mini.tasks()[0]  # type: ignore[attr-defined]
        assert not file.exists()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_jsonl(file, tasks())
    assert files(tmp_path) == []


def test_a_folder_is_there_whole_or_as_it_was(tmp_path: Path) -> None:
    final = tmp_path / "final"
    for content in ("1", "2"):
        with whole_folder(final) as draft:
            (draft / "inner").mkdir()
            (draft / "inner" / content).touch()
            assert not (final / "inner" / content).exists()
    assert files(tmp_path) == ["final", "final/inner", "final/inner/2"]
    with pytest.raises(ZeroDivisionError), whole_folder(final) as draft:
        (draft / "half").write_bytes(b"half%d" % (1 / 0))
    assert files(tmp_path) == ["final", "final/inner", "final/inner/2"]


def test_errors_of_safetensors_and_torch_name_the_folder_too(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    model = {"w": torch.zeros(100_000)}
    for save in (safetensors.save_file, torch.save):
        with (
            small_files(50_000),
            pytest.raises(OutputError, match=rf"^{tmp_path / 'final'} cannot be written"),
            whole_folder(tmp_path / "final") as draft,
        ):
            save(model, draft / "w")
        assert files(tmp_path) == []
