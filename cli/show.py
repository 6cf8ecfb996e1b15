"""The command `toolorchestra show`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import to_builtins
from tyro.conf import Positional, arg

from toolorchestra.cli.files import print_json, read_recorded
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.common.visible import visible
from toolorchestra.toolscale.common.writing import write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolorchestra.envs.records.episode import Episode


_LIST_WIDTH = 160
"""Columns of a list when the output is no terminal."""


@dataclass
class ShowCommand:
    """Show a recorded episode in the terminal."""

    file: Annotated[Positional[Path], arg(metavar="FILE")]
    """JSONL file of episodes, as `rollout` writes it."""
    number: Annotated[Positional[int], arg(metavar="N")] = 1
    """Which episode: 1 is the first, -1 the last."""
    task: Annotated[str | None, arg(metavar="TASK")] = None
    """Only episodes of this task."""
    outcome: Literal["solved", "failed", "infra_error", "judge_error"] | None = None
    """Only episodes that ended so."""
    list: bool = False
    """List the episodes, with the reasons why they were not solved."""
    raw: bool = False
    """Show all that was said as it was written, prompt included."""
    tree: bool = False
    """Show the decision tree of an episode of TMATR instead."""
    mermaid: Annotated[Path | None, arg(metavar="FILE")] = None
    """Also write that tree as a Mermaid flowchart."""
    html: Annotated[Path | None, arg(metavar="FILE")] = None
    """Also write the episode as a page without scripts, as notebooks show it."""
    json: bool = False
    """Print the episode as JSON, or with --tree its tree, or with --list the list."""

    def run(self) -> int:
        """Print the episode, its tree, or the list."""
        from toolorchestra.cli.display.console import colored, stdout_console
        from toolorchestra.cli.display.episodes import episode_facts, episode_table, print_episode
        from toolorchestra.envs.records.episode_html import episode_page
        from toolorchestra.envs.records.render import raw_text

        recorded, console = read_recorded(self.file), stdout_console()
        chosen = self._chosen(recorded)
        if self.list:
            if self.json:
                return print_json([episode_facts(*one) for one in chosen])
            if not console.is_terminal:
                console.width = _LIST_WIDTH
            console.print(episode_table(chosen))
            return 0
        if self.number == 0 or abs(self.number) > len(chosen):
            raise OptionError(f"{self.file} has {len(chosen)} {self._described}; got number {self.number}.")
        position = self.number - 1 if self.number > 0 else len(chosen) + self.number
        number, episode = chosen[position]
        if self.html:
            write_whole(self.html, episode_page(to_builtins(episode)))
        if self.tree or self.mermaid:
            return self._show_tree(episode, color=colored(console))
        if self.json:
            return print_json(episode)
        if self.raw:
            print(raw_text(episode), end="")
            return 0
        print_episode(console, episode)
        among = "" if len(chosen) == len(recorded) else f" ({position + 1} of {len(chosen)} {self._described})"
        console.print(f"Episode {number} of {len(recorded)}{among} in {self.file}; --list lists them.", style="dim")
        return 0

    @property
    def _described(self) -> str:
        """What is chosen among, in words."""
        of_task = f" of {self.task}" if self.task else ""
        return f"{self.outcome} episodes{of_task}" if self.outcome else f"episodes{of_task}"

    def _chosen(self, recorded: Sequence[Episode]) -> Sequence[tuple[int, Episode]]:
        """Return the episodes asked for, each with its number in the file, counted from 1."""
        if self.task is not None and self.task not in (ids := {episode.task_id for episode in recorded}):
            raise UnknownNameError(f"task in {self.file}", self.task, ids)
        return [
            (number, episode)
            for number, episode in enumerate(recorded, 1)
            if self.task in (None, episode.task_id) and self.outcome in (None, episode.outcome)
        ]

    def _show_tree(self, episode: Episode, *, color: bool) -> int:
        """Print the decision tree of an episode, and write it as a flowchart."""
        from toolorchestra.envs.tmatr.figure import mermaid, tree_text
        from toolorchestra.envs.tmatr.tree import decision_tree

        if not episode.env_id.startswith("TMATR"):
            raise OptionError(f"Expected an episode of TMATR, which has a decision tree; found {episode.env_id}.")
        tree = decision_tree(episode)
        if self.mermaid:
            write_whole(self.mermaid, mermaid(tree))
        print(visible(tree.to_json().decode()) if self.json else tree_text(tree, color=color))
        return 0
