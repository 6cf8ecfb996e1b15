"""`TransformersChat`: a local Hugging Face model as a chat model, batched.

Tokens are drawn here, row by row, rather than by `generate`'s own sampler: each request has its own settings and random
numbers, so an answer depends neither on the rest of its batch nor on a global seed. Not covered: images, adapters,
several devices, and continuous batching (serve the model with vLLM and use `OpenAIChat` for that).
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolorchestra.agents.chat.base import ChatRequest, Completion, Meter, Price, all_or_raise, tool_calls_in
from toolorchestra.agents.hub import load_pretrained
from toolorchestra.agents.messages.template_forms import TemplateForm
from toolorchestra.toolscale.common.errors import ExpertError, OptionError, install_line

try:
    import torch
    from transformers import GenerationConfig, LogitsProcessor, StoppingCriteria
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"TransformersChat needs {missing.name}, which is not installed: {install_line('train')}", name=missing.name
    ) from missing


class TransformersChat:
    """A causal language model run in this process.

    The text of a completion is exactly what the model wrote, without its end-of-turn token. `token_ids` includes that
    token, and `logprobs` are those of the model itself (at temperature 1, before `top_p`). Calls are read in Hermes
    syntax. Answers never exceed the model's context; a prompt that fills it is an error.

    Args:
        model: A folder, a name on the Hub (``NAME`` or ``NAME@REVISION``), or a loaded model.
        tokenizer: A folder, a name, or a loaded tokenizer with a chat template; by default the model's.
        device: Device, e.g. ``cuda``; by default a GPU if there is one, or where a loaded model is.
        dtype: Precision to load in, e.g. ``bfloat16``; ``auto`` is that of the weights.
        max_batch: Maximum number of requests generated together.
        seed: Seed of the seeds of requests that have none.
        price: Dollars per million tokens, to simulate a priced model.
        name: Its name in records; by default the model's name or the last part of its path.
        template: Further arguments of the chat template, e.g. ``{"enable_thinking": False}``.

    Raises:
        OptionError: The model cannot be loaded, or its tokenizer has no chat template.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        device: str | None = None,
        dtype: str = "auto",
        max_batch: int = 16,
        seed: int = 0,
        price: Price | None = None,
        name: str | None = None,
        template: Mapping[str, Any] | None = None,
    ) -> None:
        if max_batch < 1:
            raise OptionError(f"max_batch: expected at least 1, got {max_batch}.")
        source = str(model) if isinstance(model, str | Path) else str(model.config._name_or_path)
        if isinstance(model, str | Path):
            model = load_pretrained("AutoModelForCausalLM", model, dtype=dtype)
            device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        if tokenizer is None or isinstance(tokenizer, str | Path):
            tokenizer = load_pretrained("AutoTokenizer", tokenizer or source)
        if not tokenizer.chat_template:
            raise OptionError(
                f"tokenizer: expected one with a chat template, {source!r} has none. Use an instruction-tuned "
                "model or set tokenizer.chat_template."
            )
        self.name = name or source.rstrip("/").rsplit("/", 1)[-1] or type(model).__name__
        self.meter = Meter()
        self.model = model.to(device) if device else model
        self.tokenizer = tokenizer
        ends = self.model.generation_config.eos_token_id
        self._ends = {tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])} - {None}
        self._context = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        self._max_batch, self._price, self._template = max_batch, price or Price(), dict(template or {})
        self._seeds = random.Random(seed)
        self._lock = threading.Lock()

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Answer all requests, `max_batch` at a time; a prompt that leaves no room for an answer is an error."""
        prompts = [self._prompt(request) for request in requests]
        results: list[Completion | ExpertError] = [
            ExpertError(
                f"{self.name}: expected a prompt of fewer tokens than the context of {self._context}, got "
                f"{len(prompt)}. Shorten the conversation."
            )
            for prompt in prompts
        ]
        fits = [i for i, prompt in enumerate(prompts) if not self._context or len(prompt) < self._context]
        fits.sort(key=lambda i: len(prompts[i]))  # prompts of similar length need little padding
        with self._lock:
            seeds = [self._seeds.getrandbits(63) if r.seed is None else r.seed for r in requests]
            for start in range(0, len(fits), self._max_batch):
                batch = fits[start : start + self._max_batch]
                rows = [_Row(requests[i], seeds[i], self._ends, self._room(requests[i], prompts[i])) for i in batch]
                began = time.perf_counter()
                self._generate([prompts[i] for i in batch], rows)
                latency = time.perf_counter() - began
                for i, row in zip(batch, rows, strict=True):
                    results[i] = completion = self._read(prompts[i], row, latency)
                    self.meter.add(completion)
        return all_or_raise(results)

    def __repr__(self) -> str:
        return f"TransformersChat({self.name!r})"

    def _room(self, request: ChatRequest, prompt: list[int]) -> int:
        return min(request.max_tokens, self._context - len(prompt)) if self._context else request.max_tokens

    def _prompt(self, request: ChatRequest) -> list[int]:
        ids: list[int] = self.tokenizer.apply_chat_template(
            TemplateForm().messages(request.messages, request.tools),
            tools=list(request.tools) or None,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
            **self._template,
        )
        return ids

    def _generate(self, prompts: Sequence[list[int]], rows: Sequence[_Row]) -> None:
        """Let the model write into the rows."""
        width = max(map(len, prompts))
        pad = next(i for i in (self.tokenizer.pad_token_id, *sorted(self._ends), 0) if i is not None)
        device = self.model.device
        ids = torch.tensor([[pad] * (width - len(p)) + p for p in prompts], device=device)
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=device)
        config = GenerationConfig(
            do_sample=False,  # `_Sampler` draws the token and leaves it as the only choice
            num_beams=1,
            repetition_penalty=1.0,
            max_new_tokens=max(row.room for row in rows),
            eos_token_id=sorted(self._ends) or None,
            pad_token_id=pad,
        )
        training = self.model.training
        self.model.eval()
        try:
            with torch.no_grad():
                self.model.generate(
                    input_ids=ids,
                    attention_mask=mask,
                    generation_config=config,
                    logits_processor=[_Sampler(rows, self.tokenizer)],
                    stopping_criteria=[_AllDone(rows)],
                )
        finally:
            self.model.train(training)

    def _read(self, prompt: list[int], row: _Row, latency: float) -> Completion:
        written = row.ids[:-1] if row.ids[-1] in self._ends else row.ids
        text = str(self.tokenizer.decode(written, skip_special_tokens=False))
        text = text[: min((at for at in map(text.find, row.request.stop) if at >= 0), default=None)]
        calls = tool_calls_in(text)
        return Completion(
            text=text,
            tool_calls=calls,
            prompt_tokens=len(prompt),
            completion_tokens=len(row.ids),
            cost=self._price.cost(len(prompt), len(row.ids)),
            latency=latency,
            finish_reason="length" if not row.ended else "tool_calls" if calls else "stop",
            token_ids=row.ids,
            logprobs=row.logprobs,
            prompt_token_ids=prompt,
        )


class _Row:
    """An answer that is being generated."""

    def __init__(self, request: ChatRequest, seed: int, ends: Collection[int], room: int) -> None:
        self.request, self.room = request, room
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.ended = False
        self._ends, self.random = ends, random.Random(seed)
        self._tail = 4 * max(map(len, request.stop), default=0)  # a character has at most four tokens

    @property
    def done(self) -> bool:
        return self.ended or len(self.ids) >= self.room

    def write(self, token: int, logprob: float, tokenizer: Any) -> None:
        self.ids.append(token)
        self.logprobs.append(logprob)
        self.ended = token in self._ends
        if self._tail and not self.ended:
            tail = tokenizer.decode(self.ids[-self._tail :], skip_special_tokens=False)
            self.ended = any(stop in tail for stop in self.request.stop)


class _Sampler(LogitsProcessor):
    """Draws each row's next token, appends it to the row, and leaves it as the only choice."""

    def __init__(self, rows: Sequence[_Row], tokenizer: Any) -> None:
        self._rows, self._tokenizer = rows, tokenizer

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        choice = scores.argmax(-1)  # (B,)
        warm = [n for n, row in enumerate(self._rows) if row.request.temperature > 0 and not row.done]
        if warm:
            settings = [self._rows[n].request for n in warm]
            draws = [self._rows[n].random.random() for n in warm]
            choice[warm] = sample(scores[warm], [r.temperature for r in settings], [r.top_p for r in settings], draws)
        logprobs = scores.log_softmax(-1).gather(-1, choice[:, None])[:, 0]
        for row, token, logprob in zip(self._rows, choice.tolist(), logprobs.tolist(), strict=True):
            if not row.done:
                row.write(token, logprob, self._tokenizer)
        return torch.full_like(scores, -torch.inf).scatter(-1, choice[:, None], 0.0)


