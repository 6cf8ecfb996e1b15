from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from toolorchestra.agents.builtin.compact_renderer import CompactRenderer
from toolorchestra.agents.builtin.model import build_renderer
from toolorchestra.agents.policies.reference import OraclePolicy
from toolorchestra.algos.data.demonstrations import Demonstration, demonstrated
from toolorchestra.algos.reporting import report
from toolorchestra.envs.starts import EpisodeStart, make_env, starts

ENV = "ToolOrchestra-Restaurant-v0"


@pytest.fixture
def curves() -> None:
    """Let trainings draw their curves, as they do outside the tests."""


@pytest.fixture(autouse=True)
def _blank_curves(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the curves of trainings blank where a test does not ask for them: they take half of a small training."""
    if "curves" not in request.fixturenames:
        monkeypatch.setattr(report, "draw_curves", lambda *_: Figure((1, 1)))


@pytest.fixture(scope="module")
def plays() -> list[EpisodeStart]:
    return [level[n] for level in starts(make_env(ENV, {}), "train", ()).values() for n in (0, 5, 9)]


@pytest.fixture(scope="module")
def good(plays: list[EpisodeStart]) -> list[Demonstration]:
    return list(demonstrated(make_env(ENV, {}), OraclePolicy(), plays))


@pytest.fixture(scope="module")
def renderer(good: list[Demonstration]) -> CompactRenderer:
    env = make_env(ENV, {}).unwrapped
    world = env.source.world(env.source.tasks("train")[0])  # type: ignore[attr-defined]
    return build_renderer(good[0].tools, [d.messages for d in good], [world])
