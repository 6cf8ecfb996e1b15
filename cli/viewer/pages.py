"""The files of the page, and the answers to what it asks, which the server and an exported file share."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from toolorchestra.cli.compare import compare_means
from toolorchestra.cli.viewer import details as episode_details, reference, runs
from toolorchestra.cli.viewer.bundle import bundle
from toolorchestra.cli.viewer.index import EpisodeIndex
from toolorchestra.cli.viewer.places import Places
from toolorchestra.toolscale.common.errors import OptionError

CONTENT_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
SCRIPT = "main.js"
_MAX_ROWS = 500  # of one answer


def static_files() -> dict[str, bytes]:
    """Return the files of the page by name; its modules are one script."""
    folder = files(__package__ or "") / "static"
    found = {file.name: file.read_bytes() for file in folder.iterdir() if file.name.endswith(tuple(CONTENT_TYPES))}
    others = {name: content for name, content in found.items() if not name.endswith(".js")}
    return {**others, SCRIPT: bundle(found, SCRIPT).encode()}


class Answers:
    """What the page asks for, by the methods' names."""

    def __init__(self, places: Places, index: EpisodeIndex) -> None:
        self.places, self.index = places, index
        self._facets: tuple[tuple[int, bool], Any] | None = None

    def state(self) -> dict[str, Any]:
        """Return the recordings with how far they were read, the runs, and the values that can be filtered by."""
        state = self.index.state()
        seen = state["episodes"], state["done"]
        if self._facets is None or self._facets[0] != seen:
            self._facets = seen, self.index.facets()
        return state | {"facets": self._facets[1], "runs": list(self.places.runs)}

    def news(self) -> list[Any]:
        """Return what differs once a recording or a run has grown: how far each was read, and the runs' sizes."""
        state = self.index.state()
        read = [[one["read"], one["size"]] for one in state["recordings"]]
        return [state["episodes"], state["done"], read, [runs.size(folder) for folder in self.places.runs.values()]]

    def episodes(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return some rows of the list: `offset`, `limit` and `order` beside the filters."""
        filters = {name: value for name, value in query.items() if name not in ("offset", "limit", "order")}
        offset, limit = _whole(query.get("offset", "0")), _whole(query.get("limit", "100"))
        total, rows = self.index.rows(
            filters, order=query.get("order") or "number", offset=offset, limit=min(limit, _MAX_ROWS)
        )
        return {"total": total, "offset": offset, "rows": rows}

    def outcomes(self, filters: Mapping[str, str]) -> dict[str, int]:
        """Return how many episodes ended in each way, of those that fit filters."""
        return self.index.outcomes(filters)

    def episode(self, number: int) -> dict[str, Any]:
        """Return an episode of the index."""
        return {"facts": self.index.facts(number), **episode_details.details(*self.index.line(number))}

    def reference(self, number: int) -> dict[str, Any]:
        """Return the reference of an episode's task, and the changes of the database."""
        return reference.reference(*self.index.line(number))

    def metrics(self, since: Mapping[str, str]) -> dict[str, Any]:
        """Return the new records of each run, given how far each was read."""
        return {name: runs.metrics(folder, _whole(since.get(name, "0"))) for name, folder in self.places.runs.items()}

    def rollouts(self, run: str) -> list[dict[str, Any]]:
        """Return the rollouts that a run has kept."""
        if run not in self.places.runs:
            raise OptionError(f"There is no run {run[:80]!r}.")
        return runs.rollouts(self.places.runs[run])

    def comparison(self, first: int, second: int) -> dict[str, Any]:
        """Return how two recordings compare, with the ids of the first episodes of the tasks that differ."""
        found = compare_means(self.index.by_task(first), self.index.by_task(second))
        if found is None:
            return {"tasks": 0}
        pairs = {}
        for task in (*found["better"][:_MAX_ROWS], *found["worse"][:_MAX_ROWS]):
            pairs[task] = [self._first(task, recording) for recording in (first, second)]
        return found | {"pairs": pairs}

    def _first(self, task: str, recording: int) -> int:
        _, rows = self.index.rows({"task": task, "recording": str(recording)}, limit=1)
        return int(rows[0]["id"])


def _whole(text: str) -> int:
    """Return a number of 0 or more that the page sent."""
    if not text.isdecimal() or len(text) > 18:
        raise OptionError(f"Expected a whole number, got {text[:40]!r}.")
    return int(text)
