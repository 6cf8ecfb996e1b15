"""The training run that all learners share: warm start, evaluation, metrics, checkpoints and resuming.

A learner has options (`TrainOptions`) and a `Trainer`, which says how its policies begin, learn, and are evaluated:
of one agent in `toolorchestra.algos.grpo`, of several in `toolorchestra.algos.multi_agent_trainer`.
"""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

from toolorchestra.agents.builtin.model import prepare_torch
from toolorchestra.algos.hardware import distributed, memory
from toolorchestra.algos.hardware.parent import exit_with_parent
from toolorchestra.algos.options.config_files import parse_options, write_config
from toolorchestra.algos.options.context import require_context
from toolorchestra.algos.options.dry_run import require_memory
from toolorchestra.algos.options.model_card import write_cards
from toolorchestra.algos.options.options import LearnerOptions, TrainOptions
from toolorchestra.algos.options.precision import require_hardware
from toolorchestra.algos.reporting.evaluation import PolicyScores, Scores
from toolorchestra.algos.reporting.report import RunLog, rename_previous_run
from toolorchestra.algos.reporting.stats import Interval, paired_bootstrap
from toolorchestra.toolscale.common.claim import Claim
from toolorchestra.toolscale.common.errors import OptionError, ToolOrchestraError, exit_status
from toolorchestra.toolscale.common.flags import error_in_flags
from toolorchestra.toolscale.common.writing import out_of_room, write_whole, writing

Report = Callable[[int, dict[str, float]], None]
"""Called with a step and its metrics."""

Options = TypeVar("Options", bound="LearnerOptions")


def run_script(options: type[Options], train: Callable[[Options], object]) -> None:
    """Run a learner as a script, with its options from the command line or a file (`--config`).

    Wrong options end it with status 2 and a message, a folder that cannot be written with 4, an interruption with 130.
    It also ends with the process that started it if that asks for it (`toolorchestra.algos.hardware.parent`).
    """
    exit_with_parent()
    try:
        with distributed.ending_together():
            distributed.start()
            config = parse_options(options, None, shown=distributed.is_main())
            if not config.dry_run:
                train(config)
            elif distributed.is_main():
                require_memory(config)
    except ToolOrchestraError as error:
        names = [field.name for field in dataclasses.fields(options)]
        print(f"error: {error_in_flags(error, names, sys.argv[1:])}", file=sys.stderr)
        sys.exit(exit_status(error))
    except KeyboardInterrupt:
        print("\nInterrupted. Add --resume to continue from the last checkpoint.", file=sys.stderr)
        sys.exit(130)
    except OSError as error:
        if error.filename is None:
            raise
        print(f"error: {error.filename}: {error.strerror}.", file=sys.stderr)
        sys.exit(2)


# ------------------------------------------------------------------------------------------- checkpoints, metrics


_LAST_FILES = ("trainer_state.json", "learner.pt")
"""What is written last into a checkpoint, by TRL's trainers and by `MultiAgentTrainer`."""


