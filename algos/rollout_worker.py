"""Rollouts that go on while the policy is trained (``--max-staleness``), by the protocol of TRL's asynchronous GRPO.

`RolloutWorker` plays groups in a thread of its own and hands out TRL's samples, so that it fits TRL's
`AsyncGRPOTrainer`. `AsyncGroupRollouts` feeds our trainer (`toolorchestra.algos.grpo`) from it: TRL's asynchronous one
needs kernels of recent GPUs and models of attention only, and has neither truncated importance sampling nor a
divergence from the start.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import queue
import random
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from toolorchestra.agents.event_loop import run
from toolorchestra.algos.group_rollouts import Curriculum, GroupRollouts, RolloutGroup
from toolorchestra.algos.options.one_agent import TrainGRPO
from toolorchestra.algos.rollout.engine import RolloutEngine, RolloutRequest, Row
from toolorchestra.algos.rollout.sampling import AnySampler
from toolorchestra.envs.records.unjudged import unjudged_error
from toolorchestra.toolscale.common.errors import OptionError, TrainingError

_BEAT = 0.2
"""Seconds after which the worker looks whether samples were taken, and after which a reader looks at its health."""
_HUNG_AFTER = 3600.0
"""Seconds without a sign of life after which it counts as hung; a batch of long turns can take minutes on a CPU."""


@dataclass(slots=True)
class _OpenGroup:
    """A group that is being played: the rollouts of one task of some level."""

    level: int
    tries: int
    version: int
    rows: dict[int, Row]


class RolloutWorker:
    """Plays groups in a thread of its own, as far ahead of the training as their staleness may be.

    It keeps TRL's `RolloutWorkerProtocol`; the version of the policy is the number of its updates. A group that the
    filters drop is replaced by another task's, `config.resample` times. The tasks of a group and their seeds depend on
    the run's seed, the number of the group, and the state of the curriculum.

    Args:
        engine: Plays the episodes; it belongs to the worker, which closes it.
        curriculum: Draws tasks.
        config: The learner's options.
        sampler: Samples with the weights of the last synchronisation, from any thread.
        first: Number of the first group.

    Attributes:
        rollout_buffer: Samples, those of a group one after the other; the first has the group as its ``group``.
        metrics_queue: Always empty: measurements are in the samples.
        dropped: Groups that were replaced, until they are taken from here.
        unjudged: For each row played, why it was not judged, or None; likewise.
    """

    def __init__(
        self, engine: RolloutEngine, curriculum: Curriculum, config: TrainGRPO, sampler: AnySampler, *, first: int = 0
    ) -> None:
        self.engine, self.curriculum, self.config, self.sampler = engine, curriculum, config, sampler
        self.rollout_buffer: queue.Queue[Any] = queue.Queue()
        self.metrics_queue: queue.Queue[dict[str, float]] = queue.Queue()
        self.dropped: list[RolloutGroup] = []
        self.unjudged: list[str | None] = []
        self.version = 0
        self._make_sample = _sample_type()
        self._numbers, self._begun, self._handed_out, self._taken = itertools.count(first), 0, 0, 0
        self._open: dict[int, _OpenGroup] = {}
        self._asked: deque[tuple[int, RolloutRequest]] = deque()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self._stopping, self._beaten = False, time.monotonic()

    # ------------------------------------------------------------------------------------------- TRL's protocol

    def start(self) -> None:
        """Begin to play, unless that is done already."""
        if self._thread is None:
            self._beaten = time.monotonic()
            self._thread = threading.Thread(target=self._main, name="rollouts", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Give up what is being played, and wait until the thread has ended."""
        self._stopping = True
        if self._thread is not None:
            while self._thread.is_alive():
                if self._loop is not None and self._task is not None:
                    self._loop.call_soon_threadsafe(self._task.cancel)
                self._thread.join(_BEAT)

    def update_model_version(self, model_version: int) -> None:
        """Say after how many updates the policy is sampled from now on, so that further groups may begin."""
        self.version, self._taken = model_version, self._taken_groups
        if self._loop is not None and self._thread is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._wake.set)

    def check_health(self, stale_after_s: float = _HUNG_AFTER) -> None:
        """Raise what ended the worker, or an error if there was no sign of life for so many seconds.

        Raises:
            TrainingError: It is hung.
        """
        if self._error is not None:
            raise self._error
        if (age := time.monotonic() - self._beaten) > stale_after_s:
            raise TrainingError(f"The rollouts gave no sign of life for {age:.0f} s. Continue with --resume.")

    # -------------------------------------------------------------------------------------------- in its thread

    def _main(self) -> None:
        try:
            run(self._play())
        except BaseException as error:  # the training's thread raises it
            if not self._stopping:
                self._error = error
        finally:
            self.engine.close()

    async def _play(self) -> None:
        self._wake = asyncio.Event()
        self._task, self._loop = asyncio.current_task(), asyncio.get_running_loop()
        if self._stopping:
            return
        beat = asyncio.ensure_future(self._beat())
        try:
            await self.engine.play_each(self.sampler, self._following, self._ended)
        finally:
            beat.cancel()

    async def _beat(self) -> None:
        while True:
            self._beaten = time.monotonic()
            self._wake.set()
            await asyncio.sleep(_BEAT)

    @property
    def _taken_groups(self) -> int:
        """Number of groups that were taken from the buffer."""
        return self._handed_out - self.rollout_buffer.qsize() // self.config.rollouts_per_task

    def _may_begin(self) -> bool:
        """Return whether a group that begins now is used, in the order of beginning, before it is too old.

        Of those taken since the last update as many as are needed are used in it; more were discarded.
        """
        discarded = max(0, self._taken_groups - self._taken - self.config.tasks_per_batch)
        return self._begun - self._taken < (self.config.max_staleness + 1) * self.config.tasks_per_batch + discarded

    async def _following(self) -> tuple[int, RolloutRequest] | None:
        """Return the next episode, once it may begin."""
        while not self._asked:
            if self._may_begin():
                self._begun += 1
                self._begin(next(self._numbers), 0)
            else:
                self._wake.clear()
                await self._wake.wait()
        return self._asked.popleft()

    def _begin(self, group: int, tries: int) -> None:
        """Ask for the episodes of a group."""
        rng = random.Random(f"{self.config.seed}/{group}/{tries}")
        ((level, start),) = self.curriculum.draw(1, rng)
        self._open[group] = _OpenGroup(level, tries, self.version, {})
        for n in range(self.config.rollouts_per_task):
            request = RolloutRequest(group, start.another(rng), rng.getrandbits(48))
            self._asked.append((group * self.config.rollouts_per_task + n, request))
        self._wake.set()

    def _ended(self, number: int, row: Row) -> None:
        """Keep a row, and hand out its group if that is whole, or begin another in its place."""
        size, resample = self.config.rollouts_per_task, self.config.resample
        group, n = divmod(number, size)
        found = self._open[group]
        found.rows[n] = row
        if len(found.rows) < size:
            return
        del self._open[group]
        rows = [found.rows[n] for n in range(size)]
        reasons = [row.unjudged for row in rows]
        self.unjudged += reasons
        if all(row.valid for row in rows):
            judged = RolloutGroup.recorded(found.level, rows, self.curriculum, self.config)
            if any(judged.kept) or found.tries == resample:
                self._hand_out(group, found.version, judged)
                return
            self.dropped.append(judged)
        elif found.tries == resample:
            raise OptionError(
                f"A group could not be played without infrastructure errors in {resample + 1} "
                f"attempt{'s' * bool(resample)} ({unjudged_error(reasons)}). Repair what failed, or raise `resample`."
            )
        self._begin(group, found.tries + 1)

    def _hand_out(self, number: int, version: int, group: RolloutGroup) -> None:
        """Put the samples of a group into the buffer."""
        now = time.time()
        for n, (row, kept, advantage) in enumerate(zip(group.rows, group.kept, group.advantages, strict=True)):
            written = len(row.completion_ids) if kept else 1
            before = len(row.prompt_ids)
            sample = self._make_sample(
                prompt=row.messages[:1],
                completion=row.messages[1:],
                input_ids=np.array(row.prompt_ids + row.completion_ids[:written]),
                completion_mask=np.array([0] * before + (row.mask if kept else [0])),
                old_log_probs=np.array([0.0] * before + row.logprobs[:written], np.float32),
                advantage=advantage,
                model_version=version,
                group_id=number,
                metrics={"reward": row.reward, "success": float(row.outcome == "solved"), "turns": float(row.turns)},
                enqueued_at=now,
                group=None if n else group,
            )
            row.messages, row.episode = [], None
            self.rollout_buffer.put(sample)
        self._handed_out += 1


