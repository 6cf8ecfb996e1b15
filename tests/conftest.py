"""Fixtures of all tests: a small domain, so that no test depends on the domains that we ship, and a fake server."""

from __future__ import annotations

import contextlib
import errno
import functools
import gc
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import gymnasium as gym
import pytest
import yaml
from hypothesis import settings
from leftovers import nothing_left
from waiting import until

import toolorchestra  # noqa: F401 - registers the environments
from toolorchestra.agents import http_client
from toolorchestra.toolscale.common.errors import install_line
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import load_domain, make_domain, read_spec
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tasks.verify import Failure, Reference
from toolorchestra.toolscale.tools.tool import ToolResult
from toolorchestra.toolscale.workers.ray_cluster import import_ray

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As for a command that a script starts in the background. What the tests start would ignore Ctrl-C, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test needs the hub, and where it is not reachable, a question to it takes seconds and keeps a thread.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

settings.register_profile("toolorchestra", deadline=None, derandomize=True)  # no clock, no random draws
settings.load_profile("toolorchestra")

MINI = Path(__file__).parent / "data" / "mini"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give all tests of a file to one worker of pytest-xdist, so that what they share is made once."""
    from xdist.scheduler import LoadFileScheduling

    return LoadFileScheduling(config, log)


def pytest_collection_finish() -> None:
    """Keep modules and tests out of garbage collections, which trainers ask for and which took a third of a second.

    The others are made less often. And start the event loop of all requests, which is kept until the process ends.
    """
    http_client._loop(os.getpid())
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.fixture(scope="module", autouse=True)
def what_lasts_is_collected_once() -> Iterator[None]:
    """Keep what outlives a module's tests out of later garbage collections, too."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a thread, a process, a socket, a pipe or a file open."""
    with nothing_left(request):
        yield


@pytest.fixture(scope="session")
def mini() -> Domain:
    """The mini domain."""
    return load_domain(MINI)


@pytest.fixture
def judge_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., list[str]]], None]:
    """Let another function judge typed answers, of which nothing is kept."""

    def judge(function: Callable[..., list[str]]) -> None:
        fidelity_of_prose = Reference.fidelity

        def fidelity(self: Reference, answer: str, typed: Any) -> tuple[Failure, ...]:
            if typed is None:
                return fidelity_of_prose(self, answer, typed)
            return tuple(Failure("fidelity", message) for message in function(answer, typed))

        monkeypatch.setattr(Reference, "fidelity", fidelity)

    return judge


@pytest.fixture(scope="session")
def mini_folder() -> Path:
    """Its folder."""
    return MINI


