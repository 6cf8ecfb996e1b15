"""Build the sandbox's image from Debian packages: no registry, no Dockerfile, no shell in the image.

    python -m toolorchestra.envs.tools.sandbox.build_image
    python -m toolorchestra.envs.tools.sandbox.build_image --packages python3 python3-numpy python3-scipy --name mine

mmdebstrap unpacks the packages that Python needs, and those alone, without running their scripts; the engine imports
the result. Needs Debian's (or Ubuntu's) ``mmdebstrap`` and an engine; takes a quarter of a minute and 130 MB.
"""

from __future__ import annotations

import contextlib
import dataclasses
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from toolorchestra.envs.tools.sandbox.docker import IMAGE, connect
from toolorchestra.toolscale.common.errors import SandboxError

# Package scripts do not run, so the links that they would make to the one BLAS that there is are made here.
_LINKS = 'cd "$1" && mkdir -p tmp proc sys dev && for lib in usr/lib/*/blas/*.so.? usr/lib/*/lapack/*.so.?; do '
_LINKS += 'if [ -e "$lib" ]; then ln -s "/$lib" "$(dirname "$(dirname "$lib")")/"; fi; done'


@dataclasses.dataclass
class BuildImage:
    """What goes into the image."""

    name: str = IMAGE
    """Name of the image."""
    packages: tuple[str, ...] = ("python3", "python3-numpy", "python3-sympy")
    """Debian packages that programs find; python3 must be one."""
    suite: str = ""
    """Release of Debian or Ubuntu. Default: this machine's."""


def build(options: BuildImage) -> str:
    """Build the image and return its id.

    Raises:
        SandboxError: If a program or the engine is missing, or the packages cannot be had.
    """
    program = shutil.which("mmdebstrap")
    if program is None:
        raise SandboxError("The program mmdebstrap is missing: apt-get install mmdebstrap.")
    client = connect()
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "image.tar"
        command = [program, "--quiet", "--variant=extract", f"--include={','.join(options.packages)}"]
        command += ["--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*"]
        command += [f"--extract-hook={_LINKS}", options.suite or _own_release(), str(archive)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SandboxError(f"mmdebstrap failed: {done.stderr.strip()[-2000:]}")
        client.api.import_image_from_file(str(archive), options.name, "latest")
    image = str(client.images.get(options.name).id)
    client.close()
    return image


def _own_release() -> str:
    with contextlib.suppress(OSError):
        return platform.freedesktop_os_release().get("VERSION_CODENAME", "stable")
    return "stable"


if __name__ == "__main__":
    import tyro

    print(build(tyro.cli(BuildImage, description=__doc__)))
