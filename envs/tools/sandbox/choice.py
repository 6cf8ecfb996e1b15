"""Choosing a sandbox: by its name, or the strongest that isolates and is available on this machine."""

from __future__ import annotations

from typing import Any

from toolorchestra.envs.tools.sandbox.base import Sandbox
from toolorchestra.envs.tools.sandbox.bubblewrap import BubblewrapSandbox
from toolorchestra.envs.tools.sandbox.docker import DockerSandbox
from toolorchestra.envs.tools.sandbox.process import ProcessSandbox
from toolorchestra.toolscale.common.errors import SandboxError, UnknownNameError

BACKENDS: dict[str, type[Sandbox]] = {
    "docker": DockerSandbox,
    "bubblewrap": BubblewrapSandbox,
    "process": ProcessSandbox,
}
"""Backends by name, the strongest first."""
_ISOLATING = tuple(name for name, backend in BACKENDS.items() if backend.isolates)


def make_sandbox(kind: str = "auto", **options: Any) -> Sandbox:
    """Make a sandbox.

    Args:
        kind: A name in `BACKENDS`, or ``auto`` for the strongest available one that isolates; then `Sandbox.choice`
            says which it is and why stronger ones are not available. ``process`` does not isolate: it is never chosen,
            and warns.
        options: `limits`, `workers` and `preload`, which every backend takes; with a `kind`, also its own.

    Raises:
        UnknownNameError: If there is no such backend.
        SandboxError: If the backend is not available, or with ``auto`` none that isolates is.

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
    for name in _ISOLATING:
        try:
            sandbox = BACKENDS[name](**options)
        except SandboxError as error:
            missing.append(f"not {name}: {error}")
        else:
            sandbox.choice = "; ".join([f"{name}: {sandbox.describe()}", *missing])
            return sandbox
    raise SandboxError(
        "Expected Docker or bubblewrap, which isolate programs from this machine, found neither. Install one (see "
        "docs/sandboxes.md), or ask for sandbox='process', which does not isolate, if you trust every program. "
        + "; ".join(missing)
    )
