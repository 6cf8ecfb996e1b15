"""The catalogue of experts: their prices, skills and configurations.

A catalogue is data: `catalog.yaml` beside this file, which your own files extend and override entry by entry. An entry
becomes a simulated expert or, where it has an endpoint, the real one; `Catalog.draw` draws random tool configurations
(ToolOrchestra §3.3). Not covered: how an expert errs (`toolorchestra.agents.experts.simulated_expert`) and how a
configuration becomes tools of an environment.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from toolorchestra.agents.chat.base import ChatModel
from toolorchestra.agents.chat.shared import SharedChat
from toolorchestra.agents.experts.catalog_files import (
    CatalogContents,
    CatalogError,
    key_depth,
    merge,
    name_sources,
    read_catalog,
)
from toolorchestra.agents.experts.configurations import BASIC_TOOLS, Configuration, PriceSchedule, ToolConfiguration
from toolorchestra.agents.experts.key_permissions import key_fault
from toolorchestra.agents.experts.simulated_expert import SimulatedExpert
from toolorchestra.agents.experts.specification import BasicToolSpec, Endpoint, ExpertSpec, Role, SearchEndpoint
from toolorchestra.toolscale.common.errors import DomainError, OptionError, UnknownNameError, unknown_name
from toolorchestra.toolscale.common.yaml_reader import convert
from toolorchestra.toolscale.workers.driver_calls import is_worker

T = TypeVar("T")
_SEARCHED: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "tavily": ("TAVILY_API_KEY", "https://api.tavily.com", ("api_key_env", "depth", "whole_pages")),
    "bing": ("BING_SEARCH_API_KEY", "https://api.bing.microsoft.com", ("api_key_env", "market")),
    "duckduckgo": ("", "https://html.duckduckgo.com", ("region",)),
}
"""Providers of web search: the variable of the key, where it is sent, and the options."""
SHIPPED = Path(__file__).parent / "catalog.yaml"
"""The catalogue that comes with the library."""
SUBJECTS = ("math", "code", "science", "humanities", "search", "reasoning", "function_calling", "other")
"""Subjects in which every shipped expert has a skill; your own catalogue may add more."""


class Catalog:
    """Experts by name, and their configurations; `load` makes one.

    Attributes:
        experts: Entries by name.
        tools: Entries of the basic tools by name: what a search costs, and how long it takes.
        benchmarks: Tables of accuracies that skills are estimated from.
        price_lists: Prices of companies.
        configurations: Fixed choices of experts and prices.
        shared_noise: Share of noise that all experts have in common.

    >>> catalog = Catalog.load()
    >>> catalog.spec("gpt-5").price
    Price(input=1.25, output=10.0)
    >>> catalog.configure("unseen-models").experts["math"]
    ('openmath-llama-2-70b', 'deepseek-math-7b')
    >>> catalog.draw(1) == catalog.draw(1)
    True
    """

    def __init__(self, files: Sequence[Path]) -> None:
        raw = [read_catalog(file) for file in files]
        for file, content in zip(files[1:], raw[1:], strict=True):
            name_sources(content, file)
        merged = functools.reduce(merge, raw)
        self._files, self._raw = files, raw
        found = self._converted(merged, CatalogContents)
        self.experts: dict[str, ExpertSpec] = {}
        for name, entry in found.experts.items():
            if not _NAME.fullmatch(name):
                self._fail("Expected a name of lower-case letters, digits, '.', '_' and '-'.", "experts", name)
            self.experts[name] = self._converted(entry, ExpertSpec, "experts", name)
        self.tools: dict[str, BasicToolSpec] = {}
        for name, entry in found.tools.items():
            self._check_known("basic tool", name, BASIC_TOOLS, "tools", name)
            self.tools[name] = self._converted(entry, BasicToolSpec, "tools", name)
        self.benchmarks, self.price_lists, self.configurations = (
            found.benchmarks,
            found.price_lists,
            found.configurations,
        )
        self.shared_noise, self._sources = found.shared_noise, found.sources
        self._check()

    @classmethod
    def load(cls, *files: Path | str) -> Catalog:
        """Return the shipped catalogue, extended and overridden by files in their order.

        An existing entry keeps the fields that a file does not name; a file's figures have that file as their source
        unless it names another. A file that is not valid raises `CatalogError`, which names the file and the key path.
        """
        return cls([SHIPPED, *map(Path, files)]) if files else _shipped()

    def spec(self, name: str) -> ExpertSpec:
        """Return an expert's entry; an unknown name raises `UnknownNameError`."""
        if name not in self.experts:
            raise UnknownNameError("expert", name, self.experts)
        return self.experts[name]

    def source(self, name: str, field: str) -> str:
        """Return the source of an expert's figure: that of the field, or of the field that contains it.

        An entry's own sources take precedence over its file's.
        """
        own, found = self.spec(name).sources, ""
        while field and not found:
            found = own.get(field) or self._sources.get(field, "")
            field = field.rpartition(".")[0]
        return found

    def simulated(self, name: str) -> SimulatedExpert:
        """Return an expert, simulated; an unknown name raises `UnknownNameError`."""
        return SimulatedExpert(name, self.spec(name), shared_noise=self.shared_noise)

    def chat(self, name: str) -> ChatModel:
        """Return the real model behind an entry, within its rate limits and its budget; close it after use.

        In a worker process this is the one model of all workers (`SharedChat`).

        Raises:
            OptionError: The entry has no endpoint, or the key's variable is not set.
        """
        return self.shared_chat(name) if is_worker() else endpoint_chat(name, self.spec(name))

    def shared_chat(self, name: str) -> SharedChat:
        """Return the real model behind an entry for use by several workers; it is made for the first request.

        Raises:
            OptionError: The entry has no endpoint.
        """
        spec = self.spec(name)
        _endpoint(name, spec)
        key = msgspec.json.encode((name, spec), order="sorted")
        return SharedChat(spec.model or name, key, functools.partial(endpoint_chat, name, spec))

    def basic_tools(self, configuration: str = "evaluation") -> tuple[str, ...]:
        """Return the basic tools of one of `configurations`; an unknown name raises `UnknownNameError`."""
        return self._configuration(configuration).tools

    def configure(self, configuration: str = "evaluation", *, tools: Sequence[str] = ()) -> ToolConfiguration:
        """Return one of `configurations` with all `tools`, the same for every instance, as for evaluation.

        An unknown name, of a configuration or a tool, raises `UnknownNameError`.
        """
        chosen = self._configuration(configuration)
        self._check_basic(tools)
        name = chosen.prices
        schedule = PriceSchedule() if name is None else PriceSchedule(name, self.price_lists[name].prices)
        return self._configured(chosen.experts, tuple(tools), schedule)

    def draw(
        self,
        seed: int,
        configuration: str = "training",
        *,
        instance: str = "",
        tools: Sequence[str] = (),
        keep: float = 0.5,
        spread: float = 2.0,
    ) -> ToolConfiguration:
        """Return a random tool configuration: experts, tools and prices differ from instance to instance (§3.3).

        Each expert of a configuration is included in each of its roles with probability `keep`, and so is each of the
        basic `tools`; one generalist always is. Prices are those of a random list that is not held out, times a factor
        for each provider of experts and of web search, log-uniform between 1 / `spread` and `spread`. Every `instance`
        name has its own draw.

        Raises:
            UnknownNameError: There is no such configuration, or no such basic tool.
            OptionError: `keep` or `spread` is out of its range.
        """
        if not 0 < keep <= 1 or not spread >= 1:
            raise OptionError(f"Expected 0 < keep <= 1 and spread >= 1, got {keep} and {spread}.")
        pool = self._configuration(configuration).experts
        self._check_basic(tools)
        rng = random.Random(f"{seed}/{configuration}/{instance}")
        experts: dict[Role, tuple[str, ...]] = {}
        for role, names in pool.items():
            sure = rng.choice(names) if role == "generalist" else None
            kept = tuple(name for name in names if rng.random() < keep or name == sure)
            if kept:
                experts[role] = kept
        chosen = tuple(tool for tool in tools if rng.random() < keep)
        name = rng.choice(["own", *(name for name, prices in self.price_lists.items() if not prices.held_out)])
        providers = sorted({self.experts[expert].provider for names in pool.values() for expert in names})
        bound = math.log(spread)
        providers += sorted({self.tools[tool].provider for tool in tools if self.tools[tool].price} - {*providers})
        factors = {provider: math.exp(rng.uniform(-bound, bound)) for provider in providers}
        prices = self.price_lists[name].prices if name != "own" else {}
        return self._configured(experts, chosen, PriceSchedule(name, prices, factors))

    def _configuration(self, name: str) -> Configuration:
        if name not in self.configurations:
            raise UnknownNameError("configuration", name, self.configurations)
        return self.configurations[name]

    def _check_basic(self, tools: Sequence[str]) -> None:
        for tool in tools:
            if tool not in self.tools:
                raise UnknownNameError("basic tool", tool, self.tools)

    def _configured(
        self, experts: Mapping[Role, tuple[str, ...]], tools: tuple[str, ...], schedule: PriceSchedule
    ) -> ToolConfiguration:
        names = dict.fromkeys(itertools.chain.from_iterable(experts.values()))
        prices = {name: schedule.price(name, self.experts[name]) for name in names}
        specs = {name: msgspec.structs.replace(self.experts[name], price=price) for name, price in prices.items()}
        basic = {tool: self.tools[tool] for tool in tools}
        basic = {tool: msgspec.structs.replace(spec, price=schedule.tool_price(spec)) for tool, spec in basic.items()}
        return ToolConfiguration(dict(experts), specs, tools, schedule, self.shared_noise, basic)

    def _check(self) -> None:
        """Refuse unknown names, keys for others, experts in roles not theirs, and shares of noise that exceed 1."""
        for name, configuration in self.configurations.items():
            at = ("configurations", name)
            for role, names in configuration.experts.items():
                for place, expert in enumerate(names):
                    path = (*at, "experts", f"{role}[{place}]")
                    self._check_known("expert", expert, self.experts, *path)
                    if role not in self.experts[expert].roles:
                        roles = ", ".join(self.experts[expert].roles)
                        self._fail(f"Expected an expert with the role {role!r}; {expert} has {roles}.", *path)
            if configuration.prices is not None:
                self._check_known("price list", configuration.prices, self.price_lists, *at, "prices")
        tables: list[tuple[str, str, str, Collection[str]]] = [
            *(("price_lists", name, "prices", found.prices) for name, found in self.price_lists.items()),
            *(("benchmarks", name, "accuracy", found.accuracy) for name, found in self.benchmarks.items()),
        ]
        for section, name, field, experts in tables:
            for expert in experts:
                self._check_known("expert", expert, self.experts, section, name, field, expert)
        for tool, basic in self.tools.items():
            if basic.endpoint is not None:
                if tool != "web_search":
                    self._fail("Expected an endpoint for web_search only.", "tools", tool, "endpoint")
                self._check_search(basic.endpoint, "tools", tool, "endpoint")
        shared = self.shared_noise
        for expert, spec in self.experts.items():
            endpoint = spec.endpoint
            if endpoint and endpoint.api_key_env and (fault := key_fault(endpoint.api_key_env, endpoint.base_url)):
                self._fail(fault, "experts", expert, "endpoint", "api_key_env")
            if shared + spec.own_noise > 1:
                text = f"Expected at most {1 - shared:g}, for {shared:g} is shared by all; found {spec.own_noise:g}."
                self._fail(text, "experts", expert, "own_noise")

    def _check_search(self, endpoint: SearchEndpoint, *path: str) -> None:
        """Fail where a provider does not have an option, or a key would be sent to somebody else."""
        key, home, options = _SEARCHED[endpoint.provider]
        for name in ("api_key_env", "depth", "whole_pages", "market", "region"):
            if getattr(endpoint, name) is not None and name not in options:
                self._fail(
                    f"Expected no {name} for {endpoint.provider}, which takes {', '.join(options)}.", *path, name
                )
        named = (endpoint.api_key_env or key, endpoint.url or home)
        if key and named != (key, home) and (fault := key_fault(*named)):
            self._fail(fault, *path, "api_key_env")

    def _check_known(self, kind: str, name: str, known: Collection[str], *path: str) -> None:
        if name not in known:
            self._fail(unknown_name(kind, name, known), *path)

    def _converted(self, value: Any, kind: type[T], *at: str) -> T:
        try:
            return convert(value, kind)
        except DomainError as error:
            self._fail(error.message, *at, *([error.path] if error.path else []))

    def _fail(self, message: str, *path: str) -> NoReturn:
        """Raise the error, naming the last file that has the place."""
        steps = [*path[:-1], *re.split(r"[.\[]", path[-1])[:1]] if path else []
        depths = [key_depth(content, steps) for content in self._raw]
        at = max(range(len(depths)), key=lambda place: (depths[place], place))
        raise CatalogError(message, file=self._files[at], path=".".join(path)) from None


def _endpoint(name: str, spec: ExpertSpec) -> Endpoint:
    if spec.endpoint is None:
        raise OptionError(
            f"{name}: expected an endpoint to ask the real model at, found none. Add to a catalogue file of yours:"
            f" experts: {{{name}: {{endpoint: {{base_url: 'https://…/v1', api_key_env: …}}}}}}"
        )
    return spec.endpoint


def endpoint_chat(name: str, spec: ExpertSpec) -> ChatModel:
    """Return the real model at the endpoint of an entry, within its rate limits and its budget."""
    from toolorchestra.agents.chat.openai_chat import OpenAIChat

    options = msgspec.structs.asdict(_endpoint(name, spec))
    names = {field: f"endpoint.{field}" for field in options} | {"model": "model", "price": "price"}
    return OpenAIChat(options.pop("base_url"), spec.model or name, price=spec.price, option_names=names, **options)


_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


@functools.cache
def _shipped() -> Catalog:
    return Catalog([SHIPPED])
