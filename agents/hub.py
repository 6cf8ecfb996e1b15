"""Names of models on the Hugging Face hub: ``organisation/name``, or ``organisation/name@revision``.

Not covered: data sets, each of which has a pinned revision (`toolorchestra.envs.sources.public`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolorchestra.toolscale.common.errors import OptionError


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


def load_pretrained(kind: str, source: str | Path, **options: Any) -> Any:
    """Return what a class of transformers, e.g. ``AutoTokenizer``, loads from a folder, ``NAME`` or ``NAME@REVISION``.

    Raises:
        OptionError: There is no such model, it cannot be had, or it is of no kind that transformers knows.
    """
    expected = (
        f"Expected the folder of a model or its id on the Hugging Face hub (ORGANISATION/NAME), got {str(source)!r}"
    )
    name, revision = split_revision(source)
    if not Path(name).is_dir() and len(Path(name).parts) != 2:  # a path, or a name that is no id: do not ask the hub
        raise OptionError(f"{expected}, which is neither.")
    import transformers

    try:
        return getattr(transformers, kind).from_pretrained(name, revision=revision or "main", **options)
    except (OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())[:300].rstrip(".")
        raise OptionError(f"{expected}, which cannot be loaded: {reason}.") from error
