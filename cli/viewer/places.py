"""Which recordings of episodes and which training runs there are at the paths that a user gives."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import msgspec
import yaml

from toolorchestra.algos.rollout.kept_rollouts import FILE as ROLLOUTS
from toolorchestra.cli.viewer.facts import EpisodeFacts
from toolorchestra.toolscale.common.errors import OptionError

METRICS = "metrics.jsonl"
"""The file that makes a folder one of a training run."""
_MAX_DEPTH, _MAX_FILES = 5, 2_000  # of a folder that is looked through
_MAX_LINE = 1 << 26


@dataclass(frozen=True)
class RecordingFile:
    """A file of episodes.

    Attributes:
        path: The file.
        name: What it is called in the page: its path, as short as it is unique.
        policy: Who played, as far as the files beside it say so; else "".
        made_by: How it was made (``run.json`` beside ``run.jsonl``, or ``config.yaml`` of a run).
        run: Folder of the training run that it belongs to, if any.
    """

    path: Path
    name: str = ""
    policy: str = ""
    made_by: dict[str, Any] = field(default_factory=dict)
    run: Path | None = None


@dataclass(frozen=True)
class Places:
    """The recordings and the runs that are shown, in the order found; `runs` are folders by the names shown."""

    recordings: tuple[RecordingFile, ...]
    runs: dict[str, Path]

    @classmethod
    def find(cls, paths: Sequence[Path]) -> Self:
        """Look through files and folders.

        Raises:
            OptionError: A path cannot be read, or there is neither a recording nor a run at it.
        """
        files: dict[Path, Path | None] = {}
        runs: dict[Path, None] = {}
        for path in paths:
            found = list(_recordings(path))
            below = [path] if (path / METRICS).is_file() else [file.parent for file in _walk(path, METRICS)]
            if not found and not below:
                raise OptionError(
                    f"{path} has neither episodes nor metrics. Expected a JSONL file of episodes, as `rollout` writes "
                    f"it, or a folder with such files or with a training run ({METRICS})."
                )
            runs |= dict.fromkeys(below)
            files |= {file: next((run for run in below if run in file.parents), None) for file in found}
        names = dict(zip(files, _short_names(list(files)), strict=True))
        recordings = tuple(_described(file, names[file], run) for file, run in files.items())
        return cls(recordings, dict(zip(_short_names(list(runs)), runs, strict=True)))


def _recordings(path: Path) -> Iterator[Path]:
    """Yield the files of episodes at a path."""
    if path.is_dir():
        other = (METRICS, ROLLOUTS)
        yield from (file for file in _walk(path, "*.jsonl") if file.name not in other and _has_episodes(file))
        return
    try:
        with path.open("rb") as stream:
            stream.read(1)
    except OSError as error:
        raise OptionError(f"{path} cannot be read: {error.strerror}.") from None
    if path.name != METRICS:
        yield path


def _walk(folder: Path, pattern: str) -> Iterator[Path]:
    """Yield the files of a pattern in a folder and those below it that are not too deep, in order."""

    def within(one: Path, depth: int) -> Iterator[Path]:
        try:
            yield from sorted(file for file in one.glob(pattern) if file.is_file())
            below = sorted(part for part in one.iterdir() if part.is_dir() and not part.is_symlink())
        except OSError:
            return
        for part in below:
            if depth < _MAX_DEPTH and not part.name.startswith((".", "checkpoint")):
                yield from within(part, depth + 1)

    if folder.is_dir():
        yield from itertools.islice(within(folder, 0), _MAX_FILES)


def _has_episodes(file: Path) -> bool:
    """Return whether the first line of a file is an episode."""
    try:
        with file.open("rb") as stream:
            msgspec.json.decode(stream.readline(_MAX_LINE), type=EpisodeFacts)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _short_names(paths: Sequence[Path]) -> list[str]:
    """Return a name for each path: as many of its last parts as tell them apart."""
    whole = [path.resolve().parts for path in paths]
    for count in range(1, max(map(len, whole), default=0) + 1):
        names = ["/".join(parts[-count:]) for parts in whole]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def _described(file: Path, name: str, run: Path | None) -> RecordingFile:
    """Return a recording with what the files beside it say of how it was made."""
    made_by = _mapping(file.with_suffix(".json")) or (_mapping(run / "config.yaml") if run else {})
    if run is None:
        policy = str(made_by.get("policy") or "")
        if policy == "llm":
            policy = str(made_by.get("model") or policy)
        return RecordingFile(file, name, policy, made_by)
    learner, stage = str(made_by.get("learner") or run.name), file.stem.removeprefix("episodes").strip("-")
    stages = {"": "final", "start": "start"}
    return RecordingFile(file, name, f"{learner} {stages.get(stage, f'step {stage}')}", made_by, run)


def _mapping(file: Path) -> dict[str, Any]:
    """Return the object that a small file of JSON or YAML holds; nothing if there is none."""
    try:
        if not file.is_file() or file.stat().st_size > _MAX_LINE:
            return {}
        text = file.read_bytes()
        found = msgspec.json.decode(text) if file.suffix == ".json" else yaml.safe_load(text)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError, yaml.YAMLError):
        return {}
    return found if isinstance(found, dict) else {}
