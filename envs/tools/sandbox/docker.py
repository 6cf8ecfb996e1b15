"""Programs in Docker containers: the strongest of the backends, with gVisor where the engine has it.

The engine is used through its API (extra ``docker``). Images are never pulled: `build_image` makes one.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Unpack

from toolorchestra.envs.tools.sandbox import process_tags
from toolorchestra.envs.tools.sandbox.base import NOBODY, SHARED_MB, Sandbox, SandboxOptions
from toolorchestra.envs.tools.sandbox.channel import WorkerClient, environment, source
from toolorchestra.envs.tools.sandbox.program import ProgramLimits
from toolorchestra.toolscale.common.errors import OptionError, SandboxError, install_line

if TYPE_CHECKING:
    import docker

IMAGE = "toolorchestra-sandbox"
LABEL = "toolorchestra.owner"
GVISOR = "runsc"


class DockerSandbox(Sandbox):
    """Runs programs in containers without network, files, privileges or users of this machine.

    Each container has a read-only root and a small tmpfs, an unprivileged user, no capability, no way to gain
    privileges, and bounds on memory, processors and processes. It is removed when its owner ends, even by ``kill -9``:
    its worker ends when the connection closes, and the engine then removes the container. One that is left anyway (the
    engine was stopped) is removed by the next `DockerSandbox` on that machine.

    Args:
        image: An image that holds `python`; it must be on the machine already.
        cpus: Processors that one container may keep busy.
        python: The interpreter in the image, 3.9 or newer.
        options: `limits`, `workers` (containers) and `preload` of `Sandbox`.

    Raises:
        SandboxError: If the Python package, the engine or the image is missing.
    """

    name = "docker"
    isolates = True

    def __init__(
        self, image: str = IMAGE, *, cpus: float = 1.0, python: str = "python3", **options: Unpack[SandboxOptions]
    ) -> None:
        super().__init__(**options)
        if not cpus > 0:
            raise OptionError(f"cpus: expected more than 0, got {cpus}.")
        self.image, self.cpus, self.python = image, cpus, python
        self._client, self._client_of = connect(), os.getpid()
        try:
            with _engine_errors():
                if not self.client.images.list(name=image):
                    make = "python -m toolorchestra.envs.tools.sandbox.build_image"
                    remedy = make if image == IMAGE else f"docker pull {image}"
                    raise SandboxError(f"There is no image {image!r} on this machine. Get it with: {remedy}")
                self.runtime = GVISOR if GVISOR in self.client.info().get("Runtimes", {}) else None
            reap(self.client)
        except BaseException:
            self.client.close()
            raise

    @property
    def client(self) -> docker.DockerClient:
        """The engine's client; a forked process gets one of its own, since two cannot share connections."""
        if self._client_of != os.getpid():
            self._client, self._client_of = connect(), os.getpid()
        return self._client

    def start(self, limits: ProgramLimits) -> WorkerClient:
        """Start a worker; see `Sandbox.start`."""
        api = self.client.api
        memory = f"{limits.total_mb}m"
        # Files in a tmpfs are memory, and so are their inodes.
        tmpfs = f"rw,nosuid,nodev,noexec,mode=1777,size={limits.disk_mb}m,nr_inodes={limits.disk_mb * 256}"
        with _engine_errors():
            container = api.create_container(
                self.image,
                entrypoint=[self.python, "-s", "-c", source()],
                command=[],
                environment=environment("/tmp"),
                user=f"{NOBODY}:{NOBODY}",
                working_dir="/",
                hostname="sandbox",
                labels={LABEL: process_tags.tag()},
                network_disabled=True,
                stdin_open=True,
                detach=False,  # with this, the engine closes the worker's input when the connection closes
                runtime=self.runtime,
                host_config=api.create_host_config(
                    auto_remove=True,
                    network_mode="none",
                    read_only=True,
                    tmpfs={"/tmp": tmpfs},
                    shm_size=f"{SHARED_MB}m",
                    ipc_mode="private",
                    cap_drop=["ALL"],
                    security_opt=["no-new-privileges:true"],
                    mem_limit=memory,
                    memswap_limit=memory,
                    pids_limit=limits.pids + 1,
                    nano_cpus=int(self.cpus * 1e9),
                    log_config={"Type": "none"},
                ),
            )
            worker = _DockerWorker(self.client, container["Id"])
        places = ["/tmp", "/dev/shm", "/dev/mqueue"]
        worker.configure(limits, places=places, preload=self.preload, count_by_user=False, watch=False)
        return worker

    def describe(self) -> str:
        """Say how programs are isolated; see `Sandbox.describe`."""
        held = f"Docker containers of {self.image} (no network, read-only, unprivileged, bounded)"
        return f"{held} under gVisor" if self.runtime else held

    def close(self) -> None:
        """Stop every worker; see `Sandbox.close`."""
        super().close()
        self.client.close()


