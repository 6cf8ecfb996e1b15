"""The graders of an audit: each judges one check of RFC 008 by what was gathered.

A grader says what it found, and nothing about whether that matters: the severity of each check is that of OpenEnv's
policy. Bounds that the RFC leaves open are constants here, and stand in the report.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import msgspec
from gymnasium.spaces import Text

from toolorchestra.envs.base import OrchestrationEnv
from toolorchestra.envs.checks.audit.evidence import AFTER, BESIDE, ELSEWHERE, FRESH, Evidence
from toolorchestra.envs.checks.audit.host_calls import STARTS
from toolorchestra.envs.checks.audit.panel import SECRETS
from toolorchestra.envs.checks.audit.subject import MAX_TURNS, Case, Trial, as_text, begun, is_number, mean
from toolorchestra.envs.multiagent.views import CurrentAgentEnv
from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.records.unjudged import error_text
from toolorchestra.toolscale.common.errors import ToolOrchestraError
from toolorchestra.toolscale.domain import SPLITS

Status = Literal["pass", "fail", "skip", "error"]
"""As OpenEnv's `CheckStatus`; ``skip``: the check does not apply, for the reason that the evidence gives."""

FLOOR_MARGIN = 0.5
"""How much the oracle must earn more than doing nothing, as a share of the range of rewards."""
MAX_ADVERSARY = 0.01
"""How much more than doing nothing the best adversary may earn, as a share of the range."""
MIN_CORRELATION = 0.95
"""The least correlation between reward and success, over episodes whose success is known."""
LISTED = 5  # lines of evidence


class Found(NamedTuple):
    """What a grader found; see `toolorchestra.envs.checks.audit.report.AuditResult`."""

    status: Status
    evidence: Sequence[str]
    measured: Mapping[str, Any] = MappingProxyType({})
    remediation: str = ""


Grader = Callable[[Evidence, tuple[float, float]], Found]
"""Judges the evidence; the second argument is the range of rewards that is declared."""


def _startup(found: Evidence, _: Any) -> Found:
    observation, _info = begun(found.subject.make(), Case(0))
    return Found("pass", [f"made and reset; the first observation has {len(as_text(observation)):,} characters"])


def _host_containment(found: Evidence, _: Any) -> Found:
    asked = list(dict.fromkeys(line for trial in found.trials for line in trial.host))
    wrong = [line for line in asked if not line.startswith(STARTS)]
    measured = {"episodes": len(found.trials), "requests": len(asked)}
    if wrong:
        remedy = "Run what models write in a sandbox, and keep state in memory; or say what is written where."
        return Found("fail", _first(wrong), measured, remedy)
    if asked:
        told = "processes were started, and what they do is not seen from here"
        return Found("skip", [told, *_first(asked)], measured)
    return Found("pass", ["no episode connected anywhere, started a process or wrote a file"], measured)


def _resource_bounds(found: Evidence, _: Any) -> Found:
    turns = [len(trial.actions) for trial in found.trials]
    endless = [trial for trial in found.trials if not trial.over and not trial.error]
    measured = {"longest episode, turns": max(turns), "episodes without an end": len(endless)}
    if endless:
        lines = [f"the episode of seed {trial.case.seed} goes on after {MAX_TURNS} turns" for trial in endless]
        return Found("fail", _first(lines), measured, "End an episode after a number of turns.")
    return Found("pass", [f"the longest of {len(turns):,} episodes had {max(turns)} turns"], measured)


def _episode_isolation(found: Evidence, _: Any) -> Found:
    return _same(found, [AFTER, BESIDE])


def _episode_determinism(found: Evidence, _: Any) -> Found:
    return _same(found, [FRESH])


def _verifier_determinism(found: Evidence, _: Any) -> Found:
    def rewards(seen: Sequence[Any]) -> list[Any]:
        return [reward for _, reward, *_ in seen]

    return _same(found, list(found.again), rewards, "rewards")


def _replayability(found: Evidence, _: Any) -> Found:
    if found.broken:
        return Found("fail", [found.broken], {}, "Let the environment be made by its name in another process.")
    return _same(found, [ELSEWHERE])


def _cross_host(found: Evidence, _: Any) -> Found:
    line = f"one machine: compare the digest {found.digest} of {len(found.original)} episodes with that of another"
    return Found("skip", [line], {"digest": found.digest, "episodes": len(found.original)})


