"""Ask model servers that fail in every way, and check that each failure is an error of ours, in time.

    python benchmarks/faulty_servers.py

A request holds if it ends within `WITHIN` seconds in an `ExpertError`, or in a completion whose counts and costs are
possible where the server's answer is one.
"""

from __future__ import annotations

import contextlib
import json
import math
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

from campaign import Part

from toolorchestra.agents.chat.base import ChatRequest, Completion, Price
from toolorchestra.agents.chat.openai_chat import OpenAIChat
from toolorchestra.toolscale.common.errors import ExpertError

WITHIN = 20.0
TIMEOUT = 1.0
Behaviour = Callable[[socket.socket], None]


def answer(**changed: object) -> dict[str, object]:
    """Return a right answer of a server, with some fields changed."""
    message = {"role": "assistant", "content": "Four."}
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    whole = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": usage}
    return {**whole, **changed}


def used(prompt: object, completion: object) -> bytes:
    """Return an answer with these counts of tokens."""
    return json.dumps(answer(usage={"prompt_tokens": prompt, "completion_tokens": completion})).encode()


def said(**message: object) -> bytes:
    """Return an answer with this message."""
    choices = [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}]
    return json.dumps(answer(choices=choices)).encode()


def sends(body: bytes, status: str = "200 OK", length: int | None = None, kind: str = "application/json") -> Behaviour:
    """Return a behaviour that sends a body, whose length it may get wrong."""

    def behave(connection: socket.socket) -> None:
        size = len(body) if length is None else length
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode() + body)

    return behave


def hangs(connection: socket.socket) -> None:
    """Say nothing until the client goes."""
    connection.settimeout(WITHIN)
    connection.recv(1)


def drips(connection: socket.socket) -> None:
    """Send a byte now and then, for ever."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n")
    for _ in range(round(3 * WITHIN / (TIMEOUT / 2))):
        connection.sendall(b" ")
        time.sleep(TIMEOUT / 2)


def floods(connection: socket.socket) -> None:
    """Send a body without end."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    for _ in range(2_000):
        connection.sendall(b" " * (1 << 20))


def resets(connection: socket.socket) -> None:
    """Break off at once."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")


RIGHT = json.dumps(answer()).encode()
BEHAVIOURS: dict[str, Behaviour] = {
    **{status: sends(b'{"error": {"message": "no"}}', status) for status in (
        "400 Bad Request", "401 Unauthorized", "403 Forbidden", "404 Not Found", "409 Conflict", "413 Too Large",
        "422 Unprocessable", "429 Too Many Requests", "500 Internal Server Error", "502 Bad Gateway", "503 Busy",
    )},
    "a redirect to itself": sends(b"", "302 Found\r\nLocation: /v1/chat/completions"),
    "a page": sends(b"<html><body>Welcome</body></html>", kind="text/html"),
    "nothing": sends(b""),
    "no answer at all": lambda connection: None,
    "a reset": resets,
    "garbage": lambda connection: connection.sendall(bytes(range(256)) * 16),
    "half a body": sends(RIGHT[: len(RIGHT) // 2], length=len(RIGHT)),
    "half of JSON": sends(RIGHT[: len(RIGHT) // 2]),
    "no JSON": sends(b"\x00\xff\xfe"),
    "null": sends(b"null"),
    "a list": sends(b"[]"),
    "no choices": sends(json.dumps(answer(choices=[])).encode()),
    "null for choices": sends(json.dumps(answer(choices=None)).encode()),
    "choices of another kind": sends(json.dumps(answer(choices="Four.")).encode()),
    "no usage": sends(json.dumps(answer(usage=None)).encode()),
    "a negative usage": sends(used(-5, -1_000_000)),
    "an absurd usage": sends(used(10**30, 10**30)),
    "a usage of text": sends(used("many", [])),
    "a usage that is no number": sends(used(math.nan, math.inf)),
    "content of another kind": sends(said(content={"a": [1]})),
    "no content": sends(said(content=None)),
    "deep nesting": sends(b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "control characters": sends(said(content="\x1b]0;owned\x07\x00\ud800")),
    "calls of another kind": sends(said(content="", tool_calls=[{"id": 1, "function": "stop"}, 7, None])),
    "a call without a name": sends(said(content="", tool_calls=[{"id": "1", "type": "function", "function": {}}])),
    "a hang": hangs,
    "a byte now and then": drips,
    "a body without end": floods,
}  # fmt: skip
"""What servers do."""


@contextlib.contextmanager
def served(behave: Behaviour) -> Iterator[str]:
    """Yield the URL of a server that behaves so."""
    listener = socket.create_server(("127.0.0.1", 0))

    def handle(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(WITHIN)
            connection.recv(1 << 16)
            behave(connection)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=handle, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def fault_of(behave: Behaviour) -> str | None:
    """Ask a server once and return what did not hold."""
    with served(behave) as url:
        chat = OpenAIChat(url, "m", price=Price(1.0, 1.0), timeout=TIMEOUT, max_retries=0)
        start = time.perf_counter()
        try:
            (found,) = chat.complete([ChatRequest([{"role": "user", "content": "Two and two?"}])])
        except ExpertError:
            found = None
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:300]
        finally:
            chat.close()
        seconds = time.perf_counter() - start
    if seconds > WITHIN:
        return f"it took {seconds:.0f} s, at most {WITHIN:g}"
    return None if found is None else impossible(found)


def impossible(found: Completion) -> str | None:
    """Return what cannot be in a completion."""
    if not isinstance(found.text, str):
        return f"a text of the type {type(found.text).__name__}"
    counts = found.prompt_tokens, found.completion_tokens
    if not all(isinstance(count, int) and 0 <= count < 10**9 for count in counts):
        return f"counts of tokens {counts}"
    return None if 0 <= found.cost < 1e4 else f"a cost of {found.cost}"


def campaign() -> list[Part]:
    """Ask every server."""
    part = Part("servers: faulty")
    for name, behave in BEHAVIOURS.items():
        start = time.perf_counter()
        fault = fault_of(behave)
        part.note(name, time.perf_counter() - start, fault)
    return [part]


if __name__ == "__main__":
    (found,) = campaign()
    for one in found.faults:
        print(one, file=sys.stderr)
    print(f"{found.tried} tried, {found.held} held, the slowest {found.slowest:.1f} s: {found.slowest_is}")
    sys.exit(found.held != found.tried)
