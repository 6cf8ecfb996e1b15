"""The command `toolorchestra synth select`: training data from recorded episodes, and a report of what is left out.

What is selected is decided in `toolorchestra.algos.data.selection`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from tyro.conf import Positional, arg

from toolorchestra.cli.environments import task_source
from toolorchestra.cli.files import print_json, with_folder
from toolorchestra.cli.options import Split, subcommands
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.jsonl import read_jsonl, write_jsonl

if TYPE_CHECKING:
    from toolorchestra.algos.data.selection import EpisodeCandidate, QuestionRecord, Selection
    from toolorchestra.toolscale.tasks.task import Task

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
    only: Annotated[tuple[Path, ...], arg(metavar="FILE")] = ()
    """JSONL files of tasks or episodes; other questions are left out, such as those that `hard` leaves."""
    max_tool_share: float = 0.4
    """Largest share of one tool in all calls; 1 for no bound."""
    split: Split = "train"
    """Split of the questions; episodes of others are left out."""
    json: bool = False
    """Print the report as JSON."""

    def run(self) -> int:
        """Select, write and report."""
        from toolorchestra.algos.data.selection import select_sft

        read = _Recorded(self.episodes, self.out)
        exclude = [question for file in self.exclude for question in _read_questions(file)]
        only = [question for file in self.only for question in _read_questions(file)] if self.only else None
        found = select_sft(
            read.candidates, exclude=exclude, only=only, split=self.split, max_tool_share=self.max_tool_share
        )
        if not found.kept:
            raise OptionError(f"No episode is left to learn from: {_in_words(found.dropped)}.")
        write_jsonl(self.out, read.lines(found.kept))
        if self.json:
            facts = {"file": str(self.out), "read": len(read.candidates), "questions": found.questions}
            facts |= {"kept": len(found.kept), "recovering": found.recovering, "dropped": found.dropped}
            facts |= {"calls_before": found.before, "calls_after": found.after, "dominating": found.dominating}
            return print_json(facts)
        self._report(read, found)
        return 0

    def _report(self, read: _Recorded, found: Selection) -> None:
        """Print what was kept and dropped, and the share of each tool in the calls before and after."""
        from toolorchestra.cli.display.console import key, numbers, plain_table, show

        before, after = sum(found.before.values()), max(1, sum(found.after.values()))
        rows = (
            (name, f"{calls / before:.1%}", f"{found.after.get(name, 0) / after:.1%}")
            for name, calls in found.before.items()
        )
        shares = plain_table(key("tool"), *numbers("solved", "kept"), rows=rows)
        lines = [f"{found.recovering:,} of those kept recover from a failed call."]
        if found.dominating:
            lines.append(
                f"No choice was found in which no tool makes more than {self.max_tool_share:.0%} of the calls; "
                f"more has: {', '.join(found.dominating)}. Give episodes that use other tools, or a larger "
                "--max-tool-share."
            )
        command = f"toolorchestra train sft --env {min(read.env_ids)} --episodes {self.out}"
        _print_counts("episodes", len(read.candidates), f"of {found.questions:,} questions", found)
        show("", shares, "", *lines, f"{self.out}   learn from it:  {command}")


@dataclass(kw_only=True)
class _SelectTasks(ABC):
    """What the commands that select tasks share: they write the tasks of the questions kept, and how to train on them.

    Tasks of the other splits are written as well: a Custom environment plays the file.
    """

    out: Annotated[Path, arg(metavar="FILE")]
    """JSONL file of tasks to write, those of the other splits included: a Custom environment plays it."""
    env: Annotated[str | None, arg(metavar="ENV")] = None
    """Environment that has the tasks, where the episodes do not name it: id, folder of a domain, or file of tasks."""
    split: Split = "train"
    """Split of the tasks; episodes of others are left out."""
    json: bool = False
    """Print the report as JSON."""

    @abstractmethod
    def _find(self) -> tuple[_Recorded, Selection, Iterable[str]]:
        """Return the episodes read, what is selected of them, and the environments that it is to train in."""

    def run(self) -> int:
        """Select, write and report."""
        from toolorchestra.algos.options.options import OWN_LEARNERS
        from toolorchestra.cli.display.console import show
        from toolorchestra.envs.registration import is_multiagent
        from toolorchestra.toolscale.tasks.task import write_tasks

        read, found, env_ids = self._find()
        if not found.kept:
            raise OptionError(f"No task is left to train on: {_in_words(found.dropped)}.")
        known = self._tasks(env_ids)
        ids = [read.candidates[n].question.task for n in found.kept]
        if missing := [task for task in ids if task not in known]:
            names = self.env or ", ".join(sorted(env_ids))
            raise OptionError(f"{missing[0]} is no task of {names}: give its --env.")
        held_out = [task for task in known.values() if self.split not in ("all", task.split)]
        write_tasks(self.out, [*(known[task] for task in ids), *held_out])
        if self.json:
            facts = {"file": str(self.out), "read": len(read.candidates), "kept": len(ids)}
            return print_json(facts | {"dropped": found.dropped, "held_out": len(held_out)})
        env_id = min(env_ids)
        protocol = env_id.partition("-")[0]
        learner = OWN_LEARNERS.get(protocol, "multi-grpo") if is_multiagent(env_id) else "grpo"
        _print_counts("questions", found.questions, f"in {len(read.candidates):,} episodes", found)
        show(
            f"With them, {len(held_out):,} tasks of the other splits, to evaluate on.\n"
            f"{self.out}   train on it:  toolorchestra train {learner} --env {protocol}-Custom-v0 "
            f"--env-options tasks {self.out}"
        )
        return 0

    def _tasks(self, env_ids: Iterable[str]) -> dict[str, Task]:
        """Return the tasks of the environments by id."""
        if self.env is None and (custom := [env_id for env_id in env_ids if "-Custom-" in env_id]):
            raise OptionError(f"The episodes are of {custom[0]}: give the folder or the file of its tasks with --env.")
        names = [self.env] if self.env is not None else sorted(env_ids)
        return {task.id: task for name in names for task in task_source(name).tasks("all")}


@dataclass(kw_only=True)
class SelectRLCommand(_SelectTasks):
    """Select tasks for RL: those that some samples solve and some do not."""

    episodes: Episodes
    """JSONL files of episodes, `samples` of each task."""
    samples: int = 8
    """Judged episodes expected of a task; one with fewer is kept only if their outcomes differ already."""

    def _find(self) -> tuple[_Recorded, Selection, Iterable[str]]:
        from toolorchestra.algos.data.selection import select_rl

        read = _Recorded(self.episodes, self.out)
        return read, select_rl(read.candidates, split=self.split, samples=self.samples), read.env_ids


@dataclass(kw_only=True)
class SelectHardCommand(_SelectTasks):
    """Select tasks for RL that a base model does not solve and a team does (TMATR-HRL, Table 3)."""

    episodes: Episodes
    """JSONL files of episodes of a base model, one of each task (of several the first counts)."""
    solved_by: Annotated[tuple[Path, ...], arg(metavar="FILE")] = ()
    """JSONL files of episodes of a stronger team; tasks that it solved in none are left out."""
    limit: int | None = None
    """How many tasks are drawn; default: all."""
    seed: int = 0
    """Seed of the draw."""

    def _find(self) -> tuple[_Recorded, Selection, Iterable[str]]:
        from toolorchestra.algos.data.selection import select_hard

        read = _Recorded(self.episodes, self.out)
        team = _Recorded(self.solved_by, self.out) if self.solved_by else None
        found = select_hard(
            read.candidates,
            solved_by=team.candidates if team else None,
            split=self.split,
            limit=self.limit,
            seed=self.seed,
        )
        return read, found, (team or read).env_ids


SelectCommand = subcommands({"sft": SelectSFTCommand, "rl": SelectRLCommand, "hard": SelectHardCommand})


class _Recorded:
    """Files of episodes to select from: a summary of each episode, and the environments that they are of."""

    def __init__(self, files: Sequence[Path], out: Path) -> None:
        from toolorchestra.algos.data.selection import EpisodeCandidate
        from toolorchestra.envs.records.episode import Episode

        if not files:
            raise OptionError("Expected at least one file of episodes, as `toolorchestra rollout` writes them.")
        if out.exists() and any(out.samefile(file) for file in files if file.exists()):
            raise OptionError(f"--out {out} is one of the files to select from: name another.")
        with_folder(out)
        self.candidates: list[EpisodeCandidate] = []
        self.env_ids: set[str] = set()
        self._places: list[tuple[Path, int]] = []
        for file in files:
            for line, episode in read_jsonl(file, Episode, "an episode"):
                self.env_ids.add(episode.env_id)
                self.candidates.append(EpisodeCandidate.of(episode))
                self._places.append((file, line))

    def lines(self, kept: Iterable[int]) -> Iterator[msgspec.Raw]:
        """Yield the lines of these candidates, as they are."""
        places = {self._places[number] for number in kept}
        for file in dict.fromkeys(file for file, _ in self._places):
            with file.open("rb") as stream:
                for number, line in enumerate(stream, 1):
                    if (file, number) in places:
                        yield msgspec.Raw(line.rstrip())


class _Line(msgspec.Struct):
    """The fields of a task or an episode that identify its question."""

    instruction: str
    id: str | None = None
    task_id: str | None = None


def _read_questions(file: Path) -> Iterator[QuestionRecord]:
    """Yield the questions of a file of tasks or episodes."""
    from toolorchestra.algos.data.selection import QuestionRecord

    for number, line in read_jsonl(file, _Line, "a task or an episode"):
        if (task := line.task_id or line.id) is None:
            raise OptionError(f"{file}:{number}: expected a task or an episode, found neither `id` nor `task_id`.")
        yield QuestionRecord.of(task, line.instruction)


def _in_words(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in dropped.items()) or "nothing was read"


def _print_counts(what: str, read: int, more: str, found: Selection) -> None:
    from toolorchestra.cli.display.console import numbers, plain_table, show

    dropped = sorted(found.dropped.items(), key=lambda item: -item[1])
    rows = [("read", f"{read:,}", more), *((reason, f"−{count:,}") for reason, count in dropped)]
    table = plain_table(what, *numbers(""), "", rows=rows)
    table.add_row("kept", f"{len(found.kept):,}", style="bold")
    show(table)
