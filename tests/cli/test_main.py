from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_type_hints

import msgspec
import pytest

from toolorchestra import __version__, environment_ids
from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.agents.policies.registry import POLICIES
from toolorchestra.cli import main as cli
from toolorchestra.envs import multiagent_ids
from toolorchestra.envs.checks.report import CheckReport, CheckResult
from toolorchestra.envs.episode import read_episodes
from toolorchestra.envs.sources.base import DomainSource
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_card import card
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.domain_statistics import statistics
from toolorchestra.toolscale.errors import ExpertError
from toolorchestra.toolscale.format import json_schema

COMMANDS = (
    *("envs", "tasks", "play", "rollout", "show", "validate", "build", "card", "stats", "export", "import"),
    *("robustness", "schema", "train"),
)


class Output(SimpleNamespace):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Output]:
    """Run a command in this process."""

    def run(*arguments: object) -> Output:
        code = cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Output(code=code, out=captured.out, err=captured.err)

    return run


@pytest.fixture
def folder(mini_folder: Path) -> str:
    return str(mini_folder)


@pytest.fixture
def recorded(run: Callable[..., Output], folder: str, tmp_path: Path) -> Path:
    """A file of 20 episodes of a noisy oracle."""
    file = tmp_path / "noisy.jsonl"
    run("rollout", folder, "--policy", "noisy-oracle", "--split", "all", "--episodes", 20, "--out", file)
    return file


def typing(monkeypatch: pytest.MonkeyPatch, *lines: str) -> list[str]:
    """Let a person type `lines`, then close the input; returns the questions asked."""
    script, asked = iter(lines), []

    def answer(question: str = "") -> str:
        asked.append(question)
        try:
            return next(script)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", answer)
    return asked


