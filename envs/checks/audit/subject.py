"""An environment under audit: how its episodes are begun and played, whoever wrote it.

It is one of this library, by its name, or any environment of text with the interface of Gymnasium: ``module:name``, a
class or function that makes one.
"""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import gymnasium
import msgspec
from gymnasium.spaces import Text
from pettingzoo import AECEnv, ParallelEnv

from toolorchestra.agents.policies.base import Policy
from toolorchestra.agents.policies.registry import own_module, policy_class
from toolorchestra.envs.base import OrchestrationEnv
from toolorchestra.envs.checks.audit.host_calls import host_calls
from toolorchestra.envs.checks.other_processes import done_elsewhere, packed_for_others
from toolorchestra.envs.environment_names import make_named
from toolorchestra.envs.external import ExternalEnv
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.multiagent.views import CurrentAgentEnv
from toolorchestra.envs.records.unjudged import error_text
from toolorchestra.envs.registration import is_multiagent, make_multiagent
from toolorchestra.envs.teachers import ViewTeacher, teacher_of
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tasks.task import Task

MAX_TURNS = 500
"""Turns after which an episode counts as one without an end."""
SEEDS = 100
"""Episodes that are measured of an environment that does not list its tasks."""
PRACTICE = 8
"""Episodes on which the search tries each of its answers."""
FIRST_PRACTICE_SEED = 1_000_000
_MAX_ERROR = 250  # characters


class Case(NamedTuple):
    """How an episode is begun: the seed, and the options of `reset`."""

    seed: int
    options: Mapping[str, Any] = {}


class Trial(msgspec.Struct):
    """An episode that was played.

    Attributes:
        case: How it was begun.
        actions: What the policy sent.
        seen: What came back after the reset and after each action: observation, reward, terminated, truncated.
        over: Whether it ended.
        error: The exception that ended it, in words.
        keys: The names of what ``info`` had before the end.
        solved: Whether it was solved, where ``info`` says so in ``outcome``.
        host: What this process asked of its host meanwhile; `judged`: with the last action.
    """

    case: Case
    actions: list[Any]
    seen: list[tuple[str, Any, bool, bool]]
    over: bool = False
    error: str = ""
    keys: set[str] = set()
    solved: bool | None = None
    host: list[str] = []
    judged: list[str] = []

    @property
    def reward(self) -> float:
        """The sum of the rewards, as far as they are numbers."""
        return sum(float(reward) for _, reward, *_ in self.seen if is_number(reward))


