"""Generation by vLLM's server on a CPU: what only a real one shows. Opt in: ``bash .ci/vllm``."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from toolorchestra.agents.builtin.adapters import make_adapters
from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.algos import grpo, multi_grpo
from toolorchestra.algos.options.one_agent import TrainGRPO
from toolorchestra.algos.options.several_agents import TrainMultiGRPO
from toolorchestra.algos.rollout.generation import ServerGeneration
from toolorchestra.algos.rollout.multi_agent import Slot
from toolorchestra.algos.rollout.sampling import ModelSampler, Sample
from toolorchestra.algos.rollout.vllm_sampler import VLLMSampler
from toolorchestra.algos.rollout.vllm_server import VLLMServer
from toolorchestra.toolscale.common.errors import OptionError, SamplerError

VARIABLE = "TOOLORCHESTRA_VLLM_PYTHON"
PYTHON = os.environ.get(VARIABLE)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON, reason=f"needs vLLM: bash .ci/vllm makes it ready, or set {VARIABLE} to its Python"),
]
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% if enable_thinking is defined and not enable_thinking %}{{ '<think></think>' }}{% endif %}{% endif %}"
)
CLOSE = 1e-4
"""Log-probabilities of the same ids in float32 by vLLM and by transformers; measured: 4e-5."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Qwen3 that reads and writes bytes, with two end tokens in its generation config."""
    path: Path = tmp_path_factory.mktemp("qwen")
    special = ["<|pad|>", "<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    letters = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "<think>", "</think>"]
    core = Tokenizer(models.BPE({token: i for i, token in enumerate(special + letters)}, []))
    core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<|pad|>", eos_token="<|im_end|>")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|endoftext|>"]})
    tokenizer.chat_template = TEMPLATE
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=4,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=32,
            max_position_embeddings=4096,
            initializer_range=0.2,
            pad_token_id=0,
            eos_token_id=2,
        )
    )
    model.generation_config.eos_token_id = [2, 3]
    model.generation_config.top_k, model.generation_config.temperature = 3, 0.5  # vLLM's defaults, if not sent
    model.generation_config.do_sample = True
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def run_vllm(start: Callable[..., Any], folder: Path) -> Callable[[], Any]:
    """Start vLLM's server with the model, set up for training."""
    options = f"--model {folder} --served-model-name m --host 127.0.0.1 --port {{port}} --dtype float32"
    options += " --max-model-len 4096 --enforce-eager --logprobs-mode processed_logprobs --enable-lora"
    options += " --max-lora-rank 8"
    # on a CPU, vLLM 0.31 ends when a prompt with a seed is read in parts ("CPU Generator does not use offset")
    options += " --no-enable-chunked-prefill --max-num-batched-tokens 8192"
    command = ["nice", "-n", "5", str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", *options.split()]
    variables = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_SERVER_DEV_MODE": "1"}
    return lambda: start(command, timeout=600, VLLM_ALLOW_RUNTIME_LORA_UPDATING="1", **variables)


@pytest.fixture(scope="module")
def started(run_vllm: Callable[[], Any]) -> Any:
    """One that all tests share; the last of them ends it."""
    return run_vllm()


@pytest.fixture
def server(started: Any) -> Iterator[VLLMServer]:
    server = VLLMServer(started.url)
    server.check(1024, 2)
    yield server
    server.close()


@pytest.fixture(scope="module")
def policy(folder: Path) -> TokenPolicy:
    return TokenPolicy.load(folder)


def prompts(count: int = 6, length: int = 40) -> list[list[int]]:
    rng = np.random.default_rng(0)
    return [[1, *rng.integers(4, 250, length + n).tolist()] for n in range(count)]


@torch.no_grad()
def logprobs(model: Any, prompt: Sequence[int], ids: Sequence[int], temperature: float = 1.0) -> list[float]:
    """What the model says of the ids after the prompt."""
    logits = model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1] / temperature
    found: list[float] = logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0].tolist()
    return found


