"""Rollouts that go on while the policy is trained: what begins when, what is handed out, and who learns from it."""

from __future__ import annotations

import asyncio
import json
import string
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from waiting import until

from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.algos import grpo, rollout_worker
from toolorchestra.algos.group_rollouts import Curriculum
from toolorchestra.algos.options.one_agent import TrainGRPO
from toolorchestra.algos.options.smoke import SIZES, tiny_tokenizer
from toolorchestra.algos.rollout.engine import RolloutEngine
from toolorchestra.algos.rollout.generation import CopyGeneration
from toolorchestra.algos.rollout.sampling import ModelSampler, Sample
from toolorchestra.algos.rollout_worker import AsyncGroupRollouts, RolloutWorker
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.toolscale.common.errors import OptionError, SamplerError, TrainingError

ENV = "Early-v0"


class Early(gym.Env[str, Any]):
    """Rewards answers that begin with one of the first characters; a step may wait, and its outcome may be given."""

    observation_space = gym.spaces.Text(100)
    action_space = gym.spaces.Text(100)
    waits: ClassVar[Callable[[], None]] = staticmethod(lambda: None)
    outcomes: ClassVar[Iterator[str] | None] = None
    may_block = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        return "Speak.", {}

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        Early.waits()
        info = {} if Early.outcomes is None else {"outcome": next(Early.outcomes)}
        return "", float(action[:1] < "P"), True, False, info


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    gym.register(ENV, entry_point=Early)
    monkeypatch.setattr(Early, "waits", staticmethod(lambda: None))
    monkeypatch.setattr(Early, "outcomes", None)
    yield
    gym.registry.pop(ENV)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model that reads and writes letters."""
    path: Path = tmp_path_factory.mktemp("model")
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *string.ascii_letters, ".", "Ġ", "Ċ"]
    core = Tokenizer(models.BPE({token: n for n, token in enumerate(tokens)}, []))
    core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, pad_token=tokens[0], eos_token=tokens[2])
    tokenizer.chat_template = tiny_tokenizer().chat_template
    tokenizer.save_pretrained(path)
    torch.manual_seed(0)
    settings = {**SIZES, "vocab_size": len(tokens), "pad_token_id": 0, "eos_token_id": 2, "initializer_range": 0.1}
    Qwen3ForCausalLM(Qwen3Config(**settings)).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def policy(folder: Path) -> TokenPolicy:
    return TokenPolicy.load(folder)


def options(folder: Path, output: Path, **changes: Any) -> TrainGRPO:
    settings: dict[str, Any] = {
        "env": ENV,
        "model": str(folder),
        "output": output,
        "max_staleness": 2,
        "steps": 8,
        "groups": 2,
        "group_size": 8,
        "learning_rate": 1e-2,
        "max_turn_ids": 2,
        "max_ids": 200,
        "filters": ("homogeneity",),
        "resample": 0,
        "eval_samples": 0,
        "save_every": 0,
        "threads": 1,
        "in_flight": 64,
    }
    return TrainGRPO(**(settings | changes))


# ------------------------------------------------------------------------------------------------------ the worker


def words(prompts: Sequence[Sequence[int]], limits: Sequence[int], keys: Sequence[int]) -> list[Sample]:
    """A sampler that writes one id by the key alone."""
    return [Sample([3 + key % 50], [-1.0]) for key in keys]


def worker_of(policy: TokenPolicy, config: TrainGRPO, sampler: Any = words, first: int = 0) -> RolloutWorker:
    engine = grpo.make_engine(config, policy.renderer)
    tasks = Curriculum({1: [EpisodeStart(n) for n in range(50)]})
    return RolloutWorker(engine, tasks, config, sampler, first=first)


def take(worker: RolloutWorker, groups: int = 1) -> list[Any]:
    """Take groups of samples, in the order in which they were handed out."""
    wait_for(worker, groups)
    return [worker.rollout_buffer.get_nowait() for _ in range(groups * worker.config.rollouts_per_task)]


def wait_for(worker: RolloutWorker, groups: int) -> None:
    """Wait until so many groups wait to be taken: where more are taken than a step uses, others may begin meanwhile."""

    def enough() -> bool:
        worker.check_health()
        return worker.rollout_buffer.qsize() >= groups * worker.config.rollouts_per_task

    until(enough, f"{groups} groups were played")


def require_waiting(worker: RolloutWorker, groups: int, *, stuck: int = 0) -> None:
    """Require that so many groups wait in the end, and no more, while some are stuck."""

    async def idle() -> bool:
        return len(worker._open) == stuck and not worker._may_begin()

    def settled() -> bool:
        worker.check_health()
        if worker._loop is None:
            return False
        return asyncio.run_coroutine_threadsafe(idle(), worker._loop).result()  # asked between two of its steps

    until(settled, "no group is played any more, and none may begin")
    assert worker.rollout_buffer.qsize() == groups * worker.config.rollouts_per_task


@pytest.fixture
def gate(stopped: list[RolloutWorker]) -> Iterator[threading.Event]:
    """What holds a worker up. It is open when the workers are stopped, also after a failure."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def stopped() -> Iterator[list[RolloutWorker]]:
    workers: list[RolloutWorker] = []
    yield workers
    for worker in workers:
        worker.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "rollouts"]


