"""Names of models on the Hugging Face hub: ``organisation/name``, or ``organisation/name@revision``.

Not covered: loading them (`toolorchestra.agents.builtin.model`, `toolorchestra.agents.chat.transformers_chat`), and
data sets, each of which has a pinned revision (`toolorchestra.envs.sources.public`).
"""

from __future__ import annotations

from pathlib import Path

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