def gap(model: Any, given: Sequence[Sequence[int]], samples: Sequence[Sample], temperature: float = 1.0) -> float:
    """The largest difference of log-probabilities of what was sampled."""
    return max(
        abs(ours - theirs)
        for prompt, sample in zip(given, samples, strict=True)
        for ours, theirs in zip(logprobs(model, prompt, sample.ids, temperature), sample.logprobs, strict=True)
    )


def together(
    sampler: Any, given: Sequence[Sequence[int]], limits: Sequence[int], keys: Sequence[int] | None = None
) -> list[Sample]:
    """Continue prompts at the same time; without `keys`, the first has 0."""

    async def all_of_them() -> list[Sample]:
        asked = zip(given, limits, keys or range(len(given)), strict=True)
        return list(await asyncio.gather(*(sampler.sample(*one) for one in asked)))

    return asyncio.run(all_of_them())


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_ids_and_log_probabilities_are_those_of_the_model(
    server: VLLMServer, policy: TokenPolicy, temperature: float
) -> None:
    sampler = VLLMSampler(server, policy.renderer, temperature=temperature, seed=1)
    limits = [5, 30, 60, 60, 1, 0]
    samples = together(sampler, prompts(), limits)
    difference = gap(policy.model, prompts(), samples, temperature)
    print(f"RECORD log-probabilities at temperature {temperature}: largest difference {difference:.1e}")
    assert difference < CLOSE
    for sample, limit in zip(samples, limits, strict=True):
        assert len(sample.ids) == limit or (len(sample.ids) < limit and sample.ids[-1] in {2, 3})
        assert not set(sample.ids[:-1]) & {2, 3}


def test_greedy_ids_are_those_of_the_model(server: VLLMServer, policy: TokenPolicy) -> None:
    greedy = together(VLLMSampler(server, policy.renderer, temperature=0.0), prompts(), [40] * 6)
    own = ModelSampler(policy.model, policy.renderer, temperature=0.0)(prompts(), [40] * 6, range(6))
    assert [sample.ids for sample in greedy] == [sample.ids for sample in own]
    for ours, theirs in zip(own, greedy, strict=True):
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=CLOSE)


def test_the_same_keys_give_the_same_ids_in_any_company(server: VLLMServer, policy: TokenPolicy) -> None:
    sampler = VLLMSampler(server, policy.renderer, seed=1)
    first = together(sampler, prompts(), [20] * 6)
    alone = [together(sampler, [prompt], [20], [key])[0] for key, prompt in enumerate(prompts())]
    assert [sample.ids for sample in first] == [sample.ids for sample in alone]
    others = together(sampler, prompts(), [20] * 6, range(6, 12))
    assert [sample.ids for sample in others] != [sample.ids for sample in first]


def test_all_end_tokens_of_the_generation_config_end_a_turn(server: VLLMServer, policy: TokenPolicy) -> None:
    assert policy.renderer.stop_ids == (2, 3)
    many = together(VLLMSampler(server, policy.renderer, seed=2), [prompts(1)[0]] * 60, [100] * 60)
    assert {sample.ids[-1] for sample in many if len(sample.ids) < 100} == {2, 3}


def test_what_was_read_is_found_in_the_prefix_cache(server: VLLMServer, policy: TokenPolicy) -> None:
    sampler = VLLMSampler(server, policy.renderer)
    (first,) = long = prompts(1, 600)
    together(sampler, long, [4])
    before = server.prefix_cache()
    (sample,) = together(sampler, [[*first, 5, 6, 7]], [4])
    after = server.prefix_cache()
    assert before is not None
    assert after is not None
    hits = after.hits - before.hits
    print(f"RECORD prefix cache: {hits} of {len(first) + 3} ids of a second turn")
    assert 512 <= hits < len(first) + 3  # whole blocks of 128 ids
    assert gap(policy.model, [[*first, 5, 6, 7]], [sample]) < CLOSE


