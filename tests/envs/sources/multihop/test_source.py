"""Questions need what they name, have one answer, and come in the sizes and kinds asked for."""

from __future__ import annotations

from collections import Counter, defaultdict

import msgspec
import pytest

from toolorchestra.envs.ground_truth.parts import parts_of
from toolorchestra.envs.sources.multihop.encyclopaedia import Encyclopaedia
from toolorchestra.envs.sources.multihop.source import MultiHopQASource, faults
from toolorchestra.envs.tools.search import LocalSearch
from toolorchestra.toolscale.errors import OptionError
from toolorchestra.toolscale.task import Task
from toolorchestra.toolscale.tool import NO_CONTEXT


def test_every_question_is_answered_by_its_support_and_has_one_answer(book: Encyclopaedia, tasks: list[Task]):
    assert [fault for task in tasks for fault in faults(task, book)] == []


def test_a_fault_is_found(book: Encyclopaedia, tasks: list[Task]):
    task = next(task for task in tasks if task.intent.startswith("bridge") and task.difficulty == 3)
    parts = [msgspec.to_builtins(part) for part in parts_of(task)]
    parts[1]["support"] = []
    broken = msgspec.structs.replace(task, bindings={**task.bindings, "parts": parts})
    assert any("its supporting passages give no answer" in fault for fault in faults(broken, book))
    wrong = msgspec.structs.replace(task, communicate=(("somebody else",),))
    assert any("accepts" in fault for fault in faults(wrong, book))


def test_kinds_and_hops_are_all_there(tasks: list[Task]):
    kinds: dict[str, Counter[int]] = defaultdict(Counter)
    for task in tasks:
        kinds[task.intent.split("-")[0]][task.difficulty] += 1
    assert set(kinds) == {"bridge", "comparison", "intersection", "count"}
    assert all(kinds["bridge"][hops] >= 15 for hops in range(1, 6)), kinds
    assert all(sum(found.values()) >= 15 for found in kinds.values()), kinds
    levels = Counter(task.difficulty for task in tasks if task.split == "train")
    assert set(levels.values()) == {100}
    for task in tasks:
        assert task.difficulty == min(5, len(parts_of(task)))


def test_splits_share_no_instance(tasks: list[Task]):
    kinds = {
        split: {task.intent for task in tasks if task.split == split} for split in ("train", "test", "test_intents")
    }
    assert not kinds["test_intents"] & (kinds["train"] | kinds["test"])
    programs = Counter(repr(task.bindings["program"]) for task in tasks)
    assert max(programs.values()) == 1
    assert len({task.instruction for task in tasks}) == len(tasks)


def test_the_golden_searches_find_the_support(source: MultiHopQASource, tasks: list[Task]):
    search = source.world(tasks[0]).tools["search"]
    assert isinstance(search, LocalSearch)
    wanted = missed = 0
    for task in tasks:
        found = set()
        for call in task.reference_calls:
            result = search.run(search.decode(msgspec.json.encode(call.arguments)), NO_CONTEXT)
            found |= {hit["id"] for query in result.value for hit in query["passages"]}
        support = {passage for part in parts_of(task) for passage in part.support}
        wanted += len(support)
        missed += len(support - found)
    assert missed < 0.01 * wanted


def test_sizes_must_make_sense():
    with pytest.raises(
        OptionError,
        match=r"Expected numbers of questions of at least 0, got \{.train.: -1, .test.: 300, .test_intents.: 150\}",
    ):
        MultiHopQASource(people=40, train=-1)
    small = MultiHopQASource(people=40, train=50, test=10, test_intents=5)
    assert [len(small.tasks(split)) for split in ("train", "test", "test_intents")] == [50, 10, 5]
