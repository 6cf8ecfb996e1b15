"""What an orchestrator's own messages cost, and how long they take to write (ToolOrchestra §3.2, App. E).

The paper converts input and output tokens of all models, the orchestrator's included, to money at the prices of
providers. Here every message of an agent is priced by its text, whoever wrote it, as if a model of the catalogue had:

- *read*: the whole conversation of the agent so far, and the schemas of its tools, are read for each message. Providers
  bill every request so; no discount for a cached prefix is assumed. Reading takes no time.
- *written*: the message, and one token that ends it. A call counts as the text that writes it, in whichever form it
  came. The time is in proportion to the tokens, as for experts.
- A token is every four bytes of UTF-8 (`toolorchestra.agents.messages.token_counts`).

Not covered: what tools and experts cost, and who is priced (`toolorchestra.envs.play`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.experts.specification import TYPICAL_STEPS, ExpertSpec
from toolorchestra.envs.judge.model_judge import ModelJudge
from toolorchestra.toolscale.common.errors import OptionError

DEFAULT_ORCHESTRATOR = "qwen3-8b"
"""The model that an orchestrator is priced as: that of the paper's Orchestrator-8B."""


class OrchestratorRates(NamedTuple):
    """Price and speed of a model.

    Attributes:
        read: US dollars of a token that is read.
        written: US dollars of a token that is written.
        seconds: Virtual seconds to write a token.

    >>> rates = OrchestratorRates.of("qwen3-8b")
    >>> f"${1e6 * rates.read:.2f} and ${1e6 * rates.written:.2f} a million tokens, {1 / rates.seconds:.0f} a second"
    '$0.20 and $0.20 a million tokens, 714 a second'
    """

    read: float
    written: float
    seconds: float

    @classmethod
    def of(cls, orchestrator: str | ExpertSpec | None) -> OrchestratorRates | None:
        """Return the rates of a model of the shipped catalogue or of a specification; None for None, which is free.

        Raises:
            UnknownNameError: There is no such model in the catalogue.
            OptionError: It is neither a name nor a specification.
        """
        if orchestrator is None:
            return None
        if isinstance(orchestrator, str):
            orchestrator = Catalog.load().spec(orchestrator)
        if not isinstance(orchestrator, ExpertSpec):
            raise OptionError(
                "Expected as `orchestrator` the name of a model of the catalogue, an ExpertSpec, or None for free, got "
                f"{orchestrator!r}. Names are listed by `toolorchestra experts list`."
            )
        price, typical = orchestrator.price, orchestrator.tokens.mean(TYPICAL_STEPS)
        return cls(price.cost(1, 0), price.cost(0, 1), orchestrator.latency.mean / typical)


def with_catalog(options: Mapping[str, Any], catalog: Catalog | str | Path | None) -> Mapping[str, Any]:
    """Return the options of an environment, with the models that they name taken from a catalogue of its own."""
    if catalog is None:
        return options
    found = catalog if isinstance(catalog, Catalog) else Catalog.load(catalog)
    orchestrator, judge = options.get("orchestrator", DEFAULT_ORCHESTRATOR), options.get("judge")
    if isinstance(orchestrator, str):
        options = {**options, "orchestrator": found.spec(orchestrator)}
    if isinstance(judge, str):
        options = {**options, "judge": ModelJudge.named(judge, found)}
    return options
