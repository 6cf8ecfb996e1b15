from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from toolorchestra.envs import make_multiagent
from toolorchestra.envs.msarl import MSARLEnv
from toolorchestra.envs.msarl.teacher import teach
from toolorchestra.envs.records.episode import read_episodes, write_episodes
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.tools.tool import Tool, ToolResult

CODE = "Let me see.\n```python\nprint(6 * 7)\n```"


def new(seed: int = 0, **options: Any) -> MSARLEnv:
    env = make_multiagent("MSARL-Math-v0", **({"python": "simulated"} | options))
    assert isinstance(env, MSARLEnv)
    env.reset(seed=seed)
    return env


def play(env: MSARLEnv, *messages: str) -> MSARLEnv:
    for message in messages:
        env.step(message)
    return env


def test_ids_are_read_and_a_wrong_one_is_met_with_the_nearest() -> None:
    assert make_multiagent("MSARL-MultiHopQA-v0", python="none").possible_agents == ["reasoner", "helper"]
    with pytest.raises(UnknownNameError, match="Did you mean 'MSARL-Math-v0'"):
        make_multiagent("MSRL-Math-v0")
    with pytest.raises(UnknownNameError, match="Mathh"):
        make_multiagent("MSARL-Mathh-v0")


def test_an_option_that_does_not_exist_is_named() -> None:
    with pytest.raises(OptionError, match="max_cals"):
        make_multiagent("MSARL-Math-v0", max_cals=2)


@pytest.mark.parametrize(
    "options",
    [{"max_cycles": 0}, {"render_mode": "rgb"}, {"max_calls": -1}, {"helpers": "two"}, {"noise": 3, "python": "none"}],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises((OptionError, UnknownNameError)):
        new(**options)


def test_tasks_of_a_file_are_played(tmp_path: Path) -> None:
    from toolorchestra.toolscale.tasks.task import write_tasks

    tasks = new().source.tasks("train")[:3]
    write_tasks(tmp_path / "mine.jsonl", tasks)
    env = make_multiagent("MSARL-Custom-v0", tasks=tmp_path / "mine.jsonl", python="simulated")
    env.reset(seed=0)
    assert env.task in tasks


def test_a_reset_is_demanded_first() -> None:
    env = make_multiagent("MSARL-Math-v0", python="simulated")
    for ask in (lambda: env.step("x"), lambda: env.observe("helper"), env.snapshot, lambda: env.episode):
        with pytest.raises(gymnasium.error.ResetNeeded):
            ask()


def test_an_unknown_reset_option_is_ignored_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="Did you mean 'split'"):
        new().reset(options={"splt": "test"})


def test_reset_options_choose_the_task() -> None:
    env = new()
    task = env.source.tasks("test")[7]
    env.reset(options={"task_id": task.id})
    assert env.task is task
    env.reset(seed=4, options={"split": "test", "difficulty": 5})
    assert (env.task.split, env.task.difficulty) == ("test", 5)


def test_same_seed_and_actions_give_the_same_bytes() -> None:
    one, other = (play(new(3, noise=20), CODE, "42", r"\boxed{42}") for _ in range(2))
    assert one.episode.to_json() == other.episode.to_json()
    assert play(new(4, noise=20), CODE, "42", r"\boxed{42}").episode.to_json() != one.episode.to_json()


@pytest.mark.parametrize(
    "action", [None, 3, b"x", ["x"], {"role": "assistant"}, "\ud800", "x" * 1_500_000, "```python\n" * 9_000]
)
def test_no_message_of_an_agent_raises(action: Any) -> None:
    env = new()
    env.step(action)
    env.episode.to_json()
    assert env.episode.outcome is None


def test_each_agent_observes_all_texts_since_its_last_message() -> None:
    env = new(max_calls=2, helper_memory=True)
    assert env.task.instruction in env.observe("reasoner")
    play(env, CODE)
    assert "42" in env.observe("helper")
    assert env.observe("reasoner") == ""
    play(env, "It is 42.")
    assert env.observe("reasoner") == "<interpretation>\nIt is 42.\n</interpretation>"
    assert env.observe("helper") == ""
    play(env, CODE)
    assert env.infos["helper"]["messages"] == env.play.histories["helper"] == env.episode.history("helper")
    assert env.infos["reasoner"]["messages"] == env.episode.history("reasoner")


