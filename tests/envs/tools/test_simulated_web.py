"""Web search and local search are two tools: what each finds, what it costs, and the real web in place of a corpus."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import msgspec
import pytest

from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.experts.catalog_files import CatalogError
from toolorchestra.envs.task_source import make_source
from toolorchestra.envs.tools.manual import manual
from toolorchestra.envs.tools.search.search import Hit
from toolorchestra.envs.tools.search.search_web import RecordedProvider, WebSearch
from toolorchestra.envs.tools.simulated_web import simulated_web
from toolorchestra.envs.tools.toolkit import Toolkit
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tools.tool import NO_CONTEXT, Tool

CATALOG = Catalog.load()
ENDPOINT = "tools: {web_search: {endpoint: {record: %s}}}"


def titles(tool: Tool, query: str, k: int = 5) -> list[str]:
    (found,) = tool.run({"query_list": [query], "k": k}, NO_CONTEXT).value
    return [passage["title"] for passage in found["passages"]]


def offered(world: Any, kit: Toolkit | None = None, name: str = "evaluation") -> dict[str, Tool]:
    kit = kit or Toolkit()
    return kit.tools(world, "basic", kit.configure(name, 3, "a"))


def test_the_web_of_a_domain_holds_its_manual_and_an_encyclopaedia_and_the_local_corpus_only_the_manual(mini: Domain):
    tools = offered(mini)
    for name in ("web_search", "local_search"):
        assert "The tool cancel_order" in titles(tools[name], "cancel an order")
    pages = {passage.title for passage in manual(mini)}
    assert set(titles(tools["web_search"], "Who founded the museum?")) - pages
    assert set(titles(tools["local_search"], "Who founded the museum?")) <= pages


def test_the_web_of_an_encyclopaedia_finds_what_its_own_search_finds():
    source = make_source("MultiHopQA")
    task = source.tasks("test")[0]
    tools = offered(source.world(task))
    assert [*tools] == ["local_search", "web_search", "python"]
    query = task.reference_calls[0].arguments["query_list"][0]
    assert titles(tools["web_search"], query) == titles(tools["local_search"], query) != []


def test_the_web_costs_more_and_is_slower_at_the_price_of_the_catalogue(make_env: Callable[..., Any]):
    env = make_env(tools="basic")
    env.reset(seed=0)
    queries = {"query_list": ["cancel an order", "menu"]}
    for name in ("web_search", "local_search"):
        *_, info = env.step([{"name": name, "arguments": queries}])
        call, listed = info["calls"][0], CATALOG.tools[name]
        assert call.cost == pytest.approx(2 * listed.price)
        assert call.end - call.start == pytest.approx(listed.latency)
    assert CATALOG.tools["web_search"].price > CATALOG.tools["local_search"].price == 0
    assert CATALOG.tools["web_search"].latency > CATALOG.tools["local_search"].latency
    assert all(CATALOG.tools[name].sources for name in ("web_search", "local_search", "python"))


def test_a_catalogue_of_ones_own_changes_prices_and_which_basic_tools_there_are(mini: Domain, tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "tools: {local_search: {price: 0.001, latency: 4}}\n"
        "configurations: {evaluation: {tools: [python, local_search]}}\n"
    )
    tools = offered(mini, Toolkit(catalog=file))
    assert [*tools][-2:] == ["python", "local_search"]
    assert (tools["local_search"].price, tools["local_search"].latency) == (0.001, 4.0)
    file.write_text("tools: {image_search: {price: 1}}")
    with pytest.raises(CatalogError, match="Unknown basic tool 'image_search'"):
        Catalog.load(file)
    file.write_text("tools: {python: {endpoint: {}}}")
    with pytest.raises(CatalogError, match="Expected an endpoint for web_search only"):
        Catalog.load(file)
    with pytest.raises(UnknownNameError, match=r"Unknown basic tool 'web_serch'\. Did you mean 'web_search'"):
        CATALOG.configure(tools=("web_serch",))


def test_a_random_configuration_draws_web_search_and_its_price(mini: Domain):
    kit = Toolkit()
    drawn = [kit.configure("random", 0, str(number)) for number in range(60)]
    assert {name in one.tools for one in drawn for name in ("web_search",)} == {True, False}
    prices = set()
    for one in drawn:
        tools = kit.tools(mini, "basic", one)
        assert ("web_search" in tools) == ("web_search" in one.tools)
        if "web_search" in tools:
            prices.add(tools["web_search"].price)
            assert 0.004 <= tools["web_search"].price <= 0.016
        if "local_search" in tools:
            assert tools["local_search"].price == 0
    assert len(prices) > 20


def test_a_corpus_stands_for_the_web_and_that_of_the_local_search_stays_private(mini: Domain, tmp_path: Path):
    web, mine = tmp_path / "web.jsonl", tmp_path / "mine.jsonl"
    web.write_text('{"id": "1", "title": "Tern", "text": "A bird of the coast."}\n')
    mine.write_text('{"id": "1", "title": "Salaries", "text": "What everyone earns at the coast."}\n')
    tools = offered(mini, Toolkit(corpus=mine, web_corpus=web))
    assert titles(tools["web_search"], "coast") == ["Tern"]
    assert titles(tools["local_search"], "coast") == ["Salaries"]
    assert "Salaries" not in titles(offered(mini, Toolkit(corpus=mine))["web_search"], "salaries everyone earns")
    with pytest.raises(OptionError, match=r"none\.jsonl"):
        Toolkit(web_corpus=tmp_path / "none.jsonl")


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda tool: pickle.loads(pickle.dumps(tool))])
def test_a_copied_search_of_the_web_finds_the_same(copied: Callable[[Any], Any], mini: Domain):
    tool = simulated_web(mini)
    assert titles(copied(tool), "museum") == titles(tool, "museum") == titles(copied(tool), "museum") != []
    assert copied(tool).origin == tool.origin


def test_the_catalogue_names_an_endpoint_and_then_the_real_web_is_searched(
    mini: Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Web:
        name = "tavily-basic"

        def search(self, query: str, k: int) -> list[Hit]:
            return [Hit("https://a.example/", query.title(), "Text.", 0.9)]

    record, file = tmp_path / "web.jsonl", tmp_path / "mine.yaml"
    recording = RecordedProvider(record, Web())
    recording.search("coast", 5)
    recording.close()
    file.write_text(ENDPOINT % record)
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-secret")
    kit = Toolkit(catalog=file)
    tool = offered(mini, kit)["web_search"]
    assert isinstance(tool, WebSearch)
    assert (tool.price, tool.latency, tool.origin.provider) == (0.008, 2.0, "tavily")
    assert titles(tool, "coast") == ["Coast"]
    assert tool.schema == offered(mini)["web_search"].schema
    kit.close()
    with pytest.raises(OptionError, match="expected no endpoint of web_search"):
        Toolkit(catalog=file, web_corpus=record)
    monkeypatch.delenv("TAVILY_API_KEY")
    with pytest.raises(OptionError, match="TAVILY_API_KEY, which is not set"):
        gym.make("ToolOrchestra-Math-v0", tools="basic", catalog=file)


def test_a_query_writer_searches_the_web_where_there_is_no_local_search():
    env = gym.make("ToolOrchestra-MultiHopQA-v0")
    for tools, searched in ((["query_gpt_5", "web_search"], "web_search"), ("full", "local_search")):
        env.reset(seed=0, options={"tools": tools})
        *_, info = env.step([{"name": "query_gpt_5", "arguments": {"context": ["request"]}}])
        call = info["calls"][0]
        assert [child.name for child in call.children] == ["gpt-5", searched, "gpt-5"]
        assert call.children[1].cost == pytest.approx(CATALOG.tools[searched].price * len(call.children[1].value))
    env.close()


def test_what_tools_are_and_who_runs_them_is_said_of_each(mini: Domain):
    kit = Toolkit()
    tools = kit.tools(mini, "full", kit.configure("evaluation", 0, ""))
    shown = {name: msgspec.structs.astuple(tool.origin) for name, tool in tools.items()}
    assert shown["get_order"] == ("function", "", "", "local", True)
    assert shown["web_search"] == ("search", "", "", "tavily", False)
    assert shown["local_search"] == ("search", "", "", "local", True)
    assert shown["python"] == ("interpreter", "", "", "local", True)
    assert shown["ask_gpt_5"] == ("model", "gpt-5", "OpenAI", "openai", False)
    assert shown["math_qwen2_5_math_7b"] == ("model", "qwen2.5-math-7b", "Alibaba", "together", True)
