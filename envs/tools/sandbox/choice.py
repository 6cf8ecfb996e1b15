"""Choosing a sandbox: by its name, or the strongest that is available on this machine."""

from __future__ import annotations

from typing import Any

from toolorchestra.envs.tools.sandbox.base import Sandbox
from toolorchestra.envs.tools.sandbox.bubblewrap import BubblewrapSandbox
from toolorchestra.envs.tools.sandbox.docker import DockerSandbox
from toolorchestra.envs.tools.sandbox.process import ProcessSandbox
from toolorchestra.toolscale.errors import SandboxError, UnknownNameError

BACKENDS: dict[str, type[Sandbox]] = {
    "docker": DockerSandbox,
    "bubblewrap": BubblewrapSandbox,
    "process": ProcessSandbox,
}
"""Backends by name, the strongest first."""


def make_sandbox(kind: str = "auto", **options: Any) -> Sandbox:
    """Make a sandbox.

    Args:
        kind: A name in `BACKENDS`, or ``auto`` for the strongest available one; then `Sandbox.choice` says which it is
            and why stronger ones are not available. ``process``, which does not isolate, warns.
        options: `limits`, `workers` and `preload`, which every backend takes; with a `kind`, also its own.

    Raises:
        UnknownNameError: If there is no such backend.
        SandboxError: If the backend is not available.

    >>> try:
    ...     make_sandbox("dokcer")
    ... except UnknownNameError as error:
    ...     print(error)
    Unknown sandbox 'dokcer'. Did you mean 'docker'? Known: auto, bubblewrap, docker, process.
    """
    if kind != "auto":
        if kind not in BACKENDS:
            raise UnknownNameError("sandbox", kind, [*BACKENDS, "auto"])
        return BACKENDS[kind](**options)
    missing = []
    for name, backend in BACKENDS.items():
        try:
            sandbox = backend(**options)
        except SandboxError as error:
            missing.append(f"not {name}: {error}")
        else:
            sandbox.choice = "; ".join([f"{name}: {sandbox.describe()}", *missing])
            return sandbox
    raise SandboxError("; ".join(missing))
