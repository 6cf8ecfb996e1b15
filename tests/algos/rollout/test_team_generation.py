"""Teams whose policies are generated for by servers; `test_vllm` has a real one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from toolorchestra.agents.builtin.adapters import load_adapters, make_adapters
from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.agents.http_client import HTTPClient, Response
from toolorchestra.agents.hub import ADAPTER_CONFIG
from toolorchestra.algos import multi_agent_trainer, multi_grpo, tmatr
from toolorchestra.algos.loss.losses import clipped_policy_loss
from toolorchestra.algos.options.several_agents import TrainMSARL, TrainMultiGRPO, TrainTeam, TrainTMATR
from toolorchestra.algos.rollout import vllm_server
from toolorchestra.algos.rollout.multi_agent import Slot
from toolorchestra.algos.rollout.sampling import ModelSampler
from toolorchestra.algos.rollout.team_generation import ServedTeam, TeamGeneration, make_team_generation
from toolorchestra.algos.rollout.trajectory import TrainRow, row_logps
from toolorchestra.algos.team_learner import ClippedUpdater
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError

EXAMPLES = Path(__file__).parents[3] / "examples"
AGENTS = ["lookout", "courier"]
ONE, TWO = "http://one:8000", "http://two:8000"
CLOSE = 1e-4


@pytest.fixture(scope="module")
def untaught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with policies that know the words of the courier and nothing else."""
    folder = tmp_path_factory.mktemp("untaught")
    sys.path.insert(0, str(EXAMPLES))
    config = TrainMultiGRPO(env="courier:make", output=folder / "run", sft_steps=0, threads=1)
    policies = multi_agent_trainer.warm_up(config, config.make_env(), lambda *_: None)
    multi_agent_trainer.save_policies({**policies, "shared": policies["lookout"]}, folder / "start")
    adapters = make_adapters(AGENTS, folder / "start" / "lookout", rank=4)
    multi_agent_trainer.save_policies(adapters, folder / "adapters")
    sys.path.remove(str(EXAMPLES))
    return folder


