from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
MULTI_AGENT = "MSARL-Math-v0"


@pytest.mark.parametrize("command", ["envs", "play", "rollout", "validate"])
def test_a_wrong_environment_suggests_the_nearest_in_one_line(run: Run, command: str):
    output = run(command, "ToolOrchestra-Restarant-v0")
    assert output.code == 2
    assert output.err.startswith("error: Unknown environment")
    assert "Did you mean 'ToolOrchestra-Restaurant-v0'?" in output.err
    assert output.err.count("\n") == 1
    assert output.out == ""


def test_environments_of_others_are_refused(run: Run):
    output = run("envs", "CartPole-v1")
    assert output.code == 2
    assert "no environment of this library" in output.err


def test_a_folder_called_like_an_environment_does_not_hide_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ToolOrchestra-Restaurant-v0").mkdir()
    assert run("envs", "ToolOrchestra-Restaurant-v0", "--limit", 1).code == 0


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (("play", MULTI_AGENT), "rollout --policy llm|random|null"),
        (("rollout", MULTI_AGENT, "--policy", "oracle"), "--policy llm, random or null"),
        (("envs", "MSARL-Mth-v0"), "Did you mean 'Math'?"),
        (("envs", "MSARR-Math-v0"), "Did you mean 'MSARL-Math-v0'?"),
        (("envs", MULTI_AGENT, "--card"), "whose tasks take place in domains"),
    ],
)
def test_what_several_agents_cannot_do_is_refused_with_a_remedy(
    run: Run, arguments: tuple[str, ...], remedy: str
) -> None:
    output = run(*arguments)
    assert output.code == 2
    assert remedy in output.err
    assert output.err.count("\n") == 1
