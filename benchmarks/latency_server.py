"""An OpenAI-compatible server that answers after given latencies: five replies an episode, four calls and an answer.

    python benchmarks/latency_server.py PORT --latency 0.2 [--sigma 1.2] [--fails 50]

It counts the requests that it gets (``GET /count``). It does as little as it can, so that a client beside it on the
same machine is measured, not the server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random

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


async def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("--latency", type=float, default=0.2, help="mean seconds of a reply")
    parser.add_argument("--sigma", type=float, default=0.0, help="of the lognormal distribution; 0: constant")
    parser.add_argument("--fails", type=int, default=0, help="every how many requests one fails; 0: none")
    options = parser.parse_args()
    Connection.latencies = Latencies(options.latency, options.sigma, options.fails)
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", options.port, backlog=4096)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
