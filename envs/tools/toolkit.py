"""The toolkit: the tools that an instance has in addition to the world's own, and their prices.

``basic`` adds web search, local search and Python, ``full`` also the experts of a tool configuration: that is
ToolOrchestra's setting (§3.1). A tool configuration is one of the catalogue's, the same for every instance, or drawn at
random for each task: a subset of the experts and basic tools at random prices (§3.3). What a search costs stands in the
catalogue too.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal, get_args

import msgspec

from toolorchestra.agents.chat.base import ChatModel
from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.experts.configurations import ToolConfiguration
from toolorchestra.agents.experts.simulated_chat import SimulatedChat
from toolorchestra.agents.experts.simulated_expert import SimulatedExpert
from toolorchestra.agents.experts.specification import BasicToolSpec, ExpertSpec, Role
from toolorchestra.envs.tools.experts import ExpertTool, Repriced, tool_name
from toolorchestra.envs.tools.manual import corpus_index, corpus_search, manual_search
from toolorchestra.envs.tools.python import default_python
from toolorchestra.envs.tools.search.search_providers import PROVIDERS
from toolorchestra.envs.tools.search.search_web import RecordedProvider, WebSearch
from toolorchestra.envs.tools.simulated_web import simulated_web
from toolorchestra.envs.world import World
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.tools.tool import Tool

Level = Literal["none", "domain", "basic", "full"]
"""Which tools are available: none; the world's own; web search, local search and Python as well; or experts too."""
Kind = Literal["simulated", "real"]

RANDOM = "random"
"""Name of the tool configuration that is drawn for each task."""
DRAWN_FROM = "training"
"""Name of the tool configuration that holds all that random ones may have."""
_MANUAL = "Search the manual of the place: its rules, tools and tables. All queries of a call run at once."