def moved(model: Any, seed: int) -> None:
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter) * parameter.requires_grad)


@pytest.mark.parametrize("adapter", [False, True])
def test_weights_that_are_synchronised_change_what_is_generated(
    server: VLLMServer, folder: Path, tmp_path: Path, adapter: bool
) -> None:
    policy = make_adapters(["a"], folder, rank=4)["a"] if adapter else TokenPolicy.load(folder)
    generation = ServerGeneration(server, tmp_path / "weights")
    given = prompts(4, 300)  # long enough to be in the prefix cache
    seen = []
    try:
        for version in range(3):
            if version:
                moved(policy.model, version)
            generation.sync(policy)
            samples = together(generation.sampler(policy.model, policy.renderer, seed=3), given, [30] * 4)
            difference = gap(policy.model, given, samples)
            kind = "adapter" if adapter else "whole weights"
            print(f"RECORD {kind}, version {version}: largest difference {difference:.1e}")
            assert difference < CLOSE
            assert len(list((tmp_path / "weights").iterdir())) == 1
            seen.append([sample.ids for sample in samples])
    finally:
        if not adapter:
            generation.sync(TokenPolicy.load(folder))
        generation.close()
    assert seen[0] != seen[1] != seen[2]
    assert not (tmp_path / "weights").exists()


def test_requests_under_way_go_on_with_the_weights_that_come(server: VLLMServer, folder: Path, tmp_path: Path) -> None:
    policy, before = TokenPolicy.load(folder), TokenPolicy.load(folder)
    generation = ServerGeneration(server, tmp_path / "weights", staleness=1)
    endless: Any = SimpleNamespace(stop_ids=())
    sampler, given = generation.live_sampler(endless), prompts(4, 100)
    try:
        moved(policy.model, 1)
        with ThreadPoolExecutor() as pool:
            asked = pool.submit(together, sampler, given, [1500] * 4)
            time.sleep(1.0)
            generation.sync(policy)
            samples = asked.result()
    finally:
        generation.sync(TokenPolicy.load(folder))
        generation.close()
    for prompt, sample in zip(given, samples, strict=True):
        drawn = np.array(sample.logprobs)
        old, new = (
            np.abs(np.array(logprobs(model, prompt, sample.ids)) - drawn) < 2 * CLOSE
            for model in (before.model, policy.model)
        )
        switch = int(np.argmin(old))
        assert 0 < switch < 1400
        assert new[switch:].all()
    print(
        f"RECORD weights synchronised while 4 requests were under way: they went on with the new ones from id {switch}"
    )


def test_an_adapter_that_the_server_cannot_load_is_explained(server: VLLMServer, tmp_path: Path) -> None:
    with pytest.raises(SamplerError, match=r"got status .* The server must see the folder .*--enable-lora"):
        server.load_adapter("none", tmp_path / "nowhere")


def test_an_episode_that_is_too_long_for_the_server_is_refused(server: VLLMServer) -> None:
    with pytest.raises(OptionError, match=r"32,000 ids .* takes 4,096.*--max-model-len 32000, or lower `max_ids`"):
        server.check(32_000, 2)


class Vowels(gym.Env[str, Any]):
    """Rewards replies that begin with a letter of the first half of the alphabet of bytes."""

    observation_space = gym.spaces.Text(100)
    action_space = gym.spaces.Text(100)
    steps = 0
    at_step: tuple[int, Callable[[], None]] = (-1, lambda: None)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        return "Speak.", {}

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        Vowels.steps += 1
        if Vowels.steps == Vowels.at_step[0]:
            Vowels.at_step[1]()
        return "", float(action[:1].isascii() and action[:1].isalpha()), True, False, {}


