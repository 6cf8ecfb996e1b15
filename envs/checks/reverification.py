"""Recorded episodes judged anew: their messages are taken again, and today's verifier and rewards decide.

    for found in reverify(read_episodes(Path("run.jsonl"))):
        print(found.recorded.outcome, "→", found.episode.outcome, found.reason)

The world's database is the only thing that is run again: what experts, sub-agents, sandboxes, searches, servers and
judges replied is taken from the record (`toolorchestra.envs.records.recorded_calls`), so nothing is asked and nothing
costs anything. So is what messages and calls cost. Where the verifier itself runs a program, as for questions about
code, it does so again.

An episode that cannot be judged is said to be that, with the reason, and never counted as unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping
from typing import Any

import msgspec

from toolorchestra.envs.environment_names import make_named, resolve
from toolorchestra.envs.executor import execute
from toolorchestra.envs.judge.model_judge import RecordedJudge
from toolorchestra.envs.play import Play
from toolorchestra.envs.records.episode import ABANDONED, Episode
from toolorchestra.envs.records.recorded_calls import RecordedCalls
from toolorchestra.envs.records.unjudged import INVALID_OUTCOMES, error_text
from toolorchestra.envs.registration import is_multiagent, make_multiagent
from toolorchestra.envs.task_env import TaskEnv
from toolorchestra.toolscale.answers.prose_answers import JUDGED_LABEL
from toolorchestra.toolscale.answers.typed_answers import SUBMIT
from toolorchestra.toolscale.common.errors import ToolOrchestraError, UnknownNameError
from toolorchestra.toolscale.common.visible import cut

_REPLIED = {
    *("tools", "tool_view", "tool_config", "tool_config_seed", "mcp", "python", "sandbox", "corpus", "web_corpus"),
    *("experts", "catalog", "pool", "mono", "summariser", "model", "timeout", "judge", "path_judge"),
    *("orchestrator", "preference", "effort", "render_mode"),
}
"""Options that say who replies to calls, what messages cost and what is shown; the record has all that."""
_SIMULATING = ("ParaManager", "MASOrchestra")
"""Protocols that ask by `known_answers` whether simulated experts may play a question; here nobody asks them."""
_SHOWN = 120  # characters of a verdict or an answer
_AT_THE_END = "faults"  # of the details, written when an episode ends


class Reverified(msgspec.Struct, frozen=True):
    """An episode judged anew.

    Attributes:
        recorded: The episode as it was recorded.
        episode: The same with the outcome, rewards, metrics and verdict of today; all else is kept. One that cannot be
            judged is a ``judge_error`` without a reward, unless it was an infrastructure error already.
        drift: What first differs from the record: the task, the result of a call, the answer; empty: nothing.
        unjudged: Why it cannot be judged; empty if it was.
    """

    recorded: Episode
    episode: Episode
    drift: str = ""
    unjudged: str = ""

    @property
    def flipped(self) -> bool:
        """Whether it was judged, and the outcome or a reward is another than the recorded one."""
        old, new = self.recorded, self.episode
        if self.unjudged:
            return False
        return old.outcome != new.outcome or not (
            old.rewards.keys() == new.rewards.keys()
            and all(_same(old.rewards[agent], new.rewards[agent]) for agent in new.rewards)
            and _same(old.reward, new.reward)
        )

    @property
    def reason(self) -> str:
        """Why it has flipped, or could not be judged, in a sentence; empty where neither is so."""
        old, new = self.recorded, self.episode
        if self.unjudged or not self.flipped:
            return self.unjudged
        if self.drift:
            return self.drift
        if old.outcome != new.outcome and old.why == new.why:
            return f"the record has another outcome than its verdict says, “{cut(new.why, _SHOWN)}”"
        if old.outcome != new.outcome:
            return f"the verdict was “{cut(old.why, _SHOWN)}”, and is “{cut(new.why, _SHOWN)}”"
        changed = [
            f"{name} was {old.reward_parts.get(name)}, and is {value}"
            for name, value in new.reward_parts.items()
            if name not in old.reward_parts or not _same(old.reward_parts[name], value)
        ]
        return f"the reward is computed otherwise, or with other options{': ' * bool(changed)}{'; '.join(changed)}"


def reverify(
    episodes: Iterable[Episode], *, env: str | None = None, options: Mapping[str, Any] | None = None
) -> Generator[Reverified, None, None]:
    """Judge episodes anew, and yield what becomes of each, in their order.

    Args:
        episodes: Recorded episodes, of any protocol.
        env: Environment in which they are replayed: an id; or the folder of a domain or a file of tasks, with the rules
            of the record. By default the one that each record names.
        options: Arguments of the environment. Those that say who replies to calls, and what is paid for it, are left
            out.

    >>> import toolorchestra
    >>> env = make_named("ToolOrchestra-Restaurant-v0").unwrapped
    >>> _ = env.reset(seed=0)
    >>> _ = env.step('<tool_call>{"name": "submit", "arguments": {"answer": {}}}</tool_call>')
    >>> wrong = msgspec.structs.replace(env.episode, outcome="solved", reward=1.0)
    >>> [found] = reverify([wrong])
    >>> found.flipped, found.episode.outcome, found.episode.reward
    (True, 'failed', 0.0)
    """
    made: dict[tuple[str, bytes], TaskEnv | str] = {}
    try:
        for record in episodes:
            name, place = _place(env, record)
            arguments = place | _arguments(name, record, options or {})
            key = name, msgspec.json.encode(arguments, enc_hook=repr)
            if key not in made:
                made[key] = _made(name, arguments)
            found = made[key]
            yield _unjudged(record, found) if isinstance(found, str) else _checked(found, record, name)
    finally:
        for one in made.values():
            if not isinstance(one, str):
                one.close()


def _place(env: str | None, record: Episode) -> tuple[str, dict[str, str]]:
    """Return the id of the environment in which a record is replayed, and the argument that says where its tasks are.

    A folder or a file stands for the rules of the record with these tasks.
    """
    try:
        name, place = (record.env_id, {}) if env is None else resolve(env)
    except UnknownNameError:  # it is said when the environment is made
        return str(env), {}
    return (f"{_rules(record.env_id)}-Custom-v0" if place else name), place


def _rules(env_id: str) -> str:
    """Return the part of an environment's id that names its rules.

    >>> _rules("MASOrchestra-High-Math-v0"), _rules("MSARLSingle-Math-v0")
    ('MASOrchestra-High', 'MSARL')
    """
    return env_id.rsplit("-", 2)[0].removesuffix("Single")


def _arguments(name: str, record: Episode, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the environment in which a record is replayed."""
    found = {option: value for option, value in options.items() if option not in _REPLIED}
    if ":" in name:  # an environment of the user's own, with options of its own
        return found
    prose = "answer" in record.details or (record.env_id.startswith("ToolOrchestra") and SUBMIT not in record.tools)
    found |= {"orchestrator": None, "answer": "text" if prose else "typed"}
    if name.split("-")[0] in _SIMULATING:
        found["known_answers"] = True
    if "persona" in record.details:
        found["persona"] = record.details["persona"]
    return found


