"""The specification of an expert (price, latency, context, skills, error rates), and of a basic tool.

How an expert errs is in `toolorchestra.agents.experts.simulated_expert`, and which experts there are in
`toolorchestra.agents.experts.catalog`.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from toolorchestra.agents.chat.base import Price

Role = Literal["query", "code", "math", "generalist"]
"""Roles of experts (ToolOrchestra App. D): search queries, reasoning by code, mathematics, or anything."""
Share = Annotated[float, Meta(ge=0, le=1)]
Positive = Annotated[float, Meta(gt=0)]
TYPICAL_STEPS = 4
"""Steps of a call that takes the mean latency."""
_TYPICAL_READING = 2_000  # prompt tokens of a typical call


class Latency(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds of a call: log-normal about a mean, which is for `TYPICAL_STEPS` steps and may differ by role.

    `spread` is the standard deviation of the logarithm.
    """

    mean: Positive
    by_role: dict[Role, Positive] = {}
    spread: Annotated[float, Meta(ge=0, le=2)] = 0.3

    def of(self, role: Role | None) -> float:
        """Return the mean in a role."""
        return self.by_role.get(role, self.mean) if role else self.mean


class Tokens(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tokens of an answer: log-normal about `overhead` and `per_step` for each step.

    `spread` is the standard deviation of the logarithm.
    """

    overhead: Annotated[float, Meta(ge=1)] = 40.0
    per_step: Annotated[float, Meta(ge=0)] = 80.0
    spread: Annotated[float, Meta(ge=0, le=2)] = 0.25

    def mean(self, steps: int) -> float:
        """Return the mean number of tokens of an answer of this many steps."""
        return self.overhead + self.per_step * steps


class Endpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where a real model answers, and with which limits.

    The fields are options of `toolorchestra.agents.chat.openai_chat.OpenAIChat`.
    """

    base_url: str
    api_key_env: str | None = None
    requests_per_minute: Annotated[int, Meta(ge=1)] | None = None
    tokens_per_minute: Annotated[int, Meta(ge=1)] | None = None
    budget: Annotated[float, Meta(ge=0)] | None = None
    timeout: Positive = 60.0
    deadline: Positive | None = None
    max_retries: Annotated[int, Meta(ge=0)] = 4
    max_concurrency: Annotated[int, Meta(ge=1)] = 16
    max_tokens_field: str = "max_tokens"
    reasoning_field: str | None = None
    extra: dict[str, Any] = {}


class ExpertSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An expert as a catalogue lists it.

    Attributes:
        model: The model's public name, by which a server knows it.
        vendor: Who made it.
        open_weights: Whether its weights are published, so that users can run it on machines of their own.
        provider: Who runs it; ``local``: the user's own machines.
        roles: The roles in which it can be asked.
        price: US dollars per million tokens.
        latency: How long it takes.
        context: Tokens that it can read and write in one call.
        skills: By subject, the share of steps of difficulty 0 that it gets right when asked for one at a time;
            ``other`` stands for every subject that is not listed.
        tokens: How much it writes.
        load: How much harder, in logits, every step becomes when the load (`Problem.weight`) is twice as much.
        deceived: Chance that it believes an adversarial note about a step.
        own_noise: Share of a step's noise that is this model's own and the same in all its samples: blind spots.
        description: Its description for orchestrators.
        endpoint: Where the real model answers, if it is to be asked.
        sources: Where each figure is from, by the name of its field (``price``, ``latency.by_role``, ``skills.math``).
    """

    model: str = ""
    vendor: str = ""
    open_weights: bool = False
    provider: str
    roles: tuple[Role, ...]
    price: Price
    latency: Latency
    context: Annotated[int, Meta(ge=1)]
    skills: dict[str, Annotated[float, Meta(gt=0, lt=1)]]
    tokens: Tokens = Tokens()
    load: Annotated[float, Meta(ge=0)] = 0.35
    deceived: Share = 0.3
    own_noise: Share = 0.35
    description: str = ""
    endpoint: Endpoint | None = None
    sources: dict[str, str] = {}

    def __post_init__(self) -> None:
        if "other" not in self.skills:
            raise ValueError("Expected a skill for `other` subjects beside those listed.")

    @property
    def typical_cost(self) -> float:
        """US dollars of a typical call."""
        return self.price.cost(_TYPICAL_READING, round(self.tokens.mean(TYPICAL_STEPS)))

    def skill(self, subject: str) -> float:
        """Return its skill in a subject."""
        return self.skills.get(subject, self.skills["other"])

    def chance(self, subject: str, difficulty: float, steps: int, reading: int = 0) -> float:
        """Return the probability that a step goes right under a load of so many `steps`.

        The difficulty is in logits; `reading` is the tokens that must be read.
        """
        harder = difficulty + self.load * math.log2(max(1, steps))
        right = 1 / (1 + math.exp(harder - logit(self.skill(subject))))
        return right * min(1.0, self.context / max(1, reading))


class SearchEndpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the real web is searched: a provider of `toolorchestra.envs.tools.search`, and its options.

    What is None is the provider's own. With a `record`, a JSONL file, every answer is kept there and no search is paid
    twice.
    """

    provider: Literal["tavily", "bing", "duckduckgo"] = "tavily"
    api_key_env: str | None = None
    url: str | None = None
    depth: Literal["basic", "advanced"] | None = None
    whole_pages: bool | None = None
    market: str | None = None
    region: str | None = None
    timeout: Positive = 20.0
    retries: Annotated[int, Meta(ge=0)] = 3
    record: str | None = None


class BasicToolSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A basic tool as a catalogue lists it.

    Attributes:
        provider: Who runs it; ``local``: the user's own machines.
        price: US dollars of a call; of a query, for a search.
        latency: Seconds of a call.
        endpoint: Where the real web is searched; None: a corpus stands for the web. Of ``web_search`` only.
        sources: Where each figure is from, by the name of its field.
    """

    provider: str = "local"
    price: Annotated[float, Meta(ge=0)] = 0.0
    latency: Annotated[float, Meta(ge=0)] = 0.0
    endpoint: SearchEndpoint | None = None
    sources: dict[str, str] = {}


def logit(share: float) -> float:
    """Return the logarithm of the odds."""
    return math.log(share / (1 - share))
