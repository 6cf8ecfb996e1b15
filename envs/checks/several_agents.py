"""Checks of a game of several agents: what must hold for training on it to mean anything.

`check_multiagent` is to these games what `toolorchestra.envs.checks.check_environment` is to those of one agent, and
its report is of the same kind. Each check stands alone.
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
Say = Callable[[MultiAgentEnv, random.Random], str]

JUNK: tuple[Any, ...] = (None, 3, b"bytes", ["a", "list"], {"role": "assistant"}, "", "\ud800", "\x00", "x" * 2_000_000)
"""What no agent should say, and some will."""


def check_multiagent(
    env_id: str,
    *,
    checks: Sequence[str] | None = None,
    episodes: int = 50,
    seed: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> CheckReport:
    """Check a game of several agents and return what was found; true in a condition if no check failed.

    The checks are ``pettingzoo`` (its own tests), ``determinism`` (same seed and messages, same bytes), ``privacy``
    (a secret planted in one agent's history is never shown to another, and no agent is shown more than its history),
    ``snapshot`` (going on from a branch point is going on, whatever was played from it before) and ``hostile`` (nothing
    that an agent says raises).

    Args:
        env_id: Id of the game (`toolorchestra.envs.make_multiagent`).
        checks: Names of the checks to run; None for all.
        episodes: Episodes that each check plays, with messages of the game's own `random_message`.
        seed: All that is random about the checks follows from it.
        progress: Called with the name of a check, 0 or 1 (over), and 1.
        options: Arguments of the environment.

    Raises:
        UnknownNameError: There is no such game, or no such check.
    """
    wanted = list(CHECKS) if checks is None else list(checks)
    if unknown := [name for name in wanted if name not in CHECKS]:
        raise UnknownNameError("check of games of several agents", unknown[0], CHECKS)
    if episodes < 1:
        raise OptionError(f"`episodes` must be at least 1, got {episodes}.")

    def make() -> MultiAgentEnv:
        return make_multiagent(env_id, **options)

    make().close()  # what is wrong with the id or its arguments is the caller's to mend: raise it here
    say = random_messages(env_id)
    results = []
    for name in wanted:
        if progress is not None:
            progress(name, 0, 1)
        results.append(_run(name, make, say, episodes, seed))
        if progress is not None:
            progress(name, 1, 1)
    return CheckReport(env_id, tuple(results))


def random_messages(env_id: str) -> Say:
    """Return what says messages of no sense in a game.

    Raises:
        OptionError: The game has nothing of the kind.
    """
    say: Say | None = getattr(protocol_module(env_id), "random_message", None)
    if say is None:
        raise OptionError(
            f"{env_id} cannot be played at random: its module needs a function `random_message(env, rng)` that returns "
            "a message of the right form and of no sense."
        )
    return say


def _run(name: str, make: Make, say: Say, episodes: int, seed: int) -> CheckResult:
    began = time.perf_counter()
    try:
        finding, verdict = CHECKS[name](make, say, episodes, seed), "pass"
    except Exception as error:  # an assertion, or a check that breaks: either has found something
        finding, verdict = f"{type(error).__name__}: {error}", "fail"
    seconds = round(time.perf_counter() - began, 3)
    return CheckResult(name, "pass" if verdict == "pass" else "fail", finding, seconds=seconds)


def _moves(env: MultiAgentEnv, say: Say, rng: random.Random) -> Iterator[str]:
    """Play to the end with random messages, yielding each after it was said."""
    while not env.play.over:
        said = say(env, rng)
        env.step(said)
        yield said


def _pettingzoo(make: Make, say: Say, episodes: int, seed: int) -> str:
    """PettingZoo's tests for AEC environments."""
    from pettingzoo.test import api_test, seed_test

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")  # it advises agents named player_0, and arrays for observations
        api_test(make(), num_cycles=100)
        seed_test(make, num_cycles=100)
    return "api_test and seed_test pass"


def _determinism(make: Make, say: Say, episodes: int, seed: int) -> str:
    """Same seed and messages, same bytes."""
    one, other = make(), make()
    for number in range(episodes):
        rng = random.Random(f"{seed}/{number}")
        one.reset(seed=number)
        said = list(_moves(one, say, rng))
        other.reset(seed=number)
        for text in said:
            other.step(text)
        assert one.episode.to_json() == other.episode.to_json(), f"the records of seed {number} differ"
    return f"{episodes} episodes are the same bytes in two environments"


def _privacy(make: Make, say: Say, episodes: int, seed: int) -> str:
    """What is in one agent's history alone is shown to nobody else."""
    env = make()
    looks = 0
    for number in range(episodes):
        rng = random.Random(f"{seed}/{number}")
        env.reset(seed=number)
        owner = rng.choice(env.possible_agents)
        secret = f"secret-{rng.getrandbits(64):x}"
        env.play.histories[owner].append({"role": "user", "content": secret})
        for _ in _moves(env, say, rng):
            for agent in env.agents:
                seen = repr((env.observe(agent), env.infos[agent]))
                assert agent == owner or secret not in seen, f"{agent} is shown a secret of {owner}"
                known = env.episode.history(agent)
                shown = [message for message in env.infos[agent]["messages"] if message["content"] != secret]
                assert shown == known, f"{agent} is shown messages that are not in its history"
                looks += agent != owner
    return f"a secret in one agent's history was not seen in {looks} looks of others"


def _snapshot(make: Make, say: Say, episodes: int, seed: int) -> str:
    """Going on from a branch point gives what going on would have given."""
    straight, branched = make(), make()
    for number in range(episodes):
        rng = random.Random(f"{seed}/{number}")
        straight.reset(seed=number)
        said = list(_moves(straight, say, rng))
        branched.reset(seed=number)
        fork = rng.randrange(len(said))
        for text in said[:fork]:
            branched.step(text)
        point = branched.snapshot()
        list(_moves(branched, say, rng))
        branched.restore(point)
        for text in said[fork:]:
            branched.step(text)
        assert branched.episode.to_json() == straight.episode.to_json(), (
            f"seed {number}, branched after {fork} messages"
        )
        assert branched.rewards == straight.rewards, f"seed {number}: the rewards differ"
    return f"{episodes} episodes went on from a branch point as if there had been no other branch"


def _hostile(make: Make, say: Say, episodes: int, seed: int) -> str:
    """Nothing that an agent says raises, or leaves a record that cannot be written."""
    env = make()
    rng = random.Random(seed)
    for number in range(episodes):
        env.reset(seed=number)
        while not env.play.over:
            env.step(rng.choice(JUNK) if rng.random() < 0.5 else say(env, rng))
        env.episode.to_json()
        assert env.episode.outcome in ("solved", "failed"), env.episode.why
    return f"{episodes} episodes with junk among the messages ended in a verdict"


CHECKS: dict[str, Callable[[Make, Say, int, int], str]] = {
    "pettingzoo": _pettingzoo,
    "determinism": _determinism,
    "privacy": _privacy,
    "snapshot": _snapshot,
    "hostile": _hostile,
}
"""All checks by name, in the order run."""
