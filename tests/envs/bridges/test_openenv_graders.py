"""Our graders for OpenEnv's validation, on servers of sound and of faulty environments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from leftovers import nothing_is_left_by_the_module  # noqa: F401 - the server of all tests keeps threads

pytest.importorskip("openenv", reason="in an environment of its own: pip install 'toolorchestra[openenv,test]'")

import uvloop
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, ConcurrencyConfig, Observation, State
from openenv.validation.graders import Grader, GraderRegistry, Subject
from openenv.validation.parsers.openenv_yaml import OpenEnvYamlParser
from openenv.validation.policy import load_policy
from openenv.validation.runner import default_grader_registry
from openenv.validation.types import CheckStatus, Lane, Level

from toolorchestra.cli.main import main
from toolorchestra.envs.bridges import openenv as bridge, openenv_graders
from toolorchestra.envs.checks.audit.graders import GRADERS

pytestmark = pytest.mark.filterwarnings("ignore")  # of OpenEnv and what it brings
uvloop.new_event_loop().close()  # the first one makes a pipe that lasts as long as the process
PACKAGE = Path(__file__).parents[3] / "examples" / "openenv"
OURS = sorted(name for name, one in vars(openenv_graders).items() if isinstance(one, openenv_graders.PlayedGrader))


class Said(Action):  # type: ignore[misc]
    text: str


class Numbers(Action):  # type: ignore[misc]
    one: int
    other: int


class Careless(Environment):  # type: ignore[misc]
    """Rewards the empty text, and says the answer in its metadata."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Observation:
        return Observation(done=False, reward=0.0, metadata={"answer": "open sesame"})

    def step(self, action: Any, timeout_s: float | None = None, **_: Any) -> Observation:
        said = getattr(action, "text", None)
        return Observation(done=True, reward=float(said in ("", "open sesame")), metadata={})

    @property
    def state(self) -> State:
        return State()


@pytest.fixture(scope="module")
def sound(serving: Callable[..., AbstractContextManager[str]]) -> Iterator[str]:
    with serving(bridge.serve, bridge.make_app("ToolOrchestra-MASBenchParallel-v0"), bridge.IDLE_SECONDS) as address:
        yield address


@pytest.fixture(params=[Said, Numbers])
def careless(serving: Callable[..., AbstractContextManager[str]], request: pytest.FixtureRequest) -> Iterator[str]:
    room = ConcurrencyConfig(max_concurrent_envs=8)
    app = create_fastapi_app(Careless, request.param, Observation, concurrency_config=room, env_name="careless")
    with serving(bridge.serve, app, bridge.IDLE_SECONDS) as address:
        yield address


def graded(url: str | None, names: list[str]) -> dict[str, Any]:
    """Return what graders say of a server, by the names of their checks."""
    running = None if url is None else SimpleNamespace(base_url=url)
    subject = Subject(PACKAGE, OpenEnvYamlParser().parse(PACKAGE), None, running, PACKAGE / "outputs")
    return {name: getattr(openenv_graders, name).run(subject) for name in names}


def test_openenvs_registry_loads_and_selects_them() -> None:
    policy = load_policy("v2")
    registry = default_grader_registry(policy)
    assert registry.load_entry_points() == len(OURS) == 10
    chosen = registry.select(OpenEnvYamlParser().parse(PACKAGE), Level.SEMANTIC)
    ours = {one.check_id: one for one in chosen if isinstance(one, openenv_graders.PlayedGrader)}
    assert len(ours) == len(OURS)
    entries = policy.entries_for_lane(Lane.LOCAL)
    for check_id, grader in ours.items():
        assert isinstance(grader, Grader)
        assert entries[check_id].level is grader.level
        assert check_id in GRADERS


def test_they_are_refused_beside_others_of_the_same_checks() -> None:
    registry = GraderRegistry()
    registry.register(openenv_graders.seed_control)
    with pytest.raises(ValueError, match=r"already registered.*seed_control"):
        registry.load_entry_points()


@pytest.mark.slow
def test_a_served_environment_of_ours_passes(sound: str) -> None:
    found = graded(sound, OURS)
    assert {name: (one.status, one.evidence) for name, one in found.items() if one.status is not CheckStatus.PASS} == {}


@pytest.mark.slow
def test_a_careless_one_fails_and_other_actions_are_skipped(careless: str) -> None:
    names = ["floor_gap", "no_solution_leakage", "episode_determinism"]
    found = graded(careless, names)
    if found["floor_gap"].status is CheckStatus.SKIP:
        assert "not one text" in found["floor_gap"].evidence[0]
        return
    assert {name: one.status.value for name, one in found.items()} == {
        "floor_gap": "fail",
        "no_solution_leakage": "pass",  # doing nothing earns as much
        "episode_determinism": "pass",
    }
    assert found["floor_gap"].measured["floor"] == 1.0
    assert "rewards doing nothing" in found["floor_gap"].remediation


@pytest.mark.slow
def test_a_server_with_room_for_one_is_an_error(serving: Callable[..., AbstractContextManager[str]]) -> None:
    with serving(
        bridge.serve, bridge.make_app("ToolOrchestra-Math-v0", max_sessions=1), bridge.IDLE_SECONDS
    ) as address:
        (found,) = graded(address, ["seed_control"]).values()
    assert found.status is CheckStatus.ERROR
    assert "capacity" in found.evidence[0]


def test_nothing_runs_nothing_is_said() -> None:
    (found,) = graded(None, ["seed_control"]).values()
    assert (found.status, found.evidence) == (CheckStatus.SKIP, ["the environment is not running"])


def test_an_address_without_a_server_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    name = f"{openenv_graders.__name__}:ServedText"
    assert main(["validate", name, "--env-options", "url", "http://127.0.0.1:9"]) == 2
    assert "http://127.0.0.1:9 does not say what its actions are" in capsys.readouterr().err
