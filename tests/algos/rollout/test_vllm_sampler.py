"""What is asked of a vLLM server, and what its answers and failures become; `test_vllm` asks a real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import aiohttp
import pytest

from toolorchestra.agents import http_client
from toolorchestra.agents.http_client import HTTPClient, Response
from toolorchestra.algos.options.one_agent import TrainGRPO
from toolorchestra.algos.options.several_agents import TrainMultiGRPO
from toolorchestra.algos.rollout.generation import Generation, ServerGeneration, make_generation
from toolorchestra.algos.rollout.sampling import Sample
from toolorchestra.algos.rollout.vllm_sampler import VLLMSampler
from toolorchestra.algos.rollout.vllm_server import PrefixCache, VLLMServer
from toolorchestra.toolscale.common.errors import OptionError, SamplerError

RENDERER: Any = SimpleNamespace(stop_ids=(2, 3))
MODELS = {"data": [{"id": "adapter", "parent": "m"}, {"id": "m", "parent": None, "max_model_len": 100}]}


class Asked(NamedTuple):
    """A request."""

    path: str
    body: Any


class Server(HTTPClient):
    """A client that has no network: a function answers."""

    def __init__(self, respond: Callable[[Asked], Response], **options: Any) -> None:
        super().__init__("http://vllm:8000", timeout=60.0, **options)
        self.respond = respond

    async def request(self, path: str = "", body: bytes | None = None) -> Response:
        return self.respond(Asked(path, None if body is None else json.loads(body)))


def reply(content: Any, status: int = 200) -> Response:
    text = content if isinstance(content, str) else json.dumps(content)
    return Response(status, {}, text.encode(), "")


def completion(asked: Asked, **changes: Any) -> Response:
    """An answer of two ids, the first of which tells the length of the prompt."""
    prompt = asked.body["prompt"]
    choice = {"token_ids": [len(prompt), 2], "prompt_token_ids": prompt, "logprobs": {"token_logprobs": [-0.5, -0.25]}}
    return reply({"choices": [choice | changes]})


def fake(respond: Callable[[Asked], Response], **options: Any) -> VLLMServer:
    server = VLLMServer("http://vllm:8000/v1", Server(respond, **options))
    server.model = "m"
    return server


def sample(sampler: VLLMSampler, *asked: tuple[Sequence[int], int, int]) -> list[Sample]:
    """Continue prompts, each with its limit and its key, all at the same time."""

    async def together() -> list[Sample]:
        return list(await asyncio.gather(*(sampler.sample(*one) for one in asked)))

    return asyncio.run(together())


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "_FIRST_PAUSE", 0.0)


def test_a_request_leaves_nothing_to_the_generation_config_and_names_every_stop_id() -> None:
    bodies = []

    def respond(asked: Asked) -> Response:
        assert asked.path == "/v1/completions"
        bodies.append(asked.body)
        return completion(asked)

    sampler = VLLMSampler(fake(respond), RENDERER, temperature=0.7, seed=1)
    assert sample(sampler, ([5, 6, 7], 9, 4)) == [Sample([3, 2], [-0.5, -0.25])]
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
        sample(other, ([5], 9, 4))
    sample(sampler, ([5], 9, 5), ([5], 9, 2**64 - 1))
    assert [body["seed"] == seed for body in bodies[1:]] == [True, False, False, False]
    assert all(0 <= one < 2**63 for one in [seed, *(body["seed"] for body in bodies[1:])])


def test_prompts_are_asked_for_at_the_same_time() -> None:
    under_way = asyncio.Barrier(3)

    class Slow(Server):
        """Answers once all have asked."""

        async def request(self, path: str = "", body: bytes | None = None) -> Response:
            async with asyncio.timeout(60), under_way:
                pass
            return await super().request(path, body)

    server = VLLMServer("http://vllm:8000", Slow(completion))
    samples = sample(VLLMSampler(server, RENDERER), ([1], 9, 0), ([1, 1], 9, 1), ([1], 0, 2), ([1, 1, 1], 9, 3))
    assert [one.ids for one in samples] == [[1, 2], [2, 2], [], [3, 2]]
    server.close()


def test_what_may_pass_is_tried_again_and_what_does_not_ends_with_the_remedy() -> None:
    seeds: list[int] = []

    def failing(times: int, failure: Callable[[Asked], Response]) -> VLLMSampler:
        seeds.clear()

        def respond(asked: Asked) -> Response:
            seeds.append(asked.body["seed"])
            return failure(asked) if len(seeds) <= times else completion(asked)

        return VLLMSampler(fake(respond, retries=2), RENDERER)

    def broken(asked: Asked) -> Response:
        raise aiohttp.ClientConnectionError("Connection refused")

    def status(code: int) -> Callable[[Asked], Response]:
        return lambda asked: reply("the engine is dead", code)

    for failure in (broken, status(500), status(429)):
        assert sample(failing(2, failure), ([1], 9, 0)) == [Sample([1, 2], [-0.5, -0.25])]
        assert len(seeds) == 3
        assert len(set(seeds)) == 1
    with pytest.raises(SamplerError, match=r"in 3 attempts \(Connection refused\)\. .*--resume") as caught:
        sample(failing(99, broken), ([1], 9, 0), ([1, 1], 9, 1))
    assert caught.value.resumable
    with pytest.raises(SamplerError, match=r"/v1/completions, got status 400: the engine is dead\."):
        sample(failing(99, status(400)), ([1], 9, 0))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"token_ids": None}, "a completion with token ids and log-probabilities from .*, got"),
        ({"logprobs": None}, "a completion with token ids and log-probabilities from .*, got"),
        ({"prompt_token_ids": [1, 9]}, "other ids than the prompt's"),
        ({"token_ids": [7]}, "1 to 9 ids with a log-probability each, got 1 and 2"),
        ({"token_ids": [], "logprobs": {"token_logprobs": []}}, "got 0 and 0"),
    ],
)
def test_an_answer_that_lacks_something_is_refused(changes: dict[str, Any], message: str) -> None:
    server = fake(lambda asked: completion(asked, **changes))
    with pytest.raises(SamplerError, match=message):
        sample(VLLMSampler(server, RENDERER), ([1, 2], 9, 0))


@pytest.mark.parametrize(
    ("logprob", "length", "message"),
    [(0.0, 100, None), (-3.2, 100, "processed_logprobs"), (0.0, 101, r"--max-model-len 101, or lower `max_ids`")],
)
def test_a_server_must_be_set_up_for_training(logprob: float, length: int, message: str | None) -> None:
    def respond(asked: Asked) -> Response:
        if asked.path == "/v1/models":
            return reply(MODELS)
        assert asked.body["allowed_token_ids"] == [2]
        return completion(asked, token_ids=[2], logprobs={"token_logprobs": [logprob]})

    server = fake(respond)
    if message is None:
        server.check(length, 2)
        assert server.model == "m"
    else:
        with pytest.raises(OptionError, match=message):
            server.check(length, 2)


class Policy:
    """Writes a file in place of weights."""

    model = None

    def __init__(self, file: str) -> None:
        self.file = file

    def save(self, folder: Path, weights: None) -> None:
        (folder / self.file).write_text("{}")


def test_every_version_of_an_adapter_has_a_path_of_its_own_and_whole_weights_empty_the_cache(tmp_path: Path) -> None:
    log: list[Asked] = []

    def respond(asked: Asked) -> Response:
        log.append(asked)
        if "lora_path" in asked.body:
            assert (Path(asked.body["lora_path"]) / "adapter_config.json").is_file()
        return reply({"success": True})

    generation = ServerGeneration(fake(respond), tmp_path / "weights")
    adapter: Any = Policy("adapter_config.json")
    generation.sync(adapter)
    generation.sync(adapter)
    (_, first), (_, second), (_, gone) = log
    assert [path for path, _ in log] == ["/v1/load_lora_adapter"] * 2 + ["/v1/unload_lora_adapter"]
    assert first["lora_name"] == gone["lora_name"] != second["lora_name"]
    assert first["lora_path"] != second["lora_path"]
    assert [str(path) for path in (tmp_path / "weights").iterdir()] == [second["lora_path"]]
    sampler = generation.sampler(None, RENDERER)
    assert isinstance(sampler, VLLMSampler)
    assert sampler.model == second["lora_name"]
    generation.close()
    assert not (tmp_path / "weights").exists()

    log.clear()
    whole: Any = Policy("model.safetensors")
    ServerGeneration(fake(respond), tmp_path / "weights").sync(whole)
    assert [path for path, _ in log] == ["/collective_rpc", "/reset_prefix_cache"]
    assert log[0].body["method"] == "reload_weights"


def test_a_server_that_cannot_take_weights_is_told_how(tmp_path: Path) -> None:
    whole: Any = Policy("model.safetensors")
    generation = ServerGeneration(fake(lambda asked: reply("Not Found", 404)), tmp_path)
    with pytest.raises(SamplerError, match=r"VLLM_SERVER_DEV_MODE=1 .*--lora-rank"):
        generation.sync(whole)


def test_the_share_of_prompts_in_the_prefix_cache_is_since_the_last_step(tmp_path: Path) -> None:
    counts = iter([(100, 20), (300, 170), (300, 170)])

    def respond(asked: Asked) -> Response:
        queries, hits = next(counts)
        lines = (
            f'vllm:prefix_cache_queries_total{{engine="0"}} {queries}.0\nvllm:prefix_cache_hits_total{{}} {hits}.0\n'
        )
        return reply("# HELP\n" + lines)

    generation = ServerGeneration(fake(respond), tmp_path)
    assert [generation.metrics() for _ in range(3)] == [{"prefix_hits": 0.2}, {"prefix_hits": 0.75}, {}]
    assert fake(lambda asked: reply("")).prefix_cache() is None
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
    with pytest.raises(OptionError, match="serves one policy"):
        TrainMultiGRPO(output=tmp_path, sampler="vllm-colocate")


def test_importance_is_corrected_with_vllm_unless_it_is_said_otherwise(tmp_path: Path) -> None:
    options = [{}, {"sampler": "vllm-server"}, {"importance_cap": 3.0}, {"sampler": "vllm-server", "importance_cap": 0}]
    configs = [TrainGRPO(output=tmp_path, model="m", **kinds) for kinds in options]  # type: ignore[arg-type]
    assert [config.importance_limit for config in configs] == [0, 2, 3, 0]
    with pytest.raises(OptionError, match="`importance_cap` must be at least 0"):
        TrainGRPO(output=tmp_path, importance_cap=-1)
