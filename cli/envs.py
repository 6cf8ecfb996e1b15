"""The command `toolorchestra envs`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolorchestra.cli.environments import playable
from toolorchestra.cli.files import print_json


@dataclass
class EnvsCommand:
    """List the environments: their agents, tools, database entries and tasks."""

    json: bool = False
    """Print a JSON list of {id, protocol, source, agents, tools, entries, tasks}."""
    count: bool = False
    """Count anew, which takes seconds (questions are generated to be counted), instead of reading what was counted."""

    def run(self) -> int:
        """Print the list."""
        from toolorchestra.cli.display import show
        from toolorchestra.cli.display_domains import environment_table
        from toolorchestra.envs.registration import environment_ids, multiagent_ids

        ids = sorted([*environment_ids(), *multiagent_ids()])
        rows = self._counted(ids) if self.count else known_facts(ids)
        if self.json:
            return print_json(rows)
        show(environment_table(rows))
        show(
            "\nPlay one:  toolorchestra play ID  (or the folder of a domain of your own; one agent only).", style="dim"
        )
        return 0

    def _counted(self, ids: Sequence[str]) -> list[dict[str, str | int]]:
        from toolorchestra.cli.display import progress_bars

        rows = []
        with progress_bars(transient=True) as progress:
            bar = progress.add_task("counting", total=len(ids), note="")
            for env_id in ids:
                progress.update(bar, note=env_id)
                rows.append(env_facts(env_id))
                progress.advance(bar)
        return rows


def known_facts(ids: Sequence[str]) -> list[dict[str, str | int]]:
    """Return the rows of the list of environments, from the file of sizes."""
    from toolorchestra.toolscale.common.yaml_reader import read_yaml

    sizes: Any = read_yaml(Path(__file__).with_name("environment_sizes.yaml"))
    rows: list[dict[str, str | int]] = []
    for env_id in ids:
        protocol, source, _ = env_id.rsplit("-", 2)
        agents = sizes["agents"][protocol]
        rows.append(
            {"id": env_id, "protocol": protocol, "source": source, "agents": agents, **sizes["sources"][source]}
        )
    return rows


def env_facts(env_id: str) -> dict[str, str | int]:
    """Return a row of the list of environments."""
    from toolorchestra.cli.display_domains import entries
    from toolorchestra.envs.multiagent.views import CurrentAgentEnv
    from toolorchestra.toolscale.domain import Domain

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
