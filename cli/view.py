"""The command `toolorchestra view`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from toolorchestra.cli.options import UsageError, require_at_least


@dataclass
class ViewCommand:
    """Look at recordings and training runs in a browser."""

    paths: Annotated[Positional[tuple[Path, ...]], arg(metavar="PATH…")]
    """JSONL files of episodes, as `rollout` writes them; folders of such files, and of training runs."""
    export: Annotated[Path | None, arg(metavar="FILE.html")] = None
    """Write the page as one file that needs no server, instead of serving it."""
    episodes: int = 500
    """With --export: maximum number of episodes in the file, from all recordings alike."""
    port: int = 0
    """Port to serve at; by default any that is free. Only this machine can reach it."""
    no_browser: bool = False
    """Print the address without opening it."""

    def __post_init__(self) -> None:
        require_at_least(self, episodes=1, port=0)
        if not self.paths:
            raise UsageError("Expected at least one PATH: a JSONL file of episodes, or a folder.")
        if self.port > 65_535:
            raise UsageError(f"--port must be at most 65535, got {self.port}.")

    def run(self) -> int:
        """Serve the page until it is interrupted, or write it."""
        from toolorchestra.cli.viewer.index import EpisodeIndex
        from toolorchestra.cli.viewer.pages import Answers
        from toolorchestra.cli.viewer.places import Places

        places = Places.find(self.paths)
        if self.export is not None:
            from toolorchestra.cli.viewer.export import write_page

            with EpisodeIndex(places.recordings) as index:
                count = write_page(self.export, Answers(places, index), episodes=self.episodes)
                left = index.state()["episodes"] - count
            more = f"; {left:,} more are not in it (--episodes)" if left else ""
            print(f"{self.export}: {count:,} episodes{more}.")
            return 0
        from toolorchestra.cli.viewer.server import serve

        with EpisodeIndex(places.recordings) as index:
            serve(Answers(places, index), port=self.port, browser=not self.no_browser, say=_say)
        return 0


def _say(address: str) -> None:
    print(address)
    print("Ctrl-C stops the server.", file=sys.stderr)
    sys.stdout.flush()
