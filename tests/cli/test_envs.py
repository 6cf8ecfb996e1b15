from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolorchestra import environment_ids
from toolorchestra.cli.display.domains import entries
from toolorchestra.cli.environments import playable
from toolorchestra.envs import multiagent_ids
from toolorchestra.envs.multiagent.views import CurrentAgentEnv
from toolorchestra.toolscale.domain import Domain

Run = Callable[..., Any]


def counted(env_id: str) -> dict[str, str | int]:
    """Count what is in an environment, as a row of the list."""
    env = playable(env_id)
    tasks = env.source.tasks("all")
    worlds = {world.name: world for world in map(env.source.world, tasks)}
    protocol, source, _ = env_id.rsplit("-", 2)
    return {
        "id": env_id,
        "protocol": protocol,
        "source": source,
        "agents": len(env.multi_agent_env.possible_agents) if isinstance(env, CurrentAgentEnv) else 1,
        "tools": sum(len(world.tools) for world in worlds.values()),
        "entries": sum(entries(world) for world in worlds.values() if isinstance(world, Domain)),
        "tasks": len(tasks),
    }


def test_the_sizes_that_are_shipped_are_those_that_are_counted(run: Run):
    rows = run("envs", "--json").json
    assert rows == [counted(row["id"]) for row in rows], "write what changed into cli/environment_sizes.yaml"


def test_envs_lists_all_environments_with_their_sizes(run: Run):
    rows = run("envs", "--json").json
    assert [row["id"] for row in rows] == sorted([*environment_ids(), *multiagent_ids()])
    assert all(list(row) == ["id", "protocol", "source", "agents", "tools", "entries", "tasks"] for row in rows)
    assert {row["id"] for row in rows if row["agents"] > 1} == set(multiagent_ids())
    text = run("envs").out
    assert all(row["id"] in text for row in rows)
