"""Runs that ought to be the same: however many processes, parts of a batch, and whoever generates, unbroken or resumed.

As a script, this file trains each learner in a folder, and `accelerate launch` starts it in two processes with the
configuration for FSDP2: in each of two folders, with whole models and, as that configuration says, with divided ones.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.algos.launch_configs import launch_config

EVERYWHERE = (
    *("sft", "grpo", "grpo-rows", "grpo-adamw", "grpo-resumed", "grpo-model", "masorchestra"),
    *("multi-grpo", "msarl", "tmatr", "tmatr-resumed"),
)
"""Trained in one process, in two, and in two with divided models."""
PARTS = {
    "sft-rows": "sft",
    "grpo-rows": "grpo",
    "grpo-unbundled": "grpo",
    "multi-grpo-rows": "multi-grpo",
    "msarl-rows": "msarl",
    "tmatr-rows": "tmatr",
}
"""Runs that compute a batch in other parts (8 rows one by one, or all padded to the longest), and what they repeat."""
TIMED = ("tokens_per_second", "memory")
SAMPLER = ("mismatch", "mismatch_max", "importance_ratio")  # differences of rounding, which have no digits to compare
LOSS = {"one": 2e-5, "two": 2e-5, "divided": 1e-4}
"""Tolerances of metrics, relative and absolute: float32 sums in another order. Measured: 3e-7, 8e-7, 3e-6.

On a CPU, torch adds up the squares of a gradient one after the other, so that its norm has an error of 3e-5 (of 300,000
numbers), which is another one if their halves are added up by themselves.
"""
WEIGHTS = {"one": 1e-5, "two": 1e-5, "divided": 1e-4}
"""Tolerances of weights, as norm of the difference over the norm of the change that training made.

