"""An episode of any Gymnasium environment as it is played, and whose failure its end is.

The rule stands in `toolorchestra.envs.records.unjudged`; here it is applied, for environments of this library and of
others. Who plays them decides what is written, and when it has been enough.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import gymnasium

from toolorchestra.envs.play import Play
from toolorchestra.envs.records.episode import Episode, Outcome
from toolorchestra.envs.records.unjudged import (
    INVALID_OUTCOMES,
    MISTAKES,
    error_text,
    finite,
    fitted,
    named_outcome,
    no_answer_after,
)


def play_of(env: gymnasium.Env[Any, Any]) -> Play | None:
    """Return the play of an environment of this library; None before the first reset, and if it is another's."""
    inner = env.unwrapped
    inner = getattr(inner, "multi_agent_env", inner)
    play = getattr(inner, "play", None) if getattr(inner, "_play", None) is not None else None
    return play if isinstance(play, Play) else None


def stop(env: gymnasium.Env[Any, Any], why: str, outcome: Outcome = "failed") -> Episode | None:
    """End the episode of an environment from outside, and return its record; None if it is none of this library.

    See `Play.stop`. Nothing happens to an episode that is over, or that was never begun.
    """
    play = play_of(env)
    if play is None:
        return None
    play.stop(why, outcome)
    return play.episode


class PlayedEpisode:
    """An episode that never raises for what happens in it.

    Args:
        env: The environment.

    Attributes:
        observation: The last one.
        info: The last one.
        opening: The first info, which names the tools.
        turns: Actions taken.
        reward: Sum of the rewards so far; NaN if `outcome` is invalid.
        outcome: Empty while it is in progress, then ``solved``, ``failed`` or one of `INVALID_OUTCOMES`.
        why: Why it ended, where the environment or who plays it says so.
        answered: Whether the environment terminated it.
        error: What the environment has raised, so that its state is unknown; None if nothing.
        given_up: Whether who plays could not go on.

    >>> import toolorchestra
    >>> game = PlayedEpisode(gymnasium.make("ToolOrchestra-Restaurant-v0"))
    >>> game.reset(seed=0)
    >>> game.stop("no answer after 0 turns")
    >>> game.outcome, game.reward, game.why
    ('failed', 0.0, 'no answer after 0 turns')
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self.env = env
        self.observation: Any = ""
        self.info: Mapping[str, Any] = {}
        self.opening: Mapping[str, Any] = {}
        self.turns = 0
        self.reward = 0.0
        self.outcome = self.why = ""
        self.answered = False
        self.error: Exception | None = None
        self.given_up = False

    @property
    def valid(self) -> bool:
        """Whether it says something about who plays."""
        return self.outcome not in INVALID_OUTCOMES

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin; an error among `MISTAKES` is raised, since it is that of who has set the environment up."""
        try:
            self.observation, self.info = self.env.reset(seed=seed, options=options)
            self.opening = self.info
        except MISTAKES:
            raise
        except Exception as error:  # of one episode: others go on
            self._break_off(error)

    def step(self, action: Any) -> bool:
        """Take an action, and return whether the environment has taken it.

        One outside of the action space of another's environment is not, and is the failure of who plays.
        """
        self.turns += 1
        if play_of(self.env) is None:
            action, wrong = fitted(getattr(self.env, "action_space", None), action)
            if wrong:
                self._end("failed", wrong)
                return False
        try:
            self.observation, reward, terminated, truncated, self.info = self.env.step(action)
            self.reward += finite(reward)
        except MISTAKES:
            raise
        except Exception as error:  # of one episode: others go on
            self._break_off(error)
            return False
        if truncated and "outcome" not in self.info and not terminated:
            self.stop(no_answer_after(self.turns))  # a wrapper has cut it off, or another's environment
        elif terminated or truncated:
            self.answered = bool(terminated)
            outcome = named_outcome(self.info, self.reward, terminated=terminated)
            self._end(outcome, str(self.info.get("verdict", "")))
        return True

    def stop(self, why: str) -> None:
        """End it by a limit of who plays: failed, unless another's environment has named its outcome already."""
        record = stop(self.env, why)
        if record is None:
            self._end(named_outcome(self.info, self.reward, terminated=False), why)
            return
        agent = getattr(self.env.unwrapped, "agent", "")  # the one that is played, of several
        self.reward += record.rewards.get(agent, record.reward or 0.0)
        told = {"outcome": record.outcome, "verdict": record.why, "reward_parts": dict(record.reward_parts)}
        self.info = {**self.info, **told, "M": getattr(play_of(self.env), "metrics", None)}
        self._end(str(record.outcome), record.why)

    def give_up(self, error: Exception) -> None:
        """End it because who plays cannot go on, and could not in another attempt: nobody is judged by it."""
        self.given_up = True
        self._interrupt(error)

    def _break_off(self, error: Exception) -> None:
        """End it by an exception of the environment."""
        self.error = error
        self._interrupt(error)

    def _interrupt(self, error: Exception) -> None:
        stop(self.env, error_text(error), "infra_error")
        self._end("infra_error", error_text(error))

    def _end(self, outcome: str, why: str) -> None:
        self.outcome, self.why = outcome, why
        if not self.valid:
            self.reward = math.nan
