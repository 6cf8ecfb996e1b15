"""HTTP for MCP servers that are not trusted: responses of bounded size, not compressed, and no redirects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import httpx2


def bounded_client(headers: Mapping[str, str], seconds: float, most: int) -> httpx2.AsyncClient:
    """Return a client of HTTP.

    Args:
        headers: Headers of every request.
        seconds: Seconds that connecting, and each read, may take.
        most: Maximum bytes of a response; of a stream of events the reader bounds each event.
    """
    return httpx2.AsyncClient(
        headers={**headers, "accept-encoding": "identity"},
        timeout=seconds,
        transport=_Bounded(most),
        follow_redirects=False,
    )


class _Bounded(httpx2.AsyncHTTPTransport):
    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":  # a small one may become a large one
            await response.aclose()
            raise httpx2.RemoteProtocolError("the response is compressed, which was not asked for")
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Counted(response.stream, self._most)
        return response


class _Counted(httpx2.AsyncByteStream):
    """A stream that ends in an error beyond a number of bytes."""

    def __init__(self, stream: httpx2.AsyncByteStream, most: int) -> None:
        self._stream, self._most = stream, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for part in self._stream:
            read += len(part)
            if read > self._most:
                raise httpx2.RemoteProtocolError(f"the response has more than {self._most} bytes")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()