@cache
def _sample_type() -> Any:
    """Return the type of the samples: TRL's, whose import takes seconds, with the group of our rows on the first."""
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    from trl.experimental.async_grpo.async_rollout_worker import RolloutSample

    @dataclass
    class GroupSample(RolloutSample):
        group: RolloutGroup | None = None

    return GroupSample


class AsyncGroupRollouts(GroupRollouts):
    """`GroupRollouts` from a `RolloutWorker`: a batch is what has ended first and is not too old.

    Beside those of all rollouts its metrics are the mean and the maximum of the ``staleness`` of the groups, in updates
    of the policy, how many were ``discarded`` for it, and the seconds that the training ``waited`` for the batch.
    """

    config: TrainGRPO
    _worker: RolloutWorker | None = None

    def collect(self, wanted: int, step: int, model: Any) -> tuple[list[RolloutGroup], list[RolloutGroup]]:
        """Return so many groups for an optimiser step, and those that were dropped meanwhile."""
        del model
        version, began = step // self.config.updates, time.perf_counter()
        worker = self._started(version)
        found: list[RolloutGroup] = []
        ages: list[int] = []
        discarded = 0
        while len(found) < wanted:
            first, *_ = [self._next(worker) for _ in range(self.config.rollouts_per_task)]
            if (age := version - first.model_version) > self.config.max_staleness:
                discarded += 1
            else:
                found.append(first.group)
                ages.append(age)
        dropped, worker.dropped = worker.dropped, []
        self._unjudged, worker.unjudged = worker.unjudged, []
        self._collected = {
            "staleness": sum(ages) / len(ages),
            "staleness_max": max(ages),
            "discarded": discarded,
            "waited": time.perf_counter() - began,
        }
        kept = [any(group.kept) for group in found]
        spare = [group for group, useful in zip(found, kept, strict=True) if not useful]
        return [group for group, useful in zip(found, kept, strict=True) if useful], [*spare, *dropped]

    def _started(self, version: int) -> RolloutWorker:
        """Return the worker, which is begun with the first weights, and tell it the version of the present ones."""
        if self._worker is None:
            sampler = self.generation.live_sampler(self.engine.renderer, temperature=self.config.temperature)
            first = version * self.config.tasks_per_batch
            self._worker = RolloutWorker(self.engine, self.curriculum, self.config, sampler, first=first)
        self._worker.update_model_version(version)
        self._worker.start()
        return self._worker

    def _next(self, worker: RolloutWorker) -> Any:
        """Return the next sample, once there is one."""
        while True:
            try:
                return worker.rollout_buffer.get(timeout=_BEAT)
            except queue.Empty:
                worker.check_health()

    def _measure(self, useful: Sequence[RolloutGroup], spare: Sequence[RolloutGroup], model: Any) -> None:
        super()._measure(useful, spare, model)
        self.metrics |= self._collected

    def close(self) -> None:
        """Stop what is still played."""
        if self._worker is not None:
            self._worker.stop()
