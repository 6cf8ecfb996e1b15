from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.cli import main as cli
from toolorchestra.envs.episode import read_episodes
from toolorchestra.envs.tmatr.figure import svg
from toolorchestra.envs.tmatr.tree import decision_tree

GAME = "MSARL-Math-v0"
QUIET = ("--env-options", "python", "simulated")


class Output(SimpleNamespace):
    code: int
    out: str
    err: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Output]:
    def run(*arguments: object) -> Output:
        code = cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Output(code=code, out=captured.out, err=captured.err)

    return run


def test_validate_runs_the_checks_of_games(run: Callable[..., Output]) -> None:
    output = run("validate", GAME, *QUIET, "--json")
    assert output.code == 0
    assert {result["name"] for result in json.loads(output.out)["results"]} >= {"pettingzoo", "privacy", "snapshot"}
    assert "✓  privacy" in run("validate", GAME, *QUIET, "--only", "privacy").out
    assert "Did you mean 'privacy'" in run("validate", GAME, *QUIET, "--only", "privaci").err


def test_the_tasks_of_a_game_are_listed(run: Callable[..., Output]) -> None:
    output = run("tasks", GAME, "--split", "test", "--difficulty", 1, "--limit", 3)
    assert output.code == 0
    assert output.out.count("math/") == 3


def test_a_random_policy_speaks_for_all_and_is_shown(run: Callable[..., Output], tmp_path: Path) -> None:
    file = tmp_path / "random.jsonl"
    output = run("rollout", GAME, "--policy", "random", "--episodes", 6, *QUIET, "--out", file, "--json")
    assert json.loads(output.out)["episodes"] == 6
    episodes = list(read_episodes(file))
    assert {move.agent for episode in episodes for move in episode.turns} == {"reasoner", "helper"}
    shown = run("show", file).out
    assert "─ reasoner ─" in shown
    assert episodes[0].task_id in run("show", file, "--list").out


def test_the_decisions_of_a_hierarchy_are_shown_drawn_and_printed(run: Callable[..., Output], tmp_path: Path) -> None:
    file, picture = tmp_path / "random.jsonl", tmp_path / "tree.svg"
    run("rollout", "TMATR-Math-v0", "--policy", "random", "--episodes", 2, *QUIET, "--out", file)
    first, second = read_episodes(file)
    shown = run("show", file, 2, "--tree", "--svg", picture)
    assert shown.code == 0
    assert shown.out.startswith(second.task_id)
    assert "planner DECIDE" in shown.out
    assert picture.read_text(encoding="utf-8") == svg(decision_tree(second))
    assert json.loads(run("show", file, "--json").out) == json.loads(decision_tree(first).to_json())
    assert f"error: {file}: File exists." in run("show", file, "--svg", file / "tree.svg").err


def test_what_has_no_decisions_has_no_tree(run: Callable[..., Output], tmp_path: Path) -> None:
    for env in (GAME, "ToolOrchestra-Math-v0"):
        file = tmp_path / f"{env}.jsonl"
        options = QUIET if env == GAME else ()
        run("rollout", env, "--policy", "random", "--episodes", 1, *options, "--out", file)
        refused = run("show", file, "--tree")
        assert refused.code == 2
        assert f"Expected an episode of TMATR, which has a decision tree; found {env}" in refused.err


def test_the_same_seed_plays_the_same_episodes(run: Callable[..., Output], tmp_path: Path) -> None:
    files = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    for file in files:
        run("rollout", GAME, "--policy", "random", "--episodes", 4, *QUIET, "--out", file)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_chat_model_speaks_for_each_agent_from_its_own_history(
    run: Callable[..., Output], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def answer(request: object) -> str:
        text = str(request.messages)  # type: ignore[attr-defined]  # a ChatRequest
        asked.append(text)
        if "You read a piece of code" in text:
            return "It is 12."
        return r"\boxed{12}" if r"<interpretation>\n" in text else "```python\nprint(3 * 4)\n```"

    model = ScriptedChat(answer)
    monkeypatch.setattr(cli.Rollout, "_chat_model", lambda self, name: model)
    file = tmp_path / "llm.jsonl"
    options = ["--policy", "llm", "--model", "x", "--episodes", 3, *QUIET, "--out", file]
    assert run("rollout", GAME, *options).code == 0
    for episode in read_episodes(file):
        assert [move.agent for move in episode.turns] == ["reasoner", "helper", "reasoner"]
        helper = next(text for text in asked if "You read a piece of code" in text)
        assert episode.instruction not in helper


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (("play", GAME), "rollout --policy llm|random|null"),
        (("rollout", GAME, "--policy", "oracle"), "--policy llm, random or null"),
        (("tasks", "MSARL-Mth-v0"), "Did you mean 'Math'?"),
        (("tasks", "MSARR-Math-v0"), "Did you mean 'MSARL-Math-v0'?"),
        (("card", GAME), "whose tasks take place in domains"),
    ],
)
def test_what_does_not_fit_games_is_refused_with_a_remedy(
    run: Callable[..., Output], arguments: tuple[str, ...], remedy: str
) -> None:
    output = run(*arguments)
    assert output.code == 2
    assert remedy in output.err
    assert output.err.count("\n") == 1


@pytest.mark.parametrize("learner", ["grpo", "sft"])
def test_learners_of_one_agent_name_those_of_several(run: Callable[..., Output], learner: str) -> None:
    pytest.importorskip("toolorchestra.algos.grpo", reason="needs the extra `train`", exc_type=ImportError)
    output = run("train", learner, "--env", GAME)
    assert output.code == 2
    said = " ".join(output.err.replace("│", " ").split())
    assert f"algos/msarl.py --env {GAME}" in said
    assert "algos/multi_grpo.py" in said