class Toolkit:
    """Tools for every world, made when they are first needed.

    Args:
        catalog: The experts: the shipped catalogue by default, or a file that extends it.
        experts: ``simulated``, or ``real``: every available expert then needs an endpoint in the catalogue.
        sandbox: Where Python runs: ``simulated`` (arithmetic only, nothing is executed), or what `PythonTool` takes.
            Default: ``simulated`` beside simulated experts, ``auto`` beside real ones.
        corpus: JSONL file of passages for the local search, in place of the manual of the world.
        web_corpus: JSONL file of passages that stands for the web; see `toolorchestra.envs.tools.simulated_web`. Where
            the catalogue gives ``web_search`` an endpoint, the real web is searched.
        timeout: Seconds of real time that a real expert may take.

    Raises:
        UnknownNameError: There is no such kind of experts, or no such sandbox.
        OptionError: `timeout` is not positive, a corpus cannot be read, the key of the web search is not set, or there
            is a `web_corpus` as well as an endpoint.
    """

    def __init__(
        self,
        *,
        catalog: Catalog | str | Path | None = None,
        experts: Kind = "simulated",
        sandbox: str | None = None,
        corpus: str | Path | None = None,
        web_corpus: str | Path | None = None,
        timeout: float = 120.0,
    ) -> None:
        if experts not in get_args(Kind):
            raise UnknownNameError("kind of experts", str(experts), get_args(Kind))
        if not timeout > 0:
            raise OptionError(f"`timeout` must be a positive number of seconds, got {timeout!r}.")
        self.catalog = catalog if isinstance(catalog, Catalog) else Catalog.load(*([catalog] if catalog else []))
        self._timeout = timeout if experts == "real" else None
        self._python = default_python(sandbox, experts == "simulated")
        self._corpus = None if corpus is None else corpus_search(Path(corpus))
        self._web_corpus = None if web_corpus is None else Path(web_corpus)
        self._web = self._real_web()
        if self._web_corpus is not None:
            corpus_index(self._web_corpus)  # a file that cannot be read is refused now
        self._searches: dict[tuple[str, str], Tool] = {}
        self._chats: dict[str, ChatModel] = {}
        self._experts: dict[tuple[Role, str], ExpertTool] = {}

    def configure(self, name: str, seed: int, instance: str) -> ToolConfiguration:
        """Return the tool configuration of an instance: one of the catalogue, or a random one.

        Raises:
            UnknownNameError: There is no such configuration.
        """
        if name == RANDOM:
            return self.catalog.draw(seed, DRAWN_FROM, instance=instance, tools=self.catalog.basic_tools(DRAWN_FROM))
        if name not in self.catalog.configurations:
            raise UnknownNameError("tool configuration", str(name), (RANDOM, *self.catalog.configurations))
        return self.catalog.configure(name, tools=self.catalog.basic_tools(name))

    def pool(self, name: str) -> tuple[str, ...]:
        """Return the names of all tools that a configuration of this name may add."""
        all_tools = self.configure(DRAWN_FROM if name == RANDOM else name, 0, "")
        experts = all_tools.experts
        return (*all_tools.tools, *(tool_name(role, expert) for role, names in experts.items() for expert in names))

    def tools(
        self, world: World, chosen: Level | Sequence[str] | None, configuration: ToolConfiguration
    ) -> dict[str, Tool]:
        """Return the tools in a world: its own first, then the basic ones, then the experts.

        Args:
            world: The world.
            chosen: A level; or names of tools, of which those that are not available are left out.
            configuration: Experts, prices and basic tools of the instance.
        """
        if chosen == "none":
            return {}
        beside: dict[str, Callable[[], Tool]] = {}
        if chosen not in ("domain", None):
            beside = {
                name: functools.partial(self._basic, name, world, spec)
                for name, spec in configuration.tool_specs.items()
                if name not in world.tools
            }
        if chosen not in ("domain", "basic", None):
            beside |= {
                tool_name(role, expert): functools.partial(self._expert, role, expert, configuration.specs[expert])
                for role, names in configuration.experts.items()
                for expert in names
            }
        wanted: Iterable[str] = (*world.tools, *beside)
        if not isinstance(chosen, str) and chosen is not None:
            wanted = [name for name in wanted if name in set(chosen)]
        return {name: world.tools[name] if name in world.tools else beside[name]() for name in wanted}

    def close(self) -> None:
        """Close the connections of real experts."""
        for chat in self._chats.values():
            if callable(close := getattr(chat, "close", None)):
                close()
        self._chats.clear()
        self._experts.clear()
        if self._web is not None and isinstance(self._web.provider, RecordedProvider):
            self._web.provider.close()

    def _basic(self, name: str, world: World, spec: BasicToolSpec) -> Tool:
        """Return a basic tool at the price of the configuration."""
        tool = self._python if name == "python" else self._search(name, world)
        if (tool.price, tool.latency, tool.origin.provider) == (spec.price, spec.latency, spec.provider):
            return tool
        other = copy.copy(tool)
        other.price, other.latency = spec.price, spec.latency
        other.origin = msgspec.structs.replace(tool.origin, provider=spec.provider)
        return other

    def _search(self, name: str, world: World) -> Tool:
        if name == "web_search" and self._web is not None:
            return self._web
        if name == "local_search" and self._corpus is not None:
            return self._corpus
        if (world.name, name) not in self._searches:
            web = name == "web_search"
            found = simulated_web(world, self._web_corpus) if web else manual_search(world, _MANUAL)
            self._searches[world.name, name] = found
        return self._searches[world.name, name]

    def _real_web(self) -> WebSearch | None:
        """Return the search of the real web, if the catalogue says where; the tools of all worlds share it."""
        endpoint = self.catalog.tools["web_search"].endpoint
        if endpoint is None:
            return None
        if self._web_corpus is not None:
            raise OptionError("`web_corpus` stands for the web: expected no endpoint of web_search in the catalogue.")
        options = {name: value for name, value in msgspec.structs.asdict(endpoint).items() if value is not None}
        record = options.pop("record", None)
        provider = PROVIDERS[options.pop("provider")](**options)
        return WebSearch(provider if record is None else RecordedProvider(Path(record), provider))

    def _expert(self, role: Role, expert: str, spec: ExpertSpec) -> ExpertTool:
        tool = self._experts.get((role, expert))
        if tool is None:
            simulated = functools.partial(_simulated, role, expert, self.catalog.shared_noise)
            model = simulated if self._timeout is None else self._real_model(expert)
            tool = self._experts[role, expert] = ExpertTool(role, expert, spec, model, self._timeout)
        return tool if tool.spec == spec else tool.at(spec)

    def _real_model(self, expert: str) -> Callable[[ExpertSpec], ChatModel]:
        """Return a function that puts a price on a real model, which all its roles share."""
        if expert not in self._chats:
            try:
                self._chats[expert] = self.catalog.chat(expert)
            except ImportError as error:
                raise OptionError(f"{error}.") from None
        return functools.partial(Repriced, self._chats[expert])


def _simulated(role: Role, expert: str, shared_noise: float, spec: ExpertSpec) -> ChatModel:
    return SimulatedChat(SimulatedExpert(expert, spec, shared_noise=shared_noise), role=role)
