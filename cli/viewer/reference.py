"""What the reference trajectory of a task does, beside what an episode did: rows of the database, calls, the answer.

A recording does not hold the database. The task is looked up where it came from, and the calls of the episode that
wrote are made again on a session of its domain; so this is there for shipped domains and questions, and for those of
which the file beside the recording says the folder.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.cli.viewer.places import RecordingFile
from toolorchestra.envs.answer_modes import AnswerSlots
from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.records.failures import criteria_messages
from toolorchestra.envs.task_source import EXERCISES, QUESTIONS, DomainSource, FileSource, TaskSource, question_source
from toolorchestra.toolscale.answers.typed_answers import judged_slots
from toolorchestra.toolscale.common.errors import ToolOrchestraError
from toolorchestra.toolscale.database.database import Changes, Database
from toolorchestra.toolscale.database.sql import primary_key
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import builtin_domains
from toolorchestra.toolscale.tasks.net_changes import canonical, net_changes
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tasks.verify import ReferenceEffects
from toolorchestra.toolscale.tools.tool import Status

_SOURCES = 4  # that are kept


def reference(recording: RecordingFile, line: bytes) -> dict[str, Any]:
    """Return the task's reference (`calls`, `answer`, `communicate`), and `tables` with the changed rows of each.

    `slots` has what is right in each slot of a typed answer, beside what the episode's answer has there.

    ``missing`` says why there is none; ``note`` that the calls made again have another effect than the recorded one.
    """
    episode = msgspec.json.decode(line, type=Episode)
    try:
        source, task = _task(recording, episode.task_id)
        world = source.world(task)
        found = {
            "calls": [msgspec.to_builtins(call) for call in task.whole_path],
            "answer": task.answer,
            "communicate": task.communicate,
            "slots": _slots(source, task, episode),
        }
        return found | (_changes(world, task, episode) if isinstance(world, Domain) else {"tables": None})
    except (ToolOrchestraError, OSError) as error:
        return {"missing": f"The task {episode.task_id} is not at hand: {error}"}


def _task(recording: RecordingFile, task_id: str) -> tuple[TaskSource, Task]:
    """Return a task and its source: what the recording was made with, else a shipped one that has it."""
    given = str(recording.made_by.get("env") or "")
    options = recording.made_by.get("env_options")
    named = options if isinstance(options, dict) else {}
    place = named.get("tasks") or named.get("domain") or given
    if isinstance(place, str) and place and Path(place).exists():
        source = _source(place)
        return source, source.task(task_id)
    source = _source(task_id.partition("/")[0], _axis(task_id))
    return source, source.task(task_id)


def _axis(task_id: str) -> str:
    """Return the name of the source of a MASBench problem: its ids are ``masbench-SEED/AXIS…``."""
    return task_id.partition("/")[2].partition("/")[0].rstrip("0123456789").title()


@functools.lru_cache(_SOURCES)
def _source(name: str, axis: str = "") -> TaskSource:
    """Return the source at a path, or that of the tasks whose ids begin with a name."""
    if Path(name).is_dir():
        return DomainSource(name)
    if Path(name).is_file():
        return FileSource(name)
    if name.startswith("masbench") and f"MASBench{axis}" in QUESTIONS:
        return question_source(f"MASBench{axis}")
    sources = QUESTIONS | EXERCISES
    worlds = {world: source for source, one in sources.items() for world in (one.world, *one.others)}
    questions = worlds | {"multihop": "MultiHopQA"}
    if name in questions and name not in builtin_domains():
        return question_source(questions[name])
    return DomainSource(name)


def _slots(source: TaskSource, task: Task, episode: Episode) -> list[dict[str, Any]]:
    """Return the slots of a typed answer: name, what was `given`, what is `right`, and whether it `holds`.

    None of an episode whose answer was prose. In an answer that is wrong as a whole no slot holds.
    """
    expected = _answer_slots(source).of(task)
    if expected is None or str(expected) not in episode.instruction:
        return []
    found = judged_slots(episode.answer or "", expected)
    if isinstance(found, str):
        given = _answer(episode.answer or "")
        pairs = ((slot.name, value) for slot, value in zip(expected.slots, expected.values, strict=True))
        return [
            {"name": name, "right": value, "holds": False} | ({"given": given[name]} if name in given else {})
            for name, value in pairs
        ]
    return [{"name": one.slot.name, "right": one.value, "holds": one.holds, "given": one.given} for one in found]


def _answer(text: str) -> dict[str, Any]:
    """Return what an answer that is wrong as a whole has in slots, if it is JSON at all."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    answer = found.get("answer") if isinstance(found, dict) else None
    return answer if isinstance(answer, dict) else {}


