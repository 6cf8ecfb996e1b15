from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from leftovers import nothing_is_left_by_the_module  # noqa: F401 - the server of all tests keeps threads
from waiting import until

from toolorchestra.envs.bridges.served import Served

pytest.importorskip("openenv", reason="in an environment of its own: pip install 'toolorchestra[openenv,test]'")

import uvloop
from openenv.core import GenericEnvClient

from toolorchestra.envs.bridges import openenv as bridge

pytestmark = pytest.mark.filterwarnings("ignore")  # of OpenEnv and what it brings
ENV = "ToolOrchestra-Restaurant-v0"
ROOT = Path(__file__).parents[3]
uvloop.new_event_loop().close()  # the first one makes a pipe that lasts as long as the process
END = '<tool_call>{"name": "submit", "arguments": {"answer": {}}}</tool_call>'
"""A message that ends an episode, with a wrong answer."""


@pytest.fixture(scope="module")
def url(serving: Callable[..., AbstractContextManager[str]]) -> Iterator[str]:
    with serving(bridge.serve, bridge.make_app(ENV, max_sessions=70), bridge.IDLE_SECONDS) as address:
        yield address


@pytest.fixture
def impatient(serving: Callable[..., AbstractContextManager[str]]) -> Iterator[str]:
    with serving(bridge.serve, bridge.make_app(ENV, max_sessions=1, idle_seconds=1), 1) as address:
        yield address


@pytest.fixture
def narrow(serving: Callable[..., AbstractContextManager[str]]) -> Iterator[str]:
    with serving(bridge.serve, bridge.make_app(ENV, max_sessions=1), bridge.IDLE_SECONDS) as address:
        yield address


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[bridge.OrchestrationServer]:
    """Return the sessions that servers begin."""
    begun: list[bridge.OrchestrationServer] = []
    begin = bridge.OrchestrationServer.__init__

    def kept(session: bridge.OrchestrationServer, shared: bridge.ServedEnvironment) -> None:
        begin(session, shared)
        begun.append(session)

    monkeypatch.setattr(bridge.OrchestrationServer, "__init__", kept)
    return begun


def has_room(url: str) -> bool:
    """Return whether a client gets in."""
    try:
        with GenericEnvClient(base_url=url).sync() as client:
            return not client.reset(seed=0).done
    except Exception as refused:
        if "capacity" in str(refused).lower():
            return False
        raise


def get(url: str, path: str, data: Any = None) -> tuple[int, str]:
    import httpx

    sent = httpx.get(url + path) if data is None else httpx.post(url + path, json=data)
    return sent.status_code, sent.text


def test_its_own_client_finds_the_rewards_of_gymnasium(url: str, reference: Any) -> None:
    with GenericEnvClient(base_url=url).sync() as client:
        for seed in range(6):
            messages, reward = reference(seed)
            begun = client.reset(seed=seed)
            assert begun.observation["tools"]
            results = [client.step({"message": message}) for message in messages]
            assert sum(one.reward for one in results) == reward == 1.0
            assert [one.done for one in results] == [False] * (len(results) - 1) + [True]
            assert results[-1].metadata["outcome"] == "solved"
            client.reset(seed=seed)
            assert client.step({"message": "I cannot help."}).reward == 0.0


def test_calls_may_be_structured_and_a_number_is_text(url: str) -> None:
    with GenericEnvClient(base_url=url).sync() as client:
        client.reset(seed=0)
        call = {"id": "a", "type": "function", "function": {"name": "list_menu", "arguments": "{}"}}
        told = client.step({"message": "", "tool_calls": [call]}).observation
        assert told["messages"][0]["tool_call_id"] == "a"
        assert not client.step({"message": '<tool_call>{"name": "x"}</tool_call>'}).done
        told = client.step({"message": 42}).observation  # verifiers sends a reply that is JSON decoded
        assert "There is no call in this message" in str(told["messages"])


