"""BFCL's multi-turn tasks do what its own classes do, and are judged as by its own checks."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import msgspec
import pytest

import toolorchestra  # noqa: F401 - registers the environments
from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.registry import make_policy
from toolorchestra.envs import reverify
from toolorchestra.envs.sources.bfcl import DOWNLOAD, BfclSource, load_bfcl
from toolorchestra.envs.sources.bfcl_world import BfclSession, BfclWorld
from toolorchestra.envs.task_source import make_source
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tasks.task import Call
from toolorchestra.toolscale.tools.tool import ArgumentError, Status

WHEEL = os.environ.get("BFCL_WHEEL", "")
needs_wheel = pytest.mark.skipif(
    not Path(WHEEL).is_file(), reason=f"set BFCL_WHEEL to the wheel that `{DOWNLOAD}` gets: it is not installed"
)


@pytest.fixture(scope="module")
def source() -> BfclSource:
    return load_bfcl(WHEEL)


@pytest.fixture
def env(source: BfclSource) -> Any:
    return gym.make("ToolOrchestra-Custom-v0", source=source, split="test")


def theirs(world: BfclWorld, requests: Sequence[Sequence[Call]]) -> tuple[list[list[Any]], list[dict[str, Any]]]:
    """Return results and copies of the objects after each request, by BFCL's classes alone."""
    objects = world.objects()
    results, states = [], []
    for calls in requests:
        found = []
        for call in calls:
            method = getattr(objects[world.tools[call.name].owner], call.name)
            try:
                result = method(**json.loads(json.dumps(call.arguments)))
            except Exception as error:
                result = f"Error during execution: {error}"
            try:
                found.append(json.dumps(result))
            except TypeError:  # a number of mpmath's
                found.append(json.dumps(str(result)))
        results.append(found)
        states.append(pickle.loads(pickle.dumps(objects)))
    return results, states


def by_request(world: BfclWorld) -> list[list[Call]]:
    """Return the reference calls of each request."""
    calls = world.task.reference_calls
    return [[call for call in calls if call.stage == number] for number in range(len(world.requests))]


def played(world: BfclWorld, requests: Sequence[Sequence[Call]]) -> BfclSession:
    """Return a session in which calls were made for each request, checked as a policy's are."""
    session = world.session()
    for number, calls in enumerate(requests):
        if number:
            session.follow_up()
        for call in calls:
            tool = world.tools[call.name]
            session.call(tool, tool.decode(msgspec.json.encode(call.arguments)))
    return session


def changed(requests: list[list[Call]]) -> Iterator[list[list[Call]]]:
    """Yield other episodes: without a call, with one twice, with two in another order, and all in the last request."""
    rng = random.Random(0)
    flat = [(number, place) for number, calls in enumerate(requests) for place in range(len(calls))]
    number, place = rng.choice(flat)
    for put in ([], [requests[number][place]] * 2):
        other = [list(calls) for calls in requests]
        other[number][place : place + 1] = put
        yield other
    yield [calls[::-1] for calls in requests]
    yield [*([] for _ in requests[1:]), [call for calls in requests for call in calls]]


@needs_wheel
def test_every_reference_call_returns_what_bfcls_classes_return(source: BfclSource) -> None:
    tasks = source.tasks("test")
    assert len(tasks) == 200
    for task in tasks:
        world = source.world(task)
        requests = by_request(world)
        results, states = theirs(world, requests)
        session = played(world, requests)
        assert session.results == [text for found in results for text in found]
        assert session.state() == {
            f"{owner}.{name}": value
            for owner, found in states[-1].items()
            for name, value in vars(found).items()
            if not name.startswith("_")
        }
        assert world.verify(task, session, "").solved


@needs_wheel
def test_changed_episodes_are_judged_as_by_bfcls_own_checks(source: BfclSource) -> None:
    checker = importlib.import_module("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker")

    def valid(world: BfclWorld, requests: list[list[Call]]) -> bool:
        results, states = theirs(world, requests)
        right, right_states = theirs(world, by_request(world))
        for number, expected in enumerate(right):
            so_far = [text for found in results[: number + 1] for text in found]
            same = checker.state_checker(states[number], right_states[number])["valid"]
            seen = checker.response_checker(so_far, expected, number)["valid"]
            if expected and not (requests[number] and same and seen):
                return False
        return True

    verdicts = []
    for task in source.tasks("test"):
        world = source.world(task)
        for requests in changed(by_request(world)):
            found = world.verify(task, played(world, requests), "").solved
            assert found == valid(world, requests), task.id
            verdicts.append(found)
    assert 50 < sum(verdicts) < len(verdicts) - 200


@needs_wheel
@pytest.mark.parametrize(("policy", "solved"), [("oracle", 200), ("null", 0), ("random", 0)])
def test_only_who_makes_the_calls_solves_the_tasks(env: Any, source: BfclSource, policy: str, solved: int) -> None:
    player = make_policy(policy)
    outcomes = []
    for task in source.tasks("test"):
        play_episode(env, player, seed=0, options={"task_id": task.id})
        outcomes.append(env.unwrapped.episode.outcome)
    assert outcomes.count("solved") == solved
    assert outcomes.count("failed") == 200 - solved


