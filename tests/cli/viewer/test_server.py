from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from toolorchestra.agents.event_loop import run
from toolorchestra.cli.viewer.pages import Answers
from toolorchestra.toolscale.common.errors import OptionError

pytest.importorskip("starlette", reason="comes with the extra `view`: pip install 'toolorchestra[view]'")
pytest.importorskip("uvicorn", reason="comes with the extra `view`: pip install 'toolorchestra[view]'")
httpx = pytest.importorskip("httpx", reason="speaks to the application: pip install httpx")


def get(answers: Answers, path: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> Any:
    from toolorchestra.cli.viewer.server import make_app

    async def ask() -> Any:
        transport = httpx.ASGITransport(make_app(answers, "secret"))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1234") as client:
            return await client.request(method, path, headers=dict(headers or {}))

    return run(ask())


def test_only_who_knows_the_token_is_answered(answers: Answers) -> None:
    assert get(answers, "/secret/").status_code == 200
    assert get(answers, "/secret/api/state").json()["episodes"] == 46
    for path in ("/", "/other/", "/other/api/state", "/other/api/news", "/other/main.js", "/secre%CC%81t/"):
        assert get(answers, path).status_code in (403, 404), path


def test_news_come_when_something_has_grown_and_end_with_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    from toolorchestra.cli.viewer import server

    monkeypatch.setattr(server, "NEWS_SECONDS", 0.0)
    looks = iter([[1], [1], [1], [2], [2], [3]])
    answers: Any = SimpleNamespace(news=lambda: next(looks))
    ended = asyncio.Event()

    async def told() -> list[str]:
        stream = server.news(answers, ended.is_set)
        found = [await anext(stream) for _ in range(3)]
        ended.set()
        return found + [one async for one in stream]

    assert run(told()) == ["data: [1]\n\n", "data: [2]\n\n", "data: [3]\n\n"]


def test_what_grows_is_news(answers: Answers, run_folder: Path) -> None:
    metrics = run_folder / "metrics.jsonl"
    before = metrics.read_bytes()
    *same, sizes = answers.news()
    assert sizes == [len(before)]
    try:
        metrics.write_bytes(before + b'{"phase": "grpo", "step": 6, "kind": "train"}\n')
        assert answers.news() == [*same, [len(before) + 46]]
    finally:
        metrics.write_bytes(before)


@pytest.mark.parametrize(("host", "status"), [("localhost:80", 200), ("127.0.0.1", 200), ("evil.example:1234", 400)])
def test_requests_under_another_name_of_host_are_refused(answers: Answers, host: str, status: int) -> None:
    assert get(answers, "/secret/api/state", {"Host": host}).status_code == status


def test_the_page_may_load_and_send_nothing_but_what_is_here(answers: Answers) -> None:
    for path in ("/secret/", "/secret/main.js", "/secret/api/state", "/secret/nothing.js", "/other/"):
        headers = get(answers, path).headers
        policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["connect-src"] == "'self'"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize("path", ["..%2fserver.py", "%2e%2e/server.py", "api/episodes/999999", "api/episodes?order=x"])
def test_what_is_not_there_is_an_error_of_the_request(answers: Answers, path: str) -> None:
    assert get(answers, f"/secret/{path}").status_code in (400, 403, 404)
    assert get(answers, f"/secret/{path}", method="POST").status_code in (400, 403, 404, 405)


def test_a_port_that_is_taken_is_named(answers: Answers) -> None:
    from toolorchestra.cli.viewer.server import serve

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OptionError, match=f"Port {port} cannot be used"):
            serve(answers, port=port)
