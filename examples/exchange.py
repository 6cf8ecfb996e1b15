"""Tasks and recordings in other formats, as commands in the root of a clone.

    python -m examples.exchange export noisy.jsonl openai.jsonl
    python -m examples.exchange import theirs.json my-domain --out mine.jsonl

The formats themselves are in `toolorchestra.toolscale.export.exchange` and
`toolorchestra.algos.data.recording_formats`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from tyro.conf import Positional, arg

from toolorchestra.algos.data import recording_formats as formats
from toolorchestra.algos.data.inspect_log import write_inspect_log
from toolorchestra.cli.environments import environment
from toolorchestra.cli.main import run_command
from toolorchestra.cli.options import NamedValues, Split, UsageError, option_values, subcommands
from toolorchestra.envs.base import OrchestrationEnv
from toolorchestra.envs.records.episode import Episode, read_episodes
from toolorchestra.envs.task_source import source_argument
from toolorchestra.toolscale.common.claim import Claim
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.writing import write_whole
from toolorchestra.toolscale.domain_folder import load_domain, save_tasks
from toolorchestra.toolscale.export.exchange import export_tasks, import_tasks
from toolorchestra.toolscale.tasks.task import read_tasks, write_tasks

Format = Literal["tau2", "jsonl", "parquet", "datasets"]
AnyFormat = Literal["tau2", "jsonl", "parquet", "datasets", "openai", "sharegpt", "sft", "dpo", "grpo", "inspect"]


@dataclass
class ExportCommand:
    """Write a domain's tasks, or a recording (JSONL of episodes), in the formats of other libraries."""

    domain: Annotated[Positional[str], arg(metavar="DOMAIN|EPISODES")]
    """Name of a domain, or its folder; or a JSONL file of episodes, as `rollout` writes it."""
    out: Annotated[Positional[Path], arg(metavar="OUT")]
    """File to write, or folder for --format datasets."""
    format: AnyFormat | None = None
    """By default from OUT. Tasks: .json is tau2, .jsonl and .parquet are those formats, no ending is a folder of
    datasets. Episodes: .jsonl is openai, .parquet is parquet, .eval is inspect (a log of inspect_ai); else `sharegpt`,
    or TRL's `sft`, `dpo` or `grpo`."""
    split: Split = "all"
    """Only tasks of this split, or episodes of its tasks."""
    tasks: Annotated[Path | None, arg(metavar="FILE")] = None
    """Write the tasks of this JSONL file instead (as `synth tasks` makes them), those of this domain."""
    failed: bool = False
    """Episodes in openai, sharegpt or sft: also those that were not solved."""
    agent: str | None = None
    """Episodes of several agents: only the conversations of this one."""
    env: Annotated[str | None, arg(metavar="ENV")] = None
    """Environment in which the episodes were played; by default what the file beside the recording says, or the
    episodes themselves."""
    env_options: NamedValues = field(default_factory=dict)
    """Arguments of that environment, with which the episodes were played, e.g. `tools full`."""

    def run(self) -> int:
        """Write them, and print how many."""
        if self.domain.endswith(".jsonl"):
            return self._export_episodes(Path(self.domain))
        if self.format is not None and self.format not in get_args(Format):
            raise UsageError(
                f"--format {self.format} is for a recording, a JSONL file of episodes; found {self.domain}. For a "
                f"domain's tasks: {', '.join(get_args(Format))}."
            )
        if self.failed or self.agent or self.env or self.env_options:
            raise UsageError(
                "--failed, --agent, --env and --env-options are for a recording (a JSONL file of episodes)."
            )
        domain = load_domain(self.domain)
        tasks = domain.tasks()
        if self.tasks is not None:
            tasks = [task for task in read_tasks(self.tasks) if task.domain == domain.name]
        tasks = [task for task in tasks if self.split in ("all", task.split)]
        export_tasks(domain, tasks, self.out, self.format)  # type: ignore[arg-type]  # checked above
        print(f"{len(tasks):,} tasks of {domain.name} written to {self.out}.")
        return 0

    def _export_episodes(self, file: Path) -> int:
        if self.tasks is not None:
            raise UsageError(f"--tasks is for the tasks of a domain; {file} is a recording.")
        if file.resolve() == self.out.resolve():
            raise UsageError(f"{file} is the recording itself: give another file to write.")
        kind = formats.format_of(self.out, self.format)
        episodes = self._episodes(file)
        if kind == "parquet":
            count = formats.write_episode_table(self.out, episodes)
        elif kind == "grpo":
            count = formats.write_rows(self.out, formats.grpo_rows(episodes))
        else:
            played = _PlayedIn(file, self.env, option_values(self.env_options))
            if kind == "inspect":  # an evaluation shows what failed as well
                found = formats.conversations(episodes, played, agent=self.agent, unjudged=True)
                recorded = datetime.fromtimestamp(file.stat().st_mtime, UTC)
                count = write_inspect_log(self.out, found, model=played.policy, created=recorded)
            else:
                solved_only = not self.failed and kind != "dpo"
                found = formats.conversations(episodes, played, agent=self.agent, solved_only=solved_only)
                count = formats.write_rows(self.out, getattr(formats, f"{kind}_rows")(found))
        print(f"{count:,} rows written to {self.out} ({kind}).")
        return 0

    def _episodes(self, file: Path) -> Iterator[Episode]:
        if not file.is_file():
            raise OptionError(f"There is no recording {file}: `toolorchestra rollout` makes one.")
        return (one for one in read_episodes(file) if self.split in ("all", one.split))


