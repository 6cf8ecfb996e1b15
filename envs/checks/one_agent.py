"""Checks of an environment of one agent, and their common parts."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import pickle
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import gymnasium
import msgspec
from gymnasium.utils.env_checker import check_env

from toolorchestra.agents.policies.base import Policy, play_episode, write_calls
from toolorchestra.agents.policies.reference import NoisyOraclePolicy
from toolorchestra.agents.policies.registry import make_policy
from toolorchestra.envs.base import OrchestrationEnv
from toolorchestra.envs.checks.attacks import attacks_finding, exploit_finding, share
from toolorchestra.envs.checks.hostile import HostileCheck
from toolorchestra.envs.checks.other_processes import done_elsewhere, packed_for_others
from toolorchestra.envs.checks.report import CheckVerdict, Finding, Progress
from toolorchestra.envs.checks.wording import wording_finding
from toolorchestra.envs.sources.questions import try_answers
from toolorchestra.envs.world import World
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.domain import SPLITS, Domain
from toolorchestra.toolscale.tasks.task import Call, Task
from toolorchestra.toolscale.tools.tool import Status
from toolorchestra.toolscale.validation.exploiter import ExploitReport, try_exploits
from toolorchestra.toolscale.validation.verifier_attacks import AttackReport, try_attacks
from toolorchestra.toolscale.validation.verifier_mutations import (
    OTHER_LOOKUP,
    UnexpectedVerdict,
    VerifierReport,
    try_verifier,
)

FLOOR = 0.01
"""Share of tasks below which a policy that does not understand them must stay."""
RIGHT = 0.995
"""Share of mutants that must be judged failed, and of legitimate variants that must be judged solved."""

MAX_ATTACKED = 3_000
"""Tasks on which the check `attacks` tries its answers; of more, every second, third, … of each domain is taken."""

_CONSULTED = 0.4  # chance that a turn is spent on experts, sub-agents and Python


@dataclasses.dataclass
class Subject:
    """The environment under test, and what the checks share; `checking` is the check that runs."""

    env_id: str
    kwargs: dict[str, Any]
    seed: int
    random_episodes: int = 0
    hostile: int = 0
    progress: Progress | None = None
    checking: str = ""

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

    def steps(self, part: range) -> Iterator[int]:
        """Yield the numbers of a part of the work, reporting progress."""
        for done, step in enumerate(part):
            self.tick(done, len(part))
            yield step
        self.tick(len(part), len(part))

    def tick(self, done: int, count: int) -> None:
        """Report progress of the check that runs."""
        if self.progress is not None:
            self.progress(self.checking, done, count)


def _gymnasium(subject: Subject) -> Finding:
    """Gymnasium's own checker, its warnings included."""
    env = gymnasium.make(subject.env_id, disable_env_checker=True, **subject.kwargs).unwrapped
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        check_env(env)
    texts = sorted({str(warning.message) for warning in caught})
    if texts:
        return Finding("note", f"passes, with {len(texts)} warnings", {"warnings": len(texts)}, texts)
    return Finding("pass", "Gymnasium's checker passes without warnings", {"warnings": 0})


