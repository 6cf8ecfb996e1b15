"""The command `toolorchestra validate`."""

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec
from tyro.conf import arg

from toolorchestra.cli.files import print_json
from toolorchestra.cli.options import Env, NamedValues, SourceOptions, UsageError, WorkerOptions, option_values


@dataclass
class ValidateCommand(SourceOptions, WorkerOptions):
    """Check an environment: determinism, reference trajectories, baselines, hostile actions, verifier, privacy.

    With `--rfc008`, and always for a text environment of others (`module:name`), it is an audit instead, by the checks
    of OpenEnv's RFC 008.
    """

    env: Env
    """Id of an environment, folder of a domain, or JSONL file of tasks; or `module:name`, a class or function that
    makes a text environment of others, with the interface of Gymnasium."""
    rfc008: bool = False
    """Audit by the checks of OpenEnv's RFC 008; `--only`, `--random-episodes`, `--hostile`, `--workers` and `--verbose`
    do not apply."""
    episodes: int | None = None
    """Audit: episodes of each adversary. None: one for each task of the split `test`, or 100 seeds."""
    oracle: str | None = None
    """Audit: policy that solves the tasks, `module:Class` or `module:function`. None: the reference trajectories."""
    reward_range: tuple[float, float] | None = None
    """Audit: the least and the largest reward of an episode. None: as the environment declares it, or 0 and 1."""
    report: Path | None = None
    """Audit: file for the report, `.md` or `.json`."""
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
    """List also what checks that passed tried and found, and all of what is only noted; failures are always listed."""
    json: bool = False
    """Print the report as JSON."""

    def run(self) -> int:
        """Check, print the report, and return 1 when a check failed."""
        if self.rfc008 or self._is_of_others():
            return self._audit()
        if given := [
            name for name in ("episodes", "oracle", "reward_range", "report") if getattr(self, name) is not None
        ]:
            raise UsageError(f"--{given[0].replace('_', '-')} is for an audit: add --rfc008.")
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

    def _is_of_others(self) -> bool:
        """Return whether it is a text environment with Gymnasium's interface that is none of this library."""
        from toolorchestra.envs.checks.audit.subject import AuditSubject

        if ":" not in self.env:
            return False
        with closing(AuditSubject(self.env, option_values(self.env_options))) as subject:
            return not subject.is_own

    def _audit(self) -> int:
        """Audit, print what was found, write the report, and return 1 when a check of the severity `fail` failed."""
        from toolorchestra.cli.display.audit import print_audit
        from toolorchestra.cli.display.console import progress_bars, stdout_console
        from toolorchestra.envs.checks.audit.report import audit_environment
        from toolorchestra.envs.environment_names import resolve
        from toolorchestra.toolscale.common.writing import check_place, write_whole

        if self.report is not None and self.report.suffix not in (".md", ".json"):
            raise UsageError(f"--report must end in .md or .json, got {self.report}.")
        if self.report is not None:
            check_place(self.report)
        with progress_bars() as progress:
            bar = progress.add_task("", total=1, note="")

            def update(doing: str, done: int, total: int) -> None:
                progress.update(bar, description=doing, completed=done, total=max(1, total))

            source = {} if ":" in self.env else self._source(resolve(self.env)[0])
            audit = audit_environment(
                self.env,
                {**source, **option_values(self.env_options)},
                oracle=self.oracle,
                episodes=self.episodes,
                reward_range=self.reward_range,
                seed=self.seed,
                progress=update,
            )
            progress.remove_task(bar)
        if self.report is not None:
            listed = msgspec.json.format(msgspec.json.encode(audit.to_dict()), indent=2)
            text = audit.to_markdown().encode() if self.report.suffix == ".md" else listed
            write_whole(self.report, text)
        if self.json:
            print_json(audit.to_dict())
        else:
            print_audit(stdout_console(), audit)
        return int(audit.verdict == "fail")
