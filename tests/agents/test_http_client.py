"""What a server cannot do to a request: drip, hang, or send without end."""

from __future__ import annotations

import contextlib
import gc
import gzip
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import aiohttp
import pytest
from waiting import until

from toolorchestra.agents import http_client
from toolorchestra.agents.chat.base import ChatRequest
from toolorchestra.agents.chat.openai_chat import OpenAIChat
from toolorchestra.toolscale.common.errors import ExpertError, OptionError

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n%s\r\n"
JSON, STREAM = HEAD % (b"application/json", b""), HEAD % (b"text/event-stream", b"")
REQUEST = ChatRequest([{"role": "user", "content": "Hi"}])

Send = Callable[[bytes], object]
Serve = Callable[[Callable[[Send, threading.Event], object]], str]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a server on the loopback interface that sends each connection what a function says, byte by byte."""
    over, threads = threading.Event(), list[threading.Thread]()
    listening = socket.create_server(("127.0.0.1", 0))

    def start(respond: Callable[[Send, threading.Event], object]) -> str:
        def answer(connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError):
                connection.recv(65_536)
                respond(connection.sendall, over)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    threads.append(threading.Thread(target=answer, args=(connection,)))
                    threads[-1].start()

        threads.append(threading.Thread(target=accept))
        threads[0].start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}/v1"

    yield start
    over.set()
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    for thread in threads:
        thread.join()


def drip(start: bytes, piece: bytes, passes: Callable[[float], None]) -> Callable[[Send, threading.Event], object]:
    """Send a beginning at once, and then a piece every half minute."""

    def respond(send: Send, over: threading.Event) -> None:
        send(start)
        while not over.is_set():
            passes(30)
            send(piece)

    return respond


@pytest.mark.parametrize(
    ("start", "piece", "stream"),
    [
        (b"", b"H", False),
        (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n", True),
        (JSON, chunk(b" "), False),
        (STREAM, chunk(b": wait\n\n"), True),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 9999\r\n\r\n", b" ", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b"", False),
    ],
    ids=["status line", "headers", "body", "stream", "error", "hang"],
)
def test_a_server_that_drips_is_given_up_in_time(
    serve: Serve, start: bytes, piece: bytes, stream: bool, put_forward: Callable[[float], None]
) -> None:
    url = serve(drip(start, piece, put_forward))
    with (
        OpenAIChat(url, "m", timeout=100, deadline=1_000, max_retries=99, stream=stream) as chat,
        pytest.raises(ExpertError, match=rf"from {url}/chat/completions within 1000 s in all, none came") as caught,
    ):
        chat.complete([REQUEST])
    assert caught.value.outage


def test_the_timeout_is_for_a_whole_attempt(serve: Serve, put_forward: Callable[[float], None]) -> None:
    url = serve(drip(JSON, chunk(b" "), put_forward))
    with (
        OpenAIChat(url, "m", timeout=100, max_retries=0) as chat,
        pytest.raises(ExpertError, match=r"within 100 s, none came in 1 attempt\."),
    ):
        chat.complete([REQUEST])


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_without_end_is_refused(serve: Serve, monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    monkeypatch.setattr(http_client, "MAX_REPLY_BYTES", 1_000_000)

    def respond(send: Send, over: threading.Event) -> None:
        send(HEAD % (b"application/json", b"Content-Encoding: gzip\r\n") if packed else JSON)
        data = gzip.compress(bytes(2_000_000)) if packed else bytes(65_536)
        while not over.is_set():
            send(chunk(data))

    url = serve(respond)
    with (
        OpenAIChat(url, "m", timeout=60, max_retries=0) as chat,
        pytest.raises(ExpertError, match=r"its answer is longer than 1,000,000 bytes") as caught,
    ):
        chat.complete([REQUEST])
    assert caught.value.outage


def test_half_an_answer_is_an_outage(serve: Serve) -> None:
    def respond(send: Send, over: threading.Event) -> None:
        send(b'HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{"choices": [{"mess')

    url = serve(respond)
    with (
        OpenAIChat(url, "m", max_retries=0) as chat,
        pytest.raises(ExpertError, match="could not reach it in 1 attempt") as caught,
    ):
        chat.complete([REQUEST])
    assert caught.value.outage


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 9999 OK\r\n\r\n",
        b"hello\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: \xff\xfe\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: a/\xff\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\na",
        b"HTTP/1.1 400 No\r\nContent-Type: text/plain; charset=idna\r\nContent-Length: 1\r\n\r\n\xff",
        b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"[" * 200_000,
        b"HTTP/1.1 307 Go\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 307 Go\r\nLocation: /v1/chat/completions\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 429 No\r\nretry-after: 1e400\r\nretry-after-ms: nan\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=range(9),
)
def test_whatever_a_server_sends_is_its_own_fault(serve: Serve, answer: bytes) -> None:
    url = serve(lambda send, over: send(answer))
    with OpenAIChat(url, "m", timeout=60, max_retries=0) as chat, pytest.raises(ExpertError) as caught:
        chat.complete([REQUEST])
    assert caught.value.outage


@pytest.mark.parametrize(
    ("status", "pauses"), [(503, [0.05, 0.25, 1.25, 6.25, 8.0]), (429, [0.25, 1.25, 6.25, 8.0, 8.0])]
)
def test_a_failure_is_tried_again_soon_and_too_many_requests_later(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, status: int, pauses: list[float]
) -> None:
    made, pause = list[float](), http_client.pause

    def noted(*arguments: Any) -> float:
        made.append(pause(*arguments))
        return 0.0

    monkeypatch.setattr(http_client, "pause", noted)
    monkeypatch.setattr("random.uniform", lambda low, high: high)
    url = serve(lambda send, over: send(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status))
    with OpenAIChat(url, "m", max_retries=5) as chat, pytest.raises(ExpertError, match=str(status)):
        chat.complete([REQUEST])
    assert made == pytest.approx(pauses)


def test_a_deadline_must_be_positive() -> None:
    with pytest.raises(OptionError, match="deadline > 0"):
        OpenAIChat("http://127.0.0.1:1/v1", "m", deadline=0)


def test_connections_of_a_chat_that_nobody_has_any_more_are_closed(recwarn: pytest.WarningsRecorder) -> None:
    async def client() -> http_client.HTTPClient:
        made = http_client.HTTPClient("http://127.0.0.1:9/v1", timeout=1.0)
        with pytest.raises(aiohttp.ClientError):
            await made.request()
        return made

    abandoned: list[Any] = [http_client.submit(client()).result()]
    session = abandoned[0]._session
    assert not session.closed
    abandoned.clear()
    gc.collect()
    until(lambda: session.closed, "the session to be closed")
    assert not [one for one in recwarn if issubclass(one.category, ResourceWarning)]
