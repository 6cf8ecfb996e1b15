"""Tool configurations: which experts and tools an orchestrator has, and at which prices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from toolorchestra.agents.chat.base import Price
from toolorchestra.agents.experts.simulated_expert import SimulatedExpert
from toolorchestra.agents.experts.specification import BasicToolSpec, ExpertSpec, Role
from toolorchestra.toolscale.common.errors import UnknownNameError

BasicTool = Literal["web_search", "local_search", "python"]
BASIC_TOOLS: tuple[BasicTool, ...] = ("web_search", "local_search", "python")
"""The basic tools (ToolOrchestra §4.1), which a configuration offers beside experts."""


class PriceList(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A company's prices by expert, and their source; a `held_out` list is for evaluation only and never drawn."""

    source: str
    held_out: bool = False
    prices: dict[str, Price]


class Configuration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A fixed choice of experts by role, at the prices of a price list or else at their own, and where it is from.

    `tools` are the basic tools beside the experts, in the order in which an orchestrator is told of them.
    """

    source: str
    experts: dict[Role, tuple[str, ...]]
    prices: str | None = None
    tools: tuple[BasicTool, ...] = BASIC_TOOLS


class PriceSchedule(msgspec.Struct, frozen=True):
    """What experts cost in one instance.

    The `prices` of the list `name` replace experts' own, and `multipliers` are factors on all prices of a provider.

    >>> from toolorchestra.agents.experts.catalog import Catalog
    >>> spec = Catalog.load().spec("gpt-5")
    >>> PriceSchedule("own", multipliers={"openai": 2.0}).price("gpt-5", spec)
    Price(input=2.5, output=20.0)
    """

    name: str = "own"
    prices: Mapping[str, Price] = {}
    multipliers: Mapping[str, float] = {}

    def price(self, expert: str, spec: ExpertSpec) -> Price:
        """Return an expert's price."""
        price = self.prices.get(expert, spec.price)
        factor = self.multipliers.get(spec.provider, 1.0)
        return Price(*(float(f"{part * factor:.4g}") for part in (price.input, price.output)))

    def tool_price(self, spec: BasicToolSpec) -> float:
        """Return the price of a basic tool."""
        return float(f"{spec.price * self.multipliers.get(spec.provider, 1.0):.4g}")


class ToolConfiguration(msgspec.Struct, frozen=True):
    """The experts by role, the basic tools and the prices that an orchestrator has in one instance.

    `specs` has the experts' entries at these prices, `tool_specs` those of the basic tools, and `shared_noise` is the
    noise that all experts have in common.
    """

    experts: Mapping[Role, tuple[str, ...]]
    specs: Mapping[str, ExpertSpec]
    tools: tuple[str, ...] = ()
    schedule: PriceSchedule = PriceSchedule()
    shared_noise: float = 0.2
    tool_specs: Mapping[str, BasicToolSpec] = {}

    def simulated(self, name: str) -> SimulatedExpert:
        """Return one of its experts, simulated; another name raises `UnknownNameError`."""
        if name not in self.specs:
            raise UnknownNameError("expert of this configuration", name, self.specs)
        return SimulatedExpert(name, self.specs[name], shared_noise=self.shared_noise)
