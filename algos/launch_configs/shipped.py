"""The shipped files, by name."""

from __future__ import annotations

from pathlib import Path

from toolorchestra.toolscale.common.errors import UnknownNameError

_FOLDER = Path(__file__).parent


def launch_config_names() -> list[str]:
    """Return the names of the shipped files.

    >>> launch_config_names()
    ['ddp.yaml', 'fsdp2.yaml', 'slurm.sh']
    """
    return sorted(file.name for file in _FOLDER.iterdir() if file.suffix in (".yaml", ".sh"))


def launch_config(name: str) -> Path:
    """Return a shipped file.

    Raises:
        UnknownNameError: There is none of this name.
    """
    if name not in launch_config_names():
        raise UnknownNameError("launch configuration", name, launch_config_names())
    return _FOLDER / name
