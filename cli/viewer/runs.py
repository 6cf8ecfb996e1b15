"""Metrics and recorded rollouts of training runs, read as they grow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.algos.rollout.kept_rollouts import FILE as ROLLOUTS, KeptRollout
from toolorchestra.cli.viewer.places import METRICS
from toolorchestra.cli.viewer.token_texts import token_texts

_MAX_READ = 1 << 24  # bytes that one answer takes from a file
_MAX_ROWS = 400


def metrics(folder: Path, since: int = 0) -> dict[str, Any]:
    """Return the records of a run that begin at a place in its file, and the place (`read`) after the last whole line.

    `restarted` says that the file is shorter than `since`: another run took its place, and all records are returned.
    """
    file = folder / METRICS
    try:
        size = file.stat().st_size
        restarted = since > size
        with file.open("rb") as stream:
            stream.seek(0 if restarted else since)
            content = stream.read(_MAX_READ)
    except OSError:
        return {"records": [], "read": 0, "restarted": since > 0}
    whole = content[: content.rfind(b"\n") + 1]
    records = []
    for line in whole.splitlines():
        record = _decoded(line)
        if isinstance(record, dict) and {"phase", "step", "kind"} <= record.keys():
            records.append(record)
    return {"records": records, "read": (0 if restarted else since) + len(whole), "restarted": restarted}


def size(folder: Path) -> int:
    """Return the bytes of a run's metrics."""
    try:
        return (folder / METRICS).stat().st_size
    except OSError:
        return 0


def rollouts(folder: Path) -> list[dict[str, Any]]:
    """Return the rollouts that a run has kept of its training, the latest steps of a long one."""
    file = folder / ROLLOUTS
    try:
        with file.open("rb") as stream:
            size = file.stat().st_size
            stream.seek(max(0, size - _MAX_READ))
            lines = stream.read(_MAX_READ).splitlines()
    except OSError:
        return []
    if size > _MAX_READ:
        del lines[0]
    found = [msgspec.to_builtins(record) for record in map(_rollout, lines) if record is not None][-_MAX_ROWS:]
    for record in found:
        record["texts"] = token_texts(folder, record["agent"], record["completion_ids"])
    return found


def _rollout(line: bytes) -> KeptRollout | None:
    try:
        return msgspec.json.decode(line, type=KeptRollout)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _decoded(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
