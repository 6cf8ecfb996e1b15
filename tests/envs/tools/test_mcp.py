from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from answering import wrong

import toolorchestra
from toolorchestra.agents.policies.reference import OraclePolicy
from toolorchestra.toolscale.common.errors import ExpertError, OptionError, UnknownNameError
from toolorchestra.toolscale.tools.tool import ToolContext

pytest.importorskip("mcp.server.mcpserver", reason="needs pip install 'toolorchestra[mcp]'")

from toolorchestra.envs.tools.mcp import McpTools
from toolorchestra.envs.tools.mcp_results import MAX_RESULT
from toolorchestra.envs.tools.mcp_servers import read_servers

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the package and what it brings
ENV = "ToolOrchestra-Restaurant-v0"
SERVER = Path(__file__).parents[2] / "data" / "mcp_notes.py"
NAMES = ["note", "slow", "hostile", "tagged", "structured", "fail", "die", "odd_name_of_a_tool"]


def by_stdio(**more: Any) -> dict[str, Any]:
    return {"mcpServers": {"notes": {"command": sys.executable, "args": [str(SERVER)], **more}}}


@pytest.fixture(scope="module")
def url(start: Callable[..., Any]) -> Iterator[str]:
    server = start([sys.executable, str(SERVER), "{port}"])
    yield server.url.removesuffix("/v1") + "/mcp"
    server.kill()


@pytest.fixture
def env(url: str) -> Iterator[gym.Env[Any, Any]]:
    made = gym.make(ENV, mcp={"notes": {"url": url, "timeout": 60.0, "price": 0.25, "latency": 2.0}})
    yield made
    made.close()


def called(env: gym.Env[Any, Any], name: str, **arguments: Any) -> Any:
    """Call a tool and return its record."""
    *_, info = env.step([{"name": name, "arguments": arguments}])
    return info["calls"][0]


def test_the_tools_of_a_server_are_tools_of_the_environment(env: gym.Env[Any, Any]) -> None:
    _, info = env.reset(seed=0)
    schemas = {tool["function"]["name"]: tool["function"] for tool in info["tools"]}
    assert list(schemas)[-8:] == NAMES
    assert schemas["note"]["parameters"]["required"] == ["text"]
    assert schemas["note"]["description"] == "Keep a note, and say how many there are."
    record = called(env, "note", text="soup")
    assert (record.status, record.value, record.cost) == ("OK", {"result": "1 notes"}, 0.25)
    assert record.end - record.start == 2.0
    assert called(env, "odd_name_of_a_tool").value == {"result": "odd"}


def test_each_episode_has_a_session_of_its_own_which_ends_with_it(env: gym.Env[Any, Any]) -> None:
    for seed in range(2):
        env.reset(seed=seed)
        assert [called(env, "note", text="a").value["result"] for _ in range(2)] == ["1 notes", "2 notes"]
        if seed:
            env.step(wrong(env))
            tools: McpTools = env.unwrapped._mcp  # type: ignore[attr-defined]
            assert tools._connections._thread is None  # it holds nothing open


def test_a_process_of_stdio_lives_for_one_episode(tmp_path: Path) -> None:
    file = tmp_path / "servers.json"
    file.write_text(json.dumps(by_stdio(tools=["note"])), encoding="utf-8")
    env = gym.make(ENV, mcp=str(file))

    def processes() -> list[str]:
        found = subprocess.run(["pgrep", "-f", str(SERVER)], capture_output=True, text=True, check=False).stdout
        mine = [pid for pid in found.split() if Path(f"/proc/{pid}/stat").exists()]
        return [pid for pid in mine if Path(f"/proc/{pid}/stat").read_text().split()[3] == str(os.getpid())]

    before = processes()
    for seed in range(2):
        env.reset(seed=seed)
        assert processes() == before
        assert called(env, "note", text="a").value == {"result": "1 notes"}
        assert len(processes()) == len(before) + 1
        env.step(wrong(env))
        assert processes() == before


def test_the_reward_is_that_of_the_environment_without_servers(env: gym.Env[Any, Any]) -> None:
    plain = gym.make(ENV)
    for seed in range(3):
        for one in (env, plain):
            observation, info = one.reset(seed=seed)
            policy = OraclePolicy()
            policy.reset(one, observation, info)
            if one is env:
                called(one, "note", text="Before all else.")
            over = False
            while not over:
                observation, reward, terminated, truncated, info = one.step(policy.act(observation, info))
                over = terminated or truncated
            assert reward == 1.0


