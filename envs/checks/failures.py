"""Whose failure an environment takes the end of an episode to be: a suite for environments of others, and for ours.

The contract is on the page "Environments", under "Whose failure it was". Public as `toolorchestra.testing`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium
from pettingzoo import AECEnv, ParallelEnv

from toolorchestra.envs.checks.report import CheckReport, Finding, chosen_checks, run_check
from toolorchestra.envs.external import ExternalEnv, ExternalPlay
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.multiagent.views import CurrentAgentEnv
from toolorchestra.envs.played import PlayedEpisode, play_of
from toolorchestra.envs.records.unjudged import INVALID_OUTCOMES, fitted, no_answer_after, unjudged_error
from toolorchestra.toolscale.common.errors import OptionError

Act = Callable[[Any, random.Random], Any]
"""Returns an action, given an observation and a source of chance."""

_MAX_TURNS = 100  # until a step of a parallel environment, which takes the actions of all its agents at once
_FAULT = "a fault that check_failures put in"
_NO_CALL = '<tool_call>{"name": "no_such_tool", "arguments": {}}</tool_call>'
_BAD: tuple[Any, ...] = (
    "", " ", "seven", "-1", "9" * 40, "x" * 100_000, "\x00", "٧", "None", "[]", '{"a": 1}', "<tool_call>{</tool_call>",
    "<think>", None, 7, b"7", {"role": "assistant"},
)  # fmt: skip


def check_failures(
    make_env: Callable[[], Any],
    *,
    act: Act | None = None,
    turns: int = 2,
    episodes: int = 4,
    seed: int = 0,
    checks: Sequence[str] | None = None,
) -> CheckReport:
    """Check whose failure an environment takes the end of an episode to be; the report is true if no check failed.

    The checks are ``limits`` (an episode cut off after some turns has failed, with a reward that is a finite number),
    ``actions`` (whatever is written, and not only what the action space allows, is answered or fails the episode; it
    never raises, or leaves it unjudged) and ``exceptions`` (one that the environment raises ends that episode alone,
    without a reward, and is counted; the next one is played).

    Args:
        make_env: Makes an environment: of this library, of Gymnasium with text, or of PettingZoo (AEC or parallel).
        act: Makes an action that may stand in an episode. By default a sample of the action space; in environments of
            this library a call of a tool that there is not.
        turns: Turns after which the check cuts an episode off.
        episodes: Episodes of each check.
        seed: Seed of the first episode, and of the actions.
        checks: Names of the checks to run; None for all.

    Raises:
        OptionError: It makes no environment that models can play.
        UnknownNameError: There is no such check.

    >>> import gymnasium, toolorchestra
    >>> bool(check_failures(lambda: gymnasium.make("ToolOrchestra-Restaurant-v0")))
    True
    """
    wanted = chosen_checks(checks, _CHECKS)
    if turns < 1 or episodes < 1:
        raise OptionError(f"`turns` and `episodes` must be at least 1, got {turns} and {episodes}.")
    subject = _Subject(make_env, act, turns, episodes, seed)
    subject.make()  # raises for what cannot be played, which is the caller's error and not a finding
    return CheckReport(
        str(make_env().unwrapped), tuple(run_check(check, partial(_CHECKS[check], subject)) for check in wanted)
    )


class _Subject:
    """An environment that is checked."""

    def __init__(self, make_env: Callable[[], Any], act: Act | None, turns: int, episodes: int, seed: int) -> None:
        self._make, self._act = make_env, act
        self.turns, self.episodes, self.seed = turns, episodes, seed

    def make(self, *, fails: bool = False) -> gymnasium.Env[Any, Any]:
        """Return a new environment as one agent plays it, or one policy for all; its steps may raise."""
        made = self._make()
        if isinstance(made, AECEnv | ParallelEnv) and not isinstance(made, MultiAgentEnv):
            if fails:
                made.step = _fail
            made, fails = ExternalEnv(made), False
        env: Any = CurrentAgentEnv(made) if isinstance(made, MultiAgentEnv) else made
        if not isinstance(env, gymnasium.Env):
            raise OptionError(f"Expected an environment of Gymnasium or PettingZoo, got {type(env).__name__}.")
        if fails:
            env.step = _fail  # type: ignore[method-assign]  # of this one
        return env

    def action(self, game: PlayedEpisode, rng: random.Random) -> Any:
        """Return an action that may stand in the episode."""
        if self._act is not None:
            return self._act(game.observation, rng)
        space = self.space(game)
        if not _of_others(game):
            return _NO_CALL
        if space is None:
            raise OptionError("The environment has no action space: give `act`, which makes an action.")
        space.seed(rng.randrange(2**31))
        return space.sample()

    def space(self, game: PlayedEpisode) -> Any:
        """Return the space of the next action."""
        play = play_of(game.env)
        if isinstance(play, ExternalPlay):
            return play.external.action_space(play.current_agent)
        return getattr(game.env, "action_space", None)

    def begun(self, env: gymnasium.Env[Any, Any], number: int) -> PlayedEpisode:
        """Return an episode after its reset."""
        game = PlayedEpisode(env)
        game.reset(seed=self.seed + number)
        assert not game.outcome, f"the reset ended the episode: {game.why}"
        return game


def _limits(subject: _Subject) -> Finding:
    """An episode that is cut off has failed."""
    env, rng, cut = subject.make(), random.Random(subject.seed), 0
    for number in range(subject.episodes):
        game = subject.begun(env, number)
        while not game.outcome and game.turns < subject.turns:
            game.step(subject.action(game, rng))
        if not game.outcome:
            cut += 1
            game.stop(no_answer_after(game.turns))
            ended: str = game.outcome
            assert ended == "failed", f"cut off after {game.turns} turns, the outcome is {ended!r}"
            assert no_answer_after(game.turns) in game.why, f"cut off, it ended by {game.why!r}"
        _judged(game)
    return Finding("pass", f"{cut} of {subject.episodes} episodes were cut off, and have failed", {"cut off": cut})


def _actions(subject: _Subject) -> Finding:
    """Nothing that is written raises, or leaves an episode unjudged."""
    env, rng, outside = subject.make(), random.Random(subject.seed), 0
    for number, bad in enumerate(_BAD):
        game, shown = subject.begun(env, number), repr(bad)[:40]
        space, read = subject.space(game), bad if play_of(env) is None or isinstance(bad, str) else ""
        wrong = fitted(space, read)[1] if _of_others(game) else ""
        game.step(bad)
        assert game.outcome not in INVALID_OUTCOMES, f"the action {shown} left the episode unjudged: {game.why}"
        if wrong:
            outside += 1
            assert game.outcome == "failed", f"{shown} is outside of {space}, and the episode goes on"
            assert wrong in game.why, f"expected {wrong!r} as the reason, got {game.why!r}"
        while not game.outcome and game.turns < subject.turns:
            game.step(subject.action(game, rng))
        if not game.outcome:
            game.stop(no_answer_after(game.turns))
        _judged(game)
    found = f"{len(_BAD)} bad actions, {outside} of them outside of the action space, left no episode unjudged"
    return Finding("pass", found, {"outside": outside})


def _exceptions(subject: _Subject) -> Finding:
    """An exception ends one episode, without a reward, and is counted."""
    reasons: list[str | None] = []
    for number in range(subject.episodes):
        rng = random.Random(subject.seed + number)
        game = subject.begun(subject.make(fails=True), number)
        while not game.outcome and game.turns < _MAX_TURNS:
            game.step(subject.action(game, rng))
        assert game.outcome == "infra_error", f"after an exception the outcome is {game.outcome or None!r}"
        assert _FAULT in game.why, f"expected the text of the exception as the reason, got {game.why!r}"
        assert game.reward != game.reward, f"an episode without a verdict has the reward {game.reward}"
        play = play_of(game.env)
        if play is not None:
            assert (play.episode.outcome, play.episode.reward) == ("infra_error", None), "its record has a reward"
        reasons.append(f"{game.outcome}: {game.why}")
        other = subject.begun(subject.make(), number)
        other.step(subject.action(other, rng))
        assert other.outcome not in INVALID_OUTCOMES, f"the next episode is not judged either: {other.why}"
        reasons.append(None)
    assert f"{subject.episodes} of {2 * subject.episodes} episodes were not judged" in unjudged_error(reasons)
    return Finding("pass", f"{subject.episodes} exceptions ended an episode each, which has no reward")


def _judged(game: PlayedEpisode) -> None:
    """Raise unless an episode is over, and judged."""
    assert game.outcome in ("solved", "failed"), f"expected a verdict, got {game.outcome!r}: {game.why}"
    assert abs(game.reward) < float("inf"), f"expected a finite reward, got {game.reward}"
    play = play_of(game.env)
    if play is not None:
        assert play.episode.outcome == game.outcome, (
            f"its record says {play.episode.outcome!r}, and not {game.outcome!r}"
        )


def _of_others(game: PlayedEpisode) -> bool:
    """Return whether the environment is none of this library."""
    play = play_of(game.env)
    return play is None or isinstance(play, ExternalPlay)


def _fail(*_: Any, **__: Any) -> Any:
    raise RuntimeError(_FAULT)


_CHECKS: dict[str, Callable[[_Subject], Finding]] = {"limits": _limits, "actions": _actions, "exceptions": _exceptions}
