from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Discrete, Text
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils import AgentSelector

from toolorchestra import make_multiagent
from toolorchestra.testing import CheckReport, check_failures
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError

DIGITS = "0123456789"


class Guess(gym.Env[str, str]):
    """Name the hidden digit."""

    action_space = Text(3, charset=DIGITS)
    observation_space = Text(100)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.hidden = int(self.np_random.integers(10))
        return "Name a digit.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        right = int(action) == self.hidden
        return "No.", float(right), right, False, {}


class Turns(AECEnv):  # type: ignore[misc]  # PettingZoo ships no types
    """Two agents name a digit in turn; the one who names the hidden one first earns 1."""

    metadata = {"name": "turns_v0", "is_parallelizable": False}  # noqa: RUF012 - PettingZoo's declaration

    def __init__(self) -> None:
        super().__init__()
        self.possible_agents = ["left", "right"]
        self.spaces = {agent: Text(3, charset=DIGITS) for agent in self.possible_agents}

    def observation_space(self, agent: str) -> Text:
        return Text(200)

    def action_space(self, agent: str) -> Text:
        return self.spaces[agent]

    def observe(self, agent: str) -> str:
        return f"You are {agent}. Name a digit."

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents = list(self.possible_agents)
        self.hidden, self.named = int(np.random.default_rng(seed).integers(10)), 0
        self.rewards = dict.fromkeys(self.agents, 0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, Any] = {agent: {} for agent in self.agents}
        self.order = AgentSelector(self.agents)
        self.agent_selection = self.order.reset()

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0
        self._clear_rewards()
        self.named += 1
        if int(action) == self.hidden:
            self.rewards[agent] = 1
            self.terminations = dict.fromkeys(self.agents, True)
        elif self.named >= 4:
            self.truncations = dict.fromkeys(self.agents, True)
        self._accumulate_rewards()
        self.agent_selection = self.order.next()


class Both(ParallelEnv):  # type: ignore[misc]  # PettingZoo ships no types
    """Two agents name a digit at once."""

    metadata = {"name": "both_v0"}  # noqa: RUF012 - PettingZoo's declaration
    possible_agents = ["a", "b"]  # noqa: RUF012
    render_mode = None

    def observation_space(self, agent: str) -> Text:
        return Text(100)

    def action_space(self, agent: str) -> Text:
        return Text(1, charset=DIGITS)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents = list(self.possible_agents)
        return dict.fromkeys(self.agents, "Name a digit."), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, str]) -> Any:
        agents = self.agents
        same, over = float(int(actions["a"]) == int(actions["b"])), dict.fromkeys(agents, False)
        return dict.fromkeys(agents, "Again."), dict.fromkeys(agents, same), over, over, {agent: {} for agent in agents}


class Corridor(Guess):
    """Takes numbers."""

    action_space = Discrete(2)  # type: ignore[assignment]  # no text

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return ("left", "right")[action], 0.0, False, False, {}


def found(report: CheckReport) -> dict[str, str]:
    return {result.name: result.verdict for result in report.results}


@pytest.mark.parametrize(
    "make",
    [
        lambda: gym.make("ToolOrchestra-Restaurant-v0"),
        lambda: gym.make("ToolOrchestra-MultiHopQA-v0", answer="text"),
        lambda: gym.make("ParaManager-Math-v0"),
        lambda: gym.make("MASOrchestra-Low-Math-v0"),
        lambda: make_multiagent("MSARL-Math-v0"),
        lambda: make_multiagent("TMATR-Math-v0"),
        lambda: make_multiagent("Dialogue-Restaurant-v0"),
        Guess,
        Corridor,
        Turns,
        Both,
        lambda: gym.wrappers.TimeLimit(Guess(), 1),
    ],
)
def test_an_environment_that_keeps_the_contract_passes(make: Callable[[], Any]) -> None:
    report = check_failures(make)
    assert report, str(report)
    assert list(found(report)) == ["limits", "actions", "exceptions"]


def broken(**changed: Any) -> Callable[[], Any]:
    return lambda: type("Broken", (Guess,), changed)()


def excuses(self: Any, action: str) -> Any:
    try:
        return Guess.step(self, action)
    except ValueError:
        return "", 0.0, False, True, {"outcome": "infra_error"}


@pytest.mark.parametrize(
    ("make", "failing", "reason"),
    [
        (broken(action_space=Text(200_000, min_length=0)), "actions", "unjudged: ValueError: invalid literal for int"),
        (broken(action_space=Text(200_000, min_length=0), step=excuses), "actions", "left the episode unjudged"),
        (
            broken(step=lambda self, action: ("", 0.0, False, True, {"outcome": "judge_error"})),
            "limits",
            "expected a verdict, got 'judge_error'",
        ),
        (
            broken(step=lambda self, action: ("", 0.0, False, False, {"outcome": "infra_error"})),
            "limits",
            "cut off after 2 turns, the outcome is 'infra_error'",
        ),
        (
            broken(step=lambda self, action: ("", 0.0, False, False, {"outcome": "solved"})),
            "limits",
            "the outcome is 'solved'",
        ),
        (broken(step=lambda self, action: ("", float("nan"), False, False, {})), "limits", "expected a finite reward"),
        (broken(reset=lambda self, **_: 1 / 0), "exceptions", "the reset ended the episode: ZeroDivisionError"),
    ],
)
def test_an_environment_that_breaks_it_fails_with_the_reason(
    make: Callable[[], Any], failing: str, reason: str
) -> None:
    report = check_failures(make)
    assert not report
    finding = next(result.finding for result in report.results if result.name == failing)
    assert reason in finding
    assert found(report)[failing] == "fail"


def test_a_state_that_an_exception_leaves_behind_is_found() -> None:
    class Shared(Guess):
        fault: Exception | None = None

        def reset(self, **given: Any) -> Any:
            self.was, Shared.fault = Shared.fault, RuntimeError("the last one has not ended")
            return super().reset(**given)

        def step(self, action: str) -> Any:
            if self.was:
                raise self.was
            Shared.fault = None
            return super().step(action)

    assert found(check_failures(Shared, checks=["exceptions"])) == {"exceptions": "fail"}


def test_what_cannot_be_checked_is_refused_with_the_remedy() -> None:
    class Spaceless(Guess):
        action_space = None  # type: ignore[assignment]  # as where it is forgotten

    report = check_failures(Spaceless)
    assert "give `act`" in report.results[0].finding
    assert check_failures(Spaceless, act=lambda observation, rng: str(rng.randrange(10)), checks=["limits"])
    with pytest.raises(OptionError, match="Expected an environment of Gymnasium or PettingZoo, got int"):
        check_failures(lambda: 3)
    with pytest.raises(UnknownNameError, match="limits"):
        check_failures(Guess, checks=["limit"])
    with pytest.raises(OptionError, match="at least 1"):
        check_failures(Guess, turns=0)


def test_the_environment_that_is_checked_stays_as_it_was() -> None:
    game = Turns()
    before = copy.copy(game.__dict__)
    check_failures(lambda: copy.deepcopy(game))
    assert game.__dict__.keys() == before.keys()
