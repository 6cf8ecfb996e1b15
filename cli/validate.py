"""The command `toolorchestra validate`."""

from dataclasses import dataclass, field
from typing import Annotated

from tyro.conf import arg

from toolorchestra.cli.files import print_json
from toolorchestra.cli.options import Env, NamedValues, SourceOptions, WorkerOptions, option_values


@dataclass
class ValidateCommand(SourceOptions, WorkerOptions):
    """Check an environment: determinism, reference trajectories, baselines, hostile actions, verifier, privacy."""

    env: Env
    """Id of an environment, folder of a domain, or JSONL file of tasks."""
    only: tuple[str, ...] = ()
    """Run only these checks."""
    random_episodes: int = 1000
    """Episodes of the random policy (environments of one agent)."""
    hostile: int = 3000
    """Hostile actions sent (environments of one agent)."""
    seed: int = 0
    """Seed of all random choices in the checks."""
    env_options: NamedValues = field(default_factory=dict)
    """Arguments of the environment, e.g. `tools full`."""
    verbose: Annotated[bool, arg(aliases=["-v"])] = False
    """List what checks that passed tried and found; failures and notes are always listed."""
    json: bool = False
    """Print the report as JSON."""

    def run(self) -> int:
        """Check, print the report, and return 1 when a check failed."""
        from toolorchestra.cli.display.console import progress_bars, stdout_console
        from toolorchestra.cli.display.episodes import print_report
        from toolorchestra.envs.checks.environment import check_environment
        from toolorchestra.envs.environment_names import resolve

        env_id, kwargs = resolve(self.env)
        with self._executor() as executor, progress_bars() as progress:
            bar = progress.add_task("", total=1, note="")

            def update(check: str, done: int, total: int) -> None:
                progress.update(bar, description=check, completed=done, total=max(1, total))

            report = check_environment(
                env_id,
                checks=self.only or None,
                random_episodes=self.random_episodes,
                hostile=self.hostile,
                seed=self.seed,
                progress=update,
                executor=executor,
                **kwargs,
                **self._source(env_id),
                **option_values(self.env_options),
            )
            progress.remove_task(bar)
        if self.json:
            print_json({"env_id": report.env_id, "passed": report.passed, "results": report.results})
        else:
            print_report(stdout_console(), report, verbose=self.verbose)
        return 0 if report.passed else 1
