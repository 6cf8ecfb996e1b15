from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra import toolscale
from toolorchestra.toolscale.database.format import json_schema

Run = Callable[..., Any]


def test_the_schema_that_editors_read_is_current(run: Run):
    file = Path(toolscale.__file__).parent / "domain.schema.json"
    assert json.loads(file.read_bytes()) == msgspec.json.decode(msgspec.json.encode(json_schema()))
    assert run("schema").out == file.read_text()
