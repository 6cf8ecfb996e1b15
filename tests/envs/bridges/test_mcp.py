from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from answering import right
from waiting import until

from toolorchestra.agents.messages.reading import read_message
from toolorchestra.envs.bridges.served import Served
from toolorchestra.toolscale.common.errors import OptionError

pytest.importorskip("mcp.server.mcpserver", reason="needs pip install 'toolorchestra[mcp]'")

from mcp import Client, MCPError, StdioServerParameters
from mcp.types import CallToolResult

from toolorchestra.envs.bridges import mcp as bridge

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the package and what it brings
ENV = "ToolOrchestra-Restaurant-v0"


@pytest.fixture(scope="module")
def url(serving: Callable[..., AbstractContextManager[str]]) -> Iterator[str]:
    with serving(bridge.serve, bridge.make_app(ENV, max_sessions=40)) as address:
        yield f"{address}/mcp"


@pytest.fixture
def impatient(serving: Callable[..., AbstractContextManager[str]], forward: Callable[[float], None]) -> Iterator[str]:
    with serving(bridge.serve, bridge.make_app(ENV, max_sessions=1, idle_seconds=1000)) as address:
        yield f"{address}/mcp"


def stdio() -> StdioServerParameters:
    """Return how the command is started by a client."""
    command = ["-m", "toolorchestra", "serve", ENV, "--protocol", "mcp-stdio"]
    return StdioServerParameters(
        command=sys.executable, args=command, env={"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    )


def with_client(target: Any, play: Callable[[Client], Awaitable[Any]], **options: Any) -> Any:
    """Play with the package's own client."""

    async def run() -> Any:
        async with Client(target, **options) as client:
            return await play(client)

    return asyncio.run(run())


def text_of(result: CallToolResult) -> str:
    return "".join(block.text for block in result.content)  # type: ignore[union-attr]


async def played(client: Client, seed: int, messages: list[str]) -> tuple[float, str]:
    """Play messages of a trajectory, each of one call or the answer; return the sum of rewards and the last text."""
    await client.call_tool("reset", {"seed": seed})
    total, text = 0.0, ""
    for message in map(read_message, messages):
        calls = [(call.name, json.loads(call.arguments)) for call in message.calls]
        for name, arguments in calls or [("submit", {"answer": {}, "message": message.text})]:
            result = await client.call_tool(name, arguments)
            total += result.meta["toolorchestra/episode"]["reward"]  # type: ignore[index]
            text = text_of(result)
    return total, text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_its_own_client_finds_the_rewards_of_gymnasium_over_http(url: str, reference: Any, mode: str) -> None:
    async def play(client: Client) -> None:
        listed = [tool.name for tool in (await client.list_tools()).tools]
        assert (listed[0], listed[-1], len(listed)) == ("reset", "submit", 53)
        for seed in range(4):
            messages, reward = reference(seed)
            total, text = await played(client, seed, messages)
            assert (total, text.splitlines()[-1]) == (reward, '{"outcome": "solved", "reward": 1.0}')
            assert (await played(client, seed, ["I cannot help."]))[0] == 0.0

    with_client(url, play, mode=mode)


def children() -> list[Path]:
    """Return what says how the children of this process were started."""
    found = subprocess.run(["pgrep", "-P", str(os.getpid())], capture_output=True, text=True, check=False).stdout
    return [Path(f"/proc/{pid}/cmdline") for pid in found.split()]


def test_its_own_client_finds_the_rewards_of_gymnasium_over_stdio(reference: Any) -> None:
    started: list[Path] = []

    async def play(client: Client) -> None:
        started.extend(file for file in children() if b"mcp-stdio" in file.read_bytes())
        for seed in range(3):
            messages, reward = reference(seed)
            assert (await played(client, seed, messages))[0] == reward == 1.0

    with_client(stdio(), play)
    assert len(started) == 1
    assert not started[0].exists()  # the process ends with its client


def test_the_request_and_the_results_are_those_of_gymnasium(url: str) -> None:
    env = gym.make(ENV)
    _, info = env.reset(seed=1)
    opening = "\n\n".join(message["content"] for message in info["messages"])
    *_, after = env.step([{"name": "find_dish", "arguments": {"text": "soup"}}])
    env.step([{"name": "no_such_tool", "arguments": {}}])

    async def play(client: Client) -> None:
        assert text_of(await client.call_tool("reset", {"seed": 1})) == opening
        schemas = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
        assert all(schemas[tool["function"]["name"]] == tool["function"]["parameters"] for tool in info["tools"])
        result = await client.call_tool("find_dish", {"text": "soup"})
        assert text_of(result) == after["messages"][-1]["content"]
        assert result.is_error is (json.loads(text_of(result))["status"] != "OK")
        wrong = await client.call_tool("no_such_tool", {})
        assert wrong.is_error
        assert "Unknown tool" in text_of(wrong)

    with_client(url, play)


def test_what_is_wrong_is_said_and_the_session_goes_on(url: str) -> None:
    async def play(client: Client) -> None:
        for name, arguments, expected in (
            ("find_dish", {}, "call `reset` first"),
            ("answer", {"text": "No."}, "call `reset` first"),
            ("reset", {"tools": "full"}, "Unknown choice at a reset 'tools'"),
            ("reset", {"preference": "/etc/passwd"}, "an object of weights"),
            ("reset", {"seed": "0"}, "`seed` must be"),
        ):
            result = await client.call_tool(name, arguments)
            assert result.is_error
            assert expected in text_of(result)
        await client.call_tool("reset", {"split": "test", "index": 2})
        assert "`text`, which is a string" in text_of(await client.call_tool("answer", {"text": 1}))
        assert "`text`, which is a string" in text_of(await client.call_tool("answer", {"text": "a", "more": 1}))
        assert not (await client.call_tool("answer", {"text": "No."})).is_error
        over = await client.call_tool("answer", {"text": "No."})
        assert over.is_error
        assert "The episode is over" in text_of(over)

    with_client(url, play)


def test_a_failure_of_the_server_is_not_shown(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("a secret of the server")

    async def play(client: Client) -> None:
        await client.call_tool("reset", {"seed": 0})
        monkeypatch.setattr(Served, "step", fail)
        text = text_of(await client.call_tool("answer", {"text": "No."}))
        assert "its log says why" in text
        assert "secret" not in text

    with_client(url, play)


def test_other_tools_are_listed_after_the_reset() -> None:
    server = bridge.EnvironmentServer("ToolOrchestra-All-v0")
    session = bridge.McpSession(server)
    domains = set()
    for seed in range(6):
        result = asyncio.run(session.call("reset", {"seed": seed}))
        domains.add(result.meta["toolorchestra/episode"]["task_id"].partition("/")[0])  # type: ignore[index]
        names = {tool.name for tool in session.tools}
        episode = session._game.episode  # type: ignore[union-attr]
        assert names == {*episode.tools, "reset"}
    assert len(domains) > 1
    session.close()


@pytest.mark.parametrize("env", ["MSARL-Math-v0", "Dialogue-Restaurant-v0"])
def test_several_agents_are_refused(env: str) -> None:
    with pytest.raises(OptionError, match="no environment of one agent"):
        bridge.EnvironmentServer(env)


def test_tools_are_not_listed_in_messages_as_well() -> None:
    with pytest.raises(OptionError, match="`schemas` must be full, got short: a client of MCP shows the tools"):
        bridge.EnvironmentServer(ENV, {"schemas": "short"})


def test_a_design_is_given_as_the_answer() -> None:
    session = bridge.McpSession(bridge.EnvironmentServer("MASOrchestra-Low-Math-v0"))
    asyncio.run(session.call("reset", {"seed": 0}))
    result = asyncio.run(session.call("answer", {"text": "no design"}))
    assert result.meta["toolorchestra/episode"]["done"]  # type: ignore[index]


def test_a_question_is_answered_with_submit_too() -> None:
    server = bridge.EnvironmentServer("ToolOrchestra-Math-v0")
    assert [tool.name for tool in server.tools] == ["reset", "calculator", "submit"]
    session = bridge.McpSession(server)
    for tried in ("{} or 1", "{}"):
        asyncio.run(session.call("reset", {"seed": 1}))
        right = session._game.env.unwrapped.task.communicate[0][0]  # type: ignore[union-attr]
        result = asyncio.run(session.call("submit", {"answer": tried.format(right)}))
        about = result.meta["toolorchestra/episode"]  # type: ignore[index]
        assert (about["done"], about["reward"]) == (True, float(tried == "{}"))
    session.close()
    alone = bridge.EnvironmentServer("ToolOrchestra-Math-v0", {"tools": "none"})
    assert [tool.name for tool in alone.tools] == ["reset", "answer"]


# ------------------------------------------------------------------------------------------------------- sessions


def test_many_sessions_at_once_are_apart(url: str, reference: Any) -> None:
    known = {seed: reference(seed)[0] for seed in range(4)}

    async def one(number: int) -> float:
        async with Client(url) as client:
            seed = number % 4
            return (await played(client, seed, known[seed] if number % 3 else ["I cannot help."]))[0]

    async def all_of_them() -> list[float]:
        return await asyncio.gather(*(one(number) for number in range(24)))

    assert asyncio.run(all_of_them()) == [float(bool(number % 3)) for number in range(24)]


def wait_for(freed: list[Served], forward: Callable[[float], None] = lambda seconds: None) -> None:
    """Wait until a state is freed, and require that it is one.

    `forward` lets the idle time pass, more than once: it counts from the end of the server's last answer.
    """

    def passed() -> bool:
        forward(1001)
        return bool(freed)

    until(passed, "the state is freed")
    assert len(freed) == 1


def raw(url: str, method: str, params: Any, session: str | None = None, http: str = "POST") -> Any:
    """Send a request without the package's client."""
    import httpx2

    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
    if session is not None:
        headers["mcp-session-id"] = session
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    with httpx2.stream(http, url, headers=headers, json=body, timeout=60) as answer:
        if "event-stream" not in answer.headers.get("content-type", ""):  # it has no end
            answer.read()
        return answer


def raw_session(url: str) -> str:
    """Open a session that says nothing more unless told."""
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    opened = raw(url, "initialize", about)
    assert opened.status_code == 200, opened.text
    return str(opened.headers["mcp-session-id"])


def call(url: str, session: str, name: str, arguments: Any) -> Any:
    return raw(url, "tools/call", {"name": name, "arguments": arguments}, session)


def test_a_client_that_leaves_frees_its_state_at_once(url: str, freed: list[Served]) -> None:
    async def play(client: Client) -> None:
        await client.call_tool("reset", {"seed": 0})

    with_client(url, play)
    wait_for(freed)


def test_a_client_that_vanishes_frees_its_state_within_its_time(
    impatient: str, freed: list[Served], forward: Callable[[float], None]
) -> None:
    session = raw_session(impatient)
    assert call(impatient, session, "reset", {"seed": 0}).status_code == 200
    assert raw(impatient, "initialize", {}).status_code == 503  # there is room for one
    for _ in range(3):
        forward(600)
        assert call(impatient, session, "find_dish", {"text": "soup"}).status_code == 200
    assert not freed
    wait_for(freed, forward)
    assert call(impatient, session, "find_dish", {"text": "soup"}).status_code == 404
    assert raw_session(impatient)  # and its place


def test_no_stream_is_held_open_for_a_client_that_vanishes(
    impatient: str, freed: list[Served], forward: Callable[[float], None]
) -> None:
    session = raw_session(impatient)
    call(impatient, session, "reset", {"seed": 0})
    assert raw(impatient, "", {}, session, http="GET").status_code == 405
    wait_for(freed, forward)


# -------------------------------------------------------------------------------------------------------- attacks


def test_a_client_cannot_reach_another_session(url: str) -> None:
    victim, attacker = raw_session(url), raw_session(url)
    call(url, victim, "reset", {"seed": 3})
    assert "call `reset` first" in call(url, attacker, "answer", {"text": "No."}).text
    for guess in ("", "0", victim[:-1], victim.upper() + "0", "../" + victim):
        assert call(url, guess, "answer", {"text": "No."}).status_code in (400, 404)
        assert raw(url, "", {}, guess, http="DELETE").status_code in (400, 404)
    assert '"isError":false' in call(url, victim, "answer", {"text": "No."}).text.replace(" ", "")


def test_the_protocol_without_sessions_is_refused(url: str) -> None:
    async def play(client: Client) -> None:
        await client.call_tool("reset", {"seed": 0})

    with pytest.raises((MCPError, ExceptionGroup)) as caught:
        with_client(url, play, mode="2026-07-28")
    error: BaseException = caught.value
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    assert "An episode needs a session" in str(error)


def test_nothing_that_a_client_is_sent_tells_the_reference(url: str) -> None:
    env = gym.make(ENV)
    secrets, shown = set(), list[str]()

    async def play(client: Client) -> None:
        shown.append((await client.list_tools()).model_dump_json())
        for seed in range(20):
            env.reset(seed=seed)
            task = env.unwrapped.task  # type: ignore[attr-defined]
            secrets.update(
                {task.answer, right(env)}, (json.dumps(one.arguments) for one in task.reference_calls if one.arguments)
            )
            shown.append((await client.call_tool("reset", {"seed": seed})).model_dump_json())
            shown.append((await client.call_tool("submit", {"answer": {}})).model_dump_json())
            env.step([{"name": "submit", "arguments": {"answer": {}}}])
            secrets.add(env.unwrapped.episode.why)  # type: ignore[attr-defined]  # it says what was expected

    with_client(url, play)
    text = "\n".join(shown).replace('\\"', '"')
    assert len(secrets) > 30
    assert not [secret for secret in secrets if secret in text]


def test_what_is_malformed_or_too_long_ends_nothing(url: str) -> None:
    session = raw_session(url)
    call(url, session, "reset", {"seed": 0})
    assert raw(url, "tools/call", {"name": 3}, session).json()["error"]
    assert call(url, session, "answer", {"text": "x" * (bridge.MAX_BODY + 1)}).status_code == 413
    assert raw(url, "no/such", {}, session).json()["error"]
    assert '"done":true' in call(url, session, "answer", {"text": "No."}).text.replace(" ", "")


def test_another_host_is_refused(url: str) -> None:
    import httpx2

    assert httpx2.post(url, headers={"host": "evil.example"}, json={}).status_code in (400, 403, 421)


@pytest.mark.parametrize("wrong", [{"max_sessions": 0}, {"idle_seconds": 0.0}])
def test_numbers_must_be_positive(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="positive"):
        bridge.make_app(ENV, **wrong)
