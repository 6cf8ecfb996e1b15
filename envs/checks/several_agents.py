"""Checks of an environment with several agents: the properties that training on it relies on.

`check_multiagent` does for these what `toolorchestra.envs.checks.check_environment` does for environments with one
agent, and returns the same kind of report. The checks are independent of each other.
"""

from __future__ import annotations

import contextlib
import io
import random
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from toolorchestra.envs.checks.report import CheckReport, CheckResult, Progress
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.registration import make_multiagent, protocol_module
from toolorchestra.toolscale.errors import OptionError, UnknownNameError

Make = Callable[[], MultiAgentEnv]
RandomMessage = Callable[[MultiAgentEnv, random.Random], str]

INVALID_MESSAGES: tuple[Any, ...] = (
    None,
    3,
    b"bytes",
    ["a", "list"],
    {"role": "assistant"},
    "",
    "\ud800",
    "\x00",
    "x" * 2_000_000,
)
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
        episodes: Episodes that each check plays, with messages of the environment's `random_message`.
        seed: All that is random about the checks follows from it.
        progress: Called with the name of a check, 0 or 1 (over), and 1.
        options: Arguments of the environment.

    Raises:
        UnknownNameError: There is no such environment, or no such check.
    """
    wanted = list(CHECKS) if checks is None else list(checks)
    if unknown := [name for name in wanted if name not in CHECKS]:
        raise UnknownNameError("check of environments with several agents", unknown[0], CHECKS)
    if episodes < 1:
        raise OptionError(f"`episodes` must be at least 1, got {episodes}.")

    def make() -> MultiAgentEnv:
        return make_multiagent(env_id, **options)

    make().close()  # raises for a wrong id or wrong arguments, which is the caller's error and not a finding
    write = random_messages(env_id)
    results = []
    for name in wanted:
        if progress is not None:
            progress(name, 0, 1)
        results.append(_run(name, make, write, episodes, seed))
        if progress is not None:
            progress(name, 1, 1)
    return CheckReport(env_id, tuple(results))


def random_messages(env_id: str) -> RandomMessage:
    """Return the function that writes random messages in an environment.

    Raises:
        OptionError: The environment has none.
    """
    write: RandomMessage | None = getattr(protocol_module(env_id), "random_message", None)
    if write is None:
        raise OptionError(
            f"{env_id} cannot be played at random: its module needs a function `random_message(env, rng)` that returns "
            "a well-formed random message."
        )
    return write


def _run(name: str, make: Make, write: RandomMessage, episodes: int, seed: int) -> CheckResult:
    began = time.perf_counter()
    try:
        finding, verdict = CHECKS[name](make, write, episodes, seed), "pass"
    except Exception as error:  # an assertion, or a check that breaks: either has found something
        finding, verdict = f"{type(error).__name__}: {error}", "fail"
    seconds = round(time.perf_counter() - began, 3)
    return CheckResult(name, "pass" if verdict == "pass" else "fail", finding, seconds=seconds)


def _random_play(env: MultiAgentEnv, write: RandomMessage, rng: random.Random) -> Iterator[str]:
    """Play to the end with random messages, yielding each after its step."""
    while not env.play.over:
        message = write(env, rng)
        env.step(message)
        yield message


def _pettingzoo(make: Make, write: RandomMessage, episodes: int, seed: int) -> str:
    """PettingZoo's tests for AEC environments."""
    from pettingzoo.test import api_test, seed_test

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")  # it advises agents named player_0, and arrays for observations
        api_test(make(), num_cycles=100)
        seed_test(make, num_cycles=100)
    return "api_test and seed_test pass"


def _determinism(make: Make, write: RandomMessage, episodes: int, seed: int) -> str:
    """Same seed and messages, same bytes."""
    one, other = make(), make()
    for number in range(episodes):
        rng = random.Random(f"{seed}/{number}")
        one.reset(seed=number)
        messages = list(_random_play(one, write, rng))
        other.reset(seed=number)
        for text in messages:
            other.step(text)
        assert one.episode.to_json() == other.episode.to_json(), f"the records of seed {number} differ"
    return f"{episodes} episodes are the same bytes in two environments"


def _privacy(make: Make, write: RandomMessage, episodes: int, seed: int) -> str:
    """What is only in one agent's history is in no other agent's observations."""
    env = make()
    looks = 0
    for number in range(episodes):
        rng = random.Random(f"{seed}/{number}")
        env.reset(seed=number)
        owner = rng.choice(env.possible_agents)
        secret = f"secret-{rng.getrandbits(64):x}"
        env.play.histories[owner].append({"role": "user", "content": secret})
        for _ in _random_play(env, write, rng):
            for agent in env.agents:
                seen = repr((env.observe(agent), env.infos[agent]))
                assert agent == owner or secret not in seen, f"{agent} observes a secret of {owner}"
                known = env.episode.history(agent)
                messages_seen = [message for message in env.infos[agent]["messages"] if message["content"] != secret]
                assert messages_seen == known, f"{agent} observes messages that are not in its history"
                looks += agent != owner
    return f"a secret in one agent's history was not seen in {looks} looks of others"


def _snapshot(make: Make, write: RandomMessage, episodes: int, seed: int) -> str:
    """An episode that continues from a branch point equals one that was not branched."""
    straight, branched = make(), make()
    for number in range(episodes):
        rng = random.Random(f"{seed}/{number}")
        straight.reset(seed=number)
        messages = list(_random_play(straight, write, rng))
        branched.reset(seed=number)
        fork = rng.randrange(len(messages))
        for text in messages[:fork]:
            branched.step(text)
        point = branched.snapshot()
        list(_random_play(branched, write, rng))
        branched.restore(point)
        for text in messages[fork:]:
            branched.step(text)
        assert branched.episode.to_json() == straight.episode.to_json(), (
            f"seed {number}, branched after {fork} messages"
        )
        assert branched.rewards == straight.rewards, f"seed {number}: the rewards differ"
    return f"{episodes} episodes continued from a branch point, not affected by another branch"


def _hostile(make: Make, write: RandomMessage, episodes: int, seed: int) -> str:
    """No message raises, or leaves a record that cannot be written."""
    env = make()
    rng = random.Random(seed)
    for number in range(episodes):
        env.reset(seed=number)
        while not env.play.over:
            env.step(rng.choice(INVALID_MESSAGES) if rng.random() < 0.5 else write(env, rng))
        env.episode.to_json()
        assert env.episode.outcome in ("solved", "failed"), env.episode.why
    return f"{episodes} episodes with invalid messages ended in a verdict"


CHECKS: dict[str, Callable[[Make, RandomMessage, int, int], str]] = {
    "pettingzoo": _pettingzoo,
    "determinism": _determinism,
    "privacy": _privacy,
    "snapshot": _snapshot,
    "hostile": _hostile,
}
"""All checks by name, in the order run."""
