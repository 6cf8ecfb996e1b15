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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from toolorchestra.agents.http_client import HTTPClient, RequestError, Response
from toolorchestra.algos.rollout.sampling import Sample
from toolorchestra.toolscale.common.errors import OptionError, SamplerError

T = TypeVar("T")

_TIMEOUT = 600.0
"""Seconds that an attempt may take in all."""
_COMPLETION = "a completion with token ids and log-probabilities"
_PLAIN = {
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "return_token_ids": True,
}
"""What the server would take from the model's generation config."""
_AGAIN = "Look at its log, start it again, and continue with the same command and --resume"
_REMEDIES = {
    "timeout": "Raise the server's share of the machine, or ask less",
    "unreadable": "Use a version of vLLM that pyproject.toml names",
}
"""By what went wrong; in all other cases `_AGAIN`, or for a refusal what the request itself needs."""


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

    What may pass is tried again (`HTTPClient`); since every request has a seed, another attempt gives the same ids.

    Args:
        url: Root of the server, with or without ``/v1``. A server with a key is given that of the environment variable
            ``VLLM_API_KEY``.
        client: Replaces the network, e.g. by a fake.

    Attributes:
        client: Sends the requests.
        model: Name of the model that it serves; empty until `check`.

    Raises:
        OptionError: The address is none of HTTP.
    """

    def __init__(self, url: str, client: HTTPClient | None = None) -> None:
        if not re.match(r"https?://[^/]", url):
            raise OptionError(
                f"`server` must be the address of a vLLM server, such as http://127.0.0.1:8000, got {url!r}."
            )
        self.root = url.rstrip("/").removesuffix("/v1")
        self.model = ""
        self.client = client or HTTPClient(self.root, _headers, timeout=_TIMEOUT)

    # ------------------------------------------------------------------------------------------------ completions

    async def complete(self, prompt: Sequence[int], model: str, settings: dict[str, Any]) -> Sample:
        """Return the continuation of a prompt, with settings by the names of `vllm.SamplingParams`.

        Log-probabilities are those of the distribution that was sampled from, temperature included.

        Raises:
            SamplerError: The server failed for good, refused the request, or left something out of its answer.
        """
        body, limit = {"model": model, "prompt": prompt, **_PLAIN, **settings}, settings["max_tokens"]

        def read(response: Response) -> Sample:
            choice = _choice(response)
            ids, logprobs = choice.token_ids, choice.logprobs.token_logprobs
            if choice.prompt_token_ids != list(prompt):
                raise ValueError("it is of other ids than the prompt's")
            if not 0 < len(ids) == len(logprobs) <= limit:
                raise ValueError(
                    f"expected 1 to {limit} ids with a log-probability each, got {len(ids)} and {len(logprobs)}"
                )
            return Sample(ids, logprobs)

        return await asyncio.wrap_future(self.client.submit(self._ask, read, "/v1/completions", body, _COMPLETION))

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
        served = self._wait(_own_model, "/v1/models", None, "a list of its models")
        self.model, length = served.id, served.max_model_len
        if length is not None and length < max_ids:
            raise OptionError(
                f"Episodes may have {max_ids:,} ids (`max_ids`), but the server at {self.client.url} takes "
                f"{length:,}. Start it with --max-model-len {max_ids}, or lower `max_ids`."
            )
        probe = {"model": self.model, "prompt": [stop], "max_tokens": 1, "allowed_token_ids": [stop], "logprobs": 0}
        choice = self._wait(_choice, "/v1/completions", probe | {"return_token_ids": True}, _COMPLETION)
        if choice.logprobs.token_logprobs[0] < -1e-3:  # of the only id that was allowed
            raise OptionError(
                f"The server at {self.client.url} reports log-probabilities before temperature and bans. "
                "Start it with --logprobs-mode processed_logprobs."
            )

    def prefix_cache(self) -> PrefixCache | None:
        """Return how often the prefix cache was used so far, from the server's metrics; None if they do not say."""
        text = self._wait(lambda response: response.content.decode(), "/metrics")
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
        self._wait(_whatever, "/v1/load_lora_adapter", body, remedy=remedy)

    def unload_adapter(self, name: str) -> None:
        """Serve an adapter no longer."""
        self._wait(_whatever, "/v1/unload_lora_adapter", {"lora_name": name})

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
            self._wait(_whatever, "/pause?mode=keep", {}, remedy=remedy)
        try:
            self._wait(_whatever, "/collective_rpc", body, remedy=remedy)
            path = f"/reset_prefix_cache{'?reset_running_requests=true' * in_use}"
            emptied = self._wait(_whatever, path, {}, remedy=remedy)
        finally:
            if in_use:
                self._wait(_whatever, "/resume", {}, remedy=remedy)
        if emptied and not msgspec.json.decode(emptied).get("success", True):
            raise SamplerError(
                f"vLLM: expected the prefix cache of {self.client.url} to be emptied, but it is in use by other "
                "requests. Let one run use it.",
                resumable=True,
            )

    # --------------------------------------------------------------------------------------------------- requests

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def _wait(self, read: Callable[[Response], T], *asked: Any, **options: Any) -> T:
        return self.client.submit(lambda: self._ask(read, *asked, **options)).result()

    async def _ask(
        self, read: Callable[[Response], T], path: str, body: Any = None, what: str = "an answer", *, remedy: str = ""
    ) -> T:
        try:
            return await self.client.ask(read, path, None if body is None else msgspec.json.encode(body), what)
        except RequestError as error:
            refused = isinstance(error.about, int)
            advice = remedy if refused and remedy else _REMEDIES.get(str(error.about), _AGAIN)
            raise SamplerError(f"vLLM: {error}. {advice}.", resumable=True) from error


def _headers() -> dict[str, str]:
    key = os.environ.get("VLLM_API_KEY")
    return {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}


def _whatever(response: Response) -> bytes:
    return response.content


def _choice(response: Response) -> _Choice:
    (choice,) = msgspec.json.decode(response.content, type=_Completion).choices
    return choice


def _own_model(response: Response) -> _Model:
    """Return the model that the server was started with; the others that it lists are adapters."""
    models = [model for model in msgspec.json.decode(response.content, type=_Models).data if model.parent is None]
    if not models:
        raise ValueError("there is none")
    return models[0]