def last_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint of a folder; None if there is none."""
    return max(_complete_checkpoints(folder), key=checkpoint_step, default=None)


def _complete_checkpoints(folder: Path) -> list[Path]:
    numbered = [path for path in folder.glob("checkpoint-*") if path.name.removeprefix("checkpoint-").isdecimal()]
    return [path for path in numbered if any((path / name).is_file() for name in _LAST_FILES)]


def remove_checkpoints(folder: Path, keep: int | None) -> None:
    """Remove all but the `keep` newest complete checkpoints of a folder; None keeps all."""
    if keep is None:
        return
    for checkpoint in sorted(_complete_checkpoints(folder), key=checkpoint_step)[:-keep]:
        removed = checkpoint.with_name(f".{checkpoint.name}.old")  # so that a half of it is never taken for whole
        shutil.rmtree(removed, ignore_errors=True)
        with writing(checkpoint):
            checkpoint.rename(removed)
            shutil.rmtree(removed)


def checkpoint_to_resume(config: LearnerOptions) -> Path | None:
    """Return the checkpoint that a run continues from; None for a new run, and for one that ended before its first.

    Raises:
        OptionError: There is no run to resume.
    """
    if not config.resume:
        return None
    folder = config.output / "checkpoints"
    found = last_checkpoint(folder)
    if found is None and not (config.output / "metrics.jsonl").exists():
        raise OptionError(f"No checkpoint in {folder} to resume from. Run without --resume first.")
    return found


def checkpoint_step(checkpoint: Path) -> int:
    """Return the number of optimiser steps before a checkpoint."""
    return int(checkpoint.name.split("-")[1])


@contextmanager
def open_run(config: LearnerOptions, phase: str, *, updates: int = 1) -> Iterator[tuple[RunLog, Path | None, int]]:
    """Open the folder of a run: a new one, with an earlier run set aside, or that of the run to resume.

    The phase writes the checkpoints, numbered by optimiser steps, `updates` for each of its own steps. Yielded are the
    metrics, the checkpoint to resume from (None in a new run), and the steps of the phase made before it.

    Raises:
        InUseError: Another process trains in the folder.
        OutputError: The folder cannot be written.
        OptionError: There is no run to resume.
    """
    with ExitStack() as stack:
        stack.enter_context(_writing_run(config.output))
        earlier = distributed.from_main(lambda: _claim_run(config, stack))
        checkpoint = distributed.from_main(lambda: checkpoint_to_resume(config))
        done = checkpoint_step(checkpoint) // updates if checkpoint else 0
        resume = (phase, done) if config.resume else None
        log = stack.enter_context(RunLog(config.output, resume=resume, silent=not distributed.is_main()))
        if not config.resume and distributed.is_main():
            write_config(config)
        if earlier:
            log.console.print(f"The earlier run is now in {earlier}.", highlight=False)
        if config.resume and checkpoint is None:
            log.console.print("The run ended before its first checkpoint: its steps are made again.", highlight=False)
        yield log, checkpoint, done


def _claim_run(config: LearnerOptions, stack: ExitStack) -> Path | None:
    """Claim the folder of a run until the stack is left, and return where an earlier run is now, if there was one."""
    checkpoint_to_resume(config)  # a wrong folder is refused before it is claimed, and so made
    claim = stack.enter_context(Claim.of_folder(config.output))
    checkpoint_to_resume(config)
    if earlier := None if config.resume else rename_previous_run(config.output):
        stack.enter_context(Claim.of_folder(config.output))
        claim.moved_to(earlier).close()
    return earlier


@contextmanager
def _writing_run(folder: Path) -> Iterator[None]:
    """Name the folder of a run if the disk is full or may not be written, whichever library finds that.

    TensorBoard finds it in a thread, and raises it again in this one.
    """
    report = threading.excepthook
    threading.excepthook = lambda thread: None if thread.exc_value and out_of_room(thread.exc_value) else report(thread)
    try:
        yield
    except Exception as error:
        refused = isinstance(error, PermissionError) and str(error.filename).startswith(str(folder))
        if not refused and not out_of_room(error):
            raise
        with writing(folder):
            raise
    finally:
        threading.excepthook = report


# ------------------------------------------------------------------------------------------------------ the run


def learnt(gain: Interval) -> str:
    """Return a sentence about what a gain in success, in shares of 1, says with its 95 % interval.

    >>> learnt(Interval(0.2, 0.16, 0.24))
    'The policy has learnt: more than chance explains.'
    """
    if gain.low > 0:
        return "The policy has learnt: more than chance explains."
    if gain.high < 0:
        return "The policy has become worse: try a lower --learning-rate."
    return (
        "No difference can be shown: try more batches (--steps), easier tasks (--difficulty), a higher "
        "--learning-rate, or measure more closely (--eval-samples)."
    )


C = TypeVar("C", bound=TrainOptions)
S = TypeVar("S", PolicyScores, Scores)


class Trainer(ABC, Generic[C, S]):
    """A run of a learner, from its warm start to the closing table (`run`).

    Subclasses say how policies begin (`warm_up`, `load`), learn (`fit`), are evaluated (`evaluate`) and written
    (`save`), and what is reported of them (`conclude`). `phase` is the learner's name in metrics and tables; if
    checkpoints are numbered by optimiser steps, `updates` is the number of them per batch of rollouts.

    Attributes:
        log: Metrics.
        checkpoint: Folder to resume from; None in a new run.
        done: Batches of rollouts before this process.
        scores: On held-out tasks, by the number of batches trained on; 0 is the start.
        gain: Success over the start, as mean over tasks with its 95 % interval (bootstrap over tasks).
        total: Batches of rollouts of the whole training; fewer, once its time (`minutes`) is over.
        milestones: Numbers of batches after which the policies are evaluated.
        device: Where the models are.
        warm_steps: Steps of the warm start, of all policies that are taught one after the other.
    """

    log: RunLog
    checkpoint: Path | None
    done: int
    gain: Interval

    def __init__(self, config: C, phase: str, *, updates: int = 1) -> None:
        require_hardware(config)
        require_context(config)
        self.config, self.phase, self.updates = config, phase, updates
        self.scores: dict[int, S] = {}
        self.total, self.milestones = config.total, config.milestones
        self._begun = time.monotonic()  # when a batch has begun
        self._ends = math.inf if config.minutes is None else self._begun + 60 * config.minutes
        self.warm_steps = config.warm_steps
        distributed.start()
        self.device = distributed.device()

    @abstractmethod
    def warm_up(self, folder: Path | None, report: Report) -> None:
        """Make or load the policies that training starts from, teach them, and write them to a folder, if one is given.

        Processes do so together, and one of them has a folder.
        """

    @abstractmethod
    def load(self, folder: Path) -> None:
        """Load the policies to train from the folder of the start, or from the checkpoint, and prepare for episodes."""

    @abstractmethod
    def evaluate(self, step: int) -> S:
        """Play held-out tasks after a step of training."""

    @abstractmethod
    def fit(self) -> None:
        """Train the policies from step `done` to the last one."""

    @abstractmethod
    def save(self, folder: Path | None) -> None:
        """Write the trained policies to a folder, if one is given.

        Processes do so together, and one of them has a folder.
        """

    @abstractmethod
    def conclude(self) -> None:
        """Report the scores (`close`), in one process."""

    def recall(self, step: int) -> S:
        """Return the scores after a step made before the run was resumed; by default the tasks are played again."""
        return self.evaluate(step)

    def run(self) -> None:
        """Warm-start if need be, train, and evaluate on held-out tasks before and after."""
        config = self.config
        prepare_torch(config.torch_threads)
        with open_run(config, self.phase, updates=self.updates) as (self.log, self.checkpoint, self.done):
            self.log.say(f"{self.phase.upper()} on {config.setting}, in {config.output}")
            start = config.output / "start"
            if distributed.from_main(lambda: self.checkpoint is None and not (config.resume and start.is_dir())):
                sft = self.log.progress("sft", self.warm_steps, counted="steps", ends=self._ends)
                with sft if self.warm_steps else self.log.watch("Loading", 0), distributed.written(start) as draft:
                    self.warm_up(draft, self.reporter("sft"))
                    if draft:
                        write_cards(draft, config, self.phase, "The start")
            with self.log.watch("Loading", 0):
                self.load(start)
            room = memory.budget(self.device, config.memory) / memory.GIB
            self.log.say(f"{self.device}: {room:.2g} GiB beside the weights (--memory).")
            self.judge(0)
            self._begun = time.monotonic()
            with self.log.progress(self.phase, config.total, self.done, ends=self._ends):
                self.fit()
            with distributed.written(config.output / "final") as draft:
                self.save(draft)
                if draft:
                    write_cards(draft, config, self.phase, "The result")
            self.judge(self.total)
            if self.scores:
                self.gain = paired_bootstrap(self.scores[self.total].by_task, self.scores[0].by_task)
                if distributed.is_main():
                    self.conclude()
            else:
                self.log.curves(title=f"{self.phase.upper()} on {config.setting}")
                self.log.say(f"Not evaluated (--eval-samples 0). Policies, metrics and curves: {config.output}")
            distributed.wait()
            self.finish()

    def finish(self) -> None:
        """Close what `load` opened."""

    def judge(self, step: int) -> None:
        """Evaluate after a step and log the scores, if it is a milestone and that is not done already."""
        if step in self.scores or step not in self.milestones:
            return
        made = self.checkpoint and step <= self.done
        scores = self.scores[step] = self.recall(step) if made else self.evaluate(step)
        if all((r["phase"], r["step"], r["kind"]) != (self.phase, step, "heldout") for r in self.log.records):
            self.log.heldout(self.phase, step, scores.outcomes, **scores.means())

    def go_on(self, step: int) -> bool:
        """Evaluate after a step, if it is time to; return whether another one may begin."""
        now = time.monotonic()
        after_next = now + (now - self._begun)  # if it takes as long as this one
        if step < self.total and distributed.from_main(lambda: after_next > self._ends):
            self.log.say(f"The time is over (--minutes {self.config.minutes:g}): {step} of {self.total} batches.")
            self.milestones = {one for one in self.milestones if one < step} | ({step} if self.milestones else set())
            self.total = step
        self.judge(step)
        self._begun = time.monotonic()
        return step < self.total

    def reporter(self, phase: str) -> Report:
        """Return what logs the metrics of the steps of a phase, with the peak of memory so far, in GiB."""

        def report(step: int, metrics: dict[str, float]) -> None:
            peak = max(distributed.gather(memory.peak(self.device)))
            self.log.log(phase, step, **metrics, memory=peak / memory.GIB)

        return report

    def close(
        self,
        summary: Mapping[str, Any],
        results: Mapping[str, Sequence[float | None]],
        baseline: str,
        *,
        over: str,
        more: str = "",
        references: Mapping[str, float] | None = None,
    ) -> None:
        """Write `summary` to ``heldout.json``, the closing table of `results`, the curves and a sentence.

        `baseline` is the start's name in `results`, and `over` in the sentence, to which `more` is appended; lines in
        the curves show the success of `references`, other policies.
        """
        config, name, gain = self.config, self.phase.upper(), self.gain
        write_whole(config.output / "heldout.json", json.dumps(summary, indent=2) + "\n")
        self.log.closing(results, baseline)
        self.log.curves(references=references, title=f"{name} on {config.setting}")
        before, after = self.scores[0], self.scores[self.total]
        self.log.say(
            f"{name} over {over}, mean of {len(before.by_task)} tasks: {gain.points(' points')}; greedy "
            f"{before.greedy:.1%} → {after.greedy:.1%}{more}. {learnt(gain)}"
        )
        self.log.say(f"In {config.output}: the policies (start, final), curves.png, metrics, and greedy episodes.")
        for command, what in self._next_commands():
            self.log.say(f"  toolorchestra {command}  # {what}")

    def _next_commands(self) -> Iterator[tuple[str, str]]:
        """Yield what to do next, as commands of `toolorchestra`."""
        folder = self.config.output
        episodes = folder / "episodes.jsonl"
        if episodes.exists():
            yield f"show {episodes}", "read an episode of the trained policy"
        yield f"view {folder}", "curves and episodes in a browser"
        if episodes.exists() and not self.config.several_agents:
            yield f"play {self.config.env}", "play a task yourself"
