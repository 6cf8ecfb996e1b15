"""The command `toolorchestra masbench`: problems with controlled structure, made, shown, drawn and checked.

The problems themselves are made in `toolorchestra.envs.sources.masbench`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import arg

from toolorchestra.cli.files import print_json
from toolorchestra.cli.options import UsageError, require_at_least, subcommands
from toolorchestra.toolscale.common.visible import visible
from toolorchestra.toolscale.common.writing import write_whole

if TYPE_CHECKING:
    from toolorchestra.envs.sources.masbench.generate import Instance, InstanceSettings
    from toolorchestra.envs.sources.masbench.graph import Axes

Axis = Literal["depth", "horizon", "breadth", "parallel", "robustness"]


@dataclass(kw_only=True)
class _ProblemOptions:
    """The options that select problems."""

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

    def _axes(self) -> Axes:
        from toolorchestra.envs.sources.masbench.generate import check_axes
        from toolorchestra.envs.sources.masbench.graph import Axes

        axes = Axes(self.depth, self.horizon, self.breadth, self.parallel, self.robustness)
        check_axes(axes)
        return axes

    def _settings(self) -> InstanceSettings:
        from toolorchestra.envs.sources.masbench.generate import InstanceSettings

        flags = not self.no_notes, self.alone, self.shared_world, self.variables
        return InstanceSettings(self.distractors, self.haystack, *flags)


@dataclass(kw_only=True)
class _OneProblem(_ProblemOptions):
    """The options of commands about one problem."""

    number: int = 0
    """Which problem of the seed."""

    def _instance(self) -> Instance:
        from toolorchestra.envs.sources.masbench.sets import instances

        return next(instances(self._axes(), self.split, seed=self.seed, settings=self._settings(), first=self.number))


@dataclass(kw_only=True)
class MASBenchMakeCommand(_ProblemOptions):
    """Write problems as tasks to a JSONL file, which is played like an environment."""

    out: Annotated[Path, arg(metavar="FILE")]
    """Where to write."""
    count: int = 100
    """Number of problems; --published writes all of its set."""
    published: Axis | None = None
    """Write the published counts of this axis instead (the set masbench-v1, Table A.1)."""

    def __post_init__(self) -> None:
        if self.published and any((self.depth, self.horizon, self.breadth, self.parallel, self.robustness)):
            raise UsageError("--published is a whole set of its own: leave out the values of axes.")
        require_at_least(self, count=1)

    def run(self) -> int:
        """Make and write them."""
        from toolorchestra.envs.sources.masbench.sets import named_set, tasks
        from toolorchestra.toolscale.tasks.task import write_tasks

        if self.published:
            made = list(named_set(self.published, self.split))
        else:
            made = list(tasks(self._axes(), self.split, self.count, seed=self.seed, settings=self._settings()))
        write_tasks(self.out, made)
        print(f"{len(made):,} tasks → {self.out}")
        return 0


@dataclass(kw_only=True)
class MASBenchShowCommand(_OneProblem):
    """Show one problem: its text, its answers, its steps and its axes."""

    json: bool = False
    """Print the whole task as JSON."""

    def run(self) -> int:
        """Print it."""
        from toolorchestra.cli.display import stdout_console
        from toolorchestra.envs.ground_truth.parts import parts_of
        from toolorchestra.envs.sources.masbench.tasks import make_task, truth_of

        instance = self._instance()
        task = make_task(instance, f"masbench-{self.seed}/{instance.axes}/{self.split}-{self.number:05d}")
        if self.json:
            return print_json(task)
        steps = []
        for number, part in enumerate(parts_of(task), 1):
            after = f" (after {', '.join(str(need + 1) for need in part.needs)})" if part.needs else ""
            note = f"; a note claims {part.note}" if part.note else ""
            steps.append(f"{number:4}. {part.question} {part.answer}{after}{note}")
        axes = ", ".join(f"{axis} {value}" for axis, value in truth_of(task).measured.items())
        console = stdout_console()
        console.print(instance.text, markup=False)
        for title, lines in {"Steps": steps, "Answers": [", ".join(instance.answers)], "Axes": [axes]}.items():
            console.print(f"\n{title}", style="bold")
            console.print("\n".join(lines), markup=False)
        return 0


@dataclass(kw_only=True)
class MASBenchFigureCommand(_OneProblem):
    """Draw the dependency graph of one problem as a Mermaid flowchart."""

    out: Annotated[Path, arg(metavar="FILE")]
    """Where to write."""

    def run(self) -> int:
        """Draw it."""
        from toolorchestra.envs.sources.masbench.figure import figure

        instance = self._instance()
        write_whole(self.out, figure(instance.graph, f"{instance.axes}, {self.split} {self.number}"))
        print(self.out)
        return 0


@dataclass(kw_only=True)
class MASBenchCheckCommand:
    """Check new problems: solvable from their text alone, of the right axes, balanced, and split by template."""

    axis: tuple[Axis, ...] = ("depth", "horizon", "breadth", "parallel", "robustness")
    """The axes to check."""
    values: tuple[int, ...] = (2, 4, 6, 8, 10, 12)
    """Values of each."""
    count: int = 50
    """Problems of each value in each split."""
    seed: int = 0
    """Seed of the problems."""
    json: bool = False
    """Print JSON."""

    def __post_init__(self) -> None:
        if self.count < 1 or not self.values or not self.axis:
            raise UsageError("Expected at least one axis, one value, and a --count of 1 or more.")

    def run(self) -> int:
        """Check them; return 1 if anything is wrong."""
        from toolorchestra.envs.sources.masbench.dataset_check import check_dataset
        from toolorchestra.envs.sources.masbench.graph import Axes

        found = {
            axis: check_dataset([Axes(**{axis: value}) for value in self.values], self.count, seed=self.seed)
            for axis in self.axis
        }
        if self.json:
            print_json(found)
        for axis, one in found.items():
            if not self.json:
                print(
                    f"{'pass' if one.passed else 'FAIL'}  {axis:10}  {one.instances:,} instances, "
                    f"{one.disagreements} disagree; templates {one.templates['train']:,} / {one.templates['test']:,}, "
                    f"{one.shared} shared; χ² {one.chi_square:.1f}; {one.milliseconds:.2f} ms each"
                )
            for fault in one.faults:
                print(visible(str(fault)), file=sys.stderr)
        return 0 if all(one.passed for one in found.values()) else 1


MASBenchCommand = subcommands(
    {
        "make": MASBenchMakeCommand,
        "show": MASBenchShowCommand,
        "figure": MASBenchFigureCommand,
        "check": MASBenchCheckCommand,
    }
)