def test_calls_that_read_run_at_the_same_time(env: gym.Env[Any, Any]) -> None:
    env.reset(seed=0)
    *_, info = env.step([{"name": "slow", "arguments": {"together": 4}}] * 4)  # each ends when all have begun
    assert [one.value for one in info["calls"]] == [{"result": "done"}] * 4


def test_the_tools_are_methods_for_trl(url: str) -> None:
    transformers = pytest.importorskip("transformers", reason="needs pip install 'toolorchestra[train]'")
    methods: Any = toolorchestra.trl.environment(ENV, mcp=url)()
    methods.reset(seed=0)
    assert "1 notes" in methods.note(text="a")
    assert "['a'] 3" in methods.tagged(tags={"a": 1}, limit=3)
    schema = transformers.utils.get_json_schema(type(methods).tagged)["function"]["parameters"]["properties"]
    assert schema["tags"]["type"] == "object"
    methods.submit(answer={}, message="No.")


# ---------------------------------------------------------------------------------------------- what goes wrong


def test_what_a_server_refuses_is_an_error_of_the_call(env: gym.Env[Any, Any]) -> None:
    env.reset(seed=0)
    assert called(env, "fail").status == "EXEC_ERR"
    assert called(env, "note", text=[1]).status == "EXEC_ERR"
    missing = called(env, "note")
    assert (missing.status, "needs the argument 'text'" in missing.error) == ("PARSE_ERR", True)
    env.step('<tool_call>{"name": "note", "arguments": [1]}</tool_call>')
    assert called(env, "note", text="still there").status == "OK"


@pytest.mark.parametrize(
    ("outages", "name", "arguments", "status"),
    [("infra_error", "slow", {"together": 2}, None), ("observed", "slow", {"together": 2}, "TIMEOUT"),
     ("infra_error", "die", {}, None), ("observed", "die", {}, "EXEC_ERR")],
)  # fmt: skip
def test_a_server_that_hangs_or_dies_is_an_outage(
    url: str, outages: str, name: str, arguments: dict[str, Any], status: str | None
) -> None:
    given = by_stdio() if name == "die" else {"notes": {"url": url, "timeout": 2.0}}
    env = gym.make(ENV, mcp=given, outages=outages)
    env.reset(seed=0)
    *_, truncated, info = env.step([{"name": name, "arguments": arguments}])  # no second call comes: it has no end
    if status is None:
        assert (truncated, info["outcome"]) == (True, "infra_error")
    else:
        assert info["calls"][0].status == status
        assert not truncated
    env.close()


def test_a_text_of_a_server_cannot_pass_for_the_environments(env: gym.Env[Any, Any]) -> None:
    _, info = env.reset(seed=0)
    described = next(tool["function"] for tool in info["tools"] if tool["function"]["name"] == "hostile")["description"]
    assert "<tool_call>" not in described
    observation, *_, info = env.step([{"name": "hostile", "arguments": {}}])
    assert observation.count("tool_response>") == 2 + 1  # the environment's own, and a mark without its bracket
    assert "</tool_response>" not in info["calls"][0].value
    assert not {"\x1b", "\u202e"} & set(info["calls"][0].value)
    assert "(image, not shown)" in info["calls"][0].value
    assert called(env, "structured").value == {"found": ["a [31m", "&lt;/tool_response>"]}


def test_a_result_is_cut(env: gym.Env[Any, Any]) -> None:
    env.reset(seed=0)
    observation, *_, info = env.step([{"name": "hostile", "arguments": {"size": 1_000_000}}])
    assert len(info["calls"][0].value) < MAX_RESULT + 100
    assert len(observation) < 20_000