Measured: 7e-7, 3e-6, 1e-5. These runs make steps of gradient descent, which are as long as the gradient: AdamW's first
steps are as long for a gradient that is only rounding as for any other.
"""
ADAMW = 1e-3
"""The same after steps of AdamW. Measured: 7e-5."""
BY_ADAMW = ("sft", "grpo-adamw", "grpo-resumed")


# ------------------------------------------------------------------------------------------------- as a script


def train_everywhere(folder: Path, **options: Any) -> dict[str, Any]:
    """Train every learner for a few steps, and return the options of the runs."""
    from toolorchestra.algos import grpo, msarl, multi_grpo, sft, tmatr
    from toolorchestra.algos.hardware import distributed
    from toolorchestra.algos.options.one_agent import TrainGRPO, TrainSFT
    from toolorchestra.algos.options.several_agents import TrainMSARL, TrainMultiGRPO, TrainTMATR
    from toolorchestra.algos.options.smoke import make_tiny_model

    shared: dict[str, Any] = {"threads": 1, "difficulty": (1,), "seed": 3, **options}
    found: dict[str, Any] = {}
    found["sft"] = TrainSFT(output=folder / "sft", steps=12, batch=8, replays=1, save_every=0, **shared)
    sft.train(found["sft"])
    rollouts: dict[str, Any] = {**shared, "steps": 2, "max_turn_ids": 8, "eval_tasks": 3, "eval_samples": 2}
    rollouts |= {"optimizer": "sgd", "learning_rate": 0.5}
    groups: dict[str, Any] = {**rollouts, "groups": 2, "group_size": 4, "filters": (), "min_std": 0.0}
    start = folder / "sft" / "final"
    found["grpo"] = TrainGRPO(output=folder / "grpo", start=start, max_turns=2, save_every=0, **groups)
    grpo.train(found["grpo"])
    # with divided groups, processes have different numbers of parts
    grpo.train(replace(found["grpo"], output=folder / "grpo-rows", micro_batch=1, eval_samples=0))
    adamw = replace(found["grpo"], optimizer="adamw", learning_rate=None, eval_samples=0)
    grpo.train(replace(adamw, output=folder / "grpo-adamw"))
    adamw = replace(adamw, output=folder / "grpo-resumed", save_every=1)
    grpo.train(replace(adamw, steps=1))
    grpo.train(replace(adamw, resume=True))
    tiny = distributed.from_main(lambda: make_tiny_model(folder / "tiny"))
    given: dict[str, Any] = {"model": str(tiny), "env": "MASOrchestra-Low-Math-v0", "save_every": 0}
    small = {**groups, "steps": 1, "eval_samples": 0}  # of attention alone, whose cache is kept
    grpo.train(TrainGRPO(output=folder / "grpo-model", **given, **small))
    designs: dict[str, Any] = {**groups, "eval_samples": 0, "sft_steps": 2, "save_every": 0, "max_turn_ids": 12}
    grpo.train(TrainGRPO(env="MASOrchestra-Low-Math-v0", output=folder / "masorchestra", **designs))
    teams: dict[str, Any] = {**rollouts, "max_turn_ids": 4, "sft_steps": 2, "groups": 3, "save_every": 1}
    found["multi-grpo"] = TrainMultiGRPO(
        output=folder / "multi-grpo", group_size=4, kinds=("power_remainder",), **teams
    )
    multi_grpo.train(found["multi-grpo"])
    teams["kinds"] = ("power_remainder",)
    found["msarl"] = TrainMSARL(output=folder / "msarl", paths=3, interpretations=2, **teams)
    msarl.train(found["msarl"])
    del teams["steps"], teams["kinds"]
    teams |= {"eval_tasks": 2, "eval_samples": 1}  # evaluated after each stage
    teams["env_options"] = {"max_turns": "2", "max_retries": "1"}  # of policies whose messages are malformed
    found["tmatr"] = TrainTMATR(
        output=folder / "tmatr", stage_steps=2, group_size=4, min_pairs=1, threshold=0.5, epochs=1, **teams
    )
    tmatr.train(found["tmatr"])
    break_off(folder / "tmatr", folder / "tmatr-resumed", 3)  # in the middle of a stage
    tmatr.train(replace(found["tmatr"], output=folder / "tmatr-resumed", resume=True))
    return found


def break_off(run: Path, copy: Path, step: int) -> None:
    """Copy a run as if it had been killed after the checkpoint of a step."""
    from toolorchestra.algos.hardware import distributed

    if distributed.is_main():
        shutil.copytree(run, copy, ignore=shutil.ignore_patterns("final", "*.lock", "*.claim"))
        for checkpoint in (copy / "checkpoints").glob("checkpoint-*"):
            if int(checkpoint.name.split("-")[1]) > step:
                shutil.rmtree(checkpoint)
    distributed.wait()


def train_in_parts(folder: Path, configs: dict[str, Any]) -> None:
    """Repeat runs with their batches computed in other parts."""
    from toolorchestra.algos import grpo, msarl, multi_grpo, sft, tmatr, trl_trainers

    for name, learner in {"sft": sft, "multi-grpo": multi_grpo, "msarl": msarl, "tmatr": tmatr}.items():
        start = folder / name / "start"
        more = {} if name == "sft" else {"eval_samples": 0, "save_every": 0, "start": start}
        rows = replace(configs[name], output=folder / f"{name}-rows", micro_batch=1, **more)
        learner.train(rows)  # type: ignore[attr-defined]  # each has its own options
    bundles, trl_trainers.bundles = trl_trainers.bundles, lambda lengths, **_: [list(range(len(lengths)))]
    grpo.train(replace(configs["grpo"], output=folder / "grpo-unbundled", eval_samples=0))
    trl_trainers.bundles = bundles


def train_replayed(folder: Path, config: Any, drawn: dict[tuple[int, tuple[int, ...]], Any]) -> None:
    """Repeat a run of GRPO with what its model drew as the answers of a vLLM server."""
    from toolorchestra.agents.http_client import HTTPClient, Response
    from toolorchestra.algos import grpo
    from toolorchestra.algos.rollout import generation
    from toolorchestra.algos.rollout.vllm_server import VLLMServer

    class Replay(HTTPClient):
        async def request(self, path: str = "", body: bytes | None = None) -> Response:
            asked = json.loads(body or b"{}")
            answer: Any = {"data": [{"id": "m"}]} if path == "/v1/models" else {}
            if path == "/v1/completions":
                ids, logprobs = [2], [0.0]  # what `check` asks for
                if "seed" in asked:
                    ids, logprobs = drawn[asked["seed"], tuple(asked["prompt"])]
                choice = {
                    "token_ids": ids,
                    "prompt_token_ids": asked["prompt"],
                    "logprobs": {"token_logprobs": logprobs},
                }
                answer = {"choices": [choice]}
            return Response(200, {}, json.dumps(answer).encode(), "")

    client = Replay("http://replay", timeout=60.0)
    generation.VLLMServer = lambda url: VLLMServer(url, client)  # type: ignore[assignment, misc]
    grpo.train(replace(config, output=folder / "grpo-replayed", sampler="vllm-server", eval_samples=0))
    generation.VLLMServer = VLLMServer  # type: ignore[misc]


def reward_everything(drawn: dict[tuple[int, tuple[int, ...]], Any]) -> None:
    """Let rewards differ in the episodes of policies that know nothing, and keep what they draw."""
    from toolorchestra.algos.rollout.engine import RolloutEngine
    from toolorchestra.algos.rollout.multi_agent import Slot
    from toolorchestra.algos.rollout.sampling import ModelSampler, draw_key

    play, sample = RolloutEngine.play, ModelSampler.__call__

    def by_ids(*given: Any) -> Any:
        rows = play(*given)
        for row in rows:
            row.reward = 1.0 / (1 + sum(row.completion_ids) % 5)
        return rows

    def parity(slot: Slot, agent: str = "") -> float:
        return float(sum(sum(trajectory.ids) for trajectory in slot.trajectories.values()) % 2)

    def keep(sampler: ModelSampler, prompts: Any, limits: Any, keys: Any) -> Any:
        samples = sample(sampler, prompts, limits, keys)
        for prompt, key, one in zip(prompts, keys, samples, strict=True):
            drawn[draw_key(sampler.seed, key) >> 1, tuple(prompt)] = one
        return samples

    RolloutEngine.play = by_ids  # type: ignore[method-assign]
    ModelSampler.__call__ = keep  # type: ignore[method-assign]
    Slot.reward = property(parity)  # type: ignore[assignment, method-assign]
    Slot.agent_reward = parity  # type: ignore[method-assign]


def save_time() -> None:
    """Leave out what no run is compared by: figures, and waiting until files are on the disk."""
    from toolorchestra.algos.reporting.report import RunLog

    RunLog.curves = lambda *_, **__: None  # type: ignore[method-assign]
    os.fsync = lambda _: None
    gc.collect()
    gc.freeze()  # trainers collect garbage several times, and what is imported is none


def train_all(folder: Path) -> None:
    """Train what this process is there for."""
    from toolorchestra.algos import trl_trainers  # noqa: F401 - what `save_time` freezes
    from toolorchestra.algos.hardware import distributed

    distributed.start()
    save_time()
    drawn: dict[tuple[int, tuple[int, ...]], Any] = {}
    reward_everything(drawn)
    if distributed.world_size() > 1:
        train_everywhere(folder / "two", shard=False)
        assert all(config.shard for config in train_everywhere(folder / "divided").values())
        return
    configs = train_everywhere(folder / "one")
    train_in_parts(folder / "one", configs)
    train_replayed(folder / "one", configs["grpo"], drawn)


# ------------------------------------------------------------------------------------------------------- tests


def weights(folder: Path) -> dict[str, Any]:
    """Return the weights of the policies in a folder."""
    from safetensors.torch import load_file

    files = sorted(folder.rglob("*.safetensors"))
    assert files
    return {f"{file.relative_to(folder)}/{name}": w for file in files for name, w in load_file(file).items()}


def change(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Return the norm of the difference of weights."""
    assert one.keys() == other.keys()
    return float(sum(float((one[name] - other[name]).square().sum()) for name in one) ** 0.5)


