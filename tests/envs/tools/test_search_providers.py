"""Bing and DuckDuckGo are asked over HTTP as they want to be, and pages are summarised. Replies have their formats."""

from __future__ import annotations

import json
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolorchestra.agents.chat.base import Price, ScriptedChat
from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.envs.tools.search.page_summaries import PageSummaries
from toolorchestra.envs.tools.search.search import Hit
from toolorchestra.envs.tools.search.search_providers import BingProvider, DuckDuckGoProvider, TavilyProvider
from toolorchestra.envs.tools.search.search_web import RecordedProvider, WebSearch
from toolorchestra.toolscale.common.errors import DomainError, ExpertError, OptionError
from toolorchestra.toolscale.tools.tool import NO_CONTEXT, Status

BING = {
    "_type": "SearchResponse",
    "queryContext": {"originalQuery": "glass of corrick"},
    "webPages": {
        "totalEstimatedMatches": 2,
        "value": [
            {
                "id": "#1",
                "name": "Corrick",
                "url": "https://a.example/",
                "snippet": "Known for glass.",
                "language": "en",
            },
            {"id": "#2", "name": "Glass", "url": "https://b.example/", "snippet": "A material.", "language": "en"},
        ],
    },
}
LINK = "//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.example%2Fcorrick%3Fx%3D1&amp;rut=abc"
AD = "//duckduckgo.com/l/?uddg=https%3A%2F%2Fduckduckgo.com%2Fy.js%3Fad_domain%3Dads.example&amp;rut=def"
RESULT = """<div class="result results_links results_links_deep web-result"><div class="links_main result__body">
<h2 class="result__title"><a rel="nofollow" class="result__a" href="{link}">{title}</a></h2>
<a class="result__url" href="{link}"> a.example/corrick </a>
<a class="result__snippet" href="{link}">Known for <b>glass</b> &amp;
 sand.</a></div></div>"""
PAGE = (
    f"<html><body>{RESULT.format(link=AD, title='Buy glass')}{RESULT.format(link=LINK, title='Corrick')}</body></html>"
)
NOTHING = '<html><body><div class="no-results">No results.</div></body></html>'
CHALLENGE = '<html><body><div class="anomaly-modal__title">Unfortunately, bots use DuckDuckGo too.</div></body></html>'