def test_private_histories_do_not_leak() -> None:
    env = new(max_calls=2)
    secrets = {"thought": "ZEBRA-1", "printed": "99887766", "whisper": "WALRUS-3"}
    play(env, f"{secrets['thought']}\n```python\nprint(99887765 + 1)\n```")
    seen: dict[str, list[str]] = {agent: [] for agent in env.possible_agents}

    def look() -> None:
        for agent in env.agents:
            seen[agent] += [env.observe(agent), repr(env.infos[agent])]

    look()
    play(env, "Nothing of note.")
    look()
    play(env, f"{secrets['whisper']} and no more")  # the reasoner thinks aloud
    look()
    reasoner, helper = " ".join(seen["reasoner"]), " ".join(seen["helper"])
    assert secrets["printed"] in helper
    assert secrets["printed"] not in reasoner  # raw output is the helper's alone
    assert secrets["thought"] in reasoner
    assert secrets["whisper"] in reasoner
    assert secrets["thought"] not in helper  # of the reasoner's message it sees the code
    assert secrets["whisper"] not in helper
    assert env.task.instruction not in helper


def test_a_branch_goes_on_as_if_there_had_been_no_other() -> None:
    env, straight = new(5), play(new(5), CODE, "42", r"\boxed{42}")
    play(env, CODE)
    branch = env.snapshot()
    before = env.episode.to_json()
    for _ in range(2):
        play(env, "another story", r"\boxed{7}")
        env.restore(branch)
        assert env.episode.to_json() == before
    play(env, "42", r"\boxed{42}")
    assert env.episode.to_json() == straight.episode.to_json()
    assert env.terminations == straight.terminations
    env.reset()
    straight.reset()
    assert env.task is straight.task  # the random generator was restored too


def test_a_branch_can_go_on_in_another_environment_and_at_the_end() -> None:
    env, other = new(5), new(9)
    play(env, CODE)
    other.restore(env.snapshot())
    play(other, "42")
    assert len(env.episode.turns) == 1
    play(env, "42", r"\boxed{42}")
    other.restore(env.snapshot())
    assert other.agents == env.agents
    assert other.rewards == env.rewards
    for _ in env.possible_agents:
        other.step(None)
    assert other.agents == []
    assert env.agents == env.possible_agents


def test_the_last_message_that_is_allowed_truncates() -> None:
    env = play(new(max_cycles=2), "hm", "hm")
    assert env.truncations == {"reasoner": True, "helper": True}
    assert env.episode.why == "no answer after 2 turns"
    assert env.episode.rewards == {"reasoner": 0.0, "helper": 0.0}
    env.step(None)
    env.step(None)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step("more")


class Broken(Tool):
    """A tool that raises an infrastructure error."""

    def __init__(self) -> None:
        from toolorchestra.toolscale.database.format import ParameterSpec

        super().__init__("python", "broken", {"code": ParameterSpec(type="string", description="code")})

    def run(self, arguments: dict[str, Any], session: Any) -> ToolResult:
        raise RuntimeError("the sandbox is gone")


def test_an_infrastructure_error_truncates_without_a_reward() -> None:
    env = play(new(python=Broken()), CODE)
    assert env.episode.outcome == "infra_error"
    assert env.episode.reward is None
    assert env.truncations["helper"]
    assert "the sandbox is gone" in env.infos["reasoner"]["verdict"]


def test_records_are_read_back_by_those_who_know_agents_and_those_who_do_not(tmp_path: Path) -> None:
    env = play(new(), CODE, "42", r"\boxed{42}")
    write_episodes(tmp_path / "episodes.jsonl", [env.episode])
    (again,) = read_episodes(tmp_path / "episodes.jsonl")
    assert again.to_json() == env.episode.to_json()
    assert [move.agent for move in again.turns] == ["reasoner", "helper", "reasoner"]
    (plain,) = read_episodes(tmp_path / "episodes.jsonl")
    assert (plain.answer, len(plain.turns)) == (r"\boxed{42}", 3)


def test_a_transcript_names_the_agent_of_each_message() -> None:
    env = new(render_mode="ansi")
    task = next(task for task in env.source.tasks("train") if task.intent == "power_remainder")
    env.reset(options={"task_id": task.id})
    while not env.play.over:
        env.step(teach(env.play))
    text = env.render() or ""
    assert re.search(
        r"reasoner ─.*helper ─.*reasoner ─.*solved · reward reasoner 1, helper 1 · 3 turns", text, re.DOTALL
    )
