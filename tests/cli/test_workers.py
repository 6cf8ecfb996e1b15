"""Commands with several workers: they write the same bytes as one process, and leave files that can be resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from waiting import until

from toolorchestra.envs.records.episode import read_episodes

Run = Callable[..., Any]
TWO = ("--workers", 2)


def test_a_rollout_is_the_same_file_and_summary(run: Run, folder: str, tmp_path: Path, recorded: Path) -> None:
    file = tmp_path / "two.jsonl"
    options = ("--policy", "noisy-oracle", "--split", "all", "--episodes", 20, "--json", "--out")
    summary = run("rollout", folder, *options, file, *TWO).json
    assert file.read_bytes() == recorded.read_bytes()
    assert file.with_suffix(".json").read_bytes() == recorded.with_suffix(".json").read_bytes()
    alone = run("rollout", folder, *options, tmp_path / "one.jsonl").json
    for one in (summary, alone):
        del one["seconds"], one["file"]
    assert summary == alone


def test_episodes_of_a_chat_model_come_in_the_order_of_their_seeds(
    run: Run, folder: str, tmp_path: Path, fake_server: Any
) -> None:
    fake_server.respond = lambda body: fake_server.completion("No.")
    files = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    options = ("--policy", "llm", "--model", "m", "--base-url", fake_server.url, "--price", 1, 2, "--split", "all")
    options += ("--env-options", "answer", "text")
    one = run("rollout", folder, *options, "--episodes", 9, "--in-flight", 1, "--json", "--out", files[0])
    two = run("rollout", folder, *options, "--episodes", 9, "--in-flight", 4, "--json", "--out", files[1], *TWO)
    seeds = [[episode.seed for episode in read_episodes(file)] for file in files]
    assert seeds == [list(range(9))] * 2
    assert two.json["model"]["calls"] == one.json["model"]["calls"] == 9
    assert two.json["model"]["cost"] == pytest.approx(one.json["model"]["cost"])


def test_a_killed_or_interrupted_rollout_is_resumed_to_the_same_file(
    run: Run, folder: str, tmp_path: Path, blocking: Path
) -> None:
    files = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    options = ("rollout", folder, "--policy", "noisy-oracle", "--split", "all", "--episodes", 200, "--out")
    command = [sys.executable, *map(str, (blocking, *options, files[1], *TWO))]
    ways: tuple[tuple[signal.Signals, tuple[str, ...]], ...] = ((signal.SIGINT, ()), (signal.SIGKILL, ("--resume",)))
    for how, more in ways:
        before = files[1].stat().st_size if files[1].exists() else 0
        with subprocess.Popen([*command, *more], stderr=subprocess.PIPE, start_new_session=True) as process:
            until(
                lambda: process.poll() is not None or (files[1].exists() and files[1].stat().st_size > before),  # noqa: B023 - asked here
                "an episode is written",
            )
            assert process.poll() is None, "all was played, though its workers wait to be ended"
            os.killpg(process.pid, how)  # as a terminal does for Ctrl-C
            _, told = process.communicate()
        if how == signal.SIGINT:
            assert process.returncode == 130
            assert b"--resume goes on" in told
    assert files[1].stat().st_size > 0
    assert run(*options, files[1], "--resume").code == 0
    run(*options, files[0])
    assert files[1].read_bytes() == files[0].read_bytes()


def test_checks_find_the_same(run: Run, quick_folder: Path) -> None:
    options = ("validate", quick_folder, "--json", "--random-episodes", 40, "--hostile", 20, "--only")
    checks = ("oracle", "null", "random", "hostile", "verifier", "coverage")
    one, two = (run(*options, *checks, *more).json for more in ((), TWO))
    for report in (one, two):
        for result in report["results"]:
            result.pop("seconds")
    assert one == two
    assert [list(result["counts"]) for result in one["results"]] == [
        list(result["counts"]) for result in two["results"]
    ]


def test_attacks_on_a_part_of_the_tasks_are_those_on_all(quick_folder: Path) -> None:
    from toolorchestra.toolscale.domain_folder import load_domain
    from toolorchestra.toolscale.validation.verifier_attacks import AttackReport, try_attacks

    domain = load_domain(quick_folder)
    tasks = domain.tasks()[:9]
    together = AttackReport()
    for part in (range(4), range(4, 9)):
        together.add(try_attacks(domain, tasks, part=part))
    assert together == try_attacks(domain, tasks)


def test_tasks_attacks_and_evaluations_are_the_same_files(run: Run, quick_folder: Path, tmp_path: Path) -> None:
    commands = (("synth", "tasks", quick_folder, "--count", 60), ("experts", "ask", "gpt-5", "--count", 20))
    for number, command in enumerate(commands):
        files = [tmp_path / f"{number}-{workers}.jsonl" for workers in (1, 2)]
        for workers, file in enumerate(files, 1):
            assert run(*command, "--out", file, "--workers", workers).code == 0
        assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--workers", 0), "--workers must be at least 1, got 0"),
        (("--ray-address", "auto"), "--ray-address is for --executor ray"),
    ],
)
def test_options_that_cannot_be_used_are_refused(
    run: Run, folder: str, tmp_path: Path, options: tuple[object, ...], message: str
) -> None:
    output = run("rollout", folder, *options, "--out", tmp_path / "x.jsonl")
    assert output.code == 2
    assert message in output.err


def test_a_real_expert_is_asked_by_one_process(run: Run, tmp_path: Path, fake_server: Any) -> None:
    (tmp_path / "mine.yaml").write_text(f"experts: {{qwen3-32b: {{endpoint: {{base_url: '{fake_server.url}'}}}}}}")
    (tmp_path / "tasks.jsonl").write_text('{"key": "1", "instruction": "What is 3 + 4?", "answer": "7"}\n')
    options = ("--catalog", tmp_path / "mine.yaml", "--tasks", tmp_path / "tasks.jsonl", "--out", tmp_path / "x.jsonl")
    output = run("experts", "ask", "qwen3-32b", *options, *TWO)
    assert output.code == 2
    assert "is asked for all answers at once by one process" in output.err