class _DockerWorker(WorkerClient):
    """The worker that is process 1 of a container."""

    def __init__(self, client: docker.DockerClient, container: str) -> None:
        self._client, self._container = client, container
        self._raw = bytearray()
        self._complaints = bytearray()
        try:
            wanted = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
            attached = client.api.attach_socket(container, params=wanted)
            inner = getattr(attached, "_sock", attached)
            if type(inner) is not socket.socket:
                raise SandboxError("Expected a Docker host on a Unix socket or plain TCP, which can be attached to.")
            super().__init__(inner.dup())
            attached._response.close()
            attached.close()
            client.api.start(container)
        except BaseException:
            if hasattr(self, "_socket"):
                self.close()
            else:
                self._dispose()
            raise

    def _unwrap(self, data: bytes) -> bytes:
        """Take the engine's framing off: a byte that says which stream, three zeros, and a length."""
        self._raw += data
        out = bytearray()
        while len(self._raw) >= 8:
            stream, size = struct.unpack_from("!BxxxI", self._raw)
            if len(self._raw) < 8 + size:
                break
            piece = self._raw[8 : 8 + size]
            if stream == 1:
                out += piece
            elif len(self._complaints) < 4096:
                self._complaints += piece
            del self._raw[: 8 + size]
        return bytes(out)

    def _complaint(self) -> str:
        return self._complaints.decode("utf-8", "replace").strip()

    def _dispose(self) -> None:
        with contextlib.suppress(SandboxError):  # an engine that is gone has removed its containers, or `reap` will
            remove(self._client, self._container)


def connect() -> docker.DockerClient:
    """Return a client of the engine that the environment names (``DOCKER_HOST``), or the local one.

    Raises:
        SandboxError: If the Python package is missing or no engine answers.
    """
    try:
        import docker
    except ImportError:
        raise SandboxError(f"The Python package docker is missing: {install_line('docker')}.") from None
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    with _engine_errors():
        if host.startswith("unix://"):  # ask first: the package leaks a socket where nobody answers
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(host.removeprefix("unix://"))
        return docker.from_env(timeout=60)


def reap(client: docker.DockerClient) -> None:
    """Remove containers whose owner, a process of this machine, is gone."""
    with _engine_errors():
        found = client.api.containers(all=True, filters={"label": LABEL})
    for container in found:
        if process_tags.is_gone(container["Labels"][LABEL]):
            remove(client, container["Id"])


def remove(client: docker.DockerClient, container: str) -> None:
    """Kill and remove a container, and return when it is gone."""
    from docker.errors import APIError, NotFound

    end = time.monotonic() + 30
    with _engine_errors(), contextlib.suppress(NotFound):
        while time.monotonic() < end:
            with contextlib.suppress(APIError):
                client.api.remove_container(container, force=True, v=True)
            client.api.inspect_container(container)
            time.sleep(0.02)  # the engine is removing it already


@contextlib.contextmanager
def _engine_errors() -> Iterator[None]:
    """Turn what goes wrong with the engine into one error that says how to fix it."""
    import docker.errors
    import requests

    try:
        yield
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        hint = "Is the engine running, and may this user ask it? See docs/sandboxes.md."
        raise SandboxError(f"Docker failed: {error}. {hint}") from error