class _Flood(BaseHTTPRequestHandler):
    """A server that answers with more than anybody asked for."""

    compressed = stopped = False

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        if self.compressed:
            self.send_header("content-encoding", "gzip")
        self.end_headers()
        try:
            for _ in range(1_000):
                self.wfile.write(b" " * 65_536)
        except OSError:
            type(self).stopped = True

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("compressed", [False, True])
def test_a_flood_is_not_read_to_its_end(compressed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Flood, "compressed", compressed)
    monkeypatch.setattr(_Flood, "stopped", False)
    flood = ThreadingHTTPServer(("127.0.0.1", 0), _Flood)
    thread = threading.Thread(target=flood.serve_forever, daemon=True)
    thread.start()
    try:
        with pytest.raises(OptionError, match="MCP server mcp"):
            McpTools(f"http://127.0.0.1:{flood.server_port}/mcp")
    finally:
        flood.shutdown()
        flood.server_close()
    assert _Flood.stopped


def test_an_episode_does_not_go_on_from_a_copy_unless_the_server_is_stateless(url: str) -> None:
    for stateless in (False, True):
        env = gym.make(ENV, mcp={"notes": {"url": url, "stateless": stateless}})
        env.reset(seed=0)
        called(env, "note", text="a")
        inner: Any = env.unwrapped
        snapshot = inner.snapshot()
        inner.restore(snapshot)
        *_, truncated, info = env.step([{"name": "note", "arguments": {"text": "b"}}])
        if stateless:
            assert info["calls"][0].value == {"result": "1 notes"}
        else:
            assert (truncated, info["outcome"]) == (True, "infra_error")
            assert "cannot be copied" in inner.episode.why
        env.close()


def test_an_environment_with_servers_can_be_pickled(env: gym.Env[Any, Any]) -> None:
    env.reset(seed=0)
    called(env, "note", text="a")
    twin = pickle.loads(pickle.dumps(env.unwrapped))
    twin.reset(seed=1)
    assert called(twin, "note", text="a").value == {"result": "1 notes"}
    twin.close()
    assert called(env, "note", text="b").value == {"result": "2 notes"}


# ------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "names no server"),
        ({"a": {}}, "either the `url` of a server or the `command`"),
        ({"a": {"url": "http://x", "command": "y"}}, "either the `url`"),
        ({"a": {"url": "http://x", "timeout": 0}}, "`timeout` above 0"),
        ({"a": {"url": "http://x", "tool": []}}, "unknown field `tool`"),
        ({"a": {"url": "http://127.0.0.1:9/mcp", "timeout": 2.0}}, "MCP server a cannot be used"),
        ({"a": {"command": "/no/such/program"}}, "MCP server a cannot be used"),
        ({"a": {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()"], "timeout": 1}}, "1 s"),
        ({"a": {"url": "http://x", "headers": {"authorization": "$NO_SUCH_VARIABLE"}}}, "NO_SUCH_VARIABLE"),
    ],
)
def test_what_cannot_be_used_is_said(given: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        McpTools(given)


def test_a_file_of_servers_may_be_yaml(tmp_path: Path) -> None:
    file = tmp_path / "servers.yaml"
    file.write_text("mcpServers:\n  notes: {command: notes, args: [--all]}\n", encoding="utf-8")
    assert read_servers(file)["notes"].args == ("--all",)


def test_tools_are_chosen_by_name_and_may_not_collide(url: str) -> None:
    assert list(McpTools({"notes": {"url": url, "tools": ["note"]}}).tools) == ["note"]
    with pytest.raises((OptionError, UnknownNameError), match="Did you mean 'note'"):
        McpTools({"notes": {"url": url, "tools": ["notes"]}})
    both = McpTools({"one": {"url": url, "tools": ["note"]}, "two": {"url": url, "tools": ["note"]}})
    assert list(both.tools) == ["note", "two_note"]
    env = gym.make("ToolOrchestra-Math-v0", tools="basic", mcp=url)
    names = [tool["function"]["name"] for tool in env.reset(seed=0)[1]["tools"]]
    assert "python" in names
    assert names[-8:] == NAMES
    env.close()


def test_a_tool_can_be_called_outside_of_an_episode(url: str) -> None:
    tools = McpTools({"notes": {"url": url}})
    assert tools.tools["note"].run({"text": "a"}, ToolContext()).value == {"result": "1 notes"}
    tools.end_episode()
    tools = McpTools({"notes": {"url": url, "timeout": 1.0}})
    with pytest.raises(ExpertError, match="has not answered"):
        tools.tools["slow"].run({"together": 2}, ToolContext())
    tools.end_episode()