@pytest.fixture
def letters() -> Any:
    Vowels.steps, Vowels.at_step = 0, (-1, lambda: None)
    gym.register("Letters-v0", entry_point=Vowels)
    yield "Letters-v0"
    gym.registry.pop("Letters-v0")


def config(env: str, folder: Path, output: Path, url: str, **changes: Any) -> TrainGRPO:
    settings: dict[str, Any] = {
        "env": env,
        "model": str(folder),
        "output": output,
        "sampler": "vllm-server",
        "server": url,
        "template_options": {"enable_thinking": "false"},
        "steps": 10,
        "groups": 4,
        "group_size": 8,
        "learning_rate": 3e-3,
        "max_turn_ids": 2,
        "max_ids": 200,
        "filters": ("homogeneity",),
        "open_at": 0.0,
        "resample": 0,
        "eval_samples": 4,
        "eval_tasks": 16,
        "save_every": 2,
        "threads": 1,
    }
    return TrainGRPO(**(settings | changes))


def steps_of(output: Path) -> list[dict[str, Any]]:
    lines = (output / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == "train"]


@pytest.mark.parametrize(
    "changes",
    [{"updates": 1}, {"updates": 2}, {"lora_rank": 8, "learning_rate": 2e-2}],
    ids=["one_update", "two_updates", "adapter"],
)
def test_grpo_learns_through_the_server(
    started: Any, folder: Path, tmp_path: Path, letters: str, changes: dict[str, Any]
) -> None:
    found = grpo.train(config(letters, folder, tmp_path / "run", started.url, **changes))["results"]
    steps = [step for step in steps_of(tmp_path / "run") if "mismatch" in step]  # the others had equal rewards
    print(
        f"RECORD GRPO with {changes}: success {np.mean(found['start']):.2f} to {np.mean(found['GRPO']):.2f} "
        f"in {len(steps)} steps, largest mismatch {max(step['mismatch_max'] for step in steps):.1e}"
    )
    assert np.mean(found["GRPO"]) > np.mean(found["start"]) + 0.2
    assert len(steps) >= 3
    assert max(step["mismatch_max"] for step in steps) < CLOSE
    assert all(abs(step["importance_ratio"] - 1) < CLOSE for step in steps)
    assert json.loads((tmp_path / "run" / "final" / "template_options.json").read_text()) == {"enable_thinking": False}


@pytest.mark.parametrize("changes", [{}, {"lora_rank": 8, "learning_rate": 2e-2}], ids=["whole", "adapter"])
def test_grpo_learns_while_the_server_goes_on_generating(
    started: Any, server: VLLMServer, folder: Path, tmp_path: Path, letters: str, changes: dict[str, Any]
) -> None:
    server.reload(folder)  # an earlier run has left its weights
    options = {"max_staleness": 2, "steps": 14, "max_turn_ids": 8, **changes}
    found = grpo.train(config(letters, folder, tmp_path / "run", started.url, **options))["results"]
    steps = steps_of(tmp_path / "run")
    ages = [step["staleness"] for step in steps]
    print(
        f"RECORD GRPO with {options}: success {np.mean(found['start']):.2f} to {np.mean(found['GRPO']):.2f}, staleness "
        f"{np.mean(ages):.2f} (at most {max(step['staleness_max'] for step in steps)}), seconds that a step waited "
        f"{np.mean([step['waited'] for step in steps]):.2f}"
    )
    assert np.mean(found["GRPO"]) > np.mean(found["start"]) + 0.2
    assert max(step["staleness_max"] for step in steps) in (1, 2)
    assert next(step for step in steps if "mismatch" in step)["mismatch_max"] < CLOSE
    assert max(step.get("mismatch_max", 0.0) for step in steps) > 10 * CLOSE  # of earlier policies