class _AllDone(StoppingCriteria):
    """Stops rows at their own limits and stop texts."""

    def __init__(self, rows: Sequence[_Row]) -> None:
        self._rows = rows

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        return torch.tensor([row.done for row in self._rows], device=input_ids.device)


def sample(
    logits: torch.Tensor, temperature: Sequence[float], top_p: Sequence[float], draws: Sequence[float]
) -> torch.Tensor:
    """Return one token per row, shape (B,), by inverting its cumulative distribution.

    Args:
        logits: Shape (B, V).
        temperature: Per row, more than 0.
        top_p: Per row; only the likeliest tokens that together reach it can be drawn.
        draws: Per row, uniform in [0, 1).
    """

    def column(values: Sequence[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float64, device=logits.device)[:, None]

    probs = (logits.double() / column(temperature)).softmax(-1)  # (B, V)
    cut = [n for n, p in enumerate(top_p) if p < 1]
    if cut:
        likeliest, order = probs[cut].sort(stable=True, dim=-1, descending=True)
        before = likeliest.cumsum(-1) - likeliest
        likeliest[before >= column([top_p[n] for n in cut])] = 0
        probs[cut] = torch.zeros_like(likeliest).scatter(-1, order, likeliest)
    reached = probs.cumsum(-1)
    drawn = torch.searchsorted(reached, column(draws) * reached[:, -1:], right=True)
    return drawn[:, 0].clamp(max=logits.shape[-1] - 1)
