"""Task sources: files of tasks, played in the world that each task names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import msgspec
import numpy as np
import pytest
from answering import right

from toolorchestra.envs.task_source import DomainSource, FileSource, MixtureSource
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.tasks.task import Call, read_tasks, write_tasks


@pytest.fixture
def file(mini: Domain, tmp_path: Path) -> Path:
    """A file of five tasks of the mini domain."""
    file = tmp_path / "five_tasks.jsonl"
    write_tasks(file, mini.tasks()[:5])
    return file


def test_tasks_are_read_as_they_were_written(mini: Domain, file: Path):
    assert read_tasks(file) == mini.tasks()[:5]
    assert [path.name for path in file.parent.iterdir()] == [file.name]  # no draft is left behind


def test_a_file_is_played_like_any_source(
    mini: Domain, mini_folder: Path, file: Path, make_env: Callable[..., gym.Env[Any, Any]]
):
    env = make_env(domain=mini_folder, tasks=file)
    task = mini.tasks()[3]
    env.reset(options={"task_id": task.id})
    for call in task.reference_calls:
        env.step({"tool_calls": [{"function": {"name": call.name, "arguments": call.arguments}}]})
    assert env.step(right(env))[1] == 1
    with pytest.raises(UnknownNameError, match=f"Unknown task '{mini.tasks()[5].id}'. Did you mean "):
        env.reset(options={"task_id": mini.tasks()[5].id})


def test_a_file_in_the_folder_of_a_domain_belongs_to_it(edited: Callable[..., Path], mini: Domain):
    folder = edited()
    write_tasks(folder / "some.jsonl", mini.tasks()[:2])
    source = FileSource(folder / "some.jsonl")
    assert source.world(source.tasks("all")[0]) is load_domain(folder)


def test_tasks_of_shipped_domains_need_no_folder(tmp_path: Path):
    restaurant = load_domain("restaurant")
    write_tasks(tmp_path / "two.jsonl", restaurant.tasks("train")[:2])
    source = FileSource(tmp_path / "two.jsonl")
    assert (source.name, len(source.tasks("train")), source.tasks("test")) == ("Two", 2, [])
    with pytest.raises(UnknownNameError, match=r"Unknown split 'dev'\. Known: all, test, test_intents, train\."):
        source.tasks("dev")


def test_tasks_of_an_unknown_domain_ask_for_its_folder(file: Path):
    with pytest.raises(OptionError, match=r"Unknown domain 'mini'.*give its folder: domain=…"):
        FileSource(file)


def test_tasks_of_another_domain_are_refused(file: Path):
    with pytest.raises(OptionError, match="expected tasks of the domain restaurant, found one of mini"):
        FileSource(file, "restaurant")


@pytest.mark.parametrize("calls", ["reference_calls", "lookups"])
def test_tasks_that_call_what_the_domain_lacks_are_refused(mini: Domain, tmp_path: Path, calls: str):
    given = {"domain": "restaurant", "reference_calls": (), calls: (Call("spin", {}),)}
    task = msgspec.structs.replace(mini.tasks()[0], **given)
    write_tasks(tmp_path / "wrong.jsonl", [task])
    with pytest.raises(OptionError, match="calls 'spin', which restaurant does not have"):
        FileSource(tmp_path / "wrong.jsonl")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "holds no task"),
        (b"{}\n", r"tasks.jsonl:1: expected a task as JSON"),
        (b"\xff\xfe\n", r"tasks.jsonl:1: expected a task as JSON"),
        (None, "cannot be read"),
    ],
)
def test_an_invalid_file_of_tasks_is_refused_with_place_and_reason(
    tmp_path: Path, content: bytes | None, complaint: str
):
    if content is not None:
        (tmp_path / "tasks.jsonl").write_bytes(content)
    with pytest.raises(OptionError, match=complaint):
        read_tasks(tmp_path / "tasks.jsonl")


def test_an_id_that_stands_twice_is_a_mistake(mini: Domain, tmp_path: Path):
    write_tasks(tmp_path / "tasks.jsonl", [mini.tasks()[0]] * 2)
    with pytest.raises(OptionError, match=r"tasks.jsonl:2: the task mini/ask_price/000 stands in the file before"):
        read_tasks(tmp_path / "tasks.jsonl")


def test_a_mixture_draws_from_the_sources_that_have_what_is_asked_for(mini: Domain):
    restaurant = DomainSource("restaurant")
    mixture = MixtureSource([DomainSource(mini), restaurant])
    levels = frozenset({5})
    assert not any(task.difficulty == 5 for task in mini.tasks())
    drawn = [mixture.sample("train", levels, np.random.default_rng(seed)) for seed in range(20)]
    assert {(task.domain, task.difficulty) for task in drawn} == {("restaurant", 5)}
    both = [mixture.sample("train", None, np.random.default_rng(seed)).domain for seed in range(40)]
    assert set(both) == {"mini", "restaurant"}
    with pytest.raises(OptionError, match=r"All has no task of split 'train' with difficulty \[9\]"):
        mixture.sample("train", frozenset({9}), np.random.default_rng(0))