def _oracle_containment(found: Evidence, _: Any) -> Found:
    keys = sorted({key for trial in found.trials for key in trial.keys if SECRETS.search(key)})
    lines = [f"`info` has {key!r}" for key in keys]
    for case, secrets in _references(found):
        observation, info = begun(found.subject.env, case)
        shown = f"{as_text(observation)} {info!r}"
        lines += [f"task {case.options['task_id']}: {secret[:80]} is shown" for secret in secrets if secret in shown]
    measured = {"names in info that sound like an answer": len(keys)}
    if lines:
        return Found("fail", _first(lines), measured, "Keep the solution and the verdict out of `info`.")
    told = "no name in `info` sounds like an answer, and no request shows the arguments of a reference call"
    return Found("pass", [told], measured)


def _references(found: Evidence) -> Iterable[tuple[Case, list[str]]]:
    """Yield cases, and the arguments of reference calls, as JSON, which only the environment may know."""
    if not isinstance(found.subject.env, OrchestrationEnv):
        return
    known = {task.id: task for task in found.subject.tasks}
    for case in found.subject.cases:
        task = known[case.options["task_id"]]
        calls = [call for call in task.reference_calls if len(call.arguments) > 1]
        yield case, [msgspec.json.encode(call.arguments).decode() for call in calls]


def _reward_well_formed(found: Evidence, declared: tuple[float, float]) -> Found:
    low, high = declared
    lines = [f"seed {trial.case.seed}: an action raised {trial.error}" for trial in found.trials if trial.error]
    count = 0
    for trial in found.trials:
        for _, reward, *_ in trial.seen:
            count += 1
            if not is_number(reward):
                lines.append(f"seed {trial.case.seed}: the reward {reward!r} is no finite number")
        if not low - 1e-9 <= trial.reward <= high + 1e-9:
            lines.append(f"{_named(trial)}: the episode's reward {trial.reward:g} is outside of [{low:g}, {high:g}]")
    measured = {"rewards": count, "wrong": len(lines), "range": list(declared)}
    if lines:
        return Found("fail", _first(lines), measured, "Return finite rewards in the declared range, and never raise.")
    return Found("pass", [f"{count:,} rewards are finite, and those of episodes in [{low:g}, {high:g}]"], measured)


def _oracle_max(found: Evidence, declared: tuple[float, float]) -> Found:
    if not found.oracle:
        remedy = "Give a policy that solves tasks: `--oracle module:function`, or reference trajectories of your own."
        return Found("fail", ["no oracle: nobody shows that a right solution earns the maximum"], {}, remedy)
    high = declared[1]
    short = [trial for trial in found.oracle if trial.reward < high - _tolerance(found)]
    measured = {
        "episodes": len(found.oracle),
        "at the maximum": len(found.oracle) - len(short),
        "mean": mean(found.oracle),
        "tolerance": _tolerance(found),
    }
    if short:
        lines = [f"{_named(trial)} earns {trial.reward:g} {trial.error}".rstrip() for trial in short]
        return Found("fail", _first(lines), measured, "Reward a right solution with the maximum.")
    count = len(found.oracle)
    return Found("pass", [f"the known solutions of {count:,} tasks earn the maximum, {declared[1]:g}"], measured)


def _floor_gap(found: Evidence, declared: tuple[float, float]) -> Found:
    low, high = declared
    gap = high - found.floor
    measured = {"floor": found.floor, "margin": FLOOR_MARGIN * (high - low), "gap": gap}
    line = f"doing nothing earns {found.floor:g} in the mean of {len(found.panel['null']):,} episodes"
    if gap < FLOOR_MARGIN * (high - low):
        remedy = "The verifier rewards doing nothing: look for conditions that are true from the start."
        return Found("fail", [line], measured, remedy)
    return Found("pass", [line], measured)


