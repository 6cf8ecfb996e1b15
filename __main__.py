"""The command line as ``python -m toolorchestra``."""

import sys

from toolorchestra.cli.main import main

sys.exit(main())