@pytest.mark.parametrize(
    "changes", [{"lora_rank": 8, "learning_rate": 2e-2}, {"share": True}], ids=["adapters", "shared_weights"]
)
def test_agents_of_a_team_learn_through_one_server(
    started: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "examples"))
    monkeypatch.setattr(Slot, "agent_reward", lambda slot, agent: float(sum(slot.trajectories[agent].ids) % 2))
    settings: dict[str, Any] = {
        "env": "courier:make",
        "model": str(folder),
        "output": tmp_path / "run",
        "sampler": "vllm-server",
        "server": started.url,
        "steps": 4,
        "updates": 2,
        "groups": 2,
        "group_size": 4,
        "learning_rate": 3e-3,
        "max_turn_ids": 8,
        "max_ids": 1000,
        "eval_samples": 1,
        "eval_tasks": 2,
        "save_every": 0,
        "threads": 1,
    }
    multi_grpo.train(TrainMultiGRPO(**(settings | changes)))
    steps = steps_of(tmp_path / "run")
    for name in ["shared"] if "share" in changes else ["lookout", "courier"]:
        learnt = [step for step in steps if f"{name}_mismatch" in step]
        largest = max(step[f"{name}_mismatch_max"] for step in learnt)
        print(f"RECORD {name} of a team with {changes}: largest mismatch {largest:.1e} in {len(learnt)} steps")
        assert len(learnt) >= 2
        assert sum(step[f"{name}_grad_norm"] > 0 for step in learnt) >= 2
        assert largest < CLOSE


def test_two_processes_learn_through_one_server_as_one_does(started: Any, folder: Path, tmp_path: Path) -> None:
    options = (
        f"--env Letters-v0 --model {folder} --sampler vllm-server --server {started.url} --steps 4 --groups 4 "
        "--group-size 8 --learning-rate 3e-3 --max-turn-ids 2 --max-ids 200 --filters homogeneity --open-at 0 "
        "--resample 0 --eval-samples 0 --save-every 0 --threads 1 --template-options enable_thinking false"
    ).split()
    two = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    kept = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    runs = {}
    for name, launcher, more in (("one", [], []), ("two", two, []), ("divided", two, ["--shard"])):
        command = [sys.executable, *launcher, __file__, *options, *more, "--output", str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=kept, check=False)
        assert done.returncode == 0, done.stderr
        runs[name] = steps_of(tmp_path / name)
        assert max(step.get("mismatch_max", 0.0) for step in runs[name]) < CLOSE  # the server has what all trained
        assert not (tmp_path / name / "weights").exists()
    print(f"RECORD rewards in one process and in two: {[[s['reward'] for s in steps] for steps in runs.values()]}")
    rewards = [steps[0]["reward"] for steps in runs.values()]
    assert rewards == [rewards[0]] * 3
    assert len({len(steps) for steps in runs.values()}) == 1


def test_a_run_whose_server_dies_says_so_and_goes_on_with_another(
    started: Any, run_vllm: Callable[[], Any], folder: Path, tmp_path: Path, letters: str
) -> None:
    changes: dict[str, Any] = {"steps": 6, "eval_samples": 0}
    Vowels.at_step = 4 * 32 + 5, started.kill  # in the fifth batch
    with pytest.raises(SamplerError, match=r"could not talk to it .* in 5 attempts.*--resume") as caught:
        grpo.train(config(letters, folder, tmp_path / "run", started.url, **changes))
    assert caught.value.resumable
    assert len(steps_of(tmp_path / "run")) == 4
    another = run_vllm()
    grpo.train(config(letters, folder, tmp_path / "run", another.url, resume=True, **changes))
    steps = steps_of(tmp_path / "run")
    assert [step["step"] for step in steps] == [1, 2, 3, 4, 5, 6]
    assert max(step.get("mismatch_max", 0.0) for step in steps) < CLOSE
    print("RECORD a server killed in the fifth of 6 steps: resumed from the fourth with another, 6 steps made")


if __name__ == "__main__":
    from toolorchestra.algos.trainer import run_script

    gym.register("Letters-v0", entry_point=Vowels)
    run_script(TrainGRPO, grpo.train)