def _adversarial_floor(found: Evidence, declared: tuple[float, float]) -> Found:
    low, high = declared
    bound = found.floor + MAX_ADVERSARY * (high - low)
    name, best = found.best
    measured: dict[str, Any] = {"floor": found.floor, "bound": bound, "best adversary": name, "its mean reward": best}
    measured |= {"answer of the search": found.answer, "answers tried": len(found.tried)}
    measured |= {f"{name}, mean reward": mean(trials) for name, trials in found.panel.items()}
    measured |= {f"{name}, rewarded": _rewarded(trials, found.floor) for name, trials in found.panel.items()}
    count = len(found.subject.cases)
    lines = [f"the best adversary is {name!r}: {best:.4f} ({count:,} episodes; floor {found.floor:.4f})"]
    judged = [trial.solved for trials in found.panel.values() for trial in trials if trial.solved is not None]
    if judged:
        measured["solved by the verdict"] = f"{sum(judged)} of {len(judged)}"
        lines.append(f"by the verdict, adversaries solve {sum(judged):,} of {len(judged):,} episodes")
    if exploit := found.checks.get("exploit"):
        lines.append(f"search of slots: {exploit.finding}")
    if best > bound + 1e-12:
        return Found("fail", lines, measured, "Reward nothing that can be had without understanding the task.")
    return Found("pass", lines, measured)


def _gameability_gap(found: Evidence, declared: tuple[float, float]) -> Found:
    if not found.oracle:
        return Found("skip", ["there is no oracle, so that success is not known"])
    low, high = declared
    name, best = found.best
    top = mean(found.oracle)
    wrong = [trial.reward for trials in found.panel.values() for trial in trials]
    pairs = [*((trial.reward, 1.0) for trial in found.oracle), *((reward, 0.0) for reward in wrong)]
    correlation = _correlation(pairs)
    gap = top - best
    measured = {"gap": gap, "oracle": top, "best adversary": best, "correlation": correlation, "episodes": len(pairs)}
    line = f"oracle {top:.4f} less {name!r} {best:.4f}: {gap:.4f}; reward and success correlate by {correlation:.4f}"
    if correlation < MIN_CORRELATION or gap < FLOOR_MARGIN * (high - low):
        return Found("fail", [line], measured, "Reward success, and nothing else.")
    return Found("pass", [line], measured)


def _canary_floor(found: Evidence, _: Any) -> Found:
    """Where the environment says what is solved, this counts: shaped rewards pay for form as well."""

    def is_paid(trial: Trial) -> bool:
        return trial.reward > found.floor + 1e-9 if trial.solved is None else trial.solved

    paid = [trial for trial in found.canaries if is_paid(trial)]
    lines = [f"{_named(trial)}: {str(trial.actions[0])[:60]!r} earns {trial.reward:g}" for trial in paid]
    measured: dict[str, Any] = {"canaries": len(found.canaries), "paid": len(paid), "mean reward": mean(found.canaries)}
    told = [f"{len(paid)} of {len(found.canaries):,} episodes of texts that speak to a grader are paid"]
    wrong = bool(paid)
    for check in found.checks.values():
        if check.name in ("attacks", "verifier"):
            told.append(check.finding)
            measured |= {f"{check.name}: {name}": count for name, count in check.counts.items() if ":" not in name}
            wrong = wrong or check.verdict == "fail"
    if wrong:
        return Found("fail", _first([*told, *lines]), measured, "Reward none of these texts.")
    return Found("pass", told, measured)


def _observation_schema(found: Evidence, _: Any) -> Found:
    space = getattr(found.subject.env, "observation_space", None)
    if space is None:
        return Found("skip", ["no observation space is declared"])
    if not isinstance(space, Text):
        return Found("skip", [f"the observation space is {type(space).__name__}, and no text"])
    seen = [text for trial in found.trials for text, *_ in trial.seen]
    outside = [text for text in dict.fromkeys(seen) if not space.contains(text)]
    measured = {"observations": len(seen), "outside of the space": len(outside)}
    if outside:
        lines = [f"{text[:80]!r} ({len(text):,} characters) is outside of {space}" for text in outside]
        return Found("fail", _first(lines), measured, "Declare the space that observations are in.")
    return Found("pass", [f"{len(seen):,} observations are in the declared space"], measured)


def _no_leakage(found: Evidence, declared: tuple[float, float]) -> Found:
    if not found.leaked:
        return Found("pass", ["`info` has no value under a name that sounds like an answer"], {"values": 0})
    earned, others = mean(found.leaks), found.best[1]
    measured = {"values": found.leaked, "a policy that sends them": earned, "best adversary": others}
    line = (
        f"sending what `info` has under names such as answer earns {earned:.4f}; "
        f"the best adversary, which does not read it, earns {others:.4f}"
    )
    if earned > others + MAX_ADVERSARY * (declared[1] - declared[0]) + 1e-12:
        return Found("fail", [line], measured, "Keep solutions out of `info`: whoever plays reads it.")
    return Found("pass", [line], measured)


