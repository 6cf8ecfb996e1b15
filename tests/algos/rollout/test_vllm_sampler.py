"""What is asked of a vLLM server, and what its answers and failures become; `test_vllm` asks a real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from toolorchestra.algos.options_one_agent import TrainGRPO
from toolorchestra.algos.options_several_agents import TrainMultiGRPO
from toolorchestra.algos.rollout import vllm_server
from toolorchestra.algos.rollout.generation import Generation, ServerGeneration, make_generation
from toolorchestra.algos.rollout.sampling import Sample
from toolorchestra.algos.rollout.vllm_sampler import VLLMSampler
from toolorchestra.algos.rollout.vllm_server import PrefixCache, VLLMServer
from toolorchestra.toolscale.errors import OptionError, SamplerError

RENDERER: Any = SimpleNamespace(stop_ids=(2, 3))
MODELS = {"data": [{"id": "adapter", "parent": "m"}, {"id": "m", "parent": None, "max_model_len": 100}]}


def completion(request: httpx2.Request, **changes: Any) -> httpx2.Response:
    """An answer of two ids, the first of which tells the length of the prompt."""
    prompt = json.loads(request.content)["prompt"]
    choice = {"token_ids": [len(prompt), 2], "prompt_token_ids": prompt, "logprobs": {"token_logprobs": [-0.5, -0.25]}}
    return httpx2.Response(200, json={"choices": [choice | changes]})


def fake(respond: Callable[[httpx2.Request], httpx2.Response], **options: Any) -> VLLMServer:
    server = VLLMServer("http://vllm:8000/v1", transport=httpx2.MockTransport(respond), **options)
    server.model = "m"
    return server


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_server, "_FIRST_PAUSE", 0.0)


def test_a_request_leaves_nothing_to_the_generation_config_and_names_every_stop_id() -> None:
    bodies = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        assert request.url.path == "/v1/completions"
        bodies.append(json.loads(request.content))
        return completion(request)

    sampler = VLLMSampler(fake(respond), RENDERER, temperature=0.7, seed=1)
    assert asyncio.run(sampler.sample([5, 6, 7], 9, key=4)) == Sample([3, 2], [-0.5, -0.25])
    (body,) = bodies
    seed = body.pop("seed")
    assert body == {
        "model": "m",
        "prompt": [5, 6, 7],
        "max_tokens": 9,
        "temperature": 0.7,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "stop_token_ids": [2, 3],
        "ignore_eos": True,
        "logprobs": 0,
        "return_token_ids": True,
    }
    for other in (VLLMSampler(fake(respond), RENDERER, seed=1), VLLMSampler(fake(respond), RENDERER, seed=2)):
        asyncio.run(other.sample([5], 9, key=4))
    asyncio.run(sampler.sample([5], 9, key=5))
    assert [body["seed"] == seed for body in bodies[1:]] == [True, False, False]
    assert 0 <= seed < 2**63


def test_a_batch_is_asked_for_at_once_and_keeps_its_order() -> None:
    together = 0

    class Slow(httpx2.AsyncBaseTransport):
        """Answers the longest prompt first."""

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            nonlocal together
            await request.aread()
            together += 1
            await asyncio.sleep(0.02 * (4 - len(json.loads(request.content)["prompt"])))
            assert together == 3
            return completion(request)

    server = VLLMServer("http://vllm:8000", transport=Slow())
    samples = VLLMSampler(server, RENDERER)([[1], [1, 1], [1], [1, 1, 1]], [9, 9, 0, 9])
    assert [sample.ids for sample in samples] == [[1, 2], [2, 2], [], [3, 2]]
    server.close()


def test_what_may_pass_is_tried_again_and_what_does_not_ends_with_the_remedy() -> None:
    asked: list[int] = []

    def failing(times: int, failure: Callable[[httpx2.Request], httpx2.Response]) -> VLLMSampler:
        asked.clear()

        def respond(request: httpx2.Request) -> httpx2.Response:
            asked.append(json.loads(request.content)["seed"])
            return failure(request) if len(asked) <= times else completion(request)

        return VLLMSampler(fake(respond, retries=2), RENDERER)

    def broken(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("Connection refused", request=request)

    def status(code: int) -> Callable[[httpx2.Request], httpx2.Response]:
        return lambda request: httpx2.Response(code, text="the engine is dead")

    for failure in (broken, status(500), status(429)):
        assert failing(2, failure)([[1]], [9]) == [Sample([1, 2], [-0.5, -0.25])]
        assert len(asked) == 3
        assert len(set(asked)) == 1
    with pytest.raises(SamplerError, match=r"Connection refused\) in 3 attempts\. .*--resume") as caught:
        failing(99, broken)([[1], [1, 1]], [9, 9])
    assert caught.value.resumable
    with pytest.raises(SamplerError, match="got status 400: the engine is dead in 1 attempt"):
        failing(99, status(400))([[1]], [9])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"token_ids": None}, "a completion with token ids and log-probabilities, got"),
        ({"logprobs": None}, "a completion with token ids and log-probabilities, got"),
        ({"prompt_token_ids": [1, 9]}, "a completion of the prompt's ids"),
        ({"token_ids": [7]}, "1 to 9 ids with a log-probability each, got 1 and 2"),
        ({"token_ids": [], "logprobs": {"token_logprobs": []}}, "got 0 and 0"),
    ],
)
def test_an_answer_that_lacks_something_is_refused(changes: dict[str, Any], message: str) -> None:
    server = fake(lambda request: completion(request, **changes))
    with pytest.raises(SamplerError, match=message):
        VLLMSampler(server, RENDERER)([[1, 2]], [9])


@pytest.mark.parametrize(
    ("logprob", "length", "message"),
    [(0.0, 100, None), (-3.2, 100, "processed_logprobs"), (0.0, 101, r"--max-model-len 101, or lower `max_ids`")],
)
def test_a_server_must_be_set_up_for_training(logprob: float, length: int, message: str | None) -> None:
    def respond(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/v1/models":
            return httpx2.Response(200, json=MODELS)
        assert json.loads(request.content)["allowed_token_ids"] == [2]
        return completion(request, token_ids=[2], logprobs={"token_logprobs": [logprob]})

    server = fake(respond)
    if message is None:
        server.check(length, 2)
        assert (server.model, server.max_ids) == ("m", 100)
    else:
        with pytest.raises(OptionError, match=message):
            server.check(length, 2)


class Policy:
    """Writes a file in place of weights."""

    def __init__(self, file: str) -> None:
        self.file = file

    def save(self, folder: Path) -> None:
        (folder / self.file).write_text("{}")


def test_every_version_of_an_adapter_has_a_path_of_its_own_and_whole_weights_empty_the_cache(tmp_path: Path) -> None:
    asked: list[tuple[str, Any]] = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        asked.append((request.url.path, body))
        if "lora_path" in body:
            assert (Path(body["lora_path"]) / "adapter_config.json").is_file()
        return httpx2.Response(200, json={"success": True})

    generation = ServerGeneration(fake(respond), tmp_path / "weights")
    adapter: Any = Policy("adapter_config.json")
    generation.sync(adapter)
    generation.sync(adapter)
    (_, first), (_, second), (_, gone) = asked
    assert [path for path, _ in asked] == ["/v1/load_lora_adapter"] * 2 + ["/v1/unload_lora_adapter"]
    assert first["lora_name"] == gone["lora_name"] != second["lora_name"]
    assert first["lora_path"] != second["lora_path"]
    assert [str(path) for path in (tmp_path / "weights").iterdir()] == [second["lora_path"]]
    sampler = generation.sampler(None, RENDERER)
    assert isinstance(sampler, VLLMSampler)
    assert sampler.model == second["lora_name"]
    generation.close()
    assert not (tmp_path / "weights").exists()

    asked.clear()
    whole: Any = Policy("model.safetensors")
    ServerGeneration(fake(respond), tmp_path / "weights").sync(whole)
    assert [path for path, _ in asked] == ["/collective_rpc", "/reset_prefix_cache"]
    assert asked[0][1]["method"] == "reload_weights"


def test_a_server_that_cannot_take_weights_is_told_how(tmp_path: Path) -> None:
    whole: Any = Policy("model.safetensors")
    generation = ServerGeneration(fake(lambda request: httpx2.Response(404, text="Not Found")), tmp_path)
    with pytest.raises(SamplerError, match=r"VLLM_SERVER_DEV_MODE=1 .*--lora-rank"):
        generation.sync(whole)


def test_the_share_of_prompts_in_the_prefix_cache_is_since_the_last_step(tmp_path: Path) -> None:
    counts = iter([(100, 20), (300, 170), (300, 170)])

    def respond(request: httpx2.Request) -> httpx2.Response:
        queries, hits = next(counts)
        lines = (
            f'vllm:prefix_cache_queries_total{{engine="0"}} {queries}.0\nvllm:prefix_cache_hits_total{{}} {hits}.0\n'
        )
        return httpx2.Response(200, text="# HELP\n" + lines)

    generation = ServerGeneration(fake(respond), tmp_path)
    assert [generation.metrics() for _ in range(3)] == [{"prefix_hits": 0.2}, {"prefix_hits": 0.75}, {}]
    assert fake(lambda request: httpx2.Response(200, text="")).prefix_cache() is None
    assert PrefixCache(1, 2).hits == 2


def test_who_generates_is_chosen_by_a_flag_and_refused_where_it_cannot(tmp_path: Path) -> None:
    def made(**options: Any) -> Generation:
        return make_generation(TrainGRPO(output=tmp_path, model="m", **options))

    assert type(made()) is Generation
    assert isinstance(made(sampler="vllm-server"), ServerGeneration)
    with pytest.raises(OptionError, match=r"vllm-colocate needs a GPU, .*vllm-server"):
        made(sampler="vllm-colocate")
    with pytest.raises(OptionError, match="nccl needs a GPU"):
        made(sampler="vllm-server", weight_sync="nccl")
    with pytest.raises(OptionError, match="`weight_sync` nccl is for `sampler` vllm-server"):
        made(weight_sync="nccl")
    with pytest.raises(OptionError, match="must be the address of a vLLM server"):
        made(sampler="vllm-server", server="localhost:8000")
    with pytest.raises(OptionError, match="generates for one agent"):
        TrainMultiGRPO(output=tmp_path, sampler="vllm-server")


def test_importance_is_corrected_with_vllm_unless_it_is_said_otherwise(tmp_path: Path) -> None:
    options = [{}, {"sampler": "vllm-server"}, {"importance_cap": 3.0}, {"sampler": "vllm-server", "importance_cap": 0}]
    configs = [TrainGRPO(output=tmp_path, model="m", **kinds) for kinds in options]  # type: ignore[arg-type]
    assert [config.importance_limit for config in configs] == [0, 2, 3, 0]
    with pytest.raises(OptionError, match="`importance_cap` must be at least 0"):
        TrainGRPO(output=tmp_path, importance_cap=-1)