def test_as_many_groups_begin_as_are_used_before_they_are_too_old(
    folder: Path, policy: TokenPolicy, tmp_path: Path, stopped: list[RolloutWorker]
) -> None:
    worker = worker_of(policy, options(folder, tmp_path, filters=(), max_staleness=2, groups=2, group_size=2), first=6)
    stopped.append(worker)
    worker.update_model_version(3)
    worker.start()
    require_waiting(worker, 3 * 2)
    first = take(worker, 2)
    require_waiting(worker, 2 * 2)  # what was taken is trained on, and no update has come of it yet
    worker.update_model_version(4)
    require_waiting(worker, 3 * 2)
    seen = [*first, *take(worker, 6)]
    assert sorted({sample.group_id for sample in seen}) == [6, 7, 8, 9, 10, 11, 12, 13]
    assert {sample.model_version for sample in seen if sample.group_id < 12} == {3}
    assert {sample.model_version for sample in seen if sample.group_id >= 12} == {4}
    # six were taken since the update, of which two are used in a step: the others must have been discarded
    require_waiting(worker, 4)


def test_a_sample_is_one_of_our_rows(
    folder: Path, policy: TokenPolicy, tmp_path: Path, stopped: list[RolloutWorker]
) -> None:
    worker = worker_of(policy, options(folder, tmp_path, filters=("format",), group_size=4))
    stopped.append(worker)
    worker.start()
    samples = take(worker)
    group = samples[0].group
    assert [sample.group for sample in samples[1:]] == [None] * 3
    for sample, row, advantage, kept in zip(samples, group.rows, group.advantages, group.kept, strict=True):
        assert sample.input_ids.tolist() == row.prompt_ids + row.completion_ids
        assert sample.completion_mask.tolist() == [0] * len(row.prompt_ids) + [int(kept)]
        assert sample.old_log_probs.tolist() == [0.0] * len(row.prompt_ids) + [-1.0]
        assert (sample.advantage, sample.metrics["reward"]) == (advantage, row.reward)
        assert sample.prompt[0]["content"] == "Speak."


def test_draws_depend_on_the_number_of_a_group_and_not_on_when_it_was_played(
    folder: Path, policy: TokenPolicy, tmp_path: Path, stopped: list[RolloutWorker]
) -> None:
    class Shuffled:
        """A server that answers in an order of its own."""

        async def sample(self, prompt: Sequence[int], limit: int, key: int) -> Sample:
            for _ in range(key % 7):
                await asyncio.sleep(0)
            return words([prompt], [limit], [key])[0]

    def rows(worker: RolloutWorker) -> dict[int, list[int]]:
        stopped.append(worker)
        worker.start()
        wait_for(worker, 4)
        found: dict[int, list[int]] = {}
        for sample in take(worker, 4):
            found.setdefault(sample.group_id, []).append(int(sample.input_ids[-1]))
        return found

    config = options(folder, tmp_path, filters=(), max_staleness=1)
    whole = rows(worker_of(policy, config))
    assert rows(worker_of(policy, replace(config, in_flight=3), Shuffled())) == whole
    later = rows(worker_of(policy, config, first=2))
    assert {number: later[number] for number in (2, 3)} == {number: whole[number] for number in (2, 3)}
    assert len({tuple(ids) for ids in whole.values()}) == 4


