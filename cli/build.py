"""The command `toolorchestra build`."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


@dataclass
class BuildCommand:
    """Build a domain's folder: database and tasks from its YAML."""

    folder: Annotated[Positional[Path], arg(metavar="FOLDER")]
    """Folder with a domain.yaml."""

    def run(self) -> int:
        """Build, and print what was made and what was dropped."""
        from toolorchestra.cli.display import stdout_console
        from toolorchestra.cli.display_domains import print_build
        from toolorchestra.toolscale.domain_folder import build_domain

        began = time.perf_counter()
        domain = build_domain(self.folder)
        print_build(stdout_console(), domain, time.perf_counter() - began)
        return 0
