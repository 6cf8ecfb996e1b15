"""Tools and task sources can be pickled and copied, and the copies work as the originals do."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.envs.task_source import QUESTIONS, make_source
from toolorchestra.envs.tools.calculator import Calculator
from toolorchestra.envs.tools.experts import ExpertTool
from toolorchestra.envs.tools.python import PythonTool
from toolorchestra.envs.tools.search.search import BM25Index, LocalSearch, Passage
from toolorchestra.envs.tools.search.search_web import RecordedProvider, WebSearch
from toolorchestra.envs.tools.simulated_python import SimulatedPython
from toolorchestra.envs.tools.toolkit import Toolkit
from toolorchestra.toolscale.tools.tool import NO_CONTEXT, Tool

COPIES = [
    pytest.param(lambda one: pickle.loads(pickle.dumps(one)), id="pickle"),
    pytest.param(copy.deepcopy, id="deep"),
]
PASSAGES = [Passage("1", "Tern", "A bird of the coast."), Passage("2", "Elm", "A tree.")]
Copy = Callable[[Any], Any]


@pytest.mark.parametrize("copied", COPIES)
def test_a_copied_index_finds_the_same(copied: Copy, tmp_path: Path) -> None:
    in_memory, in_file = BM25Index(PASSAGES), BM25Index(PASSAGES, tmp_path / "index.db")
    for index in (in_memory, in_file):
        other = copied(index)
        assert other.search(["a tree", "coast"], 5) == index.search(["a tree", "coast"], 5) != [[], []]
        assert other.passage("2") == PASSAGES[1]
        other.close()
        assert len(index) == 2, "closing the copy leaves the original open"


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (Calculator(), {"expression": "1/3 + 1/6"}),
        (SimulatedPython(noise=3), {"code": "print(6 * 7)"}),
        (LocalSearch(BM25Index(PASSAGES)), {"query_list": ["coast"], "k": None}),
    ],
    ids=["calculator", "python", "search"],
)
def test_a_copied_tool_gives_the_same_results(copied: Copy, tool: Tool, arguments: dict[str, Any]) -> None:
    other = copied(tool)
    assert other is not tool
    assert other.schema == tool.schema
    assert other.run(arguments, NO_CONTEXT) == tool.run(arguments, NO_CONTEXT)


@pytest.mark.parametrize("copied", COPIES)
def test_python_keeps_its_choice_of_sandbox_and_shares_it(copied: Copy) -> None:
    other = copied(PythonTool("process", name="run", price=0.5))
    assert (other._sandbox, other.name, other.price) == ("process", "run", 0.5)


@pytest.mark.parametrize("copied", COPIES)
def test_experts_of_a_toolkit_can_be_copied(copied: Copy) -> None:
    source, toolkit = make_source("Math"), Toolkit()
    world = source.world(source.tasks("test")[0])
    experts = [
        tool
        for tool in toolkit.tools(world, "full", toolkit.configure("random", 1, "a")).values()
        if isinstance(tool, ExpertTool)
    ]
    assert experts
    for expert in experts:
        other = copied(expert)
        assert (other.schema, other.spec, other.role) == (expert.schema, expert.spec, expert.role)
        assert other._made(other.spec).name == expert._made(expert.spec).name
    offered = copied(toolkit).tools(world, "full", toolkit.configure("random", 1, "a"))
    assert [*offered] == [*toolkit.tools(world, "full", toolkit.configure("random", 1, "a"))]


@pytest.mark.parametrize("copied", COPIES)
def test_a_recording_is_opened_again(copied: Copy, tmp_path: Path) -> None:
    file = tmp_path / "recorded.jsonl"
    file.touch()
    other = copied(WebSearch(RecordedProvider(file, name="tavily-basic")))
    assert other.provider.name == "tavily-basic"


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_pickled_source_gives_the_same_tasks(name: str) -> None:
    source = make_source(name)
    other = pickle.loads(pickle.dumps(source))
    assert copy.deepcopy(source) is source
    for split in ("train", "test"):
        assert other.tasks(split) == source.tasks(split)
    task = source.tasks("test")[0]
    assert other.world(task).rules == source.world(task).rules
    assert [*other.world(task).tools] == [*source.world(task).tools]
