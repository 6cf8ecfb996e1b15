"""An index of recordings: where each episode is in its file, and what the list shows of it.

The index is an SQLite file in the user's cache folder. A thread fills it while the page is shown already, and goes on
when a recording grows. A file that was changed otherwise is indexed anew; one that was not is not read again.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.cli.viewer.facts import COLUMNS, IN_PROGRESS, EpisodeFacts
from toolorchestra.cli.viewer.filters import ORDERS, condition
from toolorchestra.cli.viewer.places import RecordingFile
from toolorchestra.toolscale.common.claim import Claim
from toolorchestra.toolscale.common.errors import InUseError, OptionError, OutputError

_VERSION = 3  # of the tables below
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS recordings (
    id INTEGER PRIMARY KEY, path TEXT UNIQUE, head TEXT, inode INTEGER, read INTEGER DEFAULT 0, size INTEGER DEFAULT 0,
    lines INTEGER DEFAULT 0, episodes INTEGER DEFAULT 0, unreadable INTEGER DEFAULT 0, fault TEXT DEFAULT '');
CREATE TABLE IF NOT EXISTS episodes (
    id INTEGER PRIMARY KEY, recording INTEGER, number INTEGER, start INTEGER, length INTEGER, {", ".join(COLUMNS)});
CREATE TABLE IF NOT EXISTS reasons (name TEXT, episode INTEGER, PRIMARY KEY (name, episode)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tools (name TEXT, episode INTEGER, PRIMARY KEY (name, episode)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counts (
    facet TEXT, name, recording INTEGER, episodes INTEGER, PRIMARY KEY (facet, name, recording)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_number ON episodes (recording, number);
CREATE INDEX IF NOT EXISTS by_task ON episodes (task_id, recording);
"""
_PLACES = ", ".join("?" * (len(COLUMNS) + 5))
_INSERT = f"INSERT INTO episodes (id, recording, number, start, length, {', '.join(COLUMNS)}) VALUES ({_PLACES})"
_COUNT = """INSERT INTO counts VALUES (?, ?, ?, ?)
    ON CONFLICT (facet, name, recording) DO UPDATE SET episodes = episodes + excluded.episodes"""
_FACETS = ("outcome", "level", "intent", "env_id", "reasons", "tools")
_MAX_LINE = 1 << 28  # bytes of an episode
_HEAD = 4_096  # first bytes, by which a file is known again
_FIRST, _BATCH = 200, 4_000  # episodes after which what was found can be seen
_WATCH = 1.0  # seconds between looks whether a recording has grown
_UNUSED = 30 * 86_400  # seconds after which the index of other recordings is removed
_MAX_LISTED = 500