class _MadeBy(msgspec.Struct):
    """What the file beside a recording says of its environment, and of who played."""

    policy: str | None = None
    model: str | None = None
    env: str | None = None
    env_options: dict[str, str] = {}
    source: str | None = None
    source_options: dict[str, str] = {}


class _PlayedIn:
    """The environments in which a recording was played, by id: as given, else as the file beside the recording says.

    Attributes:
        policy: Who played, as that file says.
    """

    def __init__(self, recording: Path, env: str | None, options: dict[str, Any]) -> None:
        self._env, self._options = env, options
        self._made: dict[str, OrchestrationEnv] = {}
        self.policy = "unknown"
        note = recording.with_suffix(".json")
        if not note.is_file():
            return
        given = env is not None or options
        try:
            made_by = msgspec.json.decode(note.read_bytes(), type=_MadeBy)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if given:
                return
            raise OptionError(f"{note}: expected what `rollout` wrote of the recording: {error}. Give --env.") from None
        self.policy = made_by.model or made_by.policy or self.policy
        if given:
            return
        self._env, self._options = made_by.env, option_values(made_by.env_options)
        if made_by.env and made_by.source:
            named = option_values(made_by.source_options)
            self._options |= source_argument(made_by.env, made_by.source, named)

    def __call__(self, env_id: str) -> OrchestrationEnv:
        if env_id not in self._made:
            self._made[env_id] = environment(self._env or env_id, **self._options)
        return self._made[env_id]


@dataclass
class ImportCommand:
    """Read tasks made elsewhere, check them against a domain, and write them to be played."""

    file: Annotated[Positional[Path], arg(metavar="FILE")]
    """Tasks in any of the formats of `export`; all files of a folder of datasets are read."""
    domain: Annotated[Positional[str], arg(metavar="DOMAIN")]
    """Name of the domain in which they take place, or its folder."""
    out: Annotated[Path, arg(metavar="OUT")]
    """Where to write: a .jsonl file (played as it is), or the folder of a new domain with these tasks."""
    format: Format | None = None
    """By default from FILE."""

    def run(self) -> int:
        """Read, check and write them, and print how many."""
        if self.out.suffix != ".jsonl" and (self.out / "domain.yaml").exists():
            raise OptionError(f"{self.out} holds a domain already; give another folder.")
        domain = load_domain(self.domain)
        tasks = import_tasks(self.file, domain, self.format)
        if self.out.suffix == ".jsonl":
            write_tasks(self.out, tasks)
        else:
            assert domain.file is not None  # a domain that was loaded has one
            files = sorted(domain.file.parent.glob("*.yaml"), key=lambda file: file.name == "domain.yaml")
            with Claim.of_folder(self.out):
                save_tasks(self.out, domain, tasks, {})
                for file in files:  # domain.yaml last: without it the folder is no domain yet
                    write_whole(self.out / file.name, file.read_bytes())
        splits = Counter(task.split for task in tasks)
        shares = ", ".join(f"{split} {count:,}" for split, count in splits.items())
        print(f"{len(tasks):,} tasks ({shares}) fit {domain.name}; written to {self.out}.")
        print(f"Play them:  toolorchestra play {self.out}")
        return 0


Command = subcommands({"export": ExportCommand, "import": ImportCommand})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    return run_command(Command, given, "python -m examples.exchange", "Write and read other formats.")


if __name__ == "__main__":
    sys.exit(main())
