"""Prints the path of a shipped file, or the names of all."""

import sys

from toolorchestra.algos.launch_configs.shipped import launch_config, launch_config_names
from toolorchestra.toolscale.common.errors import ToolOrchestraError

if __name__ == "__main__":
    try:
        print(*map(launch_config, sys.argv[1:]) if sys.argv[1:] else launch_config_names(), sep="\n")
    except ToolOrchestraError as error:
        sys.exit(f"error: {error}")
