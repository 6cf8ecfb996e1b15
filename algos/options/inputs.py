"""What a run reads, looked for before anything is loaded: its environment, models, policies and files.

None of this needs torch, so that a mistyped name is answered at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolorchestra.agents.hub import check_model, holds_model
from toolorchestra.envs.registration import is_multiagent, make_multiagent
from toolorchestra.envs.starts import json_or_text, make_env
from toolorchestra.toolscale.common.errors import OptionError

if TYPE_CHECKING:
    from toolorchestra.algos.options.options import LearnerOptions


def check_inputs(config: LearnerOptions) -> None:
    """Check that what the options name is there, as far as that is seen without loading it.

    Raises:
        ToolOrchestraError: Something is not there, or the environment does not take its options.
    """
    for model in config.given_models():
        check_model(model)
    if config.dry_run:  # which looks at models only
        return
    given: Any = config  # the options below are of some learners only
    for file in getattr(given, "general", ()):
        if "@" not in file and not Path(file).is_file():
            raise OptionError(f"`general` {file!r} is no file: expected JSONL, CSV or Parquet, or NAME@COMMIT.")
    for file in getattr(given, "episodes", ()):
        _check_episodes(file)
    names = _check_environment(config)
    if start := getattr(given, "start", None):
        _check_policies(start, names)


def _check_episodes(file: Path) -> None:
    """Check that a file begins with an episode."""
    from toolorchestra.envs.records.episode import read_episodes

    if not file.is_file():
        raise OptionError(f"`episodes` {str(file)!r} is no file: expected JSONL, as `toolorchestra rollout` writes it.")
    next(iter(read_episodes(file)), None)


def _check_environment(config: LearnerOptions) -> tuple[str, ...]:
    """Make the environment with its options and close it; return the policies of its agents, if it trains several.

    One of a public data set is left to the learner: the data may be yet to be downloaded.
    """
    from toolorchestra.envs.sources.public import DATASETS

    if config.source in DATASETS:
        return ()
    team: Any = config
    if not is_multiagent(config.env):
        make_env(config.env, config.environment_options).close()
        return ()
    if config.several_agents:
        env = team.make_env()
        env.close()
        return tuple(team.policies(env))
    options = {name: json_or_text(value) for name, value in config.environment_options.items()}
    make_multiagent(config.env, **options).close()
    return ()


def _check_policies(start: Path, names: Sequence[str]) -> None:
    """Check that a folder to start from has a policy, or one of each name."""
    for folder in [start / name for name in names] or [start]:
        if not holds_model(folder):
            raise OptionError(
                f"`start` {str(start)!r} holds no policy{f' {folder.name!r}' if names else ''}: expected a config.json "
                f"in {folder}. Give the folder `final` of another run of this learner."
            )
