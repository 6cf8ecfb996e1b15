"""Checks of a whole environment: what must hold for training on it to mean anything.

`check_environment` runs them all on any environment of the library, built-in, mixed or made from your own
domain folder; ``toolorchestra validate`` is the same from a terminal. Each check stands alone: one that fails,
or breaks, does not hide the others. Games of several agents have checks of their own, in
`toolorchestra.envs.multiagent.checks`. Speed is not checked here; ``benchmarks/`` measures it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pickle
import random
import sqlite3
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import gymnasium
import msgspec
from gymnasium.utils.env_checker import check_env

from toolorchestra.agents.policies.base import Policy, play_episode, write_calls
from toolorchestra.agents.policies.reference import NoisyOraclePolicy
from toolorchestra.agents.policies.registry import make_policy
from toolorchestra.envs.base import OrchestrationEnv
from toolorchestra.envs.hostile import hostile_actions
from toolorchestra.envs.multiagent.registration import is_multiagent
from toolorchestra.envs.play import World, WorldSession
from toolorchestra.envs.sources.questions import try_answers
from toolorchestra.toolscale.build import quote
from toolorchestra.toolscale.domain import SPLITS, Domain
from toolorchestra.toolscale.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.guess import Guesser
from toolorchestra.toolscale.session import Session
from toolorchestra.toolscale.task import Call, Task
from toolorchestra.toolscale.tool import Status
from toolorchestra.toolscale.verifier_mutations import Surprise, try_verifier

FLOOR = 0.01
"""Share of tasks below which a policy that does not understand them must stay."""
RIGHT = 0.995
"""Share of mutants that must be judged failed, and of legitimate variants that must be judged solved."""

_MAX_DETAILS = 50
_CALLS_PER_HOSTILE_EPISODE = 10
_EPISODES_BETWEEN_DUMPS = 25
_CONSULTED = 0.4  # chance that a turn is spent on guests

Verdict = Literal["pass", "fail", "note"]
Progress = Callable[[str, int, int], object]
"""Told how far a check is: its name, steps done, steps in all."""


class CheckResult(msgspec.Struct, frozen=True):
    """What one check found.

    Attributes:
        name: The check.
        verdict: ``pass``, ``fail``, or ``note`` (worth knowing; not a failure).
        finding: One line.
        counts: The numbers behind it.
        details: What to look at: tasks that failed, mutants that survived and why.
        seconds: How long it took (wall clock).
    """

    name: str
    verdict: Verdict
    finding: str
    counts: dict[str, int] = {}
    details: tuple[str, ...] = ()
    seconds: float = 0.0


class CheckReport(msgspec.Struct, frozen=True):
    """What all checks found; true in a condition when none failed.

    Attributes:
        env_id: The environment.
        results: One for each check, in the order run.
    """

    env_id: str
    results: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(result.verdict != "fail" for result in self.results)

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        lines = [
            f"{result.verdict:4}  {result.name:12}  {result.seconds:6.1f} s  {result.finding}"
            for result in self.results
        ]
        return "\n".join([self.env_id, *lines])


def check_environment(
    env_id: str,
    *,
    checks: Sequence[str] | None = None,
    random_episodes: int = 1000,
    hostile: int = 3000,
    seed: int = 0,
    progress: Progress | None = None,
    **make_kwargs: Any,
) -> CheckReport:
    """Check an environment of the library and return what was found.

    The checks are ``gymnasium`` (its own checker), ``determinism`` (same seed, options and actions, same bytes;
    across processes too), ``oracle`` (reference trajectories solve every task), ``null`` and ``random`` (policies that
    do not understand solve less than 1 %), ``snapshot`` (going on from a restored state is going on), ``hostile``
    (nothing that a policy sends raises, or changes what a valid call would not), ``verifier`` (mutants judged failed,
    legitimate variants judged solved) and ``coverage`` (tools and splits in use; reported only).

    A game of several agents is checked by `toolorchestra.envs.multiagent.checks.check_multiagent` instead, whose checks
    are others and play a fixed number of episodes.

    Args:
        env_id: Id of an environment of the library: one registered with Gymnasium, or a game of several agents.
        checks: Names of the checks to run; None for all.
        random_episodes: Episodes of the random policy.
        hostile: Hostile actions sent.
        seed: All that is random about the checks follows from it.
        progress: Called with the name of a check, its steps done and its steps in all.
        make_kwargs: Arguments of the environment, e.g. ``domain`` for ``ToolOrchestra-Custom-v0``.

    Raises:
        UnknownNameError: There is no such check.
        OptionError: The environment is not one of the library.
    """
    if is_multiagent(env_id):
        from toolorchestra.envs.multiagent.checks import check_multiagent  # which itself imports this module

        return check_multiagent(env_id, checks=checks, seed=seed, progress=progress, **make_kwargs)
    wanted = list(CHECKS) if checks is None else list(checks)
    for name in wanted:
        if name not in CHECKS:
            raise UnknownNameError("check", name, CHECKS)
    for option, value in (("random_episodes", random_episodes), ("hostile", hostile)):
        if value < 1:
            raise OptionError(f"`{option}` must be at least 1, got {value}.")
    subject = _Subject(
        env_id, make_kwargs, seed=seed, random_episodes=random_episodes, hostile=hostile, progress=progress
    )
    subject.make().close()  # what is wrong with the id or its arguments is the caller's to mend: raise it here
    report = CheckReport(env_id, tuple(_run(name, subject) for name in wanted))
    subject.env.close()
    return report


class _Finding(msgspec.Struct):
    """What a check returns; `_run` adds the rest."""

    verdict: Verdict
    line: str
    counts: dict[str, int] = {}
    details: Sequence[str] = ()


def _run(name: str, subject: _Subject) -> CheckResult:
    began = time.perf_counter()
    subject.checking = name
    try:
        finding = CHECKS[name](subject)
    except Exception as error:  # a check that breaks has found something
        last = traceback.format_exc().splitlines()[-5:-1]
        finding = _Finding("fail", f"{type(error).__name__}: {error}", details=last)
    details = list(finding.details[:_MAX_DETAILS])
    if len(finding.details) > _MAX_DETAILS:
        details.append(f"… and {len(finding.details) - _MAX_DETAILS} more")
    seconds = round(time.perf_counter() - began, 3)
    return CheckResult(name, finding.verdict, finding.line, finding.counts, tuple(details), seconds)


class _Subject:
    """The environment under test, and what the checks share."""

    def __init__(
        self,
        env_id: str,
        kwargs: Mapping[str, Any],
        *,
        seed: int,
        random_episodes: int = 0,
        hostile: int = 0,
        progress: Progress | None = None,
    ) -> None:
        self.env_id = env_id
        self.kwargs = dict(kwargs)
        self.random_episodes = random_episodes
        self.hostile = hostile
        self.seed = seed
        self.checking = ""
        self._progress = progress

    def make(self) -> OrchestrationEnv:
        """Return a fresh environment, without wrappers."""
        env = gymnasium.make(self.env_id, disable_env_checker=True, **self.kwargs).unwrapped
        if not isinstance(env, OrchestrationEnv):
            raise OptionError(
                f"{self.env_id} is no ToolOrchestra environment of this library but {type(env).__name__}; "
                "gymnasium.utils.env_checker.check_env checks any environment."
            )
        return env

    @cached_property
    def env(self) -> OrchestrationEnv:
        """An environment that checks reset as they need."""
        return self.make()

    @cached_property
    def tasks(self) -> list[Task]:
        """All tasks of all splits."""
        return list(self.env.source.tasks("all"))

    @cached_property
    def worlds(self) -> dict[str, tuple[World, list[Task]]]:
        """The worlds in which the tasks take place, with the tasks of each."""
        found: dict[str, tuple[World, list[Task]]] = {}
        for task in self.tasks:
            world = self.env.source.world(task)
            found.setdefault(world.name, (world, []))[1].append(task)
        return found

    def steps(self, count: int) -> Iterator[int]:
        """Yield 0 to `count` - 1, reporting progress."""
        for step in range(count):
            self.tick(step, count)
            yield step
        self.tick(count, count)

    def tick(self, done: int, count: int) -> None:
        """Report progress of the check that runs."""
        if self._progress is not None:
            self._progress(self.checking, done, count)


# ------------------------------------------------------------------------------------------------- the checks


def _gymnasium(subject: _Subject) -> _Finding:
    """Gymnasium's own checker, its warnings included."""
    env = gymnasium.make(subject.env_id, disable_env_checker=True, **subject.kwargs).unwrapped
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        check_env(env)
    said = sorted({str(warning.message) for warning in caught})
    if said:
        return _Finding("note", f"passes, with {len(said)} warnings", {"warnings": len(said)}, said)
    return _Finding("pass", "Gymnasium's checker passes without warnings", {"warnings": 0})