@needs_wheel
def test_the_next_request_comes_with_the_answer_to_the_present_one(env: Any, source: BfclSource) -> None:
    task = source.task("bfcl/multi_turn_base_0")
    requests = source.world(task).requests
    observation, _ = env.reset(seed=0, options={"task_id": task.id})
    assert requests[0] in observation
    assert not any(request in observation for request in requests[1:])
    for request in requests[1:]:
        observation, _, terminated, _, _ = env.step("I cannot help you.")
        assert (observation, terminated) == (request, False)
    _, reward, terminated, _, info = env.step("I cannot help you.")
    assert (reward, terminated) == (0.0, True)
    assert info["verdict"] == "; ".join(f"execution: request {n}: no call was made" for n in range(1, 5))


@needs_wheel
def test_an_episode_that_ends_too_early_is_not_solved(source: BfclSource) -> None:
    world = source.world(source.task("bfcl/multi_turn_base_0"))
    session = played(world, by_request(world)[:3])
    assert session.wrong() == ["requests that were not reached: 1"]


@needs_wheel
def test_snapshots_branch_and_pickle_and_records_are_judged_anew(env: Any, source: BfclSource) -> None:
    task = source.task("bfcl/multi_turn_base_0")
    env.reset(seed=0, options={"task_id": task.id})
    first, *others = by_request(source.world(task))
    env.step([{"name": call.name, "arguments": call.arguments} for call in first])
    branch = env.unwrapped.snapshot()
    env.step([{"name": "rm", "arguments": {"file_name": "temp"}}])
    for env_of_branch in (env.unwrapped, pickle.loads(pickle.dumps(env.unwrapped))):
        env_of_branch.restore(pickle.loads(pickle.dumps(branch)))
        for calls in others:
            env_of_branch.step("Done.")
            env_of_branch.step([{"name": call.name, "arguments": call.arguments} for call in calls])
        assert env_of_branch.step("Done.")[1] == 1.0
        (judged,) = reverify([env_of_branch.episode], options={"source": source})
        assert (judged.episode.outcome, judged.drift, judged.unjudged) == ("solved", "", "")


@needs_wheel
def test_folders_that_could_not_be_walked_are_not_made(source: BfclSource) -> None:
    needed = {"mkdir", "cp", "mv", "rm"}
    world = next(found for found in map(source.world, source.tasks("test")) if needed <= found.tools.keys())
    session = world.session()

    def call(name: str, **arguments: Any) -> Any:
        return session.call(world.tools[name], arguments)

    call("mkdir", dir_name="a")
    for _ in range(40):  # each holds the one before twice
        call("mkdir", dir_name="b")
        call("cp", source="a", destination="b")
        before = session.snapshot()
        copied = call("cp", source="a", destination="c")
        if copied.status is not Status.OK:
            break
        call("mv", source="c", destination="b")
        call("rm", file_name="a")
        before = session.snapshot()
        moved = call("mv", source="b", destination="a")
        if moved.status is not Status.OK:
            break
    else:
        pytest.fail("the tree grew without bound")
    assert session.snapshot() == before


@needs_wheel
def test_arguments_are_checked_and_numbers_stay_as_they_are_written(source: BfclSource) -> None:
    tools = {name: tool for task in source.tasks("test") for name, tool in source.world(task).tools.items()}
    assert tools["power"].decode(b'{"base": 2, "exponent": 0.5}') == {"base": 2, "exponent": 0.5}
    assert repr(tools["add"].decode(b'{"a": 1, "b": 1.0}')) == "{'a': 1, 'b': 1.0}"
    assert tools["ls"].decode(b"{}") == {}
    wrong = {"power": '{"base": 2, "exponent": 1000000000}', "add": '{"a": "1", "b": 2}', "ls": '{"updates": {}}'}
    for name, raw in {**wrong, "pwd": "[]", "edit_ticket": '{"ticket_id": 1, "updates": {"size": 2}}'}.items():
        with pytest.raises(ArgumentError):
            tools[name].decode(raw.encode())
    updates = {"ticket_id": 1, "updates": {"priority": 2}}
    assert tools["edit_ticket"].decode(json.dumps(updates).encode()) == updates
    schema = tools["edit_ticket"].schema["function"]["parameters"]
    assert schema["properties"]["updates"]["type"] == "object"
    assert schema["required"] == ["ticket_id", "updates"]


@needs_wheel
def test_an_error_that_names_a_set_is_the_same_in_every_process(source: BfclSource) -> None:
    world = next(found for found in map(source.world, source.tasks("test")) if "book_flight" in found.tools)
    names = ("access_token", "card_id", "travel_date", "travel_from", "travel_to", "travel_class")
    token = world.task.reference_calls[0].arguments.get("access_token", "")
    session = world.session()
    session.objects["TravelAPI"].access_token, session.objects["TravelAPI"].token_expires_in = token, 60
    card = next(iter(session.objects["TravelAPI"].credit_card_list))
    values = (token, card, "2026-12-15", "LAX", "SFO", "yes")
    result = session.call(world.tools["book_flight"], dict(zip(names, values, strict=True)))
    assert "{'business', 'economy', 'first'}" in str(result.value["error"])


@needs_wheel
def test_tools_are_those_of_the_tasks_classes_and_a_name_finds_the_source(source: BfclSource) -> None:
    world = source.world(source.task("bfcl/multi_turn_base_0"))
    assert "cp" not in world.tools  # excluded
    assert {tool.owner for tool in world.tools.values()} == {"GorillaFileSystem", "TwitterAPI"}
    assert make_source("bfcl", options={"files": WHEEL}) is source
    assert pickle.loads(pickle.dumps(source)) is source


def test_without_the_wheel_the_error_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=re.escape(DOWNLOAD)):
        load_bfcl(tmp_path)
    with pytest.raises(OptionError, match=re.escape(DOWNLOAD)):
        make_source("bfcl")
