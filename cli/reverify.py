"""The command `toolorchestra reverify`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import msgspec
from tyro.conf import Positional, arg

from toolorchestra.cli.files import print_json
from toolorchestra.cli.options import NamedValues, UsageError
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.writing import whole_file, write_whole

if TYPE_CHECKING:
    from toolorchestra.cli.viewer.places import RecordingFile
    from toolorchestra.envs.checks.reverification import Reverified

_PLACES = ("domain", "tasks", "source")  # options that say where tasks are
_BAR_AFTER = 2.0  # seconds


@dataclass
class ReverifyCommand:
    """Judge recorded episodes anew and say which verdicts flip, and why.

    The messages of each episode are taken again in the environment that its record names. Only the calls of a domain's
    own tools are run, on its database; all other replies, of experts and judges too, are those of the record. The exit
    status is 0 if all were judged and nothing flipped or differed, else 1.
    """

    paths: Annotated[Positional[tuple[Path, ...]], arg(metavar="RECORDING…")]
    """JSONL files of episodes, as `rollout` writes them; folders of such files, and of training runs."""
    env: Annotated[str | None, arg(metavar="ENV")] = None
    """Replay all in this environment: an id; or the folder of a domain or a JSONL file of tasks, with the rules of the
    record. By default in the one that each was recorded in."""
    env_options: NamedValues = field(default_factory=dict)
    """Arguments of the environment, beside those with which it was recorded."""
    out: Annotated[Path | None, arg(metavar="NEW.jsonl")] = None
    """Write the episodes with today's outcomes, rewards and verdicts; it must not exist."""
    json: bool = False
    """Print JSON: the counts, and every episode that flipped, differs or was not judged."""

    def __post_init__(self) -> None:
        if not self.paths:
            raise UsageError("Expected at least one RECORDING: a JSONL file of episodes, or a folder.")

    def run(self) -> int:
        """Judge all episodes, print what changed, and write them."""
        from toolorchestra.cli.display.console import show
        from toolorchestra.cli.display.reverified import reverified_text
        from toolorchestra.cli.viewer.places import Places
        from toolorchestra.envs.environment_names import resolve

        for file in () if self.out is None else (self.out, self.out.with_suffix(".json")):
            if file.exists():
                raise OptionError(f"{file} is there already: give another --out.")
        if self.env is not None:
            resolve(self.env)
        recordings = Places.find(self.paths).recordings
        if not recordings:
            raise OptionError("Expected recordings of episodes; these folders have none.")
        found = self._judged(recordings)
        if self.json:
            print_json(found)
        else:
            show(reverified_text(found))
        return int(any(found[name] for name in ("flipped", "drifted", "unjudged")))

    def _judged(self, recordings: tuple[RecordingFile, ...]) -> dict[str, Any]:
        """Return what is printed, and write what is written."""
        outcomes: Counter[tuple[str, str]] = Counter()
        found: dict[str, Any] = {"episodes": 0, "outcomes": [], "flipped": [], "drifted": [], "unjudged": []}
        with ExitStack() as stack:
            stream = stack.enter_context(whole_file(self.out)) if self.out else None
            for recording in recordings:
                for number, one in self._of(recording, stream):
                    found["episodes"] += 1
                    place = {"recording": recording.name, "episode": number}
                    if isinstance(one, str):
                        outcomes["unreadable", "not judged"] += 1
                        found["unjudged"].append({**place, "reason": one})
                        continue
                    now = "not judged" if one.unjudged else str(one.episode.outcome)
                    outcomes[str(one.recorded.outcome or "in progress"), now] += 1
                    if kind := _kind(one):
                        found[kind].append({**place, **_facts(one)})
            if not found["episodes"]:
                raise OptionError(f"Expected episodes; there is no episode in {', '.join(map(str, self.paths))}.")
        if self.out is not None and len(recordings) == 1:
            made_by = {**recordings[0].made_by, **self._environment(recordings[0])}
            write_whole(self.out.with_suffix(".json"), msgspec.json.format(msgspec.json.encode(made_by), indent=1))
        rows = sorted(outcomes.items(), key=lambda row: (-row[1], row[0]))
        found["outcomes"] = [{"recorded": old, "now": new, "episodes": count} for (old, new), count in rows]
        return found

    def _of(self, recording: RecordingFile, stream: IO[bytes] | None) -> Iterator[tuple[int, Reverified | str]]:
        """Yield what becomes of each episode of a recording, with its number, and write it; a text: it is none."""
        from toolorchestra.cli.display.console import progress_bars
        from toolorchestra.envs.checks.reverification import reverify
        from toolorchestra.envs.records.episode import read_lines

        lines = list(read_lines(recording.path))
        env, named = self._environment(recording).values()
        options = self._options(recording, env, named)
        judged = reverify((one for one in lines if not isinstance(one, str)), env=env, options=options)
        began, progress = time.monotonic(), progress_bars()
        bar = progress.add_task("reverify", note=recording.name, total=len(lines))
        try:
            for number, line in enumerate(lines, 1):
                one = line if isinstance(line, str) else next(judged)
                if stream is not None and not isinstance(one, str):
                    stream.write(one.episode.to_json() + b"\n")
                yield number, one
                progress.update(bar, advance=1)
                if not progress.live.is_started and time.monotonic() - began > _BAR_AFTER:
                    progress.start()
        finally:
            progress.stop()
            judged.close()

    def _environment(self, recording: RecordingFile) -> dict[str, Any]:
        """Return the environment in which a recording is replayed, and its options, as a recording's note has them."""
        env, named = (recording.made_by.get(name) for name in ("env", "env_options"))
        if not isinstance(named, dict):  # as in a file that is no note of ours
            env, named = None, {}
        kept = {name: value for name, value in named.items() if self.env is None or name not in _PLACES}
        return {"env": self.env or env, "env_options": {**kept, **self.env_options}}

    def _options(self, recording: RecordingFile, env: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options as values, with the source of tasks that the recording names apart."""
        from toolorchestra.envs.starts import json_or_text
        from toolorchestra.envs.task_source import source_argument

        found = {name: json_or_text(value) for name, value in options.items()}
        source = recording.made_by.get("source")
        if self.env is None and env is not None and source:
            found |= source_argument(env, source, recording.made_by.get("source_options") or {})
        return found


def _kind(one: Reverified) -> str:
    """Return in which list an episode is shown; empty: in none."""
    if one.unjudged:
        return "unjudged"
    return "flipped" if one.flipped else "drifted" if one.drift else ""


def _facts(one: Reverified) -> dict[str, Any]:
    old, new = one.recorded, one.episode
    facts = {
        "task": old.task_id,
        "outcome": {"recorded": old.outcome, "now": new.outcome},
        "reward": {"recorded": old.reward, "now": new.reward},
        "reason": one.reason or one.drift,
        "why": {"recorded": old.why, "now": new.why},
    }
    return facts | ({"drift": one.drift} if one.drift else {})
