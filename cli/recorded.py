"""Recorded episodes as the commands read them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from toolorchestra.toolscale.errors import OptionError

if TYPE_CHECKING:
    from toolorchestra.envs.episode import Episode


def read_recorded(file: Path) -> list[Episode]:
    """Return the episodes of a file, of one agent or of several.

    Raises:
        OptionError: The file cannot be read, or holds something else or nothing.
    """
    from toolorchestra.envs.episode import read_episodes

    try:
        episodes: list[Episode] = list(read_episodes(file))
    except OSError as error:
        raise OptionError(f"{file} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise OptionError(str(error)) from None
    if not episodes:
        raise OptionError(f"{file} holds no episode.")
    return episodes