def _determinism(subject: Subject) -> Finding:
    """Same seed, options and actions, same bytes: twice in this process, and in others that hash otherwise."""
    count = min(300, max(50, len(subject.tasks) // 2))
    first = _played(subject.env, count, subject.seed)
    fresh = subject.make()
    differing = _differing(first, _played(fresh, count, subject.seed))
    fresh.close()
    for number, hash_seed in enumerate(("1", "4242"), 1):
        subject.tick(number, 3)
        elsewhere = _played_elsewhere(subject, count, hash_seed)
        differing += _differing(first, elsewhere, f"PYTHONHASHSEED={hash_seed}, ")
    counts = {"episodes": count, "processes": 3, "differing": len(differing)}
    if differing:
        return Finding("fail", f"{len(differing)} of {3 * count} replayed episodes differ", counts, differing)
    whole = hashlib.sha256("".join(digest for _, digest in first).encode()).hexdigest()[:12]
    line = f"{count} episodes: the same bytes twice here and in 2 processes with other hash seeds ({whole})"
    return Finding("pass", line, counts)


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


def _differing(first: list[tuple[str, str]], again: list[tuple[str, str]], where: str = "") -> list[str]:
    """Return the episodes whose digests differ."""
    pairs = enumerate(zip(first, again, strict=True))
    return [f"{where}episode {i}: {task_id}" for i, ((task_id, digest), (_, other)) in pairs if other != digest]


class _ConsultingPolicy(NoisyOraclePolicy):
    """A noisy oracle that also asks others (experts, sub-agents, Python), whose noise must be the same too."""

    def act(self, observation: str, info: Mapping[str, Any]) -> Any:
        """Return what the oracle would do, or now and then calls of tools that use the episode."""
        others = [tool for tool in self._env.play.tools.values() if tool.uses_episode and tool.effect != "write"]
        if others and self.rng.random() < _CONSULTED:
            chosen = self.rng.choices(others, k=2)
            return write_calls(Call(tool.name, self._guesser.arguments(tool)) for tool in chosen)
        return super().act(observation, info)


def _played_elsewhere(subject: Subject, count: int, hash_seed: str) -> list[tuple[str, str]]:
    """Let another process play the same episodes, with another order of sets."""
    work = packed_for_others(subject.env_id, subject.kwargs, count, subject.seed)
    return msgspec.json.decode(done_elsewhere(_play_for_parent, work, hash_seed), type=list[tuple[str, str]])


def _play_for_parent() -> None:
    """Play what the parent process sent to standard input, and write the digests to standard output."""
    env_id, kwargs, count, seed = pickle.loads(sys.stdin.buffer.read())
    env = Subject(env_id, kwargs, seed=seed).make()
    sys.stdout.buffer.write(msgspec.json.encode(_played(env, count, seed)))


def _oracle_found(subject: Subject, parts: list[list[str]]) -> Finding:
    """The reference trajectory of every task solves it."""
    failed = [line for part in parts for line in part]
    count = len(subject.tasks)
    counts = {"tasks": count, "solved": count - len(failed)}
    if failed or not count:
        line = f"{counts['solved']:,} of {count:,} tasks solved by their reference trajectory"
        return Finding("fail", line, counts, failed)
    return Finding("pass", f"all {count:,} tasks of all splits solved by their reference trajectory", counts)


def _unsolved(subject: Subject, policy: str, part: range) -> list[str]:
    """Play a part of the tasks once and return those not solved, with the verdict."""
    env, player = subject.env, make_policy(policy)
    found = []
    for number in subject.steps(part):
        info = play_episode(env, player, options={"task_id": subject.tasks[number].id})
        if info["outcome"] != "solved":
            found.append(f"{env.task.id}: {env.episode.outcome}: {env.episode.why}")
    return found


def _null_found(subject: Subject, parts: list[list[str]]) -> Finding:
    """Doing nothing solves nothing."""
    count = len(subject.tasks)
    unsolved = {line.split(":")[0] for part in parts for line in part}
    return _floor("the empty answer", [task.id for task in subject.tasks if task.id not in unsolved], count, "tasks")


def _random_solved(subject: Subject, part: range) -> list[str]:
    """Return the random episodes of a part that solve their task."""
    env, policy = subject.env, make_policy("random", seed=subject.seed)
    solved = []
    for number in subject.steps(part):
        info = play_episode(env, policy, seed=subject.seed + number, options={"split": "all"})
        if info["outcome"] == "solved":
            solved.append(f"{env.task.id} (seed {subject.seed + number})")
    return solved


def _random_found(subject: Subject, parts: list[list[str]]) -> Finding:
    """Random valid calls and answers solve next to nothing."""
    solved = [line for part in parts for line in part]
    return _floor("the random policy", solved, subject.random_episodes, "episodes")


def _floor(who: str, solved: list[str], count: int, unit: str) -> Finding:
    share = len(solved) / max(1, count)
    verdict: CheckVerdict = "pass" if share < FLOOR else "fail"
    line = f"{who} solves {len(solved):,} of {count:,} {unit} ({share:.1%}; the floor is below {FLOOR:.0%})"
    return Finding(verdict, line, {unit: count, "solved": len(solved)}, solved)


def _snapshot(subject: Subject) -> Finding:
    """From a snapshot taken at a random moment, the same actions lead to the same observations and record.

    It is restored into the same environment after another episode was played there, and into a fresh one.
    """
    count = min(200, max(40, len(subject.tasks)))
    rng = random.Random(subject.seed)
    env, fresh, policy = subject.env, subject.make(), _ConsultingPolicy(subject.seed, error=0.1)
    wrong = []
    for number in subject.steps(range(count)):
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
        return Finding("fail", f"{len(wrong)} of {2 * count} restored episodes went on differently", counts, wrong)
    return Finding("pass", f"{count} snapshots, restored twice each: every episode went on the same", counts)


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
    return [*seen, env.episode.to_json(), env.play.session.touched(), dict(env.np_random.bit_generator.state)]


def _hostile(subject: Subject) -> Finding:
    """Nothing that a policy may send raises, leaves a fault, or changes what its valid calls would not."""
    env = subject.env
    check = HostileCheck(env, random.Random(subject.seed))
    for _ in subject.steps(range(subject.hostile)):
        check.step()
    check.end_episode(whole=True)
    counts = {
        "actions": subject.hostile,
        "episodes": check.episodes,
        "wrong": len(check.wrong),
        **{str(status): check.statuses[status] for status in Status},
    }
    calls = ", ".join(f"{check.statuses[status]:,} {status}" for status in Status)
    if check.wrong:
        return Finding("fail", f"{len(check.wrong)} faults in {subject.hostile:,} actions", counts, check.wrong)
    return Finding("pass", f"{subject.hostile:,} actions: nothing raised, nothing harmed ({calls})", counts)


def _verified(subject: Subject, part: range) -> list[VerifierReport]:
    """Try the verifier on a part of the tasks; questions, whose wrong answers are those of others, with their first."""
    steps, reports, first = subject.steps(part), [], 0
    for world, tasks in subject.worlds.values():
        if isinstance(world, Domain):
            chosen = [task for place, task in enumerate(tasks, first) if place in part]
            reports.append(try_verifier(world, chosen, lambda: next(steps, 0)))
        elif first in part:
            reports.append(try_answers(world, tasks, lambda: next(steps, 0)))
        first += len(tasks)
    subject.tick(len(part), len(part))
    return reports


def _verifier_found(subject: Subject, parts: list[list[VerifierReport]]) -> Finding:
    """Wrong episodes are judged failed, and right ones that look different are judged solved."""
    counts: Counter[str] = Counter()
    surprises: list[UnexpectedVerdict] = []
    tallies: dict[str, Counter[str]] = {name: Counter() for name in ("mutants", "killed", "variants", "accepted")}
    for report in (report for part in parts for report in part):
        surprises += report.surprises
        for name, tally in tallies.items():
            tally.update(getattr(report, name))
    counts.update({name: tally.total() for name, tally in tallies.items()})  # `+=` would drop what is 0
    counts.update({f"{name}: {kind}": n for name, tally in tallies.items() for kind, n in tally.items()})
    counts["equivalent"] = sum(surprise.equivalent for surprise in surprises)
    killed, accepted = share(counts["killed"], counts["mutants"]), share(counts["accepted"], counts["variants"])
    survivors = counts["mutants"] - counts["killed"]
    line = f"{killed:.2%} of {counts['mutants']:,} mutants judged failed"
    if survivors:
        line += f" ({counts['equivalent']} of {survivors} survivors equivalent)"
    line += f", {accepted:.2%} of {counts['variants']:,} legitimate variants judged solved"
    details = [
        f"{one.task_id}: {one.kind}: {one.detail} — {'equivalent: ' if one.equivalent else ''}{one.reason}"
        for one in sorted(surprises, key=lambda one: one.equivalent)
    ]
    unseen = counts[f"variants: {OTHER_LOOKUP}"] - counts[f"accepted: {OTHER_LOOKUP}"]
    if unseen:
        line += f"; {unseen:,} that see the same facts with another tool judged failed, expected none"
    verdict: CheckVerdict = "pass" if min(killed, accepted) >= RIGHT and not unseen else "fail"
    return Finding(verdict, line, dict(counts), details)


def _attacked(subject: Subject) -> tuple[list[tuple[Domain, list[Task]]], int]:
    """Return the domains with the tasks that are attacked, and of how many tasks of each domain one is taken."""
    domains = _domains(subject)
    step = max(1, -(-sum(len(tasks) for _, tasks in domains) // MAX_ATTACKED))
    return [(world, tasks[::step]) for world, tasks in domains], step


def _attacked_tasks(subject: Subject) -> int:
    return sum(len(tasks) for _, tasks in _attacked(subject)[0])


def _tried(subject: Subject, part: range) -> AttackReport:
    """Attack a part of the tasks."""
    report, steps, first = AttackReport(), subject.steps(part), 0
    for world, tasks in _attacked(subject)[0]:
        inside = range(max(0, part.start - first), min(len(tasks), part.stop - first))
        if inside:
            report.add(try_attacks(world, tasks, lambda: next(steps, 0), inside))
        first += len(tasks)
    subject.tick(len(part), len(part))
    return report


def _attacks_found(subject: Subject, parts: list[AttackReport]) -> Finding:
    """Answers and calls that must not be paid are not, and right answers in other spellings are."""
    report = AttackReport()
    for part in parts:
        report.add(part)
    return attacks_finding(report, _attacked_tasks(subject), _attacked(subject)[1])


def _domains(subject: Subject) -> list[tuple[Domain, list[Task]]]:
    return [(world, tasks) for world, tasks in subject.worlds.values() if isinstance(world, Domain)]


def _exploited(subject: Subject, part: range) -> list[ExploitReport]:
    """Search for the best exploits of a part of the domains."""
    domains = _domains(subject)
    return [try_exploits(*domains[number]) for number in subject.steps(part)]


def _exploit_found(_: Subject, parts: list[list[ExploitReport]]) -> Finding:
    """Strategies without understanding earn little."""
    return exploit_finding([report for part in parts for report in part])


def _wording(subject: Subject) -> Finding:
    """Whether requests and answers read as people write."""
    return wording_finding(_domains(subject))


def _coverage(subject: Subject) -> Finding:
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
    return Finding("note" if idle or empty else "pass", line, counts, [*idle, *empty])


class DividedCheck(NamedTuple):
    """A check whose work can be divided: it has `size` steps, `part` does some of them, `finding` sums up all parts."""

    size: Callable[[Subject], int]
    part: Callable[[Subject, range], Any]
    finding: Callable[[Subject, list[Any]], Finding]


def _tasks(subject: Subject) -> int:
    return len(subject.tasks)


DIVIDED: dict[str, DividedCheck] = {
    "oracle": DividedCheck(_tasks, lambda subject, part: _unsolved(subject, "oracle", part), _oracle_found),
    "null": DividedCheck(_tasks, lambda subject, part: _unsolved(subject, "null", part), _null_found),
    "random": DividedCheck(lambda subject: subject.random_episodes, _random_solved, _random_found),
    "verifier": DividedCheck(_tasks, _verified, _verifier_found),
    "attacks": DividedCheck(_attacked_tasks, _tried, _attacks_found),
    "exploit": DividedCheck(lambda subject: len(_domains(subject)), _exploited, _exploit_found),
}
"""The checks whose work can be divided among workers."""


def _whole(subject: Subject, name: str) -> Finding:
    """Run a check whose work can be divided in one part."""
    check = DIVIDED[name]
    return check.finding(subject, [check.part(subject, range(check.size(subject)))])


CHECKS: dict[str, Callable[[Subject], Finding]] = {
    "gymnasium": _gymnasium,
    "determinism": _determinism,
    "oracle": lambda subject: _whole(subject, "oracle"),
    "null": lambda subject: _whole(subject, "null"),
    "random": lambda subject: _whole(subject, "random"),
    "snapshot": _snapshot,
    "hostile": _hostile,
    "verifier": lambda subject: _whole(subject, "verifier"),
    "attacks": lambda subject: _whole(subject, "attacks"),
    "exploit": lambda subject: _whole(subject, "exploit"),
    "wording": _wording,
    "coverage": _coverage,
}
"""All checks by name, in the order run."""
