"""Checks of an environment with several agents: the properties that training on it relies on."""

from __future__ import annotations

import contextlib
import functools
import io
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from toolorchestra.envs.checks.report import CheckReport, Finding, Progress, chosen_checks, run_check
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.registration import make_multiagent, protocol_module
from toolorchestra.toolscale.common.errors import OptionError

RandomMessage = Callable[[MultiAgentEnv, random.Random], str]

INVALID_MESSAGES: tuple[Any, ...] = (
    None, 3, b"bytes", ["a", "list"], {"role": "assistant"}, "", "\ud800", "\x00", "x" * 2_000_000,
)  # fmt: skip
"""Invalid messages for the hostile check."""


def check_multiagent(
    env_id: str,
    *,
    checks: Sequence[str] | None = None,
    episodes: int = 50,
    seed: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> CheckReport:
    """Check an environment with several agents and return a report, which is true if no check failed.

    The checks are ``pettingzoo`` (its own tests), ``determinism`` (same seed and messages, same bytes), ``privacy``
    (a secret in one agent's history is never in another's observations, and no agent observes more than its history),
    ``snapshot`` (an episode that continues from a branch point is not affected by other branches) and ``hostile`` (no
    message raises).

    Args:
        env_id: Id of the environment (`toolorchestra.envs.make_multiagent`).
        checks: Names of the checks to run; None for all.
        episodes: Episodes that each check plays, with messages as of `random_messages`.
        seed: Seed of everything random in the checks.
        progress: Called with the name of a check, 0 or 1 (over), and 1.
        options: Arguments of the environment.

    Raises:
        UnknownNameError: There is no such environment, or no such check.
    """
    wanted = chosen_checks(checks, CHECKS, "check of environments with several agents")
    if episodes < 1:
        raise OptionError(f"`episodes` must be at least 1, got {episodes}.")
    make = functools.partial(make_multiagent, env_id, **options)
    make().close()  # raises for a wrong id or wrong arguments, which is the caller's error and not a finding
    subject = _Subject(make, random_messages(env_id), episodes, seed)
    progress = progress or (lambda name, done, total: None)
    results = []
    for name in wanted:
        progress(name, 0, 1)
        results.append(run_check(name, functools.partial(_found, name, subject)))
        progress(name, 1, 1)
    return CheckReport(env_id, tuple(results))


def _found(name: str, subject: _Subject) -> Finding:
    return Finding("pass", CHECKS[name](subject))


def random_messages(env_id: str) -> RandomMessage:
    """Return the function that writes random messages in an environment.

    It is the function ``random_message`` of its module, whose messages are well-formed, or else draws from the action
    space of the current agent.
    """
    write: RandomMessage = getattr(protocol_module(env_id), "random_message", _sampled)
    return write


def _sampled(env: MultiAgentEnv, rng: random.Random) -> str:
    space = env.action_space(env.agent_selection)
    space.seed(rng.getrandbits(31))
    return space.sample()


class _Subject(NamedTuple):
    """The environment under test, and the episodes of random messages that checks play."""

    make: Callable[[], MultiAgentEnv]
    random_message: RandomMessage
    episodes: int
    seed: int

    def seeds(self) -> Iterator[tuple[int, random.Random]]:
        """Yield the seed of each episode, and what its messages are drawn from."""
        for number in range(self.episodes):
            yield number, random.Random(f"{self.seed}/{number}")

    def play(self, env: MultiAgentEnv, rng: random.Random) -> Iterator[str]:
        """Play to the end with random messages, yielding each after its step."""
        while not env.play.over:
            message = self.random_message(env, rng)
            env.step(message)
            yield message

    def messages(self, env: MultiAgentEnv, number: int, rng: random.Random) -> list[str]:
        """Play the episode of a seed and return its messages."""
        env.reset(seed=number)
        return list(self.play(env, rng))


def _pettingzoo(subject: _Subject) -> str:
    """PettingZoo's tests for AEC environments."""
    from pettingzoo.test import api_test, seed_test

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")  # it advises agents named player_0, and arrays for observations
        api_test(subject.make(), num_cycles=100)
        seed_test(subject.make, num_cycles=100)
    return "api_test and seed_test pass"


def _determinism(subject: _Subject) -> str:
    """Same seed and messages, same bytes."""
    one, other = subject.make(), subject.make()
    for number, rng in subject.seeds():
        messages = subject.messages(one, number, rng)
        other.reset(seed=number)
        _send(other, messages)
        assert one.episode.to_json() == other.episode.to_json(), f"the records of seed {number} differ"
    return f"{subject.episodes} episodes are the same bytes in two environments"


def _privacy(subject: _Subject) -> str:
    """What is only in one agent's history is in no other agent's observations."""
    env = subject.make()
    observations = 0
    for number, rng in subject.seeds():
        env.reset(seed=number)
        owner = rng.choice(env.possible_agents)
        secret = f"secret-{rng.getrandbits(64):x}"
        env.play.histories[owner].append({"role": "user", "content": secret})
        for _ in subject.play(env, rng):
            for agent in env.agents:
                seen = repr((env.observe(agent), env.infos[agent]))
                assert agent == owner or secret not in seen, f"{agent} observes a secret of {owner}"
                messages = [message for message in env.infos[agent]["messages"] if message["content"] != secret]
                assert messages == env.episode.history(agent), f"{agent} observes messages that are not in its history"
                observations += agent != owner
    return f"a secret in one agent's history was in none of {observations} observations of others"


def _snapshot(subject: _Subject) -> str:
    """An episode that continues from a branch point equals one that was not branched."""
    straight, branched = subject.make(), subject.make()
    for number, rng in subject.seeds():
        messages = subject.messages(straight, number, rng)
        branched.reset(seed=number)
        fork = rng.randrange(len(messages))
        _send(branched, messages[:fork])
        point = branched.snapshot()
        list(subject.play(branched, rng))
        branched.restore(point)
        _send(branched, messages[fork:])
        same = branched.episode.to_json() == straight.episode.to_json()
        assert same, f"seed {number}, branched after {fork} messages"
        assert branched.rewards == straight.rewards, f"seed {number}: the rewards differ"
    return f"{subject.episodes} episodes continued from a branch point, not affected by another branch"


def _hostile(subject: _Subject) -> str:
    """No message raises, or leaves a record that cannot be written."""
    env = subject.make()
    rng = random.Random(subject.seed)
    for number in range(subject.episodes):
        env.reset(seed=number)
        while not env.play.over:
            invalid = rng.random() < 0.5
            env.step(rng.choice(INVALID_MESSAGES) if invalid else subject.random_message(env, rng))
        env.episode.to_json()
        assert env.episode.outcome in ("solved", "failed"), env.episode.why
    return f"{subject.episodes} episodes with invalid messages ended in a verdict"


def _send(env: MultiAgentEnv, messages: Iterable[str]) -> None:
    for message in messages:
        env.step(message)


CHECKS: dict[str, Callable[[_Subject], str]] = {
    check.__name__[1:]: check for check in (_pettingzoo, _determinism, _privacy, _snapshot, _hostile)
}
"""All checks by name, in the order run. Each returns its finding, or raises if it fails."""