class EpisodeIndex:
    """The episodes of recordings, found, filtered and read one at a time.

    Args:
        recordings: The files, which may grow.
        file: Where the index is kept; by default in the user's cache folder, or while another process uses it there,
            and where nothing can be written, in a temporary file.
    """

    def __init__(self, recordings: Sequence[RecordingFile], file: Path | None = None) -> None:
        self.recordings = list(recordings)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._claim: Claim | None = None
        self.file = self._place(file)
        self._stop, self._found = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="index", daemon=True)
        self.up_to_date = threading.Event()
        self._open()

    def start(self) -> EpisodeIndex:
        """Begin to read the recordings, in a thread."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop reading, and let go of the file."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._claim is not None:
            self._claim.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> EpisodeIndex:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # -------------------------------------------------------------------------------------------------------- questions

    def state(self) -> dict[str, Any]:
        """Return the recordings, how far they have been read, and the numbers of episodes by each filter."""
        with self._reading() as database:
            columns = "path, id, read, episodes, unreadable, fault"
            known = {row[0]: row[1:] for row in database.execute(f"SELECT {columns} FROM recordings")}
        shown = []
        for one in self.recordings:
            number, read, episodes, unreadable, fault = known[str(one.path)]
            facts = {"id": number, "name": one.name, "policy": one.policy, "run": one.run and one.run.name}
            with suppress(OSError):
                facts["size"] = one.path.stat().st_size
            shown.append(
                {"size": 0, **facts, "read": read, "unreadable": unreadable, "fault": fault}
                | {"episodes": episodes, "env": str(one.made_by.get("env") or "")}
            )
        whole = sum(one["episodes"] for one in shown)
        return {"recordings": shown, "done": self.up_to_date.is_set(), "episodes": whole}

    def facets(self) -> dict[str, list[tuple[Any, int]]]:
        """Return the values that can be filtered by, with the number of episodes that have each."""
        query = "SELECT facet, name, sum(episodes) FROM counts GROUP BY 1, 2 ORDER BY 1, 3 DESC, 2"
        found: dict[str, list[tuple[Any, int]]] = {name: [] for name in _FACETS}
        with self._reading() as database:
            for facet, name, episodes in database.execute(query):
                if len(found[facet]) < _MAX_LISTED:
                    found[facet].append((name, episodes))
        found["level"].sort()
        return found

    def rows(
        self, filters: Mapping[str, str], *, order: str = "number", offset: int = 0, limit: int = 100
    ) -> tuple[int, list[dict[str, Any]]]:
        """Return how many episodes fit filters (`toolorchestra.cli.viewer.filters`), and some of them in an order.

        Raises:
            OptionError: A filter or the order is not one.
        """
        if order.lstrip("-") not in ORDERS:
            raise OptionError(f"Expected one of the orders {', '.join(ORDERS)}, got {order!r}.")
        where, values = condition(filters, self._policies() if filters.get("policy") else {})
        direction = "DESC" if order.startswith("-") else "ASC"
        column = ORDERS[order.lstrip("-")]
        by = f"recording {direction}, number {direction}" if column == "number" else f"{column} {direction}, id"
        columns = ("id", "recording", "number", *COLUMNS)
        query = f"SELECT {', '.join(columns)} FROM episodes WHERE {where} ORDER BY {by} LIMIT ? OFFSET ?"
        with self._reading() as database:
            counted = "SELECT sum(episodes) FROM recordings" if where == "1" else ""
            counted = counted or f"SELECT count(*) FROM episodes WHERE {where}"
            total = database.execute(counted, values).fetchone()[0]
            found = database.execute(query, [*values, limit, offset]).fetchall()
        return total, [dict(zip(columns, row, strict=True)) for row in found]

    def outcomes(self, filters: Mapping[str, str]) -> dict[str, int]:
        """Return how many of the episodes that fit filters ended in each way.

        Raises:
            OptionError: A filter is not one.
        """
        where, values = condition(filters, self._policies() if filters.get("policy") else {})
        query = f"SELECT outcome, count(*) FROM episodes WHERE {where} GROUP BY 1"
        if where == "1":
            query = "SELECT name, sum(episodes) FROM counts WHERE facet = 'outcome' GROUP BY 1"
        with self._reading() as database:
            return dict(database.execute(query, values))

    def facts(self, episode_id: int) -> dict[str, Any]:
        """Return the row of an episode. An `OptionError` says that there is none."""
        total, rows = self.rows({"id": str(episode_id)}, limit=1)
        if not total:
            raise OptionError(f"There is no episode {episode_id} in the index.")
        return rows[0]

    def line(self, episode_id: int) -> tuple[RecordingFile, bytes]:
        """Return the recording and the line of an episode.

        Raises:
            OptionError: There is no such episode, or the file was changed in the meantime.
        """
        query = (
            "SELECT path, start, length FROM episodes JOIN recordings AS r ON r.id = recording WHERE episodes.id = ?"
        )
        with self._reading() as database:
            found = database.execute(query, [episode_id]).fetchone()
        if found is None:
            raise OptionError(f"There is no episode {episode_id} in the index.")
        path, start, length = found
        recording = next(one for one in self.recordings if str(one.path) == path)
        try:
            with recording.path.open("rb") as stream:
                stream.seek(start)
                line = stream.read(length)
        except OSError as error:
            raise OptionError(f"{path} cannot be read: {error.strerror}.") from None
        return recording, line

    def by_task(self, recording: int) -> dict[str, dict[str, float]]:
        """Return the means of the judged episodes of each task of a recording."""
        query = """SELECT task_id, avg(outcome = 'solved'), avg(cost), avg(clock), avg(turns) FROM episodes
            WHERE recording = ? AND outcome IN ('solved', 'failed') GROUP BY task_id ORDER BY min(number)"""
        with self._reading() as database:
            found = database.execute(query, [recording]).fetchall()
        names = ("success", "cost", "clock", "turns")
        return {task: dict(zip(names, values, strict=True)) for task, *values in found}

    def _policies(self) -> dict[str, list[int]]:
        """Return the numbers of the recordings of each policy."""
        with self._reading() as database:
            numbers = dict(database.execute("SELECT path, id FROM recordings"))
        found: dict[str, list[int]] = {}
        for one in self.recordings:
            found.setdefault(one.policy, []).append(numbers[str(one.path)])
        return found

    # ---------------------------------------------------------------------------------------------------------- reading

    def _watch(self) -> None:
        """Read the recordings, and what is appended to them later."""
        while not self._stop.is_set():
            with closing(self._connect()) as database:
                for recording in self.recordings:
                    with suppress(OSError):  # one that is gone, or being replaced: the next look may find it
                        self._read(database, recording)
            if not self._stop.is_set():
                self.up_to_date.set()
            self._stop.wait(_WATCH)

    def _read(self, database: sqlite3.Connection, recording: RecordingFile) -> None:
        """Read what is not in the index of a recording."""
        status = recording.path.stat()
        with recording.path.open("rb") as stream:
            head = hashlib.blake2b(stream.read(_HEAD), digest_size=12).hexdigest()
            number, read, size, lines, known, inode = database.execute(
                "SELECT id, read, size, lines, head, inode FROM recordings WHERE path = ?", [str(recording.path)]
            ).fetchone()
            if status.st_size == size and inode == status.st_ino and read:
                return
            if read and (status.st_size < read or inode != status.st_ino or (known != head and read >= _HEAD)):
                self._forget(database, number)
                read = lines = 0
            self.up_to_date.clear()
            stream.seek(read)
            found = _Found(database, number)
            for start, line in _lines(stream, read):
                if self._stop.is_set():
                    break
                lines += 1
                if not found.add(lines, start, line) and not line.endswith(b"\n"):
                    lines -= 1  # a line in the writing: it is read again once it is whole
                    break
                read = start + len(line)
                if found.full:
                    found.write(read, lines)
            found.write(read, lines)
            whole = "UPDATE recordings SET head = ?, inode = ?, size = ? WHERE id = ?"
            seen = 0 if self._stop.is_set() else status.st_size
            database.execute(whole, [head, status.st_ino, seen, number])
            database.commit()

    @staticmethod
    def _forget(database: sqlite3.Connection, number: int) -> None:
        """Remove what is known of a recording."""
        for table in ("reasons", "tools"):
            own = "SELECT id FROM episodes WHERE recording = ?"
            database.execute(f"DELETE FROM {table} WHERE episode IN ({own})", [number])
        for table in ("episodes", "counts"):
            database.execute(f"DELETE FROM {table} WHERE recording = ?", [number])
        nothing = "read = 0, lines = 0, episodes = 0, unreadable = 0, fault = ''"
        database.execute(f"UPDATE recordings SET {nothing} WHERE id = ?", [number])

    # --------------------------------------------------------------------------------------------------------- the file

    def _place(self, file: Path | None) -> Path:
        """Return where the index is kept, claimed for this process."""
        known = "\n".join(str(one.path.resolve()) for one in self.recordings)
        name = hashlib.blake2b(known.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()
        file = file or cache_folder() / f"{name}.v{_VERSION}.sqlite"
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._claim = Claim(file)
            _remove_unused(file.parent, file)
            return file
        except (InUseError, OutputError, OSError):
            self._temporary = tempfile.TemporaryDirectory(prefix="toolorchestra-view-")
            return Path(self._temporary.name) / "index.sqlite"

    def _open(self) -> None:
        """Make the tables, unless they are there; a file that is no database is replaced."""
        try:
            self._prepare()
        except sqlite3.DatabaseError:
            for part in ("", "-wal", "-shm"):
                self.file.with_name(self.file.name + part).unlink(missing_ok=True)
            self._prepare()
        os.utime(self.file)

    def _prepare(self) -> None:
        with closing(self._connect()) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.executescript(_SCHEMA)
            paths = [[str(one.path)] for one in self.recordings]
            database.executemany("INSERT OR IGNORE INTO recordings (path) VALUES (?)", paths)
            database.commit()
        self.file.chmod(0o600)

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.file, timeout=30)
        database.execute("PRAGMA synchronous = OFF")  # what is lost can be read again
        return database

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with closing(self._connect()) as database:
            database.execute("PRAGMA query_only = ON")
            yield database


class _Found:
    """Episodes of a recording that were read and not yet written into the index."""

    def __init__(self, database: sqlite3.Connection, recording: int) -> None:
        self.database, self.recording = database, recording
        self.next: int = database.execute("SELECT coalesce(max(id), 0) + 1 FROM episodes").fetchone()[0]
        self.episodes: list[tuple[Any, ...]] = []
        self.reasons: list[tuple[str, int]] = []
        self.tools: list[tuple[str, int]] = []
        self.faults: list[str] = []
        self.counts: Counter[tuple[str, Any]] = Counter()
        self.limit, self.since = _FIRST, time.monotonic()
        self._decode = msgspec.json.Decoder(EpisodeFacts).decode

    def add(self, number: int, start: int, line: bytes) -> bool:
        """Take a line; return whether it is an episode, or empty."""
        if not line.strip():
            return True
        try:
            facts = self._decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if line.endswith(b"\n"):
                self.faults.append(f"line {number}: expected an episode: {error}")
            return False
        self.episodes.append((self.next, self.recording, number, start, len(line), *facts.row()))
        reasons, tools = facts.reasons, facts.tools
        self.reasons += [(reason, self.next) for reason in reasons]
        self.tools += [(tool, self.next) for tool in tools]
        self.counts.update([("reasons", one) for one in reasons] + [("tools", one) for one in tools])
        own = ("outcome", facts.outcome or IN_PROGRESS), ("level", facts.difficulty), ("env_id", facts.env_id)
        self.counts.update(own)
        if facts.intent:
            self.counts["intent", facts.intent] += 1
        self.next += 1
        return True

    @property
    def full(self) -> bool:
        """Whether it is time to write."""
        return len(self.episodes) + len(self.faults) >= self.limit or time.monotonic() - self.since > 0.5

    def write(self, read: int, lines: int) -> None:
        """Write them, and how far the recording was read."""
        database = self.database
        database.executemany(_INSERT, self.episodes)
        database.executemany("INSERT OR IGNORE INTO reasons VALUES (?, ?)", self.reasons)
        database.executemany("INSERT OR IGNORE INTO tools VALUES (?, ?)", self.tools)
        counts = [(*facet, self.recording, count) for facet, count in self.counts.items()]
        database.executemany(_COUNT, counts)
        database.execute(
            "UPDATE recordings SET read = ?, lines = ?, episodes = episodes + ?, unreadable = unreadable + ?, "
            "fault = CASE fault WHEN '' THEN ? ELSE fault END WHERE id = ?",
            [read, lines, len(self.episodes), len(self.faults), (self.faults or [""])[0][:300], self.recording],
        )
        database.commit()
        for rows in (self.episodes, self.reasons, self.tools, self.faults, self.counts):
            rows.clear()
        self.limit, self.since = _BATCH, time.monotonic()


def _lines(stream: Any, start: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file with their places; of one that is too long the beginning, as if it were a line."""
    while line := stream.readline(_MAX_LINE):
        yield start, line
        start += len(line)


def cache_folder() -> Path:
    """Return the folder of indexes: in ``XDG_CACHE_HOME``, or ``~/.cache``."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "toolorchestra" / "view"


def _remove_unused(folder: Path, kept: Path) -> None:
    """Remove the indexes that were not opened for a month."""
    for file in folder.glob("*.sqlite*"):
        with suppress(OSError):
            if not file.name.startswith(kept.name) and time.time() - file.stat().st_mtime > _UNUSED:
                file.unlink()
