"""The command `toolorchestra play`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import arg

from toolorchestra.cli.environments import environment
from toolorchestra.cli.files import with_folder
from toolorchestra.cli.options import Env, NamedValues, SourceOptions, Split, option_values

if TYPE_CHECKING:
    from rich.console import Console

    from toolorchestra.agents.policies.base import Policy
    from toolorchestra.envs.base import OrchestrationEnv


@dataclass
class PlayCommand(SourceOptions):
    """Play an environment yourself, in the terminal."""

    env: Env
    """Id of an environment, folder of a domain, or JSONL file of tasks."""
    split: Split = "all"
    """Split from which requests are drawn."""
    difficulty: tuple[int, ...] = ()
    """Levels from which requests are drawn (1 to 5); all by default."""
    task: Annotated[str | None, arg(metavar="TASK")] = None
    """Play this task."""
    seed: int | None = None
    """Seed of the first draw; the same seed draws the same requests."""
    env_options: NamedValues = field(default_factory=dict)
    """Arguments of the environment, e.g. `tools full`."""
    record: Annotated[Path | None, arg(metavar="FILE")] = None
    """Append the episodes played to this JSONL file."""

    def run(self) -> int:
        """Play episodes until the player stops."""
        from toolorchestra.agents.policies.human import HumanPolicy
        from toolorchestra.cli.display.console import stdout_console
        from toolorchestra.cli.display.domains import task_card
        from toolorchestra.envs.records.episode import write_episodes

        if self.record is not None:
            with_folder(self.record)
        console = stdout_console()
        env = environment(self.env, **self._source(self.env), **option_values(self.env_options))
        _complete_names(env)
        policy = HumanPolicy(read=input, show=lambda text: console.print(text, style="dim", markup=False))
        options: dict[str, Any] = {"split": self.split, "task_id": self.task, "difficulty": self.difficulty or None}
        played = solved = 0
        seed, seen = self.seed, set[str]()
        try:
            while True:
                _play_episode(env, policy, console, seen, seed=seed, options=options)
                seed, played = None, played + 1
                solved += env.episode.outcome == "solved"
                if self.record is not None:
                    write_episodes(self.record, [env.episode])
                console.print(f"\n{solved} of {played} solved.", style="bold")
                if env.episode.outcome != "solved" and _confirmed("See the reference trajectory?", default=False):
                    console.print(task_card(env.task))
                if self.task is not None or not _confirmed("Another one?", default=True):
                    return 0
        except (KeyboardInterrupt, EOFError):
            console.print("\nGoodbye.", style="dim")
            return 0


def _play_episode(env: OrchestrationEnv, policy: Policy, console: Console, seen: set[str], **reset: Any) -> None:
    """Play one episode; the rules of a world are shown unless it has been `seen`."""
    from toolorchestra.cli.display.episodes import print_episode, print_turn, rules_card

    observation, info = env.reset(**reset)
    world = env.play.world
    if world.name not in seen:
        console.print(rules_card(world.rules))
        seen.add(world.name)
    print_episode(console, env.episode)
    policy.reset(env, observation, info)
    over = False
    while not over:
        observation, _, terminated, truncated, info = env.step(policy.act(observation, info))
        over = terminated or truncated
        print_turn(console, env.episode)


def _confirmed(question: str, *, default: bool) -> bool:
    """Ask the player yes or no."""
    answer = input(f"{question} [{'Y/n' if default else 'y/N'}] ").strip().lower()
    return default if not answer else answer.startswith("y")


def _complete_names(env: OrchestrationEnv) -> None:
    """Give `input` a history, and completion of the names of tools and parameters, where there is a terminal."""
    try:
        import readline
    except ModuleNotFoundError:
        return
    readline.parse_and_bind("tab: complete")
    readline.set_completer_delims(" ;")

    def complete(text: str, state: int) -> str | None:
        line = readline.get_line_buffer()[: readline.get_begidx()].split(";")[-1].split()
        tools = env.play.tools
        if not line or line == ["?"]:
            words = [*(f"{name} " for name in tools), "answer ", "? ", "quit"]
        else:
            words = [f"{name}=" for name in tools[line[0]].parameters] if line[0] in tools else []
        found = [word for word in words if word.startswith(text)]
        return found[state] if state < len(found) else None

    readline.set_completer(complete)
