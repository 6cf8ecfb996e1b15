"""Recordings as logs of inspect_ai, read by inspect_ai itself and shown by the server of `inspect view`."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("inspect_ai", reason="in an environment of its own: pip install 'toolorchestra[inspect,test]'")

from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries
from inspect_ai.scorer import SampleScore, Score, mean, stderr

from examples.exchange import main as exchange
from toolorchestra.cli.main import main
from toolorchestra.envs.records.episode import Episode, read_episodes, write_episodes

pytestmark = pytest.mark.filterwarnings("ignore")  # of inspect_ai and what it brings
Logged = tuple[Path, list[Episode]]


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Logged:
    """The log of a recording of three tasks, each played twice, of which one episode was not judged."""
    file = tmp_path_factory.mktemp("recorded") / "run.jsonl"
    command = ["rollout", "ToolOrchestra-Restaurant-v0", "--policy", "noisy-oracle", "--episodes", "3"]
    main([*command, "--samples", "2", "--out", str(file), "--seed", "5"])
    episodes = list(read_episodes(file))
    episodes[-1].outcome, episodes[-1].why = "infra_error", "the search was out of order"
    episodes[-1].reward, episodes[-1].rewards = None, {}
    file.unlink()
    write_episodes(file, episodes)
    out = file.with_suffix(".eval")
    assert exchange(["export", str(file), str(out)]) == 0
    return out, episodes


def test_inspect_reads_the_samples_with_their_rewards(logged: Logged) -> None:
    file, episodes = logged
    read = read_eval_log(str(file))
    assert (read.status, read.eval.model, read.version) == ("success", "noisy-oracle", 2)
    samples = read.samples or []
    assert {sample.epoch for sample in samples} == {1, 2}
    found = [msgspec.convert(sample.store["episode"], Episode) for sample in samples]
    assert sorted(one.to_json() for one in found) == sorted(one.to_json() for one in episodes)
    for sample, episode in zip(samples, found, strict=True):
        assert (sample.id, sample.input) == (episode.task_id, episode.instruction)
        if sample.error:
            assert episode.reward is None
            assert "out of order" in sample.error.message
            assert not sample.scores
            continue
        assert sample.scores is not None
        assert sample.scores["reward"].value == episode.reward
        calls = [call for one in sample.messages if one.role == "assistant" for call in one.tool_calls or ()]
        results = [one for one in sample.messages if one.role == "tool"]
        answered = [call for call in calls if call.function != "submit"]  # after which nothing is read
        assert [(one.tool_call_id, one.function) for one in results] == [(one.id, one.function) for one in answered]
        made = [(one.name, {k: v for k, v in one.arguments.items() if v is not None}) for one in episode.calls]
        assert made == [(one.function, one.arguments) for one in calls], "but for what was left out"
    assert [bool(sample.error) for sample in samples].count(True) == 1


def test_the_means_are_those_that_inspect_computes(logged: Logged) -> None:
    read = read_eval_log(str(logged[0]))
    rewards: dict[Any, list[Any]] = {}
    for sample in read.samples or ():
        if sample.scores:
            rewards.setdefault(sample.id, []).append(sample.scores["reward"].value)
    reduced = [SampleScore(score=Score(value=sum(values) / len(values))) for values in rewards.values()]
    assert read.results is not None
    (score,) = read.results.scores
    assert score.metrics["mean"].value == pytest.approx(mean()(reduced))
    assert score.metrics["stderr"].value == pytest.approx(stderr()(reduced))
    assert score.metrics["stderr"].value > 0
    assert (score.scored_samples, score.unscored_samples) == (3, 1)


def test_header_summaries_and_single_samples_are_read_alone(logged: Logged) -> None:
    file, episodes = logged
    header = read_eval_log(str(file), header_only=True)
    assert (header.samples, header.eval.dataset.samples) == (None, 3)
    summaries = read_eval_log_sample_summaries(str(file))
    assert [one.error for one in summaries].count(None) == len(summaries) - 1 == 5
    one = read_eval_log_sample(str(file), summaries[0].id, summaries[0].epoch)
    assert one.store["episode"]["task_id"] == episodes[0].task_id


@pytest.mark.slow
def test_inspect_view_lists_and_shows_it(logged: Logged, start: Callable[..., Any]) -> None:
    file, episodes = logged
    command = [sys.executable, "-m", "inspect_ai", "view", "start", "--log-dir", str(file.parent), "--port", "{port}"]
    server = start(command, timeout=180)
    root = server.url.removesuffix("/v1")

    def get(path: str) -> Any:
        with urllib.request.urlopen(f"{root}/api/{path}", timeout=60) as response:
            return json.load(response)

    (listed,) = get("logs")["files"]
    shown = get(f"logs/{listed['name']}")
    server.kill()
    assert {sample["id"] for sample in shown["samples"]} == {one.task_id for one in episodes}