class AuditSubject:
    """An environment under audit.

    Args:
        name: Name of an environment of this library, or ``module:name`` of another one.
        options: Its arguments.
        oracle: Policy that solves its tasks, ``module:Class`` or ``module:function``. By default the reference
            trajectories of this library; for another one there is none.
        episodes: Number of episodes measured; None for the whole split ``test``, or `SEEDS` seeds where none is listed.
        seed: Seed of the policies.

    Raises:
        OptionError: There is no such environment, or it is none that models can play with text.
    """

    def __init__(
        self,
        name: str,
        options: Mapping[str, Any] | None = None,
        *,
        oracle: str | None = None,
        episodes: int | None = None,
        seed: int = 0,
    ) -> None:
        if episodes is not None and episodes < 1:
            raise OptionError(f"`episodes` must be at least 1, got {episodes}.")
        self.name, self.options, self.seed = name, dict(options or {}), seed
        self._oracle, self._episodes = oracle, episodes
        self._made: list[Any] = []
        self.env = self.make()  # raises for what cannot be played, which is the caller's error and not a finding

    def make(self) -> Any:
        """Return a new environment, with Gymnasium's interface; one of several agents is played by one policy."""
        made = self._new()
        self._made.append(made)
        return made

    def close(self) -> None:
        """Close all environments that were made."""
        while self._made:
            getattr(self._made.pop(), "close", lambda: None)()

    def _new(self) -> Any:
        if ":" in self.name:
            made = self._factory(**self.options)
        elif is_multiagent(self.name):
            made = make_multiagent(self.name, **self.options)
        else:
            made = make_named(self.name, **self.options)
        if isinstance(made, AECEnv | ParallelEnv):
            return CurrentAgentEnv(made if isinstance(made, MultiAgentEnv) else ExternalEnv(made))
        if isinstance(made, gymnasium.Env) and isinstance(made.unwrapped, OrchestrationEnv):
            return made.unwrapped
        if not (callable(getattr(made, "reset", None)) and callable(getattr(made, "step", None))):
            raise OptionError(f"{self.name} makes {type(made).__name__}, which has no `reset` and `step`.")
        space = getattr(made, "action_space", None)
        if isinstance(space, gymnasium.Space) and not isinstance(space, Text):
            raise OptionError(
                f"The actions of {self.name} are {space}, but an audit sends text: give `module:function`, a function "
                "that wraps the environment so that it reads text."
            )
        return made

    @property
    def _factory(self) -> Callable[..., Any]:
        module, _, name = self.name.partition(":")
        found: Any = getattr(own_module(module), name, None)
        if not callable(found):
            raise OptionError(f"The module {module!r} has no {name!r}: expected a class or function of an environment.")
        return found  # type: ignore[no-any-return]  # it is what makes the environment

    @property
    def reward_range(self) -> tuple[float, float]:
        """The least and the largest reward of an episode, as the environment declares it; 0 and 1 if it does not."""
        if self.is_own:
            return 0.0, float(getattr(self.env, "max_reward", 1.0))
        low, high = getattr(getattr(self.env, "unwrapped", self.env), "reward_range", (0.0, 1.0))
        return (float(low), float(high)) if is_number(low) and is_number(high) else (0.0, 1.0)

    # ------------------------------------------------------------------------------------------------ its tasks

    @property
    def is_own(self) -> bool:
        """Whether it is an environment of this library."""
        return isinstance(self.env, OrchestrationEnv | CurrentAgentEnv)

    @cached_property
    def tasks(self) -> Sequence[Task]:
        """The tasks of the split ``test``; none where an environment does not list its tasks."""
        return list(self.env.source.tasks("test")) if self.is_own else []

    @cached_property
    def cases(self) -> list[Case]:
        """The episodes that are measured."""
        if not self.tasks:
            return [Case(seed) for seed in range(self._episodes or SEEDS)]
        step = max(1, len(self.tasks) // self._episodes) if self._episodes else 1
        chosen = list(enumerate(self.tasks))[::step][: self._episodes]
        return [Case(number, {"task_id": task.id}) for number, task in chosen]

    @cached_property
    def practice(self) -> list[Case]:
        """The episodes on which a search looks for what is rewarded: none of `cases`."""
        options = {"split": "train"} if self.is_own else {}
        return [Case(FIRST_PRACTICE_SEED + number, options) for number in range(PRACTICE)]

    def reference(self) -> tuple[Policy, list[Case]] | None:
        """Return a policy that solves tasks, and the cases that it knows; None if there is none."""
        if self._oracle is not None:
            return policy_class(self._oracle)(), self.cases
        if isinstance(self.env, OrchestrationEnv):
            return policy_class("oracle")(), self.cases
        if not isinstance(self.env, CurrentAgentEnv):
            return None
        try:
            teacher = teacher_of(self.env.multi_agent_env)
        except OptionError:
            return None
        known = [Case(number, {"task_id": task.id}) for number, task in enumerate(self.tasks) if teacher.knows(task)]
        return (ViewTeacher(), known[: len(self.cases)]) if known else None

    # ------------------------------------------------------------------------------------------------ episodes

    def play(self, policy: Policy, case: Case, env: Any = None) -> Trial:
        """Play an episode with a policy."""
        env = self.env if env is None else env
        trial = Trial(case, [], [])

        def act(observation: str, info: Mapping[str, Any]) -> Any:
            if not trial.actions and not _is_plain(policy, env):
                policy.reset(env, observation, info)
            return policy.act(observation, info)

        return self._played(trial, env, act)

    def replay(self, trial: Trial, env: Any = None) -> Trial:
        """Begin an episode like another one, and send the same actions."""
        actions = iter(trial.actions)
        again = Trial(trial.case, [], [])
        return self._played(again, self.env if env is None else env, lambda *_: next(actions), len(trial.actions))

    def _played(self, trial: Trial, env: Any, act: Callable[..., Any], turns: int = MAX_TURNS) -> Trial:
        with host_calls() as asked:
            try:
                observation, info = begun(env, trial.case)
                trial.seen.append((as_text(observation), 0.0, False, False))
                while not trial.over and len(trial.actions) < turns:
                    trial.keys.update(map(str, info))
                    action, before = act(trial.seen[-1][0], info), len(asked)
                    trial.actions.append(action)
                    observation, reward, terminated, truncated, info = env.step(action)
                    trial.over, trial.judged = bool(terminated or truncated), asked[before:]
                    trial.seen.append((as_text(observation), reward, bool(terminated), bool(truncated)))
                if trial.over and "outcome" in info:
                    trial.solved = info["outcome"] == "solved"
            except Exception as error:
                trial.error = error_text(error)[:_MAX_ERROR]
        trial.host = list(asked)
        return trial

    def replay_elsewhere(self, trials: Sequence[Trial]) -> list[list[Any]]:
        """Let another process, which hashes otherwise, send the same actions, and return what it saw.

        Raises:
            OptionError: The arguments of the environment cannot be sent there.
            RuntimeError: The other process failed.
        """
        work = packed_for_others(self.name, self.options, [(one.case, one.actions) for one in trials])
        found: list[list[Any]] = pickle.loads(done_elsewhere(_replay_for_parent, work, "4242"))
        return found


def _replay_for_parent() -> None:
    """Replay what the parent process sent to standard input, and write what was seen to standard output."""
    name, options, trials = pickle.loads(sys.stdin.buffer.read())
    written, sys.stdout = sys.stdout.buffer, sys.stderr  # the environment may print
    subject = AuditSubject(name, options)
    written.write(pickle.dumps([subject.replay(Trial(case, actions, [])).seen for case, actions in trials]))
    written.flush()


def begun(env: Any, case: Case) -> tuple[Any, Mapping[str, Any]]:
    """Reset an environment and return the first observation, with its info."""
    options = {"options": dict(case.options)} if case.options else {}
    observation, info = env.reset(seed=case.seed, **options)
    return observation, info


def as_text(observation: Any) -> str:
    """Return an observation as text: other kinds as Python writes them."""
    return observation if isinstance(observation, str) else repr(observation)


def is_number(value: Any) -> bool:
    """Return whether a reward is a finite number."""
    try:
        return not isinstance(value, bool | str) and abs(float(value)) < float("inf")
    except (TypeError, ValueError):
        return False


def mean(trials: Iterable[Trial]) -> float:
    """Return the mean reward of episodes: 0 of none."""
    rewards = [trial.reward for trial in trials]
    return sum(rewards) / max(1, len(rewards))


def _is_plain(policy: Policy, env: Any) -> bool:
    """Return whether a policy is a function, in an environment of others: it is not told that an episode begins."""
    return type(policy).reset is Policy.reset and not isinstance(env, OrchestrationEnv | CurrentAgentEnv)


def seeded(seed: int, text: str) -> random.Random:
    """Return what an adversary draws from in an episode that begins with a text."""
    return random.Random(f"{seed}:{text}")
