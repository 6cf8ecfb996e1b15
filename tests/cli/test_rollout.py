from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.agents.policies.registry import POLICIES
from toolorchestra.cli.rollout import RolloutCommand
from toolorchestra.envs.records.episode import read_episodes
from toolorchestra.envs.tool_calling import ToolCallingPlay
from toolorchestra.toolscale.common.errors import ExpertError
from toolorchestra.toolscale.domain import Domain

Run = Callable[..., Any]
MULTI_AGENT = "MSARL-Math-v0"
QUIET = ("--env-options", "python", "simulated")


CALL = '<tool_call>{"name": "list_orders", "arguments": {"customer_id": "C00"}}</tool_call>'


@pytest.mark.parametrize("policy", ["oracle", "noisy-oracle", "random", "null"])
def test_rollout_records_every_episode(run: Run, folder: str, tmp_path: Path, policy: str):
    file = tmp_path / "new" / "episodes.jsonl"
    output = run("rollout", folder, "--policy", policy, "--episodes", 10, "--split", "all", "--out", file, "--json")
    assert output.code == 0
    episodes = list(read_episodes(file))
    summary = output.json
    assert summary["episodes"] == len(episodes) == 10
    assert [episode.seed for episode in episodes] == list(range(10))
    solved = sum(episode.outcome == "solved" for episode in episodes)
    assert summary["success"] == solved / 10
    low, high = summary["interval"]
    assert low <= solved / 10 <= high
    assert sum(level["episodes"] for level in summary["by_difficulty"].values()) == 10


def test_rollout_fails_with_the_reasons_if_too_many_episodes_are_not_judged(
    run: Run, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    take = ToolCallingPlay._on_message

    def fail(self: ToolCallingPlay, agent: str, message: Any) -> None:
        if self.episode.seed == 3:
            raise ExpertError("ada: expected an answer, got status 500")
        take(self, agent, message)

    monkeypatch.setattr(ToolCallingPlay, "_on_message", fail)
    options = ("rollout", folder, "--episodes", 5, "--out")
    output = run(*options, tmp_path / "one.jsonl")
    assert output.code == 1
    assert "100.0% solved" in output.out
    assert "80.0% of all 5 episodes" in output.out
    told = "error: 1 of 5 episodes were not judged, and at most 1% may be left out: 1 × infra_error: ExpertError: ada:"
    assert told in output.err
    assert "--resume plays them again" in output.err
    output = run(*options, tmp_path / "two.jsonl", "--json")
    assert (output.json["success"], output.json["success_of_all"], output.json["judged"]) == (1.0, 0.8, 4)


def test_episodes_that_were_not_judged_are_played_again_by_resume(
    run: Run, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    take = ToolCallingPlay._on_message

    def fail(self: ToolCallingPlay, agent: str, message: Any) -> None:
        if self.episode.seed == 3:
            raise ExpertError("ada: expected an answer, got status 500")
        take(self, agent, message)

    options = ("rollout", folder, "--episodes", 5, "--out", tmp_path / "one.jsonl")
    with monkeypatch.context() as down:
        down.setattr(ToolCallingPlay, "_on_message", fail)
        assert run(*options).code == 1
    assert run(*options, "--resume").code == 0
    found = {episode.seed: episode.outcome for episode in read_episodes(tmp_path / "one.jsonl")}
    assert found == dict.fromkeys(range(5), "solved")
    assert [episode.seed for episode in read_episodes(tmp_path / "one.jsonl")] == [0, 1, 2, 4, 3]


def test_rollout_plays_every_task_of_a_split_once(run: Run, folder: str, tmp_path: Path, mini: Domain):
    file = tmp_path / "all.jsonl"
    output = run("rollout", folder, "--episodes", "all", "--split", "all", "--out", file)
    assert "100.0% solved" in output.out
    assert {episode.task_id for episode in read_episodes(file)} == {task.id for task in mini.tasks()}


def test_an_interrupted_rollout_is_resumed_to_the_same_file(run: Run, folder: str, tmp_path: Path, recorded: Path):
    file = tmp_path / "torn.jsonl"
    options = ["rollout", folder, "--policy", "noisy-oracle", "--split", "all", "--out", file]
    run(*options, "--episodes", 7)
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])  # the crash came while the seventh was being written
    output = run(*options, "--episodes", 20, "--resume")
    assert output.code == 0
    assert file.read_bytes() == recorded.read_bytes()