class ModelServer(HTTPClient):
    """A server without a network: it samples with what it was told to load, as vLLM does."""

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(url, timeout=60.0)
        self.policies = {"m": TokenPolicy.load(folder)}
        self.loaded: list[Path] = []
        self.asked: dict[str, int] = {}
        self.closed = False

    async def request(self, path: str = "", body: bytes | None = None) -> Response:
        assert not self.closed
        asked = json.loads(body) if body else {}
        return Response(200, {}, json.dumps(self.answer(path, asked)).encode(), "")

    def answer(self, path: str, asked: dict[str, Any]) -> Any:
        match path:
            case "/v1/models":
                return {"data": [{"id": "m", "max_model_len": 1000}]}
            case "/v1/completions" if "allowed_token_ids" in asked:
                return self.completion(asked, asked["allowed_token_ids"], [0.0])
            case "/v1/completions":
                policy = self.policies[asked["model"]]
                sampler = ModelSampler(policy.model, policy.renderer, temperature=asked["temperature"])
                (sample,) = sampler([asked["prompt"]], [asked["max_tokens"]], [asked["seed"]])
                self.asked[asked["model"]] = self.asked.get(asked["model"], 0) + 1
                return self.completion(asked, sample.ids, sample.logprobs)
            case "/collective_rpc":
                self.loaded.append(Path(asked["kwargs"]["weights_path"]))
                self.policies["m"] = TokenPolicy.load(self.loaded[-1])
            case "/v1/load_lora_adapter":
                folder = Path(asked["lora_path"])
                assert (folder / ADAPTER_CONFIG).is_file()
                self.loaded.append(folder)
                self.policies[asked["lora_name"]] = load_adapters([folder.name], folder.parent)[folder.name]
            case "/v1/unload_lora_adapter":
                del self.policies[asked["lora_name"]]
        return {}

    def completion(self, asked: dict[str, Any], ids: list[int], logprobs: list[float]) -> dict[str, Any]:
        choice = {"token_ids": ids, "prompt_token_ids": asked["prompt"], "logprobs": {"token_logprobs": logprobs}}
        return {"choices": [choice]}

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def servers(untaught: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, ModelServer]:
    """Two servers, by their addresses, each with the base of the adapters."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    found = {url: ModelServer(url, untaught / "start" / "lookout") for url in (ONE, TWO)}
    monkeypatch.setattr(vllm_server, "HTTPClient", lambda root, *_, **__: found[root])
    return found


def parity(slot: Slot, *_: str) -> float:
    """Rewards that differ within most groups, whatever an untrained policy writes."""
    return float(sum(sum(trajectory.ids) for trajectory in slot.trajectories.values()) % 2)


def options(output: Path, **changes: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "env": "courier:make",
        "output": output,
        "groups": 2,
        "eval_samples": 0,
        "save_every": 0,
        "max_turn_ids": 6,
        "learning_rate": 3e-3,
        "threads": 1,
        "sampler": "vllm-server",
        "server": ONE,
    }
    return settings | changes


def steps_of(output: Path) -> list[dict[str, Any]]:
    lines = (output / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == "train"]


@pytest.mark.parametrize(
    ("start", "changes"),
    [("start", {"servers": {"courier": TWO}}), ("adapters", {"lora_rank": 4}), ("start", {"share": True})],
    ids=["a_server_of_each", "adapters_of_one_server", "shared_weights"],
)
def test_every_policy_is_generated_for_with_its_own_newest_weights(
    untaught: Path, tmp_path: Path, servers: dict[str, ModelServer], monkeypatch: pytest.MonkeyPatch,
    start: str, changes: dict[str, Any],
) -> None:  # fmt: skip
    monkeypatch.setattr(Slot, "agent_reward", parity)
    given = options(tmp_path / "run", start=untaught / start, steps=2, updates=2, group_size=4, **changes)
    multi_grpo.train(TrainMultiGRPO(**given))
    steps = steps_of(tmp_path / "run")
    names = ["shared"] if "share" in changes else AGENTS
    for name in names:
        learnt = [step for step in steps if f"{name}_mismatch" in step]
        assert [step["step"] for step in learnt] == [1, 2]
        assert max(step[f"{name}_mismatch_max"] for step in learnt) < CLOSE  # other weights differ by more than 0.01
        assert all(abs(step[f"{name}_importance_ratio"] - 1) < CLOSE for step in learnt)
    loaded = {url: {folder.parent.name for folder in server.loaded} for url, server in servers.items()}
    if "servers" in changes:
        assert loaded == {ONE: {"lookout"}, TWO: {"courier"}}
    else:
        assert loaded == {ONE: set(names), TWO: set()}
    assert all(set(server.policies) == {"m"} for server in servers.values())  # adapters are unloaded
    assert servers[ONE].closed
    assert not (tmp_path / "run" / "weights").exists()


def test_pairs_of_dpo_are_compared_with_the_sampler_and_what_did_not_learn_is_not_sent_again(
    untaught: Path, tmp_path: Path, servers: dict[str, ModelServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Slot, "reward", property(parity))
    given = options(tmp_path / "run", start=untaught / "start", servers={"courier": TWO}, temperature=0.8)
    given |= {"schedule": ("courier",), "stage_steps": 3, "threshold": 0.0, "min_pairs": 1, "group_size": 4}
    given |= {"eval_samples": 1, "eval_tasks": 2}
    tmatr.train(TrainTMATR(**given))
    learnt = [step for step in steps_of(tmp_path / "run") if step["updates"]]
    assert len(learnt) >= 2
    assert max(step["courier_mismatch_max"] for step in learnt) < CLOSE
    assert not any("lookout_mismatch" in step for step in learnt)
    assert len(servers[ONE].loaded) == 1
    assert len(servers[TWO].loaded) == len(learnt) + 1


def test_whole_weights_need_a_server_for_each_policy(tmp_path: Path, servers: dict[str, ModelServer]) -> None:
    def made(kind: Callable[..., TrainTeam] = TrainMultiGRPO, **changes: Any) -> TeamGeneration:
        config = kind(**options(tmp_path, **changes))
        return make_team_generation(config, config.policies(config.make_env()))

    assert type(made(sampler="hf")) is TeamGeneration
    for changes in ({"share": True}, {"lora_rank": 2}, {"servers": {"lookout": TWO}}):
        assert isinstance(made(**changes), ServedTeam)
    with pytest.raises(OptionError, match=r"--servers courier URL lookout URL.*--lora-rank.*--share"):
        made()
    with pytest.raises(OptionError, match="would replace one another on the server at http://two:8000"):
        made(servers=dict.fromkeys(AGENTS, f"{TWO}/v1/"))
    with pytest.raises(UnknownNameError, match="courier"):
        made(servers={"couriers": TWO})
    with pytest.raises(OptionError, match="`servers` are for `sampler` vllm-server, and it is hf"):
        made(sampler="hf", servers={"lookout": TWO})
    for changes in ({"sampler": "vllm-colocate"}, {"weight_sync": "nccl"}):
        with pytest.raises(OptionError, match=r"serves one policy .* may train several"):
            made(**changes)
    config = TrainMSARL(sampler="vllm-server", server=ONE, servers={"helper": TWO})
    assert isinstance(make_team_generation(config, ["reasoner", "helper"]), ServedTeam)


def test_importance_is_that_of_the_policy_before_it_learns_and_is_truncated(untaught: Path, tmp_path: Path) -> None:
    policy = TokenPolicy.load(untaught / "start" / "lookout")
    config = TrainMultiGRPO(**options(tmp_path, importance_cap=1.5, updates=2, learning_rate=1e-2))
    plain = [
        TrainRow([5, 6], [7, 8, 9][:n], [1, 0, 1][:n], [0.0] * n, advantage) for n, advantage in ((3, 1.0), (1, -2.0))
    ]
    with torch.no_grad():
        before, _, mask = row_logps(policy.model, plain, policy.renderer.pad_id)
    ratios = torch.tensor([[1.2, 1.0, 4.0], [0.5, 1.0, 1.0]])
    drawn = before - ratios.log()
    rows = [
        TrainRow(row.prompt_ids, row.completion_ids, row.mask, own[: len(row.mask)].tolist(), row.advantage)
        for row, own in zip(plain, drawn, strict=True)
    ]
    updater = ClippedUpdater(policy, config)

    def loss() -> float:
        return float(updater.loss(rows, 2)[0].detach())

    first = loss()
    # tokens 1.2 and 1.5 (for 4) of advantage 1, and 0.5 of advantage -2, as means over tokens and rows
    assert first == pytest.approx((-(1.2 + 1.5) / 2 + 0.5 * 2) / 2, abs=1e-5)
    found = updater.mismatch.metrics()
    assert found["importance_ratio"] == pytest.approx((1.2 + 4.0 + 0.5) / 3, rel=1e-4)
    updater.step([rows])
    later = loss()
    with torch.no_grad():
        now, _, _ = row_logps(policy.model, rows, policy.renderer.pad_id)
    advantages, weights = torch.tensor([1.0, -2.0]), ratios.clamp(max=1.5)
    expected = clipped_policy_loss(now, before, advantages, mask, eps_low=0.2, eps_high=0.28, weights=weights)
    assert not torch.allclose(now, before, atol=1e-3)
    assert later == pytest.approx(float(expected.loss), abs=1e-5)
    updater.begin()  # another batch, by the policy as it is now
    assert loss() != pytest.approx(later, abs=1e-4)