# help and mistakes


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_help_names_every_command(run: Callable[..., Output], arguments: tuple[str, ...]):
    output = run(*arguments)
    assert output.code == 0
    assert all(f"• {command}" in output.out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_every_command_has_its_help(run: Callable[..., Output], command: str):
    output = run(command, "--help")
    assert output.code == 0
    assert command in output.out
    fields = get_type_hints(getattr(cli, command.title()), include_extras=True)
    options = {name for name, hint in fields.items() if "Positional" not in str(hint)}
    assert all(f"--{name.replace('_', '-')}" in output.out for name in options)


def test_the_version_is_told(run: Callable[..., Output]):
    assert run("--version").out == f"toolorchestra {__version__}\n"


def test_a_wrong_command_is_a_mistake(run: Callable[..., Output]):
    assert run("plai").code == 2


@pytest.mark.parametrize("command", ["tasks", "play", "rollout", "validate"])
def test_a_wrong_environment_suggests_the_nearest_in_one_line(run: Callable[..., Output], command: str):
    output = run(command, "ToolOrchestra-Restarant-v0")
    assert output.code == 2
    assert output.err.startswith("error: Unknown environment")
    assert "Did you mean 'ToolOrchestra-Restaurant-v0'?" in output.err
    assert output.err.count("\n") == 1
    assert output.out == ""


def test_environments_of_others_are_refused(run: Callable[..., Output]):
    output = run("tasks", "CartPole-v1")
    assert output.code == 2
    assert "no environment of this library" in output.err


def test_a_folder_called_like_an_environment_does_not_hide_it(
    run: Callable[..., Output], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ToolOrchestra-Restaurant-v0").mkdir()
    assert run("tasks", "ToolOrchestra-Restaurant-v0", "--limit", 1).code == 0


def test_an_interruption_ends_without_a_traceback(run: Callable[..., Output], monkeypatch: pytest.MonkeyPatch):
    def interrupted(self: cli.Schema) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.Schema, "run", interrupted)
    output = run("schema")
    assert (output.code, output.err) == (130, "\nInterrupted.\n")


def test_a_reader_who_has_seen_enough_is_no_error(folder: str):
    command = f"{sys.executable} -m toolorchestra.cli.main tasks {folder} --json | head -c 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
    assert done.stdout == b"["
    assert done.stderr == b""


def test_help_needs_neither_torch_nor_the_environments():
    code = (
        "import sys; from toolorchestra import cli; cli.main(['--help']); print(sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    loaded = set(done.stderr.replace("'", "").strip("[]\n").split(", "))
    assert not loaded & {"torch", "transformers", "openai", "faker", "sqlite_utils", "toolorchestra.envs.checks"}


# envs and tasks


def test_envs_lists_all_environments_with_their_sizes(run: Callable[..., Output]):
    rows = run("envs", "--json").json
    assert [row["id"] for row in rows] == sorted([*environment_ids(), *multiagent_ids()])
    assert all(list(row) == ["id", "protocol", "source", "agents", "tools", "entries", "tasks"] for row in rows)
    assert {row["id"] for row in rows if row["agents"] > 1} == set(multiagent_ids())
    text = run("envs").out
    assert all(row["id"] in text for row in rows)


def test_envs_counts_what_is_there(mini: Domain, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cli, "environment", lambda name: SimpleNamespace(source=DomainSource(mini)))
    entries = sum(
        mini.database.base.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in mini.spec.tables
    )
    assert cli._env_facts("ToolOrchestra-Mini-v0") == {
        "id": "ToolOrchestra-Mini-v0",
        "protocol": "ToolOrchestra",
        "source": "Mini",
        "agents": 1,
        "tools": len(mini.tools),
        "entries": entries,
        "tasks": len(mini.tasks()),
    }


def test_tasks_are_listed_and_filtered(run: Callable[..., Output], folder: str, mini: Domain):
    every = run("tasks", folder, "--json").json
    assert len(every) == len(mini.tasks())
    some = run("tasks", folder, "--split", "train", "--difficulty", 1, "--intent", "ask_price", "--json").json
    assert some
    assert all((task["split"], task["difficulty"], task["intent"]) == ("train", 1, "ask_price") for task in some)
    text = run("tasks", folder, "--limit", 3).out
    assert text.count("mini/") == 3
    assert f"{len(every)} tasks of 4 intents" in text
    assert "3 shown" in text


def test_a_task_is_shown_with_its_reference_trajectory(run: Callable[..., Output], folder: str):
    text = run("tasks", folder, "--id", "mini/ask_price/000").out
    for part in ("reference trajectory", "get_order(order_id=", "the user must be told", "a right answer"):
        assert part in text
    assert run("tasks", folder, "--id", "mini/ask_price/000", "--json").json["intent"] == "ask_price"


def test_unknown_tasks_and_intents_suggest_the_nearest(run: Callable[..., Output], folder: str):
    assert "Did you mean 'mini/ask_price/0" in run("tasks", folder, "--id", "mini/ask_price/00").err
    assert "Did you mean 'ask_price'?" in run("tasks", folder, "--intent", "ask_prize").err


# play


def test_a_person_plays_and_sees_the_reference_trajectory(
    run: Callable[..., Output], folder: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    file = tmp_path / "mine.jsonl"
    asked = typing(monkeypatch, "get_order O001", "list_orders C00", "get_order O999", "answer No idea.", "y", "n")
    output = run("play", folder, "--difficulty", 1, "--seed", 0, "--record", file)
    assert output.code == 0
    for part in (
        "where you are",
        "get_order",
        "EXEC_ERR",
        "failed · reward 0",
        "0 of 1 solved",
        "reference trajectory",
    ):
        assert part in output.out
    assert asked[-1].startswith("Another one?")
    assert len(list(read_episodes(file))) == 1


def test_a_person_may_leave_at_any_time(run: Callable[..., Output], folder: str, monkeypatch: pytest.MonkeyPatch):
    for line in ([], ["quit"]):
        typing(monkeypatch, *line)
        output = run("play", folder)
        assert output.code == 0
        assert "Goodbye." in output.out


def test_a_given_task_is_played_once(
    run: Callable[..., Output], folder: str, monkeypatch: pytest.MonkeyPatch, mini: Domain
):
    task = mini.task("mini/ask_price/000")
    asked = typing(monkeypatch, f"get_order {task.bindings['order_id']}", f"answer {task.answer}")
    output = run("play", folder, "--task", task.id)
    assert "1 of 1 solved" in output.out
    assert asked == ["> ", "> "]


# rollout and show


@pytest.mark.parametrize("policy", ["oracle", "noisy-oracle", "random", "null"])
def test_rollout_records_every_episode(run: Callable[..., Output], folder: str, tmp_path: Path, policy: str):
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


def test_rollout_plays_every_task_of_a_split_once(
    run: Callable[..., Output], folder: str, tmp_path: Path, mini: Domain
):
    file = tmp_path / "all.jsonl"
    output = run("rollout", folder, "--episodes", "all", "--split", "all", "--out", file)
    assert "100.0% solved" in output.out
    assert {episode.task_id for episode in read_episodes(file)} == {task.id for task in mini.tasks()}


def test_an_interrupted_rollout_is_resumed_to_the_same_file(
    run: Callable[..., Output], folder: str, tmp_path: Path, recorded: Path
):
    file = tmp_path / "torn.jsonl"
    options = ["rollout", folder, "--policy", "noisy-oracle", "--split", "all", "--out", file]
    run(*options, "--episodes", 7)
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])  # the crash came while the seventh was being written
    output = run(*options, "--episodes", 20, "--resume")
    assert output.code == 0
    assert file.read_bytes() == recorded.read_bytes()


def test_a_file_is_neither_overwritten_nor_mixed(run: Callable[..., Output], folder: str, recorded: Path):
    options = ["rollout", folder, "--split", "all", "--out", recorded]
    before = recorded.read_bytes()
    assert "give --resume" in run(*options).err
    output = run(*options, "--policy", "random", "--resume")
    assert output.code == 2
    assert "policy 'noisy-oracle', now 'random'" in output.err
    assert recorded.read_bytes() == before


def test_episodes_are_on_disk_when_the_rollout_is_interrupted(
    run: Callable[..., Output], folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    run: Callable[..., Output], folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    model = ScriptedChat(lambda request: "I cannot help." if len(request.messages) > 2 else CALL)
    batches = []
    complete = model.complete
    monkeypatch.setattr(model, "complete", lambda requests: batches.append(len(requests)) or complete(requests))
    monkeypatch.setattr(cli.Rollout, "_chat_model", lambda self, name: model)
    file = tmp_path / "llm.jsonl"
    options = ["--policy", "llm", "--model", "x", "--split", "all", "--episodes", 10, "--parallel", 4, "--out", file]
    output = run("rollout", folder, *options)
    assert output.code == 0
    assert max(batches) == 4
    assert sorted(episode.seed or 0 for episode in read_episodes(file)) == list(range(10))
    assert "model: 20 replies" in output.out


CALL = '<tool_call>{"name": "list_orders", "arguments": {"customer_id": "C00"}}</tool_call>'


def test_episodes_whose_model_failed_are_told_and_tried_again(
    run: Callable[..., Output], folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    answers = iter([ExpertError("the server hung up"), *["No."] * 20])
    model = ScriptedChat(lambda request: next(answers))
    monkeypatch.setattr(cli.Rollout, "_chat_model", lambda self, name: model)
    file = tmp_path / "llm.jsonl"
    options = ["--policy", "llm", "--model", "x", "--split", "all", "--episodes", 5, "--out", file]
    output = run("rollout", folder, *options)
    assert output.code == 1
    assert "1 episodes were not played (the server hung up)" in output.err
    assert len(list(read_episodes(file))) == 4
    assert run("rollout", folder, *options, "--resume").code == 0
    assert len(list(read_episodes(file))) == 5


def test_a_model_that_cannot_be_reached_at_all_is_a_mistake(
    run: Callable[..., Output], folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    model = ScriptedChat(lambda request: ExpertError("connection refused"))
    monkeypatch.setattr(cli.Rollout, "_chat_model", lambda self, name: model)
    output = run("rollout", folder, "--policy", "llm", "--model", "x", "--out", tmp_path / "x.jsonl")
    assert output.code == 2
    assert "connection refused" in output.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policy", "llm"], "needs a model"),
        (["--model", "x"], "are for --policy llm"),
        (["--episodes", "0"], "must be at least 1"),
        (["--policy", "llm", "--model", "x", "--api-key-env", "KEY"], "give its --base-url"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    run: Callable[..., Output], folder: str, options: list[str], message: str
):
    output = run("rollout", folder, *options)
    assert output.code == 2
    assert message in " ".join(output.err.replace("│", " ").split())


def test_show_draws_an_episode(run: Callable[..., Output], recorded: Path):
    episodes = list(read_episodes(recorded))
    assert episodes[0].task_id in run("show", recorded).out
    assert episodes[2].task_id in run("show", recorded, 3).out
    assert "Episode 20 of 20" in run("show", recorded, -1).out
    assert episodes[5].instruction.split()[0] in run("show", recorded, "--task", episodes[5].task_id).out
    listed = run("show", recorded, "--list").out
    assert all(episode.task_id in listed for episode in episodes)


def test_show_says_what_it_cannot_show(run: Callable[..., Output], recorded: Path, tmp_path: Path):
    assert "has 20 episodes" in run("show", recorded, 21).err
    assert "Did you mean" in run("show", recorded, "--task", "mini/ask_price/0").err
    assert "cannot be read: No such file" in run("show", tmp_path / "nothing.jsonl").err
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"env_id": 3}\n')
    output = run("show", broken)
    assert output.code == 2
    assert f"{broken}:1: expected an episode" in output.err


# validate, build, schema, train


def test_validate_prints_a_table_and_returns_zero_when_all_is_well(run: Callable[..., Output], folder: str):
    output = run("validate", folder, "--only", "oracle", "null", "coverage")
    assert output.code == 0
    for part in ("✓  oracle", "✓  null", "•  coverage", "all checks passed"):
        assert part in output.out


def test_validate_returns_one_when_a_check_fails(
    run: Callable[..., Output], folder: str, monkeypatch: pytest.MonkeyPatch
):
    results = (CheckResult("oracle", "fail", "3 of 4 solved", {"solved": 3}, ("a/b/003: failed",)),)
    monkeypatch.setattr("toolorchestra.envs.checks.check_environment", lambda env_id, **_: CheckReport(env_id, results))
    output = run("validate", folder)
    assert output.code == 1
    assert "✗  oracle" in output.out
    assert "a/b/003: failed" in output.out
    report = run("validate", folder, "--json")
    assert report.code == 1
    assert report.json["passed"] is False
    assert report.json["results"][0]["counts"] == {"solved": 3}


def test_an_unknown_check_suggests_the_nearest(run: Callable[..., Output], folder: str):
    assert "Did you mean 'oracle'" in run("validate", folder, "--only", "orakle").err


def test_build_makes_the_folder_loadable_and_says_what_it_made(run: Callable[..., Output], edited: Callable[..., Path]):
    folder = edited()
    output = run("build", folder)
    assert output.code == 0
    assert {path.name for path in folder.iterdir()} >= {"domain.db", "tasks.jsonl", "build.json"}
    assert f"{len(load_domain(folder).tasks())} tasks" in output.out
    assert "built mini" in output.out


def test_build_says_where_a_domain_is_wrong(run: Callable[..., Output], edited: Callable[..., Path]):
    folder = edited("tables.orders.columns.price.type", "MONEY")
    output = run("build", folder)
    assert output.code == 2
    assert "tables.orders.columns.price.type" in output.err


def test_the_schema_that_editors_read_is_current(run: Callable[..., Output]):
    file = Path(cli.__file__).parent / "toolscale" / "domain.schema.json"
    assert json.loads(file.read_bytes()) == msgspec.json.decode(msgspec.json.encode(json_schema()))
    assert run("schema").out == file.read_text()


def test_train_hands_its_options_to_the_algorithm(run: Callable[..., Output], monkeypatch: pytest.MonkeyPatch):
    grpo = pytest.importorskip("toolorchestra.algos.grpo", reason="needs the extra `train`", exc_type=ImportError)
    given = []
    monkeypatch.setattr(grpo, "main", given.append)
    assert run("train", "grpo", "--env", "ToolOrchestra-All-v0", "--seed", 5).code == 0
    assert (given[0].env, given[0].seed) == ("ToolOrchestra-All-v0", 5)
    assert "toolorchestra train grpo" in run("train", "grpo", "--help").out


def test_every_learner_of_the_command_line_is_there(run: Callable[..., Output]):
    pytest.importorskip("toolorchestra.algos.grpo", reason="needs the extra `train`", exc_type=ImportError)
    for name in cli._LEARNERS:
        output = run("train", name, "--help")
        assert output.code == 0
        assert f"toolorchestra train {name}" in output.out


def test_train_says_how_to_install_what_it_needs(run: Callable[..., Output], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.startswith("toolorchestra.algos")]:
        monkeypatch.delitem(sys.modules, name)
    output = run("train", "grpo")
    assert output.code == 2
    assert "pip install 'toolorchestra[train]'" in output.err


def test_an_unknown_algorithm_is_a_mistake(run: Callable[..., Output]):
    assert run("train", "grp").code == 2


# the documentation


def test_the_examples_of_the_documentation_run(
    run: Callable[..., Output],
    edited: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    edited().rename(tmp_path / "my_domain")
    monkeypatch.chdir(tmp_path)
    document = (Path(cli.__file__).parent / "docs" / "cli.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```console\n\$ toolorchestra (.*)\n(.*)\n", document, re.MULTILINE)
    assert len(examples) >= 8
    for command, first_line in examples:
        quick = ["--only", "coverage"] if command.startswith("validate") else []
        output = run(*shlex.split(command), *quick)
        assert output.code == 0, output.err
        assert digits_hidden(output.out.splitlines()[0]) == digits_hidden(first_line)


def digits_hidden(line: str) -> str:
    return " ".join(re.sub(r"[\d.,]+", "0", line).split())


# cards and statistics


def test_the_card_of_a_folder_is_markdown(run: Callable[..., Output], folder: str):
    output = run("card", folder)
    assert output.code == 0
    assert output.out == card(load_domain(folder))


def test_statistics_come_as_a_table_as_json_and_as_a_page(run: Callable[..., Output], folder: str):
    (facts,) = run("stats", folder, "--json").json
    assert facts["domain"] == "mini"
    assert facts["sequences"] == statistics(load_domain(folder)).sequences
    assert "distinct tool sequences" in run("stats", folder).out
    assert run("stats", folder, "--markdown").out.startswith("# Statistics of the domains\n")
    assert run("stats", folder, "--markdown", "--json").code == 2