def test_a_slow_step_holds_up_its_own_group_only(
    folder: Path,
    policy: TokenPolicy,
    tmp_path: Path,
    stopped: list[RolloutWorker],
    gate: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = threading.Lock()
    monkeypatch.setattr(Early, "waits", staticmethod(lambda: first.acquire(blocking=False) and gate.wait()))
    worker = worker_of(policy, options(folder, tmp_path, filters=()))
    stopped.append(worker)
    worker.start()
    require_waiting(worker, 5, stuck=1)
    gate.set()
    require_waiting(worker, 6)
    assert {sample.group_id for sample in take(worker, 6)} == set(range(6))


def test_groups_that_the_filters_drop_are_replaced_as_often_as_asked(
    folder: Path, policy: TokenPolicy, tmp_path: Path, stopped: list[RolloutWorker]
) -> None:
    def alike(prompts: Sequence[Sequence[int]], limits: Sequence[int], keys: Sequence[int]) -> list[Sample]:
        return [Sample([40], [-1.0]) for _ in prompts]

    worker = worker_of(policy, options(folder, tmp_path, resample=2, max_staleness=1), alike)
    stopped.append(worker)
    worker.start()
    wait_for(worker, 4)
    assert len(worker.dropped) == 2 * 4
    assert len(worker.unjudged) == 3 * 4 * 8
    samples = take(worker, 4)
    assert sorted({sample.group_id for sample in samples}) == [0, 1, 2, 3]
    assert all(not sample.completion_mask.any() for sample in samples)  # nothing to learn from


def test_infrastructure_errors_that_stay_end_the_rollouts(
    folder: Path, policy: TokenPolicy, tmp_path: Path, stopped: list[RolloutWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Early, "outcomes", iter(lambda: "infra_error", None))
    worker = worker_of(policy, options(folder, tmp_path, resample=1))
    stopped.append(worker)
    worker.start()
    with pytest.raises(OptionError, match="could not be played without infrastructure errors in 2 attempts"):
        take(worker)


def test_a_worker_without_a_sign_of_life_is_an_error(
    folder: Path,
    policy: TokenPolicy,
    tmp_path: Path,
    stopped: list[RolloutWorker],
    gate: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, begun = [0.0], threading.Event()
    clock = SimpleNamespace(monotonic=lambda: now[0], perf_counter=lambda: now[0], time=lambda: now[0])
    monkeypatch.setattr(rollout_worker, "time", clock)

    def stuck(*_: Any) -> list[Sample]:
        begun.set()
        gate.wait()
        raise SamplerError("ended")

    worker = worker_of(policy, options(folder, tmp_path), stuck)
    stopped.append(worker)
    worker.start()
    begun.wait()
    now[0] = 20.0
    worker.check_health(20)
    with pytest.raises(TrainingError, match=r"no sign of life for 20 s\. Continue with --resume"):
        worker.check_health(19)


# ---------------------------------------------------------------------------------------------------- training


def steps_of(output: Path) -> list[dict[str, Any]]:
    lines = (output / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == "train"]


def test_a_policy_learns_from_the_rollouts_of_earlier_ones(folder: Path, tmp_path: Path) -> None:
    grpo.train(
        options(
            folder, tmp_path / "run", max_staleness=2, steps=14, groups=4, eval_samples=2, eval_tasks=8, eval_every=7
        )
    )
    steps = steps_of(tmp_path / "run")
    assert [step["step"] for step in steps] == list(range(1, 15))
    assert steps[0]["staleness_max"] == 0
    assert all(0 <= step["staleness"] <= step["staleness_max"] <= 2 for step in steps)
    assert max(step["staleness_max"] for step in steps) > 0
    assert all(step["waited"] >= 0 and step["discarded"] >= 0 for step in steps)
    trained = [step for step in steps if "mismatch" in step]
    assert trained[0]["mismatch_max"] < 1e-4  # of the weights that are trained
    assert max(step["mismatch_max"] for step in trained) > 1e-3  # of earlier ones
    assert np.mean([step["reward"] for step in steps[-3:]]) > np.mean([step["reward"] for step in steps[:3]]) + 0.3


@pytest.mark.parametrize("updates", [1, 2])
def test_such_a_run_is_resumed(folder: Path, tmp_path: Path, updates: int) -> None:
    config = options(folder, tmp_path / "run", steps=2, save_every=2, updates=updates, max_staleness=1)
    grpo.train(config)
    grpo.train(replace(config, steps=4, resume=True))
    steps = steps_of(tmp_path / "run")
    assert [step["step"] for step in steps] == [1, 2, 3, 4]
    assert [step["staleness_max"] for step in steps[::2]] == [0, 0]  # what was under way is begun again
    assert all(step["staleness_max"] <= 1 for step in steps)


def test_what_ends_the_rollouts_ends_the_training(folder: Path, tmp_path: Path, policy: TokenPolicy) -> None:
    class Dying(CopyGeneration):
        """A server that dies in the third batch."""

        def live_sampler(self, renderer: Any, *, temperature: float = 1.0) -> Any:
            count = 0

            def sample(prompts: Any, limits: Any, keys: Any) -> list[Sample]:
                nonlocal count
                count += len(keys)
                if count > 3 * 16 - 5:
                    raise SamplerError("The server is gone.", resumable=True)
                return words(prompts, limits, keys)

            return sample

    config = options(folder, tmp_path / "run", max_staleness=1, filters=())
    engine = grpo.make_engine(config, policy.renderer)
    rollouts = AsyncGroupRollouts(engine, Curriculum({1: [EpisodeStart(1)]}), config, None, Dying())
    with pytest.raises(SamplerError, match="The server is gone"):
        grpo.fit(TokenPolicy.load(folder), rollouts, config)
    assert not [thread for thread in threading.enumerate() if thread.name == "rollouts"]


def test_what_was_sampled_too_long_ago_is_discarded(
    folder: Path, policy: TokenPolicy, tmp_path: Path, stopped: list[RolloutWorker]
) -> None:
    config = options(folder, tmp_path / "run", max_staleness=1, filters=())
    generation = CopyGeneration()
    generation.live_sampler = lambda *_, **__: words  # type: ignore[method-assign]
    engine: RolloutEngine = grpo.make_engine(config, policy.renderer)
    rollouts = AsyncGroupRollouts(engine, Curriculum({1: [EpisodeStart(1)]}), config, None, generation)
    try:
        for step in (0, 5, 6):
            useful, _ = rollouts.collect(2, step, None)
            assert len(useful) == 2
            assert rollouts._worker is not None
            require_waiting(rollouts._worker, 2)
            found = rollouts._collected
            assert found["discarded"] == (2 if step == 5 else 0)  # of two, played when the first were
            assert found["staleness_max"] == (1 if step == 6 else 0)
    finally:
        rollouts.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_staleness": -1}, "`max_staleness` must be at least 0"),
        ({"importance_cap": 0.0}, "give an `importance_cap` above 0"),
        ({"sampler": "vllm-colocate"}, "vllm-colocate stops them meanwhile"),
        ({"sampler": "vllm-server", "weight_sync": "nccl"}, "nccl stops them meanwhile"),
        ({"lora_rank": 4}, "adapters share one. Use `sampler` vllm-server"),
    ],
)
def test_what_cannot_go_on_meanwhile_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        options(Path("model"), tmp_path, **changes)


def test_several_processes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(OptionError, match="a training is one process, and 2 were started"):
        options(Path("model"), tmp_path)
    options(Path("model"), tmp_path, max_staleness=0)
    assert options.__defaults__ is None


# ------------------------------------------------------------------------------- TRL's own asynchronous trainer


def tree_attention(module: Any, query: Any, key: Any, value: Any, mask: Any, **tree: Any) -> tuple[Any, None]:
    """TRL's attention along the paths of a packed row, without the kernel for recent GPUs."""
    starts, ends = tree["tree_cu_seqlens_q"].tolist(), tree["tree_cu_seqlens_k"].tolist()
    found = []
    for n in range(len(starts) - 1):
        own, path = slice(starts[n], starts[n + 1]), tree["tree_kv_index"][ends[n] : ends[n + 1]]
        length = own.stop - own.start
        seen = torch.ones(length, len(path), dtype=torch.bool).tril(len(path) - length)
        several = query.size(1) // key.size(1)
        found.append(
            torch.nn.functional.scaled_dot_product_attention(
                query[:, :, own],
                key[:, :, path].repeat_interleave(several, 1),
                value[:, :, path].repeat_interleave(several, 1),
                attn_mask=seen,
                scale=tree["scaling"],
            )
        )
    return torch.cat(found, 2).transpose(1, 2), None


class Transfer:
    """TRL's protocol of weights that are sent: to the model in this process that samples."""

    def __init__(self, model: Any) -> None:
        self.parameters, self.sent = dict(model.named_parameters()), 0
        self.lock = threading.Lock()

    def init_weight_transfer(self) -> None:
        pass

    def pause(self) -> None:
        self.lock.acquire()

    @torch.no_grad()
    def send_weights(self, iterator: Iterator[tuple[str, torch.Tensor]]) -> None:
        for name, weights in iterator:
            self.parameters[name].copy_(weights)
        self.sent += 1

    def resume(self) -> None:
        self.lock.release()

    def destroy(self) -> None:
        pass


def test_trls_asynchronous_trainer_trains_on_our_rows(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datasets import Dataset
    from transformers import AttentionInterface
    from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer, async_grpo_trainer

    monkeypatch.setattr(async_grpo_trainer, "get_peak_flops_per_device", lambda *_: None)  # it asks for a GPU
    config = options(folder, tmp_path / "run", max_staleness=2, filters=())
    own = TokenPolicy.load(folder)
    transfer, sampler = Transfer(own.model), ModelSampler(own.model, own.renderer)

    def sample(*asked: Any) -> list[Sample]:
        with transfer.lock:
            return sampler(*asked)

    worker = worker_of(own, config, sample)
    trainer = AsyncGRPOTrainer(
        model=str(folder),
        args=AsyncGRPOConfig(
            output_dir=str(tmp_path / "trl"),
            max_steps=4,
            per_device_train_batch_size=config.tasks_per_batch * config.rollouts_per_task,
            num_generations=config.rollouts_per_task,
            max_staleness=config.max_staleness,
            token_budget=0,
            learning_rate=1e-3,
            bf16=False,
            gradient_checkpointing=False,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_dict({"prompt": ["-"]}),
        processing_class=own.tokenizer,
        rollout_worker=worker,
        weight_transfer=transfer,
    )
    AttentionInterface.register("tree_fa3", tree_attention)
    trainer.train()
    assert not [thread for thread in threading.enumerate() if thread.name == "rollouts"]
    assert transfer.sent == 5  # at the beginning, and after each step
    logs = [log for log in trainer.state.log_history if "sample/staleness_max" in log]
    assert len(logs) == 4
    assert all(log["sample/staleness_max"] <= 2 and log["batch/samples_per_step"] == 16 for log in logs)
    assert all(0 <= log["reward"] <= 1 and np.isfinite(log["loss"]) for log in logs)
    assert abs(logs[0]["ratio"] - 1) < 1e-3  # what was sampled with these weights has the same log-probabilities
