"""A server on this machine that passes chat completions on to a model's server, and keeps what was answered.

An agent of whatever framework is given its address and a key that is good for nothing else. Not covered: other requests
than chat completions, and trying again what failed: clients do so themselves.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
import msgspec
from aiohttp import web

from toolorchestra.agents.chat.openai_responses import read_reply
from toolorchestra.agents.http_client import MAX_REPLY_BYTES, BrokenOffError, RefusedError, proxy_for
from toolorchestra.envs.bridges.completions import Completions
from toolorchestra.toolscale.common.urls import without_credentials

_KEPT_HEADERS = ("content-type", "retry-after", "retry-after-ms", "x-request-id", "x-should-retry")
"""Headers of the server's answer that the agent is told; others may be secrets, such as cookies."""
_CONNECT_SECONDS = 60.0
_PATIENCE = 0.01
"""Seconds that requests under way have at the end; 0 would be no bound."""
_END = b"[DONE]"
"""The last event of a stream."""


class RecordingProxy:
    """The server; use it in an ``async with`` block.

    Args:
        base_url: Root of the model's server.
        model: The model's name there, whichever name the agent asks for.
        api_key: The server's key, which the agent never sees.
        fields: Further fields of each request's body; a value of None leaves a field out.

    Attributes:
        url: Its own root, once it listens.
        key: The key that it asks for.
        completions: The answers that were whole.
    """

    def __init__(self, base_url: str, model: str, api_key: str | None, fields: Mapping[str, Any]) -> None:
        self._server, self._secret, self._fields = base_url.rstrip("/"), api_key, fields
        self.model, self.url, self.key = model, "", secrets.token_urlsafe(24)
        self.completions = Completions()

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=MAX_REPLY_BYTES)
        application.router.add_post("/v1/chat/completions", self._complete)
        application.router.add_get("/v1/models", self._models)
        application.router.add_route("*", "/{other:.*}", self._other)
        headers = {"Content-Type": "application/json"}
        if not urlsplit(self._server).username:  # a name and password in the address are sent instead of a key
            headers["Authorization"] = f"Bearer {self._secret or 'none'}"
        self._client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=headers,
            timeout=aiohttp.ClientTimeout(None, sock_connect=_CONNECT_SECONDS),
        )
        # a request that nobody waits for any more is given up, and at the end every one
        self._runner = web.AppRunner(
            application, access_log=None, handler_cancellation=True, shutdown_timeout=_PATIENCE
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._runner.cleanup()
        await self._client.close()

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        """Pass a request on, and its answer back; it is kept before its last piece goes back."""
        if (refused := self._refused(request)) is not None:
            return refused
        try:
            body = msgspec.json.decode(await request.read(), type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return _error(400, f"expected a request as a JSON object: {error}")
        asked = {**body, "model": self.model, **self._fields}
        sent = msgspec.json.encode({name: value for name, value in asked.items() if value is not None})
        url = f"{self._server}/chat/completions"
        response: web.StreamResponse | None = None
        try:
            async with self._client.post(url, data=sent, proxy=proxy_for(url)) as answer:
                headers = {name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers}
                if answer.content_type == "text/event-stream" and answer.status < 400:
                    response = web.StreamResponse(headers=headers)
                    await response.prepare(request)
                    await self._pass_on(answer, response)
                    return response
                content = await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            if response is not None:  # the agent's stream breaks off, as this one did
                if request.transport is not None:
                    request.transport.abort()
                return response
            where = without_credentials(self._server)
            return _error(502, f"expected an answer from {where}: {type(error).__name__}")
        if answer.status < 400:
            self._keep(content, answer.headers.get("content-type", ""))
        elif self._secret:
            content = content.replace(self._secret.encode(), b"...")
        return web.Response(status=answer.status, body=content, headers=headers)

    async def _pass_on(self, answer: aiohttp.ClientResponse, response: web.StreamResponse) -> None:
        """Send the pieces of a stream as they come; the answer is kept before its end is known to the agent."""
        content, kept = bytearray(), False
        async for piece in answer.content.iter_any():
            content += piece
            if _END in content[-len(piece) - len(_END) :]:
                kept = kept or self._keep(bytes(content), "text/event-stream")
            await response.write(piece)
        if not kept:
            self._keep(bytes(content), "text/event-stream")
        await response.write_eof()

    def _keep(self, content: bytes, content_type: str) -> bool:
        """Keep an answer, and return whether it is a whole one: if not, the agent's own client finds the same."""
        try:
            self.completions.add(read_reply(content, content_type))
        except (msgspec.DecodeError, UnicodeDecodeError, BrokenOffError, RefusedError):
            return False
        return True

    async def _models(self, request: web.Request) -> web.Response:
        model = {"id": self.model, "object": "model", "created": 0, "owned_by": "toolorchestra"}
        return self._refused(request) or web.json_response({"object": "list", "data": [model]})

    async def _other(self, request: web.Request) -> web.Response:
        text = f"there is no {request.method} {request.path}: only chat completions, at /v1/chat/completions"
        return self._refused(request) or _error(404, text)

    def _refused(self, request: web.Request) -> web.Response | None:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if hmac.compare_digest(given.encode(), self.key.encode()):
            return None
        return _error(401, "expected the key of this episode's session as the bearer token")


def _error(status: int, text: str) -> web.Response:
    """Return an error in OpenAI's form."""
    return web.json_response({"error": {"message": text, "type": "toolorchestra", "code": status}}, status=status)