def _determinism(subject: _Subject) -> _Finding:
    """Same seed, options and actions, same bytes: twice in this process, and in others that hash otherwise."""
    count = min(300, max(50, len(subject.tasks) // 2))
    first = _played(subject.env, count, subject.seed)
    fresh = subject.make()
    second = _played(fresh, count, subject.seed)
    fresh.close()
    differing = [f"episode {i}: {task_id}" for i, (task_id, digest) in enumerate(first) if second[i][1] != digest]
    others: list[str] = []
    for number, hash_seed in enumerate(("1", "4242")):
        subject.tick(number + 1, 3)
        theirs = _played_elsewhere(subject, count, hash_seed)
        others += [
            f"PYTHONHASHSEED={hash_seed}, episode {i}: {task_id}"
            for i, (task_id, digest) in enumerate(first)
            if theirs[i][1] != digest
        ]
    counts = {"episodes": count, "processes": 3, "differing": len(differing) + len(others)}
    if differing or others:
        line = f"{counts['differing']} of {count} episodes differ when played again"
        return _Finding("fail", line, counts, differing + others)
    whole = hashlib.sha256("".join(digest for _, digest in first).encode()).hexdigest()[:12]
    line = f"{count} episodes: the same bytes twice here and in 2 processes with other hash seeds ({whole})"
    return _Finding("pass", line, counts)


def _played(env: OrchestrationEnv, count: int, seed: int) -> list[tuple[str, str]]:
    """Play `count` episodes of several policies, and return the task and the digest of each record."""
    policies = [make_policy("oracle", seed=seed), make_policy("random", seed=seed), _ConsultingPolicy(seed)]
    digests = []
    for number in range(count):
        policy = policies[number % len(policies)]
        info = play_episode(env, policy, seed=seed + number, options={"split": "all"})
        seen = msgspec.json.encode(info["messages"])
        digests.append((env.task.id, hashlib.sha256(env.episode.to_json() + seen).hexdigest()))
    return digests


class _ConsultingPolicy(NoisyOraclePolicy):
    """A noisy oracle that also asks the guests on offer (experts, sub-agents, Python), whose luck must hold too."""

    def act(self, observation: str, info: Mapping[str, Any]) -> Any:
        """Return what the oracle would do, or now and then calls of guests."""
        guests = [tool for tool in self._env.play.tools.values() if tool.uses_episode and tool.effect != "write"]
        if guests and self.rng.random() < _CONSULTED:
            asked = self.rng.choices(guests, k=2)
            return write_calls(Call(tool.name, self._guesser.arguments(tool)) for tool in asked)
        return super().act(observation, info)


def _played_elsewhere(subject: _Subject, count: int, hash_seed: str) -> list[tuple[str, str]]:
    """Let another process play the same episodes, with another order of sets."""
    try:
        work = pickle.dumps((subject.env_id, subject.kwargs, count, subject.seed))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise OptionError(
            f"The environment's arguments cannot be sent to another process ({error}): give names or folders."
        ) from None
    done = subprocess.run(
        [sys.executable, "-c", "from toolorchestra.envs.checks import _play_for_parent; _play_for_parent()"],
        input=work,
        capture_output=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=False,
    )
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise RuntimeError(f"The other process ended with code {done.returncode}: {' '.join(last)}")
    return msgspec.json.decode(done.stdout, type=list[tuple[str, str]])


def _play_for_parent() -> None:
    """Play what the parent process sent to standard input, and write the digests to standard output."""
    env_id, kwargs, count, seed = pickle.loads(sys.stdin.buffer.read())
    env = _Subject(env_id, kwargs, seed=seed).make()
    sys.stdout.buffer.write(msgspec.json.encode(_played(env, count, seed)))


def _oracle(subject: _Subject) -> _Finding:
    """The reference trajectory of every task solves it."""
    failed = _unsolved(subject, make_policy("oracle"))
    count = len(subject.tasks)
    counts = {"tasks": count, "solved": count - len(failed)}
    if failed or not count:
        return _Finding(
            "fail", f"{counts['solved']:,} of {count:,} tasks solved by their reference trajectory", counts, failed
        )
    return _Finding("pass", f"all {count:,} tasks of all splits solved by their reference trajectory", counts)


def _unsolved(subject: _Subject, policy: Policy) -> list[str]:
    """Play every task once and return those not solved, with the verdict."""
    env = subject.env
    found = []
    for number in subject.steps(len(subject.tasks)):
        info = play_episode(env, policy, options={"task_id": subject.tasks[number].id})
        if info["outcome"] != "solved":
            found.append(f"{env.task.id}: {env.episode.outcome}: {env.episode.why}")
    return found


def _null(subject: _Subject) -> _Finding:
    """Doing nothing solves nothing."""
    count = len(subject.tasks)
    unsolved = {line.split(":")[0] for line in _unsolved(subject, make_policy("null"))}
    return _floor("the empty answer", [task.id for task in subject.tasks if task.id not in unsolved], count, "tasks")


def _random(subject: _Subject) -> _Finding:
    """Random valid calls and answers solve next to nothing."""
    env, policy = subject.env, make_policy("random", seed=subject.seed)
    solved = []
    for number in subject.steps(subject.random_episodes):
        info = play_episode(env, policy, seed=subject.seed + number, options={"split": "all"})
        if info["outcome"] == "solved":
            solved.append(f"{env.task.id} (seed {subject.seed + number})")
    return _floor("the random policy", solved, subject.random_episodes, "episodes")


def _floor(who: str, solved: list[str], count: int, unit: str) -> _Finding:
    share = len(solved) / max(1, count)
    verdict: Verdict = "pass" if share < FLOOR else "fail"
    line = f"{who} solves {len(solved):,} of {count:,} {unit} ({share:.1%}; the floor is below {FLOOR:.0%})"
    return _Finding(verdict, line, {unit: count, "solved": len(solved)}, solved)


def _snapshot(subject: _Subject) -> _Finding:
    """From a snapshot taken at a random moment, the same actions lead to the same observations and record.

    It is restored into the same environment after another episode was played there, and into a fresh one.
    """
    count = min(200, max(40, len(subject.tasks)))
    rng = random.Random(subject.seed)
    env, fresh, policy = subject.env, subject.make(), _ConsultingPolicy(subject.seed, error=0.1)
    wrong = []
    for number in subject.steps(count):
        seed = subject.seed + number
        actions = _actions(env, policy, seed)
        moment = rng.randrange(len(actions))
        env.reset(seed=seed, options={"split": "all"})
        for action in actions[:moment]:
            env.step(action)
        snapshot = env.snapshot()
        expected = _going_on(env, actions[moment:])
        play_episode(env, policy, options={"split": "all"})
        for target, where in ((env, "the same environment"), (fresh, "a fresh environment")):
            target.restore(snapshot)
            if _going_on(target, actions[moment:]) != expected:
                wrong.append(f"{env.task.id} (seed {seed}), before action {moment}, restored into {where}")
    fresh.close()
    counts = {"snapshots": count, "restores": 2 * count, "wrong": len(wrong)}
    if wrong:
        return _Finding("fail", f"{len(wrong)} of {2 * count} restored episodes went on differently", counts, wrong)
    return _Finding("pass", f"{count} snapshots, restored twice each: every episode went on the same", counts)


def _actions(env: OrchestrationEnv, policy: Policy, seed: int) -> list[Any]:
    """Return the actions that a policy takes in an episode."""
    observation, info = env.reset(seed=seed, options={"split": "all"})
    policy.reset(env, observation, info)
    actions, over = [], False
    while not over:
        actions.append(policy.act(observation, info))
        observation, _, terminated, truncated, info = env.step(actions[-1])
        over = terminated or truncated
    return actions


def _going_on(env: OrchestrationEnv, actions: Sequence[Any]) -> list[Any]:
    """Return all that one sees when taking `actions`, the record, and what the generator draws next."""
    seen: list[Any] = []
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(action)
        seen.append((observation, reward, terminated, truncated, info["cost"], info["clock"], info["messages"]))
    return [*seen, env.episode.to_json(), env.play.session.touched(), env.snapshot().generator]


def _hostile(subject: _Subject) -> _Finding:
    """Nothing that a policy may send raises, leaves a fault, or changes what its valid calls would not."""
    env = subject.env
    trial = _HostileTrial(env, random.Random(subject.seed))
    for _ in subject.steps(subject.hostile):
        trial.step()
    trial.end_episode(whole=True)
    counts = {
        "actions": subject.hostile,
        "episodes": trial.episodes,
        "wrong": len(trial.wrong),
        **{str(status): trial.statuses[status] for status in Status},
    }
    calls = ", ".join(f"{trial.statuses[status]:,} {status}" for status in Status)
    if trial.wrong:
        return _Finding("fail", f"{len(trial.wrong)} faults in {subject.hostile:,} actions", counts, trial.wrong)
    return _Finding("pass", f"{subject.hostile:,} actions: nothing raised, nothing harmed ({calls})", counts)


class _HostileTrial:
    """Sends hostile actions, and replays the valid calls among them elsewhere to compare what changed."""

    def __init__(self, env: OrchestrationEnv, rng: random.Random) -> None:
        self.env = env
        self.rng = rng
        self.episodes = 0
        self.statuses: Counter[Status] = Counter()
        self.wrong: list[str] = []
        self._sources: dict[str, Iterator[Any]] = {}
        self._twins: dict[str, WorldSession] = {}
        self._over = True

    def step(self) -> None:
        """Send the next action and look at what comes back."""
        if self._over:
            self._begin()
        action = next(self._actions)
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
        except Exception as error:
            self._fault(f"step raised {type(error).__name__}: {str(error)[:120]}", action)
            self._over = True
            return
        if info.get("outcome") in ("infra_error", "judge_error"):
            self._fault(f"{info['outcome']}: {info['verdict'][:120]}", action)
        if not self.env.observation_space.contains(observation) or not 0.0 <= float(reward) <= self.env.max_reward:
            self._fault("observation or reward outside its space", action)
        for record in info["calls"]:
            self.statuses[record.status] += 1
            if record.status is not Status.OK and not (record.error or "").strip():
                self._fault(f"{record.name}: {record.status} without a message", action)
        if terminated or truncated or len(self.env.episode.turns) >= _CALLS_PER_HOSTILE_EPISODE:
            self.end_episode(whole=self.episodes % _EPISODES_BETWEEN_DUMPS == 0)

    def end_episode(self, *, whole: bool) -> None:
        """Compare the database with one on which only the valid calls were made; `whole`: all of its rows."""
        if self._over:
            return
        self._over = True
        play = self.env.play
        world = play.world
        twin = self._twins.get(world.name)
        if twin is None:
            twin = self._twins[world.name] = world.session()
        twin.reset()
        for record in self.env.episode.calls:
            if record.status is Status.OK and not play.tools[record.name].uses_episode:
                assert record.arguments is not None
                twin.call(play.tools[record.name], dict(record.arguments))
        if play.session.touched() != twin.touched():
            self.wrong.append(f"{self.env.task.id}: the database changed beyond what its valid calls change")
        elif whole and _rows(play.session) != _rows(twin):
            self.wrong.append(f"{self.env.task.id}: rows changed that no journal has")

    def _begin(self) -> None:
        self.env.reset(seed=self.rng.randrange(2**31), options={"split": "all"})
        self.episodes += 1
        self._over = False
        play = self.env.play
        if play.world.name not in self._sources:
            arguments = Guesser(play.world, self.rng).arguments if isinstance(play.world, Domain) else None
            self._sources[play.world.name] = hostile_actions(self.rng, list(play.tools.values()), arguments)
        self._actions = self._sources[play.world.name]

    def _fault(self, message: str, action: Any) -> None:
        try:
            shown = repr(action)[:120]
        except RecursionError:
            shown = f"a {type(action).__name__} nested too deep to show"
        self.wrong.append(f"{message}; action {shown}")


def _rows(session: WorldSession) -> dict[str, list[Any]]:
    """Return all rows of all tables; there are none in a world without a database."""
    if not isinstance(session, Session):
        return {}
    connection: sqlite3.Connection = session.connection
    return {
        table: connection.execute(f"SELECT * FROM {quote(table)}").fetchall() for table in session.domain.spec.tables
    }


def _verifier(subject: _Subject) -> _Finding:
    """Wrong episodes are judged failed, and right ones that look different are judged solved."""
    counts: Counter[str] = Counter()
    surprises: list[Surprise] = []
    total = sum(len(tasks) for _, tasks in subject.worlds.values())
    steps = subject.steps(total)
    for world, tasks in subject.worlds.values():
        if isinstance(world, Domain):
            report = try_verifier(world, tasks, lambda: next(steps))
        else:
            report = try_answers(world, tasks, lambda: next(steps))
        surprises += report.surprises
        counts += Counter(
            mutants=report.mutants.total(),
            killed=report.killed.total(),
            variants=report.variants.total(),
            accepted=report.accepted.total(),
            **{f"mutants: {kind}": count for kind, count in report.mutants.items()},
            **{f"killed: {kind}": count for kind, count in report.killed.items()},
            **{f"variants: {kind}": count for kind, count in report.variants.items()},
            **{f"accepted: {kind}": count for kind, count in report.accepted.items()},
        )
    subject.tick(total, total)
    counts["equivalent"] = sum(surprise.equivalent for surprise in surprises)
    killed, accepted = _share(counts["killed"], counts["mutants"]), _share(counts["accepted"], counts["variants"])
    survivors = counts["mutants"] - counts["killed"]
    line = f"{killed:.2%} of {counts['mutants']:,} mutants judged failed"
    if survivors:
        line += f" ({counts['equivalent']} of {survivors} survivors equivalent)"
    line += f", {accepted:.2%} of {counts['variants']:,} legitimate variants judged solved"
    details = [
        f"{one.task_id}: {one.kind}: {one.detail} — {'equivalent: ' if one.equivalent else ''}{one.reason}"
        for one in sorted(surprises, key=lambda one: one.equivalent)
    ]
    verdict: Verdict = "pass" if min(killed, accepted) >= RIGHT else "fail"
    return _Finding(verdict, line, dict(counts), details)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def _coverage(subject: _Subject) -> _Finding:
    """Which tools no reference trajectory uses, and which splits are empty."""
    idle = []
    tools = 0
    for world, tasks in subject.worlds.values():
        used = {call.name for task in tasks for path in (task.reference_calls, *task.alternatives) for call in path}
        tools += len(world.tools)
        idle += [f"{world.name}: no reference trajectory calls {name}" for name in world.tools if name not in used]
    splits = Counter(task.split for task in subject.tasks)
    empty = [f"the split {split!r} has no task" for split in SPLITS if not splits[split]]
    counts: dict[str, int] = {"tools": tools, "idle tools": len(idle), **{split: splits[split] for split in SPLITS}}
    sizes = ", ".join(f"{split} {splits[split]:,}" for split in SPLITS)
    line = f"{tools - len(idle)} of {tools} tools are on a reference trajectory; tasks: {sizes}"
    return _Finding("note" if idle or empty else "pass", line, counts, [*idle, *empty])


CHECKS: dict[str, Callable[[_Subject], _Finding]] = {
    "gymnasium": _gymnasium,
    "determinism": _determinism,
    "oracle": _oracle,
    "null": _null,
    "random": _random,
    "snapshot": _snapshot,
    "hostile": _hostile,
    "verifier": _verifier,
    "coverage": _coverage,
}
"""All checks by name, in the order run."""

__all__ = ["CHECKS", "CheckReport", "CheckResult", "check_environment"]