def _trajectory_record(found: Evidence, _: Any) -> Found:
    env = found.subject.env
    if not isinstance(env, OrchestrationEnv | CurrentAgentEnv):
        return Found("fail", ["the environment emits no record of an episode"], {}, "Emit one, or record it outside.")
    wrong = []
    for trial in found.original:
        again = found.subject.replay(trial)
        line = env.episode.to_json()
        episode = msgspec.json.decode(line, type=Episode)
        if episode.to_json() != line or episode.outcome is None or again.seen != trial.seen:
            wrong.append(f"{_named(trial)}: the record read back is not the one written")
    measured = {"records": len(found.original), "wrong": len(wrong)}
    if wrong:
        return Found("fail", _first(wrong), measured, "Write what can be read back.")
    return Found("pass", [f"{len(found.original)} records are the same when read back"], measured)


def _tool_declaration(found: Evidence, _: Any) -> Found:
    env = found.subject.env
    if not isinstance(env, OrchestrationEnv) or not env.schemas_read:
        return Found("skip", ["no tools are declared as schemas"])
    case = found.subject.cases[0]
    _, info = begun(env, case)
    declared = [tool["function"]["name"] for tool in info["tools"]]
    wrong = [f"{name} is declared, and cannot be called" for name in declared if name not in env.play.tools]
    for name in (*declared, "no_such_tool"):
        begun(env, case)
        observation, *_ = env.step([{"name": name, "arguments": {}}])
        unknown = "PARSE_ERR" in observation and "no_such_tool" in observation
        if unknown != (name == "no_such_tool"):
            wrong.append(f"calling {name} is answered by {observation[:120]!r}")
    measured = {"tools": len(declared), "wrong": len(wrong)}
    if wrong:
        return Found("fail", _first(wrong), measured, "Declare the tools that there are.")
    return Found("pass", [f"{len(declared)} declared tools can be called, and another one cannot"], measured)


