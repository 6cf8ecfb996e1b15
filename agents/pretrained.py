"""Models and tokenizers of Hugging Face's `transformers`, by folder or hub id (see `toolorchestra.agents.hub`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolorchestra.agents.hub import split_revision
from toolorchestra.toolscale.common.errors import OptionError


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