def _made(name: str, arguments: dict[str, Any]) -> TaskEnv | str:
    """Return an environment, or why it cannot be made."""
    try:
        env: Any = (
            make_multiagent(name, **arguments) if is_multiagent(name) else make_named(name, **arguments).unwrapped
        )
    except (ToolOrchestraError, ImportError, OSError) as error:
        return f"the environment cannot be made: {error}"
    env = getattr(env, "multi_agent_env", env)
    if isinstance(env, TaskEnv):
        return env
    return f"the environment cannot be made: {name} is no environment of this library but {type(env).__name__}"


def _checked(env: TaskEnv, record: Episode, name: str) -> Reverified:
    """Return what becomes of a record in an environment, whatever somebody has written into it."""
    if ":" not in name and _rules(name) != _rules(record.env_id):
        return _unjudged(record, f"it was recorded in {record.env_id}, whose rules are others than those of {name}")
    try:
        return _reverified(env, record)
    except Exception as error:  # no record of one of our environments, or changed by hand
        return _unjudged(record, f"the record cannot be replayed: {error_text(error)}")


def _reverified(env: TaskEnv, record: Episode) -> Reverified:
    """Take the messages of a record again, and return what becomes of it."""
    if record.outcome is None or record.outcome == "infra_error":
        ended = "it was recorded before its end" if record.outcome is None else f"it ended unjudged: {record.why}"
        return _unjudged(record, ended)
    recorded = RecordedCalls(record, execute)
    judge = RecordedJudge(record.details.get("judge", {})) if record.details.get("answer") == JUDGED_LABEL else None
    try:
        play = env.start_replay(recorded, judge)
    except UnknownNameError as error:
        return _unjudged(record, f"the task is gone: {error}")
    except (ToolOrchestraError, OSError) as error:
        return _unjudged(record, f"the task cannot be posed: {error}")
    if env.agents_at_start not in ((), record.agents):
        now, then = ", ".join(env.agents_at_start), ", ".join(record.agents)
        return _unjudged(record, f"it has the agents {now}, and the record {then}: give the options of the recording")
    wrong, new = _replay(play, record, recorded), play.episode
    if new.outcome in INVALID_OUTCOMES:
        wrong = recorded.missing or new.why
    if wrong:
        return _unjudged(record, wrong, recorded.drift)
    if record.answer is not None and record.answer != new.answer:
        was, now = cut(record.answer, _SHOWN), cut(str(new.answer), _SHOWN)
        recorded.note(f"the answer is “{was}” in the record, and “{now}” in its messages")
    details = {name: value for name, value in record.details.items() if name != _AT_THE_END} | new.details
    verdict = {name: getattr(new, name) for name in ("answer", "outcome", "reward", "rewards", "reward_parts", "why")}
    judged = msgspec.structs.replace(record, **verdict, metrics=new.metrics, details=details)
    return Reverified(record, judged, recorded.drift)


def _replay(play: Play, record: Episode, recorded: RecordedCalls) -> str:
    """Take the messages of a record; return where that is impossible, or nothing."""
    count, episode = len(record.turns), play.episode
    abandoned = record.details.get(ABANDONED, {})
    episode.cost, episode.clock = abandoned.get("cost", 0.0), abandoned.get("clock", 0.0)
    for number, turn in enumerate(record.turns, 1):
        if play.over:
            return f"it ends after message {number - 1} of {count} ({episode.why}): give the options of the recording"
        if play.current_agent != turn.agent:
            return f"message {number} is to be written by {play.current_agent}, and the record has it from {turn.agent}"
        episode.cost += turn.cost
        episode.clock += turn.seconds
        recorded.begin(turn)
        play.act(turn.message)
        recorded.end()
    if not play.over:
        play.stop("its messages end without an answer")
        if record.outcome == "failed" and episode.outcome == "failed":
            episode.why = record.why  # by which limit it ended only the record knows
    return ""


def _unjudged(record: Episode, why: str, drift: str = "") -> Reverified:
    if record.outcome is None or record.outcome in INVALID_OUTCOMES:
        return Reverified(record, record, drift, why)
    nothing: dict[str, Any] = {"reward": None, "rewards": {}, "reward_parts": {}, "metrics": None}
    return Reverified(record, msgspec.structs.replace(record, outcome="judge_error", why=why, **nothing), drift, why)


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
