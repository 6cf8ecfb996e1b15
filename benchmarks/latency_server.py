"""An OpenAI-compatible server that answers after given latencies: five replies an episode, four calls and an answer.

    python benchmarks/latency_server.py --port PORT --latency 0.2 [--sigma 1.2] [--fails 50]

It counts the requests that it gets (``GET /count``). It does as little as it can, so that a client beside it on the
same machine is measured, not the server.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from harness import cli, free_port

CALL = '<tool_call>{"name": "look_calendar", "arguments": {"expression": "tomorrow"}}</tool_call>'
REPLIES = 5
WRITTEN = (b'"role":"assistant"', b'"role": "assistant"')


def response(status: str, body: object) -> bytes:
    """Return a whole HTTP response."""
    content = json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


def completion(text: str) -> bytes:
    """Return the response that holds a reply."""
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    made = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    return response("200 OK", made)


class Latencies:
    """Seconds of each request in turn: constant, or lognormal with the same mean; and which requests fail."""

    def __init__(self, mean: float, sigma: float, fails: int) -> None:
        self.mean, self.sigma, self.fails = mean, sigma, fails
        self.rng, self.requests = random.Random(0), 0

    def next(self) -> tuple[float, bool]:
        """Return the seconds until the next answer, and whether it is a failure, which comes at once."""
        self.requests += 1
        if self.fails and self.requests % self.fails == 0:
            return 0.0, True
        if not self.sigma:
            return self.mean, False
        return self.rng.lognormvariate(math.log(self.mean) - self.sigma**2 / 2, self.sigma), False


class Connection(asyncio.Protocol):
    """One client, whose requests are read one after the other."""

    latencies: Latencies
    replies = (completion(CALL), completion("I do not know."))
    failure = response("503 Service Unavailable", {"error": {"message": "try again"}})

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.received = transport, b""

    def data_received(self, data: bytes) -> None:
        """Answer a request once it is whole."""
        self.received += data
        end = self.received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.received[:end].lower()
        if head.startswith(b"get"):
            self.received = b""
            self.transport.write(response("200 OK", self.latencies.requests))
            return
        size = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        if len(self.received) < end + 4 + size:
            return
        body, self.received = self.received[end + 4 : end + 4 + size], self.received[end + 4 + size :]
        seconds, fails = self.latencies.next()
        last = sum(map(body.count, WRITTEN)) >= REPLIES - 1
        answer = self.failure if fails else self.replies[last]
        asyncio.get_running_loop().call_later(seconds, self.transport.write, answer)


@contextmanager
def served(*options: object) -> Iterator[str]:
    """Start the server in a process of its own, and yield its address."""
    port = free_port()
    command = [sys.executable, __file__, "--port", str(port), *map(str, options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()


async def serve(port: int) -> None:
    """Serve until the process is ended."""
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=4096)
    print("ready", flush=True)
    await server.serve_forever()


def main(port: int, latency: float = 0.2, sigma: float = 0.0, fails: int = 0) -> None:
    """Answer after a latency, constant or lognormal with a sigma; of so many requests one fails, of 0 none."""
    Connection.latencies = Latencies(latency, sigma, fails)
    asyncio.run(serve(port))


if __name__ == "__main__":
    cli(main)