def test_many_sessions_at_once_are_apart(url: str, reference: Any) -> None:
    known = {seed: reference(seed)[0] for seed in range(8)}

    async def play(number: int) -> float:
        async with GenericEnvClient(base_url=url) as client:
            await client.reset(seed=number % 8)
            total = 0.0
            for message in known[number % 8] if number % 3 else ["I cannot help."]:
                total += (await client.step({"message": message})).reward
                await asyncio.sleep(0)
            return total

    async def all_of_them() -> list[float]:
        return await asyncio.gather(*(play(number) for number in range(64)))

    assert asyncio.run(all_of_them()) == [float(bool(number % 3)) for number in range(64)]


def test_a_session_takes_no_thread_of_its_own(url: str) -> None:
    async def threads_with(count: int) -> int:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(count):
                client = await stack.enter_async_context(GenericEnvClient(base_url=url))
                await client.reset(seed=0)
            return threading.active_count()

    assert asyncio.run(threads_with(9)) == asyncio.run(threads_with(1))


def test_it_passes_openenvs_own_validation(url: str) -> None:
    for target in ([str(ROOT / "examples" / "openenv")], ["--url", url, "--timeout", "30"]):
        command = [sys.executable, "-m", "openenv.cli", "validate", *target]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_server_without_room_refuses_a_client(narrow: str) -> None:
    with GenericEnvClient(base_url=narrow).sync() as client:
        client.reset(seed=0)
        other = GenericEnvClient(base_url=narrow).sync()
        with pytest.raises(Exception, match=r"[Cc]apacity|CAPACITY"), other:
            other.reset(seed=0)
    until(lambda: has_room(narrow), "the place is free again")


# ------------------------------------------------------------------------------------------- clients that vanish