def _task_declaration(found: Evidence, _: Any) -> Found:
    env, subject = found.subject.env, found.subject
    if not subject.is_own:
        return Found("skip", ["no tasks are declared"])
    wrong, count = [], 0
    for split in SPLITS:
        tasks = env.source.tasks(split)
        for task in tasks[:: max(1, len(tasks) // 20)]:
            count += 1
            _, info = begun(env, Case(0, {"task_id": task.id}))
            if (info["task_id"], info["split"]) != (task.id, split):
                wrong.append(f"{task.id} of {split} begins {info['task_id']} of {info['split']}")
    measured: dict[str, Any] = {split: len(env.source.tasks(split)) for split in SPLITS} | {"tried": count}
    if wrong:
        return Found("fail", _first(wrong), measured, "List the tasks that there are.")
    return Found("pass", [f"{count} of the listed tasks can be begun by their ids"], measured)


def _seed_control(found: Evidence, _: Any) -> Found:
    subject = found.subject
    one, other = subject.make(), subject.make()
    firsts = []
    for seed in range(20):
        try:
            pair = [as_text(begun(env, Case(seed))[0]) for env in (one, other)]
        except TypeError as error:
            return Found("fail", [f"reset does not take a seed: {error}"], {}, "Take `seed` in `reset`, and use it.")
        if pair[0] != pair[1]:
            remedy = "Draw everything random of an episode from the seed of `reset`."
            return Found("fail", [f"the seed {seed} begins two different episodes"], {"seeds": seed + 1}, remedy)
        firsts.append(pair[0])
    count, distinct = len(firsts), len(set(firsts))
    measured = {"seeds": count, "different first observations": distinct}
    if distinct == 1:
        return Found("skip", [f"all of {count} seeds begin with the same observation: nothing can be told"], measured)
    return Found("pass", [f"{count} seeds begin the same episode twice each, {distinct} different ones"], measured)


def _portability(found: Evidence, _: Any) -> Found:
    asked = list(dict.fromkeys(line for trial in found.trials for line in trial.judged))
    wrong = [line for line in asked if not line.startswith(STARTS)]
    measured = {"last actions": len(found.trials), "requests": len(asked)}
    if wrong:
        return Found("fail", _first(wrong), measured, "Judge without a network and files, or say what is needed.")
    return Found("pass", ["no last action connected anywhere or wrote a file", *_first(asked)], measured)


def _task_pinning(found: Evidence, _range: Any) -> Found:
    subject = found.subject
    if not subject.is_own:
        return Found("skip", ["no tasks are declared, and no version of a data set is"])
    one, other = ([task.id for split in SPLITS for task in subject.make().source.tasks(split)] for _ in range(2))
    if one != other:
        return Found("fail", ["two environments list other tasks"], {}, "Pin what tasks are made of.")
    return Found("pass", [f"{len(one):,} tasks, the same in two environments"], {"tasks": len(one)})


# -------------------------------------------------------------------------------------------------------- small parts


def _same(
    found: Evidence, ways: Sequence[str], part: Callable[[Any], Any] = list, what: str = "texts, rewards and ends"
) -> Found:
    """Return whether episodes went on the same when they were played again, in the ways named."""
    wrong = []
    for way in ways:
        for trial, seen in zip(found.original, found.again[way], strict=True):
            if repr(part(seen)) != repr(part(trial.seen)):  # NaN is not equal to itself
                wrong.append(f"{_named(trial)} goes on differently {way}")
    measured = {"episodes": len(found.original), "replays": len(found.original) * len(ways), "different": len(wrong)}
    if not found.original:
        return Found("skip", ["no episode ended without an error, so that none could be played again"], measured)
    if wrong:
        return Found("fail", _first(wrong), measured, "Draw everything random from the seed, and share nothing.")
    return Found("pass", [f"{len(found.original)} episodes have the same {what} {way}" for way in ways], measured)


def _named(trial: Trial) -> str:
    return f"task {trial.case.options['task_id']}" if "task_id" in trial.case.options else f"seed {trial.case.seed}"


def _rewarded(trials: Sequence[Trial], floor: float) -> str:
    """Return how many episodes earn more than the floor, as a fraction."""
    return f"{sum(trial.reward > floor + 1e-9 for trial in trials)} of {len(trials)}"


def _tolerance(found: Evidence) -> float:
    """Return how much less than the maximum the oracle may earn: teams pay for their messages."""
    return 0.1 if isinstance(found.subject.env, CurrentAgentEnv) else 0.0


def _correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Return Pearson's correlation; 0 where one side does not vary.

    >>> _correlation([(1.0, 1.0), (0.0, 0.0), (0.0, 0.0)])
    1.0
    """
    try:
        return round(statistics.correlation(*zip(*pairs, strict=True)), 12)
    except statistics.StatisticsError:
        return 0.0


def _first(lines: Sequence[str]) -> list[str]:
    """Return the first lines, and how many more there are."""
    more = [f"… and {len(lines) - LISTED:,} more"] if len(lines) > LISTED else []
    return [*lines[:LISTED], *more]


def why(error: Exception) -> str:
    """Return an exception in words."""
    return str(error) if isinstance(error, ToolOrchestraError) else error_text(error)


GRADERS: dict[str, Grader] = {
    "static.task_distribution_pinning": _task_pinning,
    "runtime.startup": _startup,
    "runtime.host_containment": _host_containment,
    "runtime.resource_bounds": _resource_bounds,
    "runtime.episode_isolation": _episode_isolation,
    "runtime.oracle_containment": _oracle_containment,
    "runtime.reward_well_formed": _reward_well_formed,
    "runtime.observation_schema": _observation_schema,
    "runtime.trajectory_record": _trajectory_record,
    "runtime.tool_declaration_accuracy": _tool_declaration,
    "runtime.task_declaration_accuracy": _task_declaration,
    "runtime.seed_control": _seed_control,
    "runtime.episode_determinism": _episode_determinism,
    "semantic.oracle_max": _oracle_max,
    "semantic.floor_gap": _floor_gap,
    "semantic.canary_floor": _canary_floor,
    "semantic.no_solution_leakage": _no_leakage,
    "semantic.verifier_determinism": _verifier_determinism,
    "semantic.verifier_portability": _portability,
    "semantic.replayability": _replayability,
    "hub.cross_host_determinism": _cross_host,
    "statistical.adversarial_floor": _adversarial_floor,
    "statistical.gameability_gap": _gameability_gap,
}
"""Those of all checks that can be judged on an environment in a Python process, by id."""
