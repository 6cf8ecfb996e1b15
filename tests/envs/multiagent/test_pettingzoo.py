"""PettingZoo's own tests, on every id."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from pettingzoo.test import api_test, max_cycles_test, parallel_api_test, render_test, seed_test
from pettingzoo.test.seed_test import parallel_seed_test
from pettingzoo.utils.conversions import parallel_to_aec

from toolorchestra.envs import make_multiagent, multiagent_ids
from toolorchestra.envs.registration import PROTOCOLS

OPTIONS = {"MSARL": {"python": "simulated"}, "TMATR": {"python": "simulated"}, "Dialogue": {}}


@pytest.fixture(autouse=True)
def advice_is_not_an_error() -> Iterator[None]:
    """PettingZoo advises agents named ``player_0`` and arrays for observations; ours have roles, and speak."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(params=multiagent_ids())
def game(request: pytest.FixtureRequest) -> SimpleNamespace:
    protocol, source, _ = request.param.split("-")
    module = import_module(PROTOCOLS[protocol].entry_point)
    options = OPTIONS[protocol]
    return SimpleNamespace(
        env=partial(module.env, source, **options),
        parallel_env=partial(module.parallel_env, source, **options),
        raw_env=partial(make_multiagent, request.param, **options),
    )


def test_the_api_is_pettingzoos(game: SimpleNamespace) -> None:
    api_test(game.env(), num_cycles=100)
    api_test(game.raw_env(), num_cycles=100)


def test_same_seed_same_episode(game: SimpleNamespace) -> None:
    seed_test(game.env, num_cycles=100)
    parallel_seed_test(game.parallel_env, num_cycles=100)


def test_the_parallel_api_is_pettingzoos(game: SimpleNamespace) -> None:
    parallel_api_test(game.parallel_env(), num_cycles=100)


def test_an_episode_lasts_as_many_cycles_as_it_may(game: SimpleNamespace) -> None:
    # agents are asked only when there is something to do, so a cycle of all agents is that of the parallel form
    def cycling(**options: Any) -> Any:
        return parallel_to_aec(game.parallel_env(**options))

    max_cycles_test(SimpleNamespace(parallel_env=game.parallel_env, env=cycling))


@pytest.mark.parametrize(("protocol", "alone"), [("MSARL", {"helpers": "none"}), ("TMATR", {"roles": "single"})])
def test_the_plain_test_of_cycles_passes_where_one_agent_acts(protocol: str, alone: dict[str, str]) -> None:
    module = import_module(PROTOCOLS[protocol].entry_point)
    made = {name: partial(getattr(module, name), "Math", **alone) for name in ("env", "parallel_env")}
    max_cycles_test(SimpleNamespace(**made))


def test_agents_are_asked_as_often_as_their_part_needs_which_the_plain_test_of_cycles_forbids(
    game: SimpleNamespace,
) -> None:
    # it asks every agent `max_cycles` times in the AEC form, also a helper that has nothing to read
    env = game.env(max_cycles=4)
    env.reset(seed=0)
    asked = dict.fromkeys(env.possible_agents, 0)
    for agent in env.agent_iter():
        over = env.terminations[agent] or env.truncations[agent]
        asked[agent] += not over
        env.step(None if over else "Hm.")
    assert sum(asked.values()) == 4
    assert len(asked) == 1 or set(asked.values()) != {4}


def test_every_mode_renders(game: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    render: Callable[..., Any] = game.env
    render_test(render)
    assert game.raw_env().possible_agents[0] in capsys.readouterr().out


def test_the_state_is_the_whole_record(game: SimpleNamespace) -> None:
    env = game.raw_env()
    env.reset(seed=0)
    before = env.state()
    env.step("A secret.")
    assert "A secret." in env.state() != before
    assert json.loads(env.state()) == json.loads(env.episode.to_json())
    parallel = game.parallel_env()
    parallel.reset(seed=0)
    assert json.loads(parallel.state())["task_id"] == parallel.unwrapped.episode.task_id
    state_of = game.env()
    state_of.reset(seed=0)
    assert state_of.state() == parallel.state()