def silent(url: str) -> socket.socket:
    """Return a connection that begins an episode, and then neither sends anything nor answers pings."""
    port = int(url.rpartition(":")[2])
    key = base64.b64encode(b"0123456789abcdef").decode()
    raw = socket.create_connection(("127.0.0.1", port))
    raw.sendall(
        f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    assert b"101" in raw.recv(1024)
    text = json.dumps({"type": "reset", "data": {"seed": 0}}).encode()
    raw.sendall(bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text)  # masked with zeros
    assert raw.recv(1024)
    return raw


def test_a_client_that_vanishes_frees_its_state_within_its_time(impatient: str, freed: list[Served]) -> None:
    with silent(impatient):  # it never closes
        until(lambda: freed, "the state is freed")
        until(lambda: has_room(impatient), "its place is free")


def test_a_client_whose_connection_breaks_frees_its_state_at_once(url: str, freed: list[Served]) -> None:
    silent(url).close()
    until(lambda: freed, "the state is freed")
    assert len(freed) == 1


def test_a_client_that_writes_in_time_is_not_idle(
    url: str, sessions: list[bridge.OrchestrationServer], freed: list[Served]
) -> None:
    with GenericEnvClient(base_url=url).sync() as client:
        client.reset(seed=0)
        first: Any = sessions[-1]._timer
        assert not client.step({"message": '<tool_call>{"name": "list_menu"}</tool_call>'}).done
        second: Any = sessions[-1]._timer
        assert (first.cancelled(), second.cancelled()) == (True, False)
        assert second.when() > first.when()
        assert not freed


def test_a_client_that_is_idle_frees_its_state_and_is_told(
    serving: Callable[..., AbstractContextManager[str]], freed: list[Served]
) -> None:
    app = bridge.make_app(ENV, max_sessions=1, idle_seconds=1)
    with serving(bridge.serve, app, bridge.IDLE_SECONDS) as url, GenericEnvClient(base_url=url).sync() as client:
        client.reset(seed=0)
        until(lambda: freed, "the state is freed")
        assert len(freed) == 1
        with pytest.raises(RuntimeError, match="idle for too long"):
            client.step({"message": "Hello?"})


# ------------------------------------------------------------------------------------------------------- attacks


def test_a_client_cannot_reach_another_session(url: str) -> None:
    with GenericEnvClient(base_url=url).sync() as victim, GenericEnvClient(base_url=url).sync() as attacker:
        victim.reset(seed=3, episode_id="mine")
        attacker.reset(seed=3, episode_id="mine")
        assert attacker.step({"message": END}).done
        assert attacker.state() == {"episode_id": "mine", "step_count": 1}
        assert victim.state() == {"episode_id": "mine", "step_count": 0}
        assert json.loads(get(url, "/state")[1]) == {"episode_id": None, "step_count": 0}
        assert get(url, "/step", {"action": {"message": END}, "episode_id": "mine"})[0] == 400
        assert not victim.step({"message": '<tool_call>{"name": "list_menu"}</tool_call>'}).done
    for name in ("mine", "0", "../mine"):
        guess = GenericEnvClient(base_url=f"{url}").sync()
        guess._async._ws_url += f"?session_id={name}"
        with pytest.raises(Exception, match="Unknown session_id"), guess:
            guess.reset()


def test_nothing_that_a_client_is_sent_tells_the_reference(url: str) -> None:
    env = gym.make(ENV)
    shown: list[str] = [get(url, path)[1] for path in ("/metadata", "/schema", "/state", "/openapi.json")]
    shown.append(get(url, f"/{ENV}/tasks", {"split": "test"})[1])
    shown.append(get(url, f"/{ENV}/task", {"split": "test", "index": 0})[1])
    secrets = set()
    with GenericEnvClient(base_url=url).sync() as client:
        for seed in range(30):
            env.reset(seed=seed)
            task = env.unwrapped.task  # type: ignore[attr-defined]
            secrets |= {task.answer} | {json.dumps(call.arguments) for call in task.reference_calls if call.arguments}
            shown += [str(client.reset(seed=seed)), str(client.step({"message": END})), str(client.state())]
            env.step(END)
            secrets.add(env.unwrapped.episode.why)  # type: ignore[attr-defined]  # it says what was expected
    text = "\n".join(shown)
    assert len(secrets) > 40
    assert not [secret for secret in secrets if secret in text]


@pytest.mark.parametrize(
    "chosen", [{"preference": "/etc/passwd"}, {"tasks": "x.jsonl"}, {"catalog": "x.yaml"}, {"seed": []}, {"split": {}}]
)
def test_a_client_cannot_choose_what_is_not_its_own(url: str, chosen: dict[str, Any]) -> None:
    with GenericEnvClient(base_url=url).sync() as client:
        with pytest.raises(RuntimeError, match="EXECUTION_ERROR"):
            client.reset(**chosen)
        assert not client.reset(seed=0).done  # and the session goes on


@pytest.mark.parametrize(
    "action", [{}, {"message": "x", "tool_calls": "no"}, {"message": "x", "extra": 1}, {"tool_calls": [[]]}]
)
def test_a_malformed_action_is_refused_and_the_session_goes_on(url: str, action: dict[str, Any]) -> None:
    with GenericEnvClient(base_url=url).sync() as client:
        client.reset(seed=0)
        with pytest.raises(RuntimeError, match="VALIDATION_ERROR"):
            client.step(action)
        assert client.step({"message": END}).done


def test_a_message_beyond_the_limit_ends_its_own_connection_only(url: str) -> None:
    with GenericEnvClient(base_url=url).sync() as other:
        other.reset(seed=0)
        with GenericEnvClient(base_url=url).sync() as huge:
            huge.reset(seed=0)
            with pytest.raises(Exception, match=r"(?i)1009|closed|connect"):
                huge.step({"message": "x" * (bridge.MAX_FRAME + 1)})
        assert other.step({"message": END}).done


def test_a_failure_of_the_server_is_not_shown(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("a secret of the server")

    with GenericEnvClient(base_url=url).sync() as client:
        client.reset(seed=0)
        monkeypatch.setattr(Served, "step", fail)
        with pytest.raises(RuntimeError, match="The server failed; its log says why") as caught:
            client.step({"message": "Hello."})
    assert "secret" not in str(caught.value)
