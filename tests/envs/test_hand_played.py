"""Requests played by hand through the public interface, using only what the observations say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import yaml

from toolorchestra.toolscale.answers.mentions import mentions, tokens
from toolorchestra.toolscale.domain_folder import builtin_domains

PLAYED: dict[str, list[dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parents[1] / "data" / "hand_played.yaml").read_text()
)
EPISODES = [
    pytest.param(
        entry,
        id=entry["task"],
        marks=[pytest.mark.xfail(strict=True, reason=entry["refused"])] if "refused" in entry else [],
    )
    for entries in PLAYED.values()
    for entry in entries
]
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_GENERAL = {"1.19", "100"}
"""Numbers of the arithmetic that a person does alone: a rate of 19 % and percent."""


def values(value: Any) -> Iterator[str]:
    """Yield the plain values of arguments as text; truth values are no information."""
    if isinstance(value, list):
        for item in value:
            yield from values(item)
    elif not isinstance(value, bool):
        yield str(value)


def test_there_are_three_for_each_domain() -> None:
    assert {domain: len(entries) for domain, entries in PLAYED.items()} == dict.fromkeys(builtin_domains(), 3)


@pytest.mark.parametrize("entry", EPISODES)
def test_a_person_who_sees_only_the_observations_is_paid(entry: dict[str, Any]) -> None:
    domain = entry["task"].partition("/")[0].capitalize()
    env = gym.make(f"ToolOrchestra-{domain}-v0")
    observation, info = env.reset(options={"task_id": entry["task"]})
    seen = tokens(observation)
    choices = set(re.findall(r'"([^"]+)"', json.dumps(info["tools"])))  # what the tools' descriptions offer
    for step in entry["calls"]:
        ((name, arguments),) = step.items()
        singular = [token.removesuffix("s") for token in seen]
        arguments = json.loads(json.dumps(arguments, default=str))
        for value in values(list(arguments.values())):
            parts = set(_NUMBER.findall(value)) - _GENERAL if name == "calculator" else {value}
            for part in parts:
                assert mentions(seen, part) or mentions(singular, part) or part in choices, (
                    f"{name} takes {part!r}, which nobody has seen"
                )
        observation, _, terminated, truncated, info = env.step([{"name": name, "arguments": arguments}])
        assert not terminated
        assert not truncated
        assert [call.status for call in info["calls"]] == ["OK"], observation
        seen += tokens(observation)
    submitted = {name: entry[name] for name in ("answer", "message") if name in entry}
    _, reward, terminated, _, info = env.step([{"name": "submit", "arguments": submitted}])
    assert (reward, terminated) == (1.0, True), env.unwrapped.episode.why  # type: ignore[attr-defined]