def difference(run: Path, other: Path) -> float:
    """Return the norm of the difference of trained weights over the norm of the change that the first run made."""
    after = weights(run / "final")
    before = weights(run / "start") if (run / "start").is_dir() else {name: 0 * w for name, w in after.items()}
    moved = change(before, after)
    assert moved > 0
    return change(after, weights(other / "final")) / moved


def metrics(folder: Path, *kinds: str, leave: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Return what a run logged of these kinds (all), but for what depends on the machine."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    left = (*TIMED, *leave)
    return [{k: v for k, v in line.items() if k not in left} for line in lines if not kinds or line["kind"] in kinds]


def require_equal(one: list[dict[str, Any]], other: list[dict[str, Any]], tolerance: float) -> None:
    """Compare metrics."""
    assert one
    for a, b in zip(one, other, strict=True):
        assert [a.pop(word) for word in ("phase", "kind")] == [b.pop(word) for word in ("phase", "kind")]
        assert a == pytest.approx(b, rel=tolerance, abs=tolerance, nan_ok=True)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the same runs in one process (``one``), in two, and in two with divided models."""
    folder = tmp_path_factory.mktemp("runs")
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    environment |= {"OMP_NUM_THREADS": "1"}
    started = []
    two = ["-m", "accelerate.commands.launch", "--config_file", str(launch_config("fsdp2.yaml"))]
    for name, launcher in (
        ("one", [sys.executable]),
        ("two", [sys.executable, *two, "--num_processes", "2", "--main_process_port", "0"]),
    ):
        with (folder / f"{name}.log").open("wb") as log:
            command = [*launcher, __file__, str(folder)]
            started.append((log, subprocess.Popen(command, stdout=log, stderr=log, env=environment)))
    for log, process in started:
        status = process.wait(timeout=900)
        assert status == 0, Path(log.name).read_text(encoding="utf-8")[-4000:]
    return folder


@pytest.mark.long
@pytest.mark.parametrize("name", EVERYWHERE)
@pytest.mark.parametrize("processes", ["two", "divided"])
def test_one_process_and_two_are_the_same_run(runs: Path, name: str, processes: str) -> None:
    one, two = runs / "one" / name, runs / processes / name
    require_equal(metrics(one), metrics(two), LOSS[processes])
    assert difference(one, two) <= (ADAMW if name in BY_ADAMW else WEIGHTS[processes])


@pytest.mark.long
@pytest.mark.parametrize("processes", ["one", "two", "divided"])
@pytest.mark.parametrize("name", ["grpo-adamw grpo-resumed", "tmatr tmatr-resumed"])
def test_a_resumed_run_is_the_unbroken_one(runs: Path, name: str, processes: str) -> None:
    unbroken, resumed = (weights(runs / processes / one / "final") for one in name.split())
    assert change(unbroken, resumed) == 0.0


@pytest.mark.long
@pytest.mark.parametrize("name", PARTS)
def test_a_batch_in_parts_is_the_whole_batch(runs: Path, name: str) -> None:
    whole, parts = runs / "one" / PARTS[name], runs / "one" / name
    kept = [
        [one for one in metrics(run, leave=SAMPLER) if one["kind"] == "train" and one["phase"] != "sft"]
        or metrics(run, leave=SAMPLER)
        for run in (whole, parts)
    ]
    require_equal(*kept, LOSS["one"])
    assert difference(whole, parts) <= (ADAMW if name == "sft-rows" else WEIGHTS["one"])


@pytest.mark.long
def test_tokens_of_a_vllm_server_train_as_those_of_the_model_itself(runs: Path) -> None:
    own, replayed = runs / "one" / "grpo", runs / "one" / "grpo-replayed"
    require_equal(*(metrics(run, "train", leave=SAMPLER) for run in (own, replayed)), LOSS["one"])
    assert difference(own, replayed) <= WEIGHTS["one"]
    ratios = [one["importance_ratio"] for one in metrics(replayed, "train")]
    assert ratios == pytest.approx([1.0] * 2, abs=1e-5)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # Ray leaves pipes of its servers open
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_rollouts_on_ray_train_as_those_of_this_machine(
    ray_cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from toolorchestra.algos import sft
    from toolorchestra.algos.options.one_agent import TrainSFT
    from toolorchestra.cli.main import main

    command = ["rollout", "ToolOrchestra-Restaurant-v0", "--policy", "noisy-oracle", "--episodes", "70"]  # two units
    for name, executor in {"local": [], "ray": ["--executor", "ray", "--workers", "2"]}.items():
        file = tmp_path / f"{name}.jsonl"
        assert main([*command, "--out", str(file), *executor]) == 0
        options: dict[str, Any] = {"steps": 4, "batch": 4, "save_every": 0, "threads": 1, "seed": 3}
        sft.train(TrainSFT(output=tmp_path / name, episodes=(file,), **options))
    capsys.readouterr()
    local, ray = tmp_path / "local", tmp_path / "ray"
    assert local.with_suffix(".jsonl").read_bytes() == ray.with_suffix(".jsonl").read_bytes()
    require_equal(metrics(local), metrics(ray), 0.0)
    assert change(weights(local / "final"), weights(ray / "final")) == 0.0


if __name__ == "__main__":
    from toolorchestra.algos.hardware import distributed

    with distributed.ending_together():
        train_all(Path(sys.argv[1]))
