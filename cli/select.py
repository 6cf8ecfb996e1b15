"""The command `toolorchestra select`: which recorded episodes to learn from, and why not the others.

What is selected is decided in `toolorchestra.algos.selection`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from tyro.conf import Positional, arg, subcommand

from toolorchestra.cli.environments import environment
from toolorchestra.cli.options import Split
from toolorchestra.cli.output import print_json, with_folder
from toolorchestra.toolscale.errors import OptionError
from toolorchestra.toolscale.jsonl import read_jsonl, write_jsonl

if TYPE_CHECKING:
    from toolorchestra.algos.selection import EpisodeCandidate, QuestionRecord, Selection
    from toolorchestra.toolscale.task import Task

Episodes = Annotated[Positional[tuple[Path, ...]], arg(metavar="EPISODES")]


@dataclass(kw_only=True)
class SelectSFTCommand:
    """Select demonstrations for SFT: solved, at most one of each question, recoveries first, tools in balance."""

    episodes: Episodes
    """JSONL files of episodes, several of each question."""
    out: Annotated[Path, arg(metavar="FILE")]
    """JSONL file to write; `toolorchestra train sft --env ENV --episodes FILE` learns from it."""
    exclude: Annotated[tuple[Path, ...], arg(metavar="FILE")] = ()
    """JSONL files of tasks or episodes whose questions are left out: the RL set."""
    max_tool_share: float = 0.4
    """Largest share of one tool in all calls; 1 for no bound."""
    split: Split = "train"
    """Split of the questions; episodes of others are left out."""
    json: bool = False
    """Print the report as JSON."""

    def run(self) -> int:
        """Select, write and report."""
        from toolorchestra.algos.selection import select_sft
        from toolorchestra.cli.display import show

        _check_files(self.episodes, self.out)
        env_ids: set[str] = set()
        candidates, places = _read(self.episodes, env_ids.add)
        exclude = [asked for file in self.exclude for asked in _read_questions(file)]
        found = select_sft(candidates, exclude=exclude, split=self.split, max_tool_share=self.max_tool_share)
        if not found.kept:
            raise OptionError(f"No episode is left to learn from: {_in_words(found.dropped)}.")
        write_jsonl(self.out, _lines(self.episodes, {places[n] for n in found.kept}))
        if self.json:
            return print_json(
                {
                    "file": str(self.out),
                    "read": len(candidates),
                    "questions": found.questions,
                    "kept": len(found.kept),
                    "recovering": found.recovering,
                    "dropped": found.dropped,
                    "calls_before": found.before,
                    "calls_after": found.after,
                    "dominating": found.dominating,
                }
            )
        _print_counts("episodes", len(candidates), f"of {found.questions:,} questions", found)
        _print_shares(found)
        lines = [f"{found.recovering:,} of those kept recover from a failed call."]
        if found.dominating:
            lines.append(
                f"No choice was found in which no tool makes more than {self.max_tool_share:.0%} of the calls; "
                f"more has: {', '.join(found.dominating)}. Give episodes that use other tools, or a larger "
                "--max-tool-share."
            )
        command = f"toolorchestra train sft --env {min(env_ids)} --episodes {self.out}"
        show("\n".join([*lines, f"{self.out}   learn from it:  {command}"]))
        return 0


@dataclass(kw_only=True)
class SelectRLCommand:
    """Select tasks for RL: those that some samples solve and some do not."""

    episodes: Episodes
    """JSONL files of episodes, `samples` of each task."""
    out: Annotated[Path, arg(metavar="FILE")]
    """JSONL file of tasks to write, those of the other splits included: a Custom environment plays it."""
    env: Annotated[str | None, arg(metavar="ENV")] = None
    """Environment that has the tasks, where the episodes do not name it: id, folder of a domain, or file of tasks."""
    samples: int = 8
    """Judged episodes expected of a task; one with fewer is kept only if their outcomes differ already."""
    split: Split = "train"
    """Split of the tasks; episodes of others are left out."""
    json: bool = False
    """Print the report as JSON."""

    def run(self) -> int:
        """Select, write and report."""
        from toolorchestra.algos.selection import select_rl
        from toolorchestra.cli.display import show
        from toolorchestra.toolscale.task import write_tasks

        _check_files(self.episodes, self.out)
        env_ids: set[str] = set()
        candidates, _ = _read(self.episodes, env_ids.add)
        found = select_rl(candidates, split=self.split, samples=self.samples)
        if not found.kept:
            raise OptionError(f"No task is left to train on: {_in_words(found.dropped)}.")
        known = self._tasks(env_ids)
        ids = [candidates[n].question.task for n in found.kept]
        if missing := [task for task in ids if task not in known]:
            raise OptionError(f"{missing[0]} is no task of {self.env or ', '.join(sorted(env_ids))}: give its --env.")
        held_out = [task for task in known.values() if self.split not in ("all", task.split)]
        write_tasks(self.out, [*(known[task] for task in ids), *held_out])
        if self.json:
            return print_json(
                {
                    "file": str(self.out),
                    "read": len(candidates),
                    "kept": len(ids),
                    "dropped": found.dropped,
                    "held_out": len(held_out),
                }
            )
        protocols = sorted(env_id.partition("-")[0] for env_id in env_ids)
        _print_counts("questions", found.questions, f"in {len(candidates):,} episodes", found)
        show(
            f"With them, {len(held_out):,} tasks of the other splits, to evaluate on.\n"
            f"{self.out}   train on it:  toolorchestra train grpo --env {protocols[0]}-Custom-v0 "
            f"--env-options tasks {self.out}"
        )
        return 0

    def _tasks(self, env_ids: Iterable[str]) -> dict[str, Task]:
        """Return the tasks of the environments by id."""
        if self.env is None and (custom := [env_id for env_id in env_ids if "-Custom-" in env_id]):
            raise OptionError(f"The episodes are of {custom[0]}: give the folder or the file of its tasks with --env.")
        names = [self.env] if self.env is not None else sorted(env_ids)
        return {task.id: task for name in names for task in environment(name).source.tasks("all")}


SelectCommand = Annotated[SelectSFTCommand, subcommand("sft")] | Annotated[SelectRLCommand, subcommand("rl")]


# ------------------------------------------------------------------------------------------------ reading, writing

Place = tuple[int, int]
"""Number of a file and of a line in it."""


class _Line(msgspec.Struct):
    """The fields of a task or an episode that identify its question."""

    instruction: str
    id: str | None = None
    task_id: str | None = None


def _check_files(episodes: Sequence[Path], out: Path) -> None:
    if not episodes:
        raise OptionError("Expected at least one file of episodes, as `toolorchestra rollout` writes them.")
    if out.exists() and any(out.samefile(file) for file in episodes if file.exists()):
        raise OptionError(f"--out {out} is one of the files to select from: name another.")
    with_folder(out)


def _read(files: Sequence[Path], see: Callable[[str], object]) -> tuple[list[EpisodeCandidate], list[Place]]:
    """Return what is known of each episode, and its place; `see` is called with the environment id of each."""
    from toolorchestra.algos.selection import EpisodeCandidate
    from toolorchestra.envs.episode import Episode

    candidates: list[EpisodeCandidate] = []
    places: list[Place] = []
    for number, file in enumerate(files):
        for line, episode in read_jsonl(file, Episode, "an episode"):
            see(episode.env_id)
            candidates.append(EpisodeCandidate.of(episode))
            places.append((number, line))
    return candidates, places


def _read_questions(file: Path) -> Iterator[QuestionRecord]:
    """Yield the questions of a file of tasks or episodes."""
    from toolorchestra.algos.selection import QuestionRecord

    for number, line in read_jsonl(file, _Line, "a task or an episode"):
        if (task := line.task_id or line.id) is None:
            raise OptionError(f"{file}:{number}: expected a task or an episode, found neither `id` nor `task_id`.")
        yield QuestionRecord.of(task, line.instruction)


def _lines(files: Sequence[Path], kept: set[Place]) -> Iterator[msgspec.Raw]:
    """Yield the lines at these places, as they are."""
    for number, file in enumerate(files):
        with file.open("rb") as stream:
            for at, line in enumerate(stream, 1):
                if (number, at) in kept:
                    yield msgspec.Raw(line.rstrip())


# ---------------------------------------------------------------------------------------------------------- showing


def _in_words(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in dropped.items()) or "nothing was read"


def _print_counts(what: str, read: int, more: str, found: Selection) -> None:
    from toolorchestra.cli.display import numbers, plain_table, show

    table = plain_table(what, *numbers(""), "")
    table.add_row("read", f"{read:,}", more)
    for reason, count in sorted(found.dropped.items(), key=lambda item: -item[1]):
        table.add_row(reason, f"−{count:,}")
    table.add_row("kept", f"{len(found.kept):,}", style="bold")
    show(table)


def _print_shares(found: Selection) -> None:
    from toolorchestra.cli.display import key, numbers, plain_table, show

    table = plain_table(key("tool"), *numbers("solved", "kept"))
    before, after = sum(found.before.values()), sum(found.after.values())
    for name, calls in found.before.items():
        table.add_row(name, f"{calls / before:.1%}", f"{found.after.get(name, 0) / max(1, after):.1%}")
    show("", table, "")
