"""A client of vLLM's OpenAI-compatible server: completions of token ids, and weights that it reads from disk.

Prompts are token ids, and what comes back are the ids that were sampled with their log-probabilities: nothing is
tokenised again. Everything that shapes the distribution is in the request, since the server fills the rest in from the
model's ``generation_config.json``. Not covered: starting a server (see ``docs/generation.md``), and weights that are
sent over NCCL (`toolorchestra.algos.rollout.generation`).
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import msgspec

from toolorchestra.agents.chat import bounded_requests, retries
from toolorchestra.algos.rollout.sampling import Sample
from toolorchestra.toolscale.common.errors import OptionError, SamplerError
from toolorchestra.toolscale.common.urls import without_credentials

_AGAIN = "Look at its log, start it again, and continue with the same command and --resume"


class _Logprobs(msgspec.Struct):
    token_logprobs: list[float]


class _Choice(msgspec.Struct):
    logprobs: _Logprobs
    token_ids: list[int]
    prompt_token_ids: list[int]


class _Completion(msgspec.Struct):
    choices: list[_Choice]


class _Model(msgspec.Struct):
    id: str
    parent: str | None = None
    max_model_len: int | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


class PrefixCache(NamedTuple):
    """Tokens of prompts that the server has looked up in its prefix cache so far, and those that it found."""

    queries: int
    hits: int


class VLLMServer:
    """A server started by ``vllm serve``, which may be asked from any event loop and any thread.

    What `retries.may_pass`, timeouts and broken connections are tried again with exponential backoff; since every
    request has a seed, another attempt gives the same ids.

    Args:
        url: Root of the server, with or without ``/v1``. A server with a key is given that of the environment variable
            ``VLLM_API_KEY``.
        timeout: Seconds that an attempt may take in all.
        retries: Attempts after the first.
        client: Replaces the network, e.g. by a fake.

    Attributes:
        model: Name of the model that it serves.
        max_ids: Maximum of ids of a prompt and its completion; None until `check`.

    Raises:
        OptionError: The address is none of HTTP.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 600.0,
        retries: int = 4,
        client: bounded_requests.BoundedClient | None = None,
    ) -> None:
        if not re.match(r"https?://[^/]", url):
            raise OptionError(
                f"`server` must be the address of a vLLM server, such as http://127.0.0.1:8000, got {url!r}."
            )
        self.root = url.rstrip("/").removesuffix("/v1")
        self.timeout, self.retries = timeout, retries
        self.model = ""
        self.max_ids: int | None = None
        key = os.environ.get("VLLM_API_KEY")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = client or bounded_requests.BoundedClient(
            self.root, {"Content-Type": "application/json", **headers}, timeout, timeout
        )

    # ------------------------------------------------------------------------------------------------ completions

    async def complete(
        self, prompt: Sequence[int], limit: int, *, model: str, temperature: float, seed: int, stops: Sequence[int]
    ) -> Sample:
        """Return the continuation of a prompt by at most `limit` ids, of which the last may be one of `stops`.

        Log-probabilities are those of the distribution that was sampled from, temperature included.

        Raises:
            SamplerError: The server failed for good, refused the request, or left something out of its answer.
        """
        body = {
            "model": model,
            "prompt": prompt,
            "max_tokens": limit,
            "seed": seed,
            "stop_token_ids": stops,
            "ignore_eos": True,  # its own are those of the generation config, which may be fewer
            "temperature": temperature,
            "top_p": 1.0,
            "top_k": 0,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "logprobs": 0,
            "return_token_ids": True,
        }
        answer = await asyncio.wrap_future(bounded_requests.submit(self._ask("POST", "/v1/completions", body)))
        try:
            (choice,) = msgspec.json.decode(answer, type=_Completion).choices
        except (msgspec.DecodeError, ValueError) as error:
            self._wrong(f"a completion with token ids and log-probabilities, got {answer[:200]!r} ({error})")
        ids, logprobs = choice.token_ids, choice.logprobs.token_logprobs
        if choice.prompt_token_ids != list(prompt):
            self._wrong("a completion of the prompt's ids, got one of others")
        if not 0 < len(ids) == len(logprobs) <= limit:
            self._wrong(f"1 to {limit} ids with a log-probability each, got {len(ids)} and {len(logprobs)}")
        return Sample(ids, logprobs)

    # --------------------------------------------------------------------------------------------------- settings

    def check(self, max_ids: int, stop: int) -> None:
        """Ask the server for its model, and whether it is set up for training: `model` and `max_ids` are set.

        Args:
            max_ids: Maximum of ids of an episode, which a prompt and its completion may reach.
            stop: Any id of the vocabulary.

        Raises:
            SamplerError: There is no server.
            OptionError: It takes no such length, or its log-probabilities are not those of what it samples from.
        """
        listed = self._wait(self._ask("GET", "/v1/models"))
        try:
            served = [model for model in msgspec.json.decode(listed, type=_Models).data if model.parent is None]
            self.model, self.max_ids = served[0].id, served[0].max_model_len
        except (msgspec.DecodeError, IndexError) as error:
            self._wrong(f"a list of its models, got {listed[:200]!r} ({error})")
        if self.max_ids is not None and self.max_ids < max_ids:
            raise OptionError(
                f"Episodes may have {max_ids:,} ids (`max_ids`), but the server at {self.shown} takes "
                f"{self.max_ids:,}. Start it with --max-model-len {max_ids}, or lower `max_ids`."
            )
        probe = {"model": self.model, "prompt": [stop], "max_tokens": 1, "allowed_token_ids": [stop], "logprobs": 0}
        answer = self._wait(self._ask("POST", "/v1/completions", probe | {"return_token_ids": True}))
        try:
            (choice,) = msgspec.json.decode(answer, type=_Completion).choices
        except (msgspec.DecodeError, ValueError) as error:
            self._wrong(f"a completion with token ids and log-probabilities, got {answer[:200]!r} ({error})")
        if choice.logprobs.token_logprobs[0] < -1e-3:  # of the only id that was allowed
            raise OptionError(
                f"The server at {self.shown} reports log-probabilities before temperature and bans. "
                "Start it with --logprobs-mode processed_logprobs."
            )

    def prefix_cache(self) -> PrefixCache | None:
        """Return how often the prefix cache was used so far, from the server's metrics; None if they do not say."""
        text = self._wait(self._ask("GET", "/metrics")).decode()
        found = [
            sum(float(value) for value in re.findall(rf"^vllm:prefix_cache_{name}_total{{.*}} (\S+)$", text, re.M))
            for name in ("queries", "hits")
        ]
        return PrefixCache(*map(int, found)) if "vllm:prefix_cache_queries_total" in text else None

    # ---------------------------------------------------------------------------------------------------- weights

    def load_adapter(self, name: str, folder: Path) -> None:
        """Serve a LoRA adapter, in PEFT's format, from a folder that the server sees.

        A name must be new: the prefix cache is kept by the name and the path of an adapter.
        """
        remedy = (
            f"The server must see the folder {folder}, and be started with --enable-lora, --max-lora-rank of at least "
            "the rank, and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 in its environment"
        )
        body = {"lora_name": name, "lora_path": str(folder)}
        self._wait(self._ask("POST", "/v1/load_lora_adapter", body, remedy=remedy))

    def unload_adapter(self, name: str) -> None:
        """Serve an adapter no longer."""
        self._wait(self._ask("POST", "/v1/unload_lora_adapter", {"lora_name": name}))

    def reload(self, folder: Path, *, in_use: bool = False) -> None:
        """Replace the model's weights by those of a folder that the server sees, and forget all cached prefixes.

        Where the server is `in_use`, requests under way wait meanwhile, and go on with the new weights: what they have
        read and written is computed again.
        """
        remedy = (
            f"The server must see the folder {folder}, and have VLLM_SERVER_DEV_MODE=1 in its environment; or train an "
            "adapter (--lora-rank), which it can load without"
        )
        body = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
        if in_use:
            self._wait(self._ask("POST", "/pause?mode=keep", {}, remedy=remedy))
        try:
            self._wait(self._ask("POST", "/collective_rpc", body, remedy=remedy))
            path = f"/reset_prefix_cache{'?reset_running_requests=true' * in_use}"
            emptied = self._wait(self._ask("POST", path, {}, remedy=remedy))
        finally:
            if in_use:
                self._wait(self._ask("POST", "/resume", {}, remedy=remedy))
        if emptied and not msgspec.json.decode(emptied).get("success", True):
            self._wrong("its prefix cache to be emptied, but it is in use by other requests", "Let one run use it")

    # --------------------------------------------------------------------------------------------------- requests

    @property
    def shown(self) -> str:
        """Its address, without a password."""
        return without_credentials(self.root)

    def close(self) -> None:
        """Close the connections."""
        bounded_requests.submit(self._client.close()).result()

    def _wait(self, work: Coroutine[Any, Any, bytes]) -> bytes:
        return bounded_requests.submit(work).result()

    async def _ask(self, method: str, path: str, body: Any = None, *, remedy: str = "") -> bytes:
        """Return the content of the answer, asked for again while that may help."""
        import aiohttp

        content = None if body is None else msgspec.json.encode(body)
        for attempt in range(self.retries + 1):
            headers: Mapping[str, str] = {}
            try:
                response = await self._client.request(method, path, content)
            except TimeoutError:
                failure = f"none came within {self.timeout:g} s", "Raise the server's share of the machine, or ask less"
            except (aiohttp.ClientError, OSError) as error:
                failure = f"could not talk to it ({str(error) or type(error).__name__})", _AGAIN
            else:
                if response.status == 200:
                    return response.content
                headers = response.headers
                text = " ".join(retries.message(response).split())[:300].rstrip(".")
                failure = f"got status {response.status}: {text}", remedy or _AGAIN
                if not retries.may_pass(response) or (remedy and response.status == 500):
                    break
            if attempt < self.retries:
                await asyncio.sleep(retries.pause(attempt, headers))
        tries = f"{attempt + 1} attempt{'s' * bool(attempt)}"
        raise SamplerError(
            f"Expected an answer from the vLLM server at {self.shown}{path}, {failure[0]} in {tries}. {failure[1]}.",
            resumable=True,
        )

    def _wrong(self, expected: str, remedy: str = "Use a version of vLLM that pyproject.toml names") -> NoReturn:
        raise SamplerError(f"Expected of the vLLM server at {self.shown} {expected}. {remedy}.", resumable=True)
