"""What the `synth` commands share: the options of a language model, and the names of domains."""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from toolorchestra.cli.options import UsageError, require_at_least
from toolorchestra.toolscale.common.errors import SynthesisError
from toolorchestra.toolscale.common.visible import visible

if TYPE_CHECKING:
    from toolorchestra.agents.chat.base import ChatModel
    from toolorchestra.agents.chat.openai_chat import OpenAIChat
    from toolorchestra.toolscale.synth.answer_store import ModelAnswer, ModelQuestion
    from toolorchestra.toolscale.synth.model_queries import QuerySettings


_SETTINGS = ("api_key_env", "budget", "max_tokens", "model", "price", "timeout")
_FLAGS = {name: f"--{name.replace('_', '-')}" for name in _SETTINGS}
_FLAGS |= {"base_url": "--llm", "max_concurrency": "--parallel", "max_retries": "--retries"}
"""How errors of a server call options."""


@dataclass(kw_only=True)
class ModelOptions(ABC):
    """The options of commands that may query a language model."""

    llm: Annotated[str | None, arg(metavar="BASE_URL")] = None
    """Query a model at this OpenAI-compatible server, e.g. http://localhost:8000/v1."""
    model: Annotated[str | None, arg(metavar="NAME")] = None
    """With --llm: the model's name on that server."""
    repairs: int = 3
    """With --llm: times that the model is shown the error of an invalid answer and asked to correct it."""
    parallel: int = 4
    """With --llm: number of requests in progress at a time."""
    price: Annotated[tuple[float, float], arg(metavar="IN OUT")] = (0.0, 0.0)
    """With --llm: US dollars per million tokens read and written."""
    budget: Annotated[float | None, arg(metavar="USD")] = None
    """With --llm: stop before the next request when this much is spent, in earlier runs for the same folder too."""
    api_key_env: Annotated[str | None, arg(metavar="NAME")] = None
    """With --llm: environment variable that holds the server's key, if it needs one."""
    temperature: float = 0.7
    """With --llm: sampling temperature; 0 is greedy."""
    max_tokens: int = 8_000
    """With --llm: maximum number of tokens of one answer."""
    timeout: float = 300.0
    """With --llm: seconds to wait for one answer."""
    retries: int = 4
    """With --llm: attempts after the first when the server is busy, fails or cannot be reached."""

    def __post_init__(self) -> None:
        if self.llm is not None and self.model is None:
            raise UsageError("--llm needs a model: --model NAME.")
        for option in ("model", "budget", "api_key_env"):
            if self.llm is None and getattr(self, option) is not None:
                raise UsageError(f"--{option.replace('_', '-')} is for --llm BASE_URL: give that as well.")
        if self.budget is not None and not (self.budget > 0 and max(self.price) > 0):
            raise UsageError("--budget needs dollars to count: more than 0 of them, and --price IN OUT.")
        if not min(self.price) >= 0:
            raise UsageError(f"--price must be at least 0, got {self.price[0]:g} and {self.price[1]:g}.")
        require_at_least(self, repairs=0, parallel=1, temperature=0, max_tokens=1, timeout=0.001, retries=0)

    def run(self) -> int:
        """Do the work; return 3 when the same command can go on, and 1 when it cannot."""
        try:
            return self._run()
        except SynthesisError as error:
            print(visible(f"{'stopped' if error.resumable else 'failed'}: {error}"), file=sys.stderr)
            return 3 if error.resumable else 1

    @abstractmethod
    def _run(self) -> int:
        """Do the work and return the exit status."""

    def _settings(self, seed: int) -> QuerySettings:
        from toolorchestra.toolscale.synth.model_queries import QuerySettings

        return QuerySettings(self.repairs, self.parallel, self.budget, self.temperature, self.max_tokens, seed)

    def _chat(self, budget: float | None = None) -> OpenAIChat:
        from toolorchestra.agents.chat.base import Price
        from toolorchestra.agents.chat.openai_chat import OpenAIChat

        return OpenAIChat(
            str(self.llm),
            str(self.model),
            api_key_env=self.api_key_env,
            price=Price(*self.price) if max(self.price) > 0 else None,
            timeout=self.timeout,
            max_retries=self.retries,
            max_concurrency=self.parallel,
            budget=budget,
            option_names=_FLAGS,
        )


class QuestionModel:
    """A chat model behind the interface of the synthesis: one question, one answer."""

    def __init__(self, chat: ChatModel) -> None:
        self._chat = chat
        self.name = chat.name

    def ask(self, question: ModelQuestion) -> ModelAnswer:
        """Answer a question."""
        from toolorchestra.agents.chat.base import ChatRequest
        from toolorchestra.toolscale.synth.answer_store import ModelAnswer

        request = ChatRequest(
            [{"role": role, "content": text} for role, text in question.messages],
            temperature=question.temperature,
            max_tokens=question.max_tokens,
            seed=question.seed,
        )
        (found,) = self._chat.complete([request])
        return ModelAnswer(
            found.text, found.prompt_tokens, found.completion_tokens, found.cost, found.finish_reason == "length"
        )


def domain_name(name: str) -> str:
    """Return what `load_domain` takes: the name of a domain, which may be given in capitals or as an environment id."""
    from toolorchestra.toolscale.domain_folder import builtin_domains

    found = re.fullmatch(r"ToolOrchestra-(\w+)-v\d+", name)
    spelt = (found[1] if found else name).lower()
    return spelt if found or spelt in builtin_domains() else name
