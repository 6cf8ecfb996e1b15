"""Recordings for the tests of the viewer: of the mini domain, of other protocols, and of hostile content."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.designs import main as designs
from toolorchestra.cli.main import main
from toolorchestra.cli.viewer.index import EpisodeIndex
from toolorchestra.cli.viewer.pages import Answers
from toolorchestra.cli.viewer.places import Places
from toolorchestra.envs.records.episode import CallRecord, Episode, Turn, read_episodes, write_episodes
from toolorchestra.toolscale.tools.tool import InnerCall, Status

ATTACK = '<img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script>'
MARKS = "\x1b[31m\u202egnp.exe\u2066 שלום العربية \x00"


@pytest.fixture(scope="session")
def recordings(mini_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with recordings of a noisy oracle and of the oracle, of the same 20 tasks, and of other protocols."""
    folder = tmp_path_factory.mktemp("recordings")
    common = ["--split", "all", "--episodes", "20", "--json"]
    for policy in ("noisy-oracle", "oracle"):
        out = ["--out", str(folder / f"{policy}.jsonl")]
        assert main(["rollout", str(mini_folder), "--policy", policy, *common, *out]) == 0
    tmatr = [
        "rollout",
        "TMATR-Math-v0",
        "--policy",
        "random",
        "--episodes",
        "2",
        "--env-options",
        "python",
        "simulated",
    ]
    assert main([*tmatr, "--json", "--out", str(folder / "tmatr.jsonl")]) == 0
    design = ["run", "--source", "MASBenchBreadth", "--orchestrator", "oracle", "--json"]
    assert designs([*design, "--record", str(folder / "mas.jsonl")]) == 0
    return folder


@pytest.fixture(scope="session")
def run_folder(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training run, with metrics, held-out episodes and rollouts with their tokens."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    folder.mkdir()
    records: list[dict[str, Any]] = [
        {"phase": "grpo", "step": step, "kind": "train", "success": step / 10, "reward": step / 20}
        for step in range(1, 6)
    ]
    records.append({"phase": "grpo", "step": 5, "kind": "heldout", "success": 0.5, "low": 0.4, "high": 0.6})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (folder / "config.yaml").write_text("learner: grpo\nenv: mini\n")
    episodes = list(read_episodes(recordings / "noisy-oracle.jsonl"))[:3]
    turn = Turn({"role": "assistant", "content": "It is 7."}, token_ids=(5, 6, 7), logprobs=(-0.01, -1.2, -3.5))
    episodes[0].turns = [*episodes[0].turns[:-1], turn]
    write_episodes(folder / "episodes.jsonl", episodes)
    row = {"step": 4, "agent": "orchestrator", "task_id": "mini/a", "outcome": "solved", "reward": 1.0}
    tokens = {"prompt_ids": [1, 2], "completion_ids": [3, 4, 5], "mask": [1, 0, 1], "logprobs": [-0.1, 0.0, -2.0]}
    row |= {"advantage": 0.75, "kept": True, **tokens}
    (folder / "rollouts.jsonl").write_text(json.dumps(row) + "\n")
    return folder


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording every text of which is an attack, one of them a line of a megabyte."""
    text = ATTACK + MARKS
    inner = InnerCall(text, Status.EXEC_ERR, error=text, cost=0.1, end=0.5)
    value = {"__proto__": {"polluted": 1}, "constructor": text, text: [{text: text}]}
    calls = (
        CallRecord(text, text, {text: text}, Status.OK, value, cost=0.2, start=0.1, end=0.9, children=(inner,)),
        CallRecord("call_2", "read_file", {"path": "x"}, Status.OK, "A" * 1_000_000, start=0.1, end=0.8),
        CallRecord("call_3", text, None, Status.PARSE_ERR, error=text, start=0.1, end=0.1),
    )
    turns = [
        Turn({"role": "assistant", "content": text}, calls, {text: text, "b": text}, agent=text, seconds=0.1, cost=0.1),
        Turn({"role": "assistant", "content": text}, agent="b", token_ids=(1, 2), logprobs=(-1.0, -2.0)),
    ]
    episode = Episode(
        env_id=f"TMATR-{ATTACK}-v0", task_id=f"x/{text}", split="test", difficulty=1, prompt=text, instruction=text,
        tools=(text,), agents=(text, "b"), turns=turns, answer=text, outcome="failed", reward=0.0, rewards={text: 0.0},
        reward_parts={text: 0.5}, why=f"answer: {text}", cost=0.4, clock=1.0, metrics=(1.0, 0.0, 0.0, 0.0),
        details={text: text},
    )  # fmt: skip
    file = tmp_path_factory.mktemp("hostile") / "hostile.jsonl"
    write_episodes(file, [episode, episode])
    file.with_suffix(".json").write_text(json.dumps({"env": text, "policy": text}))
    return file


@pytest.fixture
def answers(recordings: Path, run_folder: Path, tmp_path: Path) -> Iterator[Answers]:
    """What the page asks for, of the recordings and the run."""
    places = Places.find([recordings, run_folder])
    with EpisodeIndex(places.recordings, tmp_path / "index.sqlite") as index:
        assert index.up_to_date.wait(20)
        yield Answers(places, index)
