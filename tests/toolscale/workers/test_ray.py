"""Workers on a real Ray cluster of several nodes on this machine.

Killing a worker, a node and the command loses and duplicates nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import until

from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.experts.evaluation import ExpertTask, ask
from toolorchestra.cli.main import main
from toolorchestra.cli.rollout import RolloutCommand
from toolorchestra.envs.recording_units import run_units
from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.toolscale.common.errors import ExpertError, OptionError, install_line
from toolorchestra.toolscale.workers.ray_cluster import RayExecutor, import_ray, perform_on_node
from toolorchestra.toolscale.workers.units import InProcess, Unit

try:
    ray = import_ray()
except ImportError:
    pytest.skip(f"Ray is not installed: {install_line('ray')}", allow_module_level=True)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves pipes of its servers open
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def nothing_is_left() -> None:
    """Not asked here: Ray keeps connections to the nodes that it has met, and one test adds a node."""


@pytest.fixture
def played(mini_folder: Path) -> Callable[..., Iterator[Any]]:
    """Play 400 episodes of the mini domain."""
    command = RolloutCommand(env=str(mini_folder), policy="noisy-oracle", split="all")
    starts = [EpisodeStart(seed, {"split": "all", "difficulty": None}) for seed in range(400)]

    def play(executor: Any) -> Iterator[Any]:
        return run_units(executor, "test", command._makers, starts)

    return play


@pytest.fixture
def alone(played: Callable[..., Iterator[Any]]) -> list[bytes]:
    return records(played(InProcess()))


def records(episodes: Iterator[Any]) -> list[bytes]:
    return [one.to_json() for one in episodes if isinstance(one, Episode)]


def test_a_killed_worker_and_a_killed_node_lose_and_duplicate_nothing(
    ray_cluster: Any, played: Callable[..., Iterator[Any]], alone: list[bytes]
) -> None:
    with RayExecutor(2) as executor:
        (worker,) = executor.run([Unit((), os.getpid)])
        run = played(executor)
        found = [next(run)]
        os.kill(worker, signal.SIGKILL)
        found += [next(run) for _ in range(100)]
        ray_cluster.remove_node(ray_cluster.worker_nodes.copy().pop(), allow_graceful=False)
        ray_cluster.add_node(num_cpus=1)
        assert records(iter([*found, *run])) == alone


def test_a_killed_command_leaves_a_file_that_is_resumed_to_the_same_bytes(
    ray_cluster: Any, mini_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / "one.jsonl", tmp_path / "ray.jsonl"]
    options = ["rollout", str(mini_folder), "--policy", "noisy-oracle", "--split", "all", "--episodes", "1500", "--out"]
    on_ray = ["--executor", "ray", "--workers", "2", "--ray-address", ray_cluster.address]
    command = [sys.executable, "-m", "toolorchestra", *options, str(files[1]), *on_ray]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL) as process:
        until(
            lambda: process.poll() is not None or (files[1].exists() and files[1].stat().st_size),
            "an episode is written",
        )
        assert process.poll() is None, "all was played before it could be interrupted: raise --episodes"
        process.kill()
    kept = files[1].stat().st_size
    assert main([*options, str(files[1]), *on_ray, "--resume"]) == 0  # once Ray has ended the first one's actors
    assert main([*options, str(files[0])]) == 0
    assert files[0].read_bytes() == files[1].read_bytes()
    assert 0 < kept < files[0].stat().st_size
    capsys.readouterr()


def test_a_budget_is_one_for_all_workers(ray_cluster: Any, fake_server: Any, tmp_path: Path) -> None:
    fake_server.respond = lambda body: fake_server.completion(r"\boxed{7}")
    endpoint = f"{{base_url: '{fake_server.url}', budget: 0.5, max_concurrency: 1, max_retries: 0}}"
    file = tmp_path / "catalog.yaml"
    file.write_text(f"experts: {{qwen3-32b: {{price: {{input: 1000, output: 0}}, endpoint: {endpoint}}}}}")
    chat = Catalog.load(file).shared_chat("qwen3-32b")
    tasks = [ExpertTask(key=str(number), instruction=f"What is {number}?", answer="7") for number in range(8)]
    with RayExecutor(2) as executor, pytest.raises(ExpertError, match=r"expected to spend less than \$0.5"):
        list(executor.run(Unit((task.key,), ask, (chat, "q", [task])) for task in tasks))
    assert len(fake_server.bodies) == 5


def test_what_the_cluster_cannot_do_is_refused(ray_cluster: Any) -> None:
    with pytest.raises(OptionError, match=r"at least 99 processors, it has [23]\."):  # a killed node counts for a while
        RayExecutor(99)
    with pytest.raises(OptionError, match=r"Expected toolorchestra 0\.0 on every node"):
        perform_on_node("0.0", None, b"")