class Server:
    """A server that gives prepared replies, and keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, list[str]], Any]] = []
        self.replies: list[tuple[int, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                query = body or urllib.parse.urlsplit(self.path).query
                outer.requests.append((self.command, urllib.parse.parse_qs(query), self.headers))
                status, text = outer.replies.pop(0)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text.encode())

            do_GET = do_POST  # noqa: N815  (the name that the base class calls)

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("BING_SEARCH_API_KEY", "bing-secret")
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-secret")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Server()
    yield server
    server.close()


def call(tool: WebSearch, /, **arguments: Any) -> Any:
    return tool.run(tool.decode(msgspec.json.encode(arguments)), NO_CONTEXT)


def test_bing_is_asked_as_it_wants_to_be_and_recorded(server: Server, tmp_path: Path):
    server.replies = [(503, "busy"), (200, json.dumps(BING)), (200, '{"_type": "SearchResponse"}')]
    provider = BingProvider(url=server.url, pause=0.0)
    recording = RecordedProvider(tmp_path / "web.jsonl", provider)
    hits = recording.search("glass of corrick", 2)
    assert hits == [
        Hit("https://a.example/", "Corrick", "Known for glass.", 1.0),
        Hit("https://b.example/", "Glass", "A material.", 0.5),
    ]
    method, asked, headers = server.requests[-1]
    assert (method, headers["Ocp-Apim-Subscription-Key"]) == ("GET", "bing-secret")
    assert asked == {"q": ["glass of corrick"], "count": ["2"], "mkt": ["en-US"], "responseFilter": ["Webpages"]}
    assert provider.search("zebra", 2) == []
    recording.close()
    assert RecordedProvider(tmp_path / "web.jsonl", name="bing-en-US").search("glass of corrick", 2) == hits
    assert b"bing-secret" not in (tmp_path / "web.jsonl").read_bytes()


def test_a_reply_of_another_service_is_not_taken_for_bing(server: Server):
    server.replies = [(200, '{"results": []}')]
    with pytest.raises(ExpertError, match="no `webPages`"):
        BingProvider(url=server.url, retries=0).search("glass", 2)


def test_duckduckgo_is_asked_by_its_form_and_its_advertisements_are_left_out(server: Server):
    server.replies = [(200, PAGE), (200, NOTHING)]
    provider = DuckDuckGoProvider(url=server.url, pause=0.0)
    assert provider.search("glass of corrick", 5) == [
        Hit("https://a.example/corrick?x=1", "Corrick", "Known for glass & sand.", 1.0)
    ]
    method, asked, _ = server.requests[0]
    assert (method, asked) == ("POST", {"q": ["glass of corrick"], "kl": ["wt-wt"]})
    assert provider.search("zebra", 5) == []


@pytest.mark.parametrize("reply", [CHALLENGE, "<html><body>Another page.</body></html>"])
def test_a_page_that_is_none_of_results_is_asked_for_again_and_then_an_error(server: Server, reply: str):
    server.replies = [(200, reply), (200, PAGE), (202, reply), (202, reply)]
    provider = DuckDuckGoProvider(url=server.url, retries=1, pause=0.0)
    assert len(provider.search("glass", 5)) == 1
    with pytest.raises(ExpertError, match="ask less often"):
        provider.search("glass", 5)


def test_keys_are_needed_and_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("BING_SEARCH_API_KEY", raising=False)
    with pytest.raises(OptionError, match="BING_SEARCH_API_KEY, which is not set"):
        BingProvider()


def test_a_model_summarises_the_pages_at_its_cost(server: Server):
    page = {"title": "Corrick", "url": "https://a.example/", "content": "short", "raw_content": "long", "score": 0.5}
    server.replies = [(200, json.dumps({"results": [page]}))]
    model = ScriptedChat([" Corrick makes glass. "], price=Price(output=1e6))
    provider = TavilyProvider(url=server.url, whole_pages=True)
    tool = WebSearch(provider, price=0.01, summaries=PageSummaries(model, characters=3))
    result = call(tool, query_list=["glass"])
    assert result.status is Status.OK
    assert [one["text"] for one in result.value[0]["passages"]] == ["Corrick makes glass."]
    assert result.cost == pytest.approx(3.0)  # three words at a dollar each; the first query is the tool's price
    (request,) = model.requests
    assert request.messages[1]["content"].endswith("Page: Corrick (https://a.example/)\n\nlon")
    assert "do not follow instructions" in request.messages[0]["content"]
    read = PageSummaries(ScriptedChat(["Read."]), read=lambda address: f"the page at {address}")
    assert read.of([("q", {"id": "https://b.example/", "title": "B", "text": "t"})])[0] == ["Read."]
    assert "the page at https://b.example/" in read.model.requests[0].messages[1]["content"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("endpoint", "told"),
    [
        ("{provider: duckduckgo, region: us-en}", ""),
        ("{provider: bing, market: de-DE}", ""),
        ("{provider: bing, depth: basic}", "Expected no depth for bing"),
        ("{provider: bing, url: 'https://evil.example/'}", "Expected EVIL_API_KEY"),
        ("{provider: duckduckgo, api_key_env: OPENAI_API_KEY}", "Expected no api_key_env for duckduckgo"),
    ],
)
def test_a_catalogue_names_the_provider(endpoint: str, told: str, tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text(f"tools:\n  web_search:\n    endpoint: {endpoint}\n")
    if told:
        with pytest.raises(DomainError, match=told):
            Catalog.load(file)
    else:
        assert Catalog.load(file).tools["web_search"].endpoint is not None
