from __future__ import annotations

import sys
from typing import Any

import pytest

from toolorchestra.cli.main import main

ENV = "ToolOrchestra-Restaurant-v0"


def test_mcp_is_served_at_its_path(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mcp.server.mcpserver", reason="needs pip install 'toolorchestra[mcp]'")
    from toolorchestra.envs.bridges import mcp

    served: list[Any] = []
    monkeypatch.setattr(mcp, "serve", lambda *given: served.append(given))
    assert main(["serve", ENV, "--protocol", "mcp", "--port", "9"]) == 0
    assert served[0][1:] == ("127.0.0.1", 9)
    assert f"Serving {ENV} at http://127.0.0.1:9/mcp" in capsys.readouterr().out


@pytest.mark.parametrize(("protocol", "extra"), [("mcp", "mcp"), ("mcp-stdio", "mcp"), ("openenv", "openenv")])
def test_a_missing_extra_is_named(
    protocol: str, extra: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, extra, None)
    monkeypatch.delitem(sys.modules, f"toolorchestra.envs.bridges.{extra}", raising=False)
    bridges = sys.modules.get("toolorchestra.envs.bridges")
    if bridges is not None and extra in vars(bridges):
        monkeypatch.delattr(bridges, extra)
    assert main(["serve", ENV, "--protocol", protocol]) == 2
    assert f"pip install 'toolorchestra[{extra}]'" in capsys.readouterr().err
