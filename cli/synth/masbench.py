"""The command `toolorchestra synth masbench`: problems with controlled structure as tasks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import arg

from toolorchestra.cli.options import UsageError, require_at_least


@dataclass(kw_only=True)
class SynthMASBenchCommand:
    """Write problems with controlled structure (MASBench) to a JSONL file, which is played like an environment."""

    out: Annotated[Path, arg(metavar="FILE")]
    """Where to write."""
    count: int = 100
    """Number of problems; --published writes all of its set."""
    published: Literal["depth", "horizon", "breadth", "parallel", "robustness"] | None = None
    """Write the published counts of this axis instead (the set masbench-v1, Table A.1)."""
    depth: int | None = None
    """Sub-tasks on the longest chain that ends in an answer, 1 to 32. Axes can be combined."""
    horizon: int | None = None
    """Answers to report of a chain of problems, each of which uses the answer before."""
    breadth: int | None = None
    """Maximum number of sub-tasks that one sub-task needs directly."""
    parallel: int | None = None
    """Independent components."""
    robustness: int | None = None
    """Sub-tasks about which a note claims a wrong answer."""
    split: Literal["train", "test"] = "train"
    """Split; the two share no template."""
    seed: int = 0
    """Seed of the problems."""
    distractors: int = 4
    """Statements in each problem that lead to no answer, 0 to 8."""
    haystack: int = 40
    """Filler sentences about each needle."""
    no_notes: bool = False
    """With --robustness: the same problems without their notes."""
    alone: bool = False
    """Axes without a value stay put instead of being drawn, as in the environments of one axis."""
    shared_world: bool = False
    """With --parallel: all problems are about the same things, as in the environment."""
    variables: bool = False
    """With --horizon: problems say which earlier answers they use ([variable2] = [answer1])."""

    def __post_init__(self) -> None:
        if self.published and any((self.depth, self.horizon, self.breadth, self.parallel, self.robustness)):
            raise UsageError("--published is a whole set of its own: leave out the values of axes.")
        require_at_least(self, count=1)

    def run(self) -> int:
        """Make and write them."""
        from toolorchestra.envs.sources.masbench.generate import InstanceSettings, check_axes
        from toolorchestra.envs.sources.masbench.graph import Axes
        from toolorchestra.envs.sources.masbench.sets import named_set, tasks
        from toolorchestra.toolscale.tasks.task import write_tasks

        if self.published:
            made = list(named_set(self.published, self.split))
        else:
            axes = Axes(self.depth, self.horizon, self.breadth, self.parallel, self.robustness)
            check_axes(axes)
            flags = not self.no_notes, self.alone, self.shared_world, self.variables
            settings = InstanceSettings(self.distractors, self.haystack, *flags)
            made = list(tasks(axes, self.split, self.count, seed=self.seed, settings=settings))
        write_tasks(self.out, made)
        print(f"{len(made):,} tasks → {self.out}   look at one:  toolorchestra envs {self.out} --task {made[0].id}")
        return 0