@pytest.fixture(scope="session")
def quick_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The mini domain without the tools that run until their bound: for tests that draw calls at random."""
    folder = tmp_path_factory.mktemp("quick") / "mini"
    shutil.copytree(MINI, folder)
    content = yaml.safe_load((folder / "tools.yaml").read_text())
    for name in ("spin", "spin_writing"):
        del content["tools"][name]
    (folder / "tools.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return folder


@pytest.fixture(scope="session")
def quick(quick_folder: Path) -> Domain:
    """The domain in that folder."""
    return load_domain(quick_folder)


@pytest.fixture(scope="session")
def named_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The mini domain with requests that name people and things, so that their ids have to be looked up."""
    folder = tmp_path_factory.mktemp("named") / "mini"
    shutil.copytree(MINI, folder)
    content = yaml.safe_load((folder / "domain.yaml").read_text())
    given = yaml.safe_load((MINI.parent / "named.yaml").read_text())
    content["today"] = "2025-07-23"
    content["tables"]["orders"]["columns"]["day"]["recipe"] = {"dates": ["2025-07-01", "2025-07-22"]}
    content["names"] = given["names"]
    content["intents"] |= given["intents"]
    (folder / "domain.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return folder


@pytest.fixture(scope="session")
def named(named_folder: Path) -> Domain:
    """The domain in that folder."""
    return load_domain(named_folder)


@pytest.fixture
def session(mini: Domain) -> Iterator[Session]:
    """A session of the mini domain."""
    session = mini.session()
    yield session
    session.close()


@pytest.fixture(scope="session")
def call(mini: Domain) -> Callable[..., ToolResult]:
    """Run a tool of the mini domain on a session: ``call(session, name, **arguments)``."""

    def run(session: Session, name: str, /, **arguments: Any) -> ToolResult:
        import msgspec

        tool = mini.tools[name]
        return session.call(tool, tool.decode(msgspec.json.encode(arguments)))

    return run


def edit_mini(folder: Path, path: str = "", value: Any = None, *, file: str = "domain.yaml") -> Path:
    """Change a value of the copy of the mini domain in a folder, which is made first if it is not there."""
    if not folder.exists():
        shutil.copytree(MINI, folder)
    content = yaml.load((folder / file).read_text(), yaml.CSafeLoader) or {}
    if file == "domain.yaml":
        content["today"] = "2025-07-23"
        content["tables"]["orders"]["columns"]["day"]["recipe"] = {"dates": ["2025-07-01", "2025-07-22"]}
    *parents, last = path.split(".") if path else [""]
    place = content
    for key in parents:
        place = place[int(key)] if isinstance(place, list) else place[key]
    key = int(last) if isinstance(place, list) else last
    if value is ...:
        del place[key]
    elif path:
        place[key] = value
    (folder / file).write_text(yaml.dump(content, Dumper=yaml.CSafeDumper, sort_keys=False))
    return folder


@pytest.fixture
def edited(tmp_path: Path) -> Callable[..., Path]:
    """Copy the mini domain with one value changed: ``edited("tools.spin.description", 3)``; ``...`` deletes."""
    return functools.partial(edit_mini, tmp_path / "mini")


@pytest.fixture(scope="module")
def edited_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The same, for a domain that all tests of a module read."""
    return functools.partial(edit_mini, tmp_path_factory.mktemp("edited") / "mini")


@pytest.fixture
def broken(edited: Callable[..., Path]) -> Callable[..., Domain]:
    """Load the mini domain with one value changed."""

    def load(path: str, value: Any, *, file: str = "domain.yaml") -> Domain:
        folder = edited(path, value, file=file)
        return make_domain(read_spec(folder), file=folder / "domain.yaml")

    return load


@pytest.fixture
def make_env() -> Iterator[Callable[..., gym.Env[Any, Any]]]:
    """Make an environment on the mini domain; it is closed afterwards."""
    made: list[gym.Env[Any, Any]] = []

    def make(**kwargs: Any) -> gym.Env[Any, Any]:
        made.append(gym.make("ToolOrchestra-Custom-v0", **({"domain": MINI} | kwargs)))
        return made[-1]

    yield make
    for env in made:
        env.close()


class FakeServer:
    """A real HTTP server on the loopback interface that answers chat completions as `respond` says.

    It returns a status (0 hangs up) and the body: bytes, what becomes JSON, or an iterator of the pieces of a stream,
    after which it hangs up if that raises `ConnectionError`.
    """

    def __init__(self) -> None:
        self.respond: Callable[[dict[str, Any]], tuple[int, Any]] = lambda body: (404, b"")
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.bodies.append(body)
                server.keys.append(self.headers["Authorization"])
                status, answer = server.respond(body)
                if status == 0:
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("retry-after-ms", "5")
                if isinstance(answer, Iterator):
                    self.send_header("Content-Type", "text/event-stream; charset=utf-8")
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    try:
                        for piece in answer:
                            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                        self.wfile.write(b"0\r\n\r\n")
                    except ConnectionError:
                        self.close_connection = True
                    return
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *args: Any) -> None:  # a client that timed out or was killed has hung up
                pass

        self.http = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"

    @staticmethod
    def completion(text: str, calls: Sequence[tuple[str, str]] = ()) -> tuple[int, dict[str, Any]]:
        """Return the status and the body of a chat completion, of 100 tokens read and 10 written.

        Calls are names and arguments; their ids are those of OpenAI in that no two are the same.
        """
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = [
                {"id": f"call_{uuid4().hex}", "type": "function", "function": {"name": name, "arguments": arguments}}
                for name, arguments in calls
            ]
        return 200, {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        }


@pytest.fixture
def fake_server() -> Iterator[FakeServer]:
    """A server that speaks the protocol and says what the test tells it to."""
    server = FakeServer()
    thread = threading.Thread(target=server.http.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.http.shutdown()
    thread.join()
    server.http.server_close()


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[Any]:
    """A Ray cluster on this machine that this process is connected to: a head without processors, two nodes of one."""
    try:
        ray = import_ray()
        from ray.cluster_utils import Cluster
    except ImportError:
        pytest.skip(f"Ray is not installed: {install_line('ray')}")
    spare = {"include_log_monitor": False, "no_monitor": True}  # processes that the tests do not need
    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False, **spare},
        shutdown_at_exit=False,
    )
    try:
        for _ in range(2):
            made.add_node(num_cpus=1, **spare)
        made.wait_for_nodes()
        ray.init(address=made.address, log_to_driver=False, configure_logging=False)
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


@pytest.fixture
def fill_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Give a function that leaves room for so many bytes of one write; every later write finds the disk full."""

    def fill(room: int) -> None:
        write, left = os.write, [room]

        def full(descriptor: int, data: bytes) -> int:
            if not left:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(descriptor, data[: left.pop()])

        monkeypatch.setattr(os, "write", full)

    return fill


class Started:
    """A server in a process of its own.

    Attributes:
        url: Where it listens.
        log: The file of all that it has written.
        pid: Its process.
    """

    def __init__(self, url: str, log: Path, process: subprocess.Popen[bytes], port: contextlib.ExitStack) -> None:
        self.url, self.log, self.pid, self._process, self._port = url, log, process.pid, process, port

    def kill(self) -> None:
        """End it at once, with the processes that it has started, and give back its port."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._port.close()


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """Yield a port that the system gives to nobody else meanwhile, for a server that shares addresses, as all do here.

    A socket is bound to it that does not listen, and that lets another be bound by SO_REUSEADDR.
    """
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.fixture
def port() -> Iterator[int]:
    """Such a port."""
    with reserved_port() as port:
        yield port


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Started]]:
    """Start a server, offline, and wait until it listens: ``start(["python", …, "{port}"], VARIABLE="value")``."""
    started: list[Started] = []

    def run(command: list[str], *, timeout: float = 120, **variables: str) -> Started:
        home = tmp_path_factory.mktemp("hub")
        (home / "hub").mkdir()
        kept = contextlib.ExitStack()
        port = kept.enter_context(reserved_port())
        env = os.environ | {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"} | variables
        log = home / "server.log"
        with log.open("wb") as output:
            filled = [part.format(port=port) for part in command]
            process = subprocess.Popen(filled, env=env, stdout=output, stderr=output, start_new_session=True)
        started.append(Started(f"http://127.0.0.1:{port}/v1", log, process, kept))

        def listens() -> bool:
            assert process.poll() is None, f"the server ended: {log.read_text()[-2000:]}"
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        until(listens, f"the server to listen; it has written {log}", seconds=timeout)
        return started[-1]

    yield run
    for server in started:
        server.kill()
