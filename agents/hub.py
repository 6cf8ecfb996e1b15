"""Names of models on the Hugging Face hub: ``organisation/name``, or ``organisation/name@revision``.

Not covered: data sets, each of which has a pinned revision (`toolorchestra.envs.sources.public`).
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Any

from toolorchestra.toolscale.common.errors import OptionError

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_SHOWN = 10  # folders that a message lists
ADAPTER_CONFIG = "adapter_config.json"
"""What says that a folder holds an adapter (PEFT's name)."""


def split_revision(source: str | Path) -> tuple[str, str | None]:
    """Return the folder or hub name of a model, and the revision (a commit, tag or branch) behind its ``@``, if any.

    A folder that exists is that folder, whatever its name.

    >>> split_revision("Qwen/Qwen3-8B@b968826d9c46dd6066d109eabc6255188de91218")
    ('Qwen/Qwen3-8B', 'b968826d9c46dd6066d109eabc6255188de91218')
    >>> split_revision("Qwen/Qwen3-8B")
    ('Qwen/Qwen3-8B', None)

    Raises:
        OptionError: Nothing is on one side of the ``@``.
    """
    text = str(source)
    if "@" not in text or Path(text).exists():
        return text, None
    name, _, revision = text.rpartition("@")
    if not name or not revision:
        raise OptionError(f"expected a folder, NAME or NAME@REVISION of a model on the hub, got {text!r}.")
    return name, revision


def check_model(source: str | Path) -> None:
    """Check that a folder holds a model or an adapter, or that a name could be one on the hub; loads nothing.

    Raises:
        OptionError: There is no such folder and no such id; the message has the folders that are there.
    """
    name, _ = split_revision(source)
    folder = Path(name)
    expected = f"Expected the folder of a model or its id on the Hugging Face hub (ORGANISATION/NAME), got {name!r}"
    if folder.is_dir():
        if not holds_model(folder):
            raise OptionError(f"{expected}, a folder without config.json.{_folders(folder)}")
    elif folder.exists() or not _HUB_ID.fullmatch(name):
        near = next((parent for parent in folder.parents if parent.is_dir()), Path())
        raise OptionError(f"{expected}, which is neither.{_folders(near, folder.name)}")


def holds_model(folder: Path) -> bool:
    """Return whether a folder holds a model, or an adapter over one."""
    return (folder / "config.json").is_file() or (folder / ADAPTER_CONFIG).is_file()


def _folders(place: Path, meant: str = "") -> str:
    """Return the end of a message: the folder with a model that may be meant, or else what folders there are."""
    try:
        inner = sorted(one.name for one in place.iterdir() if one.is_dir() and not one.name.startswith("."))
    except OSError:
        return ""
    models = [name for name in inner if holds_model(place / name)]
    near = difflib.get_close_matches(meant, models or inner, n=1)
    hint = f" Did you mean {str(place / near[0])!r}?" if near else ""
    listed = ", ".join((models or inner)[:_SHOWN]) + (", …" if len(models or inner) > _SHOWN else "")
    return f"{hint} {'Models' if models else 'Folders'} in {place}: {listed or 'none'}."


def load_pretrained(kind: str, source: str | Path, **options: Any) -> Any:
    """Return what a class of transformers, e.g. ``AutoTokenizer``, loads from a folder, ``NAME`` or ``NAME@REVISION``.

    Raises:
        OptionError: There is no such model, it cannot be had, or it is of no kind that transformers knows.
    """
    name, revision = split_revision(source)
    if kind != "AutoTokenizer" or not Path(name).is_dir():  # a tokenizer may lie alone
        check_model(source)
    import transformers

    try:
        return getattr(transformers, kind).from_pretrained(name, revision=revision or "main", **options)
    except (OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())[:300].rstrip(".")
        raise OptionError(f"The model {str(source)!r} cannot be loaded: {reason}.") from error