def test_a_file_is_neither_overwritten_nor_mixed(run: Run, folder: str, recorded: Path):
    options = ["rollout", folder, "--split", "all", "--out", recorded]
    before = recorded.read_bytes()
    assert "give --resume" in run(*options).err
    output = run(*options, "--policy", "random", "--resume")
    assert output.code == 2
    assert "policy 'noisy-oracle', now 'random'" in output.err
    assert recorded.read_bytes() == before


def test_episodes_are_on_disk_when_the_rollout_is_interrupted(
    run: Run, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    oracle, played = POLICIES["oracle"], []

    class Interrupting(oracle):  # type: ignore[valid-type, misc]  # a class chosen at run time
        def reset(self, *arguments: Any) -> None:
            played.append(1)
            if len(played) == 4:
                raise KeyboardInterrupt
            super().reset(*arguments)

    monkeypatch.setitem(POLICIES, "oracle", Interrupting)
    file = tmp_path / "cut.jsonl"
    output = run("rollout", folder, "--split", "all", "--out", file)
    assert output.code == 130
    assert "3 episodes are in" in output.err
    assert len(list(read_episodes(file))) == 3


def test_a_chat_model_plays_many_episodes_at_a_time(
    run: Run, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    model = ScriptedChat(lambda request: "I cannot help." if len(request.messages) > 2 else CALL)
    batches = []
    complete = model.complete
    monkeypatch.setattr(model, "complete", lambda requests: batches.append(len(requests)) or complete(requests))
    monkeypatch.setattr(RolloutCommand, "_chat_model", lambda self, name: model)
    file = tmp_path / "llm.jsonl"
    options = ["--policy", "llm", "--model", "x", "--split", "all", "--episodes", 10, "--in-flight", 4, "--out", file]
    output = run("rollout", folder, *options, "--env-options", "answer", "text")
    assert output.code == 0
    assert max(batches) == 4
    assert sorted(episode.seed or 0 for episode in read_episodes(file)) == list(range(10))
    assert "model: 20 replies" in output.out


def test_episodes_whose_model_failed_are_reported_and_played_again(
    run: Run, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    answers = iter([ExpertError("the server hung up"), *["No."] * 20])
    model = ScriptedChat(lambda request: next(answers))
    monkeypatch.setattr(RolloutCommand, "_chat_model", lambda self, name: model)
    file = tmp_path / "llm.jsonl"
    options = ["--policy", "llm", "--model", "x", "--split", "all", "--episodes", 5, "--out", file]
    output = run("rollout", folder, *options)
    assert output.code == 1
    assert "1 of 5 episodes were not judged" in output.err
    assert "1 × infra_error: ExpertError: the server hung up" in output.err
    assert [one.outcome for one in read_episodes(file)] == ["infra_error", *["failed"] * 4]
    assert "0.0% of all 5 episodes" in output.out
    assert run("rollout", folder, *options, "--resume").code == 0
    assert [one.outcome for one in read_episodes(file)] == ["failed"] * 5


OWN_AGENT = """
import threading

both = threading.Barrier(2, timeout=60)


def act(observation, info):
    both.wait()  # passes once another episode acts as well
    assert info["messages"][-1]["content"] and info["tools"][0]["function"]["name"]
    if info["turn"]:
        return '<tool_call>{"name": "submit", "arguments": {"answer": {}}}</tool_call>'
    call = {"name": "get_dish", "arguments": '{"dish": "D01"}'}
    return {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": call}]}
"""


def test_a_function_of_ones_own_plays_several_episodes_at_a_time(run: Run, folder: str, tmp_path: Path) -> None:
    (tmp_path / "own_agent.py").write_text(OWN_AGENT)
    file = tmp_path / "own.jsonl"
    options = ["--split", "all", "--episodes", 2, "--in-flight", 2, "--out", file]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        assert run("rollout", folder, "--policy", "own_agent:act", *options).code == 0
    called = [[call.name for turn in one.turns for call in turn.calls] for one in read_episodes(file)]
    assert called == [["get_dish", "submit"]] * 2


def test_a_model_that_cannot_be_reached_at_all_is_a_mistake(
    run: Run, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    model = ScriptedChat(lambda request: ExpertError("connection refused"))
    monkeypatch.setattr(RolloutCommand, "_chat_model", lambda self, name: model)
    output = run("rollout", folder, "--policy", "llm", "--model", "x", "--out", tmp_path / "x.jsonl")
    assert output.code == 2
    assert "connection refused" in output.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policy", "llm"], "needs a model"),
        (["--policy", "human"], "`toolorchestra play`"),
        (["--policy", "orcale"], "Did you mean 'oracle'?"),
        (["--policy", "json:loud"], "The module 'json' has no policy 'loud': expected a function or a `Policy`."),
        (["--policy", "no.such:One"], "There is no module 'no.such'"),
        (["--policy", ":One"], "There is no module ''"),
        (["--model", "x"], "are for --policy llm"),
        (["--episodes", "0"], "must be at least 1"),
        (["--policy", "llm", "--model", "x", "--api-key-env", "KEY"], "give its --base-url"),
        (["--policy", "llm", "--model", "x", "--effort", "low"], "give --base-url"),
    ],
)
def test_options_that_contradict_each_other_are_refused(run: Run, folder: str, options: list[str], message: str):
    output = run("rollout", folder, *options)
    assert output.code == 2
    assert message in " ".join(output.err.replace("│", " ").split())


def test_a_random_policy_speaks_for_all_and_is_shown(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "random.jsonl"
    output = run("rollout", MULTI_AGENT, "--policy", "random", "--episodes", 6, *QUIET, "--out", file, "--json")
    assert json.loads(output.out)["episodes"] == 6
    episodes = list(read_episodes(file))
    assert {move.agent for episode in episodes for move in episode.turns} == {"reasoner", "helper"}
    shown = run("show", file).out
    assert "─ reasoner ─" in shown
    assert episodes[0].task_id in run("show", file, "--list").out


def test_the_summary_says_what_each_agent_is_paid(run: Run, tmp_path: Path) -> None:
    options = ("--policy", "random", "--episodes", 6, *QUIET, "--out", tmp_path / "random.jsonl")
    rewards = run("rollout", MULTI_AGENT, *options, "--json").json["rewards"]
    episodes = list(read_episodes(tmp_path / "random.jsonl"))
    assert rewards == {
        agent: pytest.approx(sum(one.rewards[agent] for one in episodes) / 6) for agent in ("reasoner", "helper")
    }
    assert "mean reward: reasoner " in run("rollout", MULTI_AGENT, *options, "--resume").out


def test_the_same_seed_plays_the_same_episodes(run: Run, tmp_path: Path) -> None:
    files = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    for file in files:
        run("rollout", MULTI_AGENT, "--policy", "random", "--episodes", 4, *QUIET, "--out", file)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_chat_model_speaks_for_each_agent_from_its_own_history(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = []

    def answer(request: object) -> str:
        text = str(request.messages)  # type: ignore[attr-defined]  # a ChatRequest
        prompts.append(text)
        if "You read a piece of code" in text:
            return "It is 12."
        return r"\boxed{12}" if r"<interpretation>\n" in text else "```python\nprint(3 * 4)\n```"

    model = ScriptedChat(answer)
    monkeypatch.setattr(RolloutCommand, "_chat_model", lambda self, name: model)
    file = tmp_path / "llm.jsonl"
    options = ["--policy", "llm", "--model", "x", "--episodes", 3, *QUIET, "--out", file]
    assert run("rollout", MULTI_AGENT, *options).code == 0
    for episode in read_episodes(file):
        assert [move.agent for move in episode.turns] == ["reasoner", "helper", "reasoner"]
        helper = next(text for text in prompts if "You read a piece of code" in text)
        assert episode.instruction not in helper


def test_a_rollout_says_why_episodes_failed(run: Run, folder: str, tmp_path: Path) -> None:
    options = ("--policy", "noisy-oracle", "--error", 0.5, "--split", "all", "--episodes", 20)
    summary = run("rollout", folder, *options, "--out", tmp_path / "1.jsonl", "--json").json
    assert set(summary["failures"]["reasons"]) <= {"execution", "completeness", "fidelity"}
    assert max(summary["failures"]["reasons"].values()) <= summary["outcomes"]["failed"]
    assert all(call["status"] != "OK" for call in summary["failures"]["calls"])
    text = run("rollout", folder, *options, "--out", tmp_path / "2.jsonl").out
    assert "why not solved (episodes): " in text
    solved = run("rollout", folder, "--split", "all", "--episodes", 2, "--out", tmp_path / "3.jsonl").out
    assert "why not solved" not in solved


def test_samples_of_each_task_give_pass_at_k_and_pass_all_k(run: Run, folder: str, tmp_path: Path) -> None:
    file = tmp_path / "samples.jsonl"
    options = ("--policy", "noisy-oracle", "--error", 0.5, "--split", "all", "--samples", 4, "--out", file)
    summary = run("rollout", folder, *options, "--episodes", 5, "--json").json
    episodes = list(read_episodes(file))
    tasks = {one.task_id for one in episodes}
    assert (len(episodes), len(tasks)) == (20, 5)
    assert len({one.seed for one in episodes}) == 20
    solved = {task: [one.outcome == "solved" for one in episodes if one.task_id == task] for task in tasks}
    assert summary["pass@k"]["1"] == summary["pass^k"]["1"] == pytest.approx(summary["success"])
    assert summary["mean@k"] == {"4": pytest.approx(sum(map(sum, solved.values())) / 20)}
    assert summary["pass@k"]["4"] == sum(map(any, solved.values())) / 5
    assert summary["pass^k"]["4"] == sum(map(all, solved.values())) / 5
    assert summary["pass^k"]["4"] < summary["pass@k"]["4"]
    before = file.read_bytes()
    assert "mean@4: " in run("rollout", folder, *options, "--episodes", 5, "--resume").out
    assert "k = 4: pass@k" in run("rollout", folder, *options, "--episodes", 6, "--resume").out
    assert file.read_bytes().startswith(before)
    assert "there are 48" in run("rollout", folder, *options, "--episodes", 1000, "--resume").err


def test_samples_of_a_chat_model_have_seeds_of_their_own(
    run: Run, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = []

    def answer(request: Any) -> str:
        seeds.append(request.seed)
        return "No."

    monkeypatch.setattr(RolloutCommand, "_chat_model", lambda self, name: ScriptedChat(answer))
    options = ("--policy", "llm", "--model", "x", "--split", "all", "--episodes", 2)
    run("rollout", folder, *options, "--samples", 3, "--out", tmp_path / "1.jsonl")
    assert len(set(seeds)) == 6
    seeds.clear()
    run("rollout", folder, *options, "--out", tmp_path / "2.jsonl")
    assert set(seeds) == {0}


def test_a_recording_goes_on_after_another_server_and_price(
    run: Run, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RolloutCommand, "_chat_model", lambda self, name: ScriptedChat(lambda request: "No."))
    file = tmp_path / "llm.jsonl"
    options = ("--policy", "llm", "--model", "x", "--split", "all", "--out", file)
    assert run("rollout", folder, *options, "--episodes", 2, "--base-url", "http://user:secret@one:8000/v1").code == 0
    assert "secret" not in file.with_suffix(".json").read_text(encoding="utf-8")
    moved = ("--base-url", "http://two:9000/v1", "--price", 1, 2, "--api-key-env", "KEY")
    assert run("rollout", folder, *options, "--episodes", 4, *moved, "--resume").code == 0
    assert len(list(read_episodes(file))) == 4
    assert "temperature 0.0, now 1.0" in run("rollout", folder, *options, "--temperature", 1.0, "--resume").err


@pytest.mark.parametrize("out", ["/proc/x.jsonl", "FILE/x.jsonl", "FOLDER"])
def test_a_file_that_cannot_be_written_is_named_as_it_was_given(
    run: Run, folder: str, tmp_path: Path, out: str
) -> None:
    (tmp_path / "file").touch()
    path = out.replace("FILE", str(tmp_path / "file")).replace("FOLDER", str(tmp_path))
    output = run("rollout", folder, "--split", "all", "--episodes", 1, "--out", path)
    assert output.code == 4
    assert output.err.startswith(f"error: {path} cannot be written: ")
    assert output.err.count("\n") == 1


def test_a_model_without_a_server_names_the_option(run: Run, folder: str) -> None:
    output = run("rollout", folder, "--policy", "llm", "--model", "qwen3-8b", "--split", "all")
    assert output.code == 2
    assert "--base-url http://localhost:8000/v1" in output.err
    assert output.err.count("\n") == 1