@functools.lru_cache(_SOURCES)
def _answer_slots(source: TaskSource) -> AnswerSlots:
    return AnswerSlots(source)


def _changes(domain: Domain, task: Task, episode: Episode) -> dict[str, Any]:
    """Return the changed rows of each table, in the reference and in the episode."""
    database = domain.database
    session = domain.session()
    try:
        for call in episode.calls:
            tool = domain.tools.get(call.name)
            if tool is not None and call.status is Status.OK and tool.effect == "write":
                session.call(tool, tool.decode(msgspec.json.encode(call.arguments)))
        touched = session.touched()
    finally:
        session.close()
    actual = net_changes(database, touched)
    effects = domain.verifier.effects(task)
    wanted = next((path for path in effects if _same(database, path.changes, actual)), effects[0])
    same = _same(database, wanted.changes, actual)
    recorded = "execution" not in criteria_messages(episode.why) if episode.outcome != "solved" else True
    judged = episode.outcome == "solved" or bool(criteria_messages(episode.why))
    note = ""
    if judged and same != recorded:
        note = "The recorded calls, made again, change other rows than the verdict says: the domain may be newer."
    return {"tables": _tables(database, wanted, touched, actual), "same": same, "note": note}


def _same(database: Database, one: Changes, other: Changes) -> bool:
    return one == other or canonical(database, one) == canonical(database, other)


def _tables(database: Database, wanted: ReferenceEffects, touched: Changes, actual: Changes) -> list[dict[str, Any]]:
    """Return the changed rows of each table that has some, in the order of the domain's tables."""
    found = []
    for name, spec in database.tables.items():
        ours, theirs = actual.get(name, {}), wanted.changes.get(name, {})
        if not ours and not theirs:
            continue
        columns = list(spec.columns)
        generated = [columns.index(key) for key in primary_key(spec)] if spec.generated_key else []
        rows = []
        for here, there in _pairs(database, name, ours, theirs, generated):
            key = there if there is not None else here
            before = database.row(name, key)
            cells = {
                "before": before,
                "reference": None if there is None else wanted.touched[name][there],
                "actual": None if here is None else touched[name][here],
            }
            # a row that one side left alone is as before there
            cells |= {side: before for side, own in (("reference", there), ("actual", here)) if own is None}
            rows.append(cells | {"key": key, "changed": [there is not None, here is not None]})
        found.append({"name": name, "columns": columns, "generated": generated, "rows": rows})
    return found


def _pairs(
    database: Database, table: str, ours: Mapping[Any, Any], theirs: Mapping[Any, Any], generated: list[int]
) -> list[tuple[Any, Any]]:
    """Return the keys of rows that belong together, None where a side has none.

    Rows that were there before have the same key; new ones with generated keys are matched by their other values.
    """
    fresh = {side: [key for key in rows if generated and database.row(table, key) is None]
             for side, rows in (("ours", ours), ("theirs", theirs))}  # fmt: skip
    old = [key for key in dict.fromkeys([*theirs, *ours]) if key not in fresh["ours"] and key not in fresh["theirs"]]
    pairs: list[tuple[Any, Any]] = [(key if key in ours else None, key if key in theirs else None) for key in old]

    def values(row: Any) -> Any:
        return row and tuple(value for place, value in enumerate(row) if place not in generated)

    left = list(fresh["ours"])
    unmatched = []
    for there in fresh["theirs"]:
        here = next((key for key in left if values(ours[key]) == values(theirs[there])), None)
        if here is None:
            unmatched.append(there)
        else:
            left.remove(here)
            pairs.append((here, there))
    shared = min(len(left), len(unmatched))
    pairs += zip(left[:shared], unmatched[:shared], strict=True)
    pairs += [(key, None) for key in left[shared:]]
    return pairs + [(None, key) for key in unmatched[shared:]]
