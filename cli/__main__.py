"""Run `toolorchestra` as ``python -m toolorchestra.cli``."""

import sys

from toolorchestra.cli.main import main

sys.exit(main())
