"""Kill runs of every kind at random moments, continue them, and compare their end with that of one left alone.

    python benchmarks/kills.py                               50 kills of each kind, an hour or so
    python benchmarks/kills.py --kinds grpo --kills 10       a part of it
    python benchmarks/kills.py --kinds sft --record          and add what was found to results/kills.json

A run is started again with `--resume` where its command has that and the run had begun, and otherwise as it was, until
it comes to its end; then another one begins. What must be the same: the weights of trainings, and the bytes of what the
others make. The benchmark fails if an end differs, or if a run cannot be continued.

Trainings are tiny, with rewards by the ids that are sampled, so that an untrained policy learns something. The process
imports everything once and forks the runs, so that a kill does not have to wait for imports.

Kills come in slices of `--slice`, each with a seed of its own, after which `--record` writes what was found; slices
that the record holds are not run again. Delete the record to begin anew.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from harness import ROOT, cli, provenance, read, write

import toolorchestra.algos  # makes settings that torch reads once
from examples.studies import tmatr as tmatr_study
from toolorchestra.algos import grpo, msarl, sft, tmatr, trl_trainers
from toolorchestra.algos.rollout.multi_agent import Slot
from toolorchestra.cli.main import main as command_line
from toolorchestra.toolscale.domain_folder import build_domain
from toolorchestra.toolscale.synth.answer_store import RecordedModel
from toolorchestra.toolscale.synth.pipeline import synthesise
from toolorchestra.toolscale.synth.sizes import Sizes

MAX_ATTEMPTS = 40
"""Runs after which one that does not come to its end counts as stuck."""
assert toolorchestra.algos
assert trl_trainers  # imported before the forks, since it takes seconds


class Kind(NamedTuple):
    """A kind of run: how it is made in a folder, or continued there, and what it leaves behind."""

    run: Callable[[Path, bool], object]
    """Called with the folder and whether a run has begun in it."""
    made: Callable[[Path], Sequence[Path]]


# ------------------------------------------------------------------------------------------------------- the kinds


def weights(folder: Path) -> list[Path]:
    """Return the files of the trained policies."""
    return sorted((folder / "final").rglob("*.safetensors"))


def train_sft(folder: Path, resume: bool) -> None:
    """Train by supervised fine-tuning."""
    settings: dict[str, Any] = {"difficulty": (1,), "batch": 4, "replays": 1, "threads": 1}
    sft.train(sft.TrainSFT(output=folder, steps=24, save_every=2, resume=resume, **settings))


def train_grpo(folder: Path, resume: bool) -> None:
    """Train by GRPO after a warm start, with short rollouts rewarded."""
    make = grpo.make_engine

    def by_length(*arguments: Any) -> Any:
        engine = make(*arguments)
        play = engine.play

        def judged(*given: Any, **more: Any) -> Any:
            rows = play(*given, **more)
            for row in rows:
                row.reward = 1.0 / len(row.completion_ids)
            return rows

        engine.play = judged  # type: ignore[method-assign]
        return engine

    grpo.make_engine = by_length  # type: ignore[assignment]
    settings: dict[str, Any] = {
        "groups": 2,
        "group_size": 4,
        "resample": 0,
        "filters": (),
        "sft_steps": 4,
        "threads": 1,
    }
    settings |= {"max_turns": 2, "max_turn_ids": 6, "eval_samples": 1, "eval_split": "test_intents"}
    options = grpo.TrainGRPO(output=folder, difficulty=(1,), steps=12, save_every=1, resume=resume, **settings)
    grpo.train(options)


SEVERAL: dict[str, Any] = {"groups": 3, "eval_samples": 1, "threads": 1, "kinds": ("committee",), "sft_steps": 4}
SEVERAL |= {"max_turn_ids": 12}


def reward_parity() -> None:
    """Reward episodes by the parity of the ids that were sampled."""
    parity = property(lambda slot: float(sum(sum(t.ids) for t in slot.trajectories.values()) % 2))
    Slot.reward = parity  # type: ignore[method-assign,assignment]


def train_msarl(folder: Path, resume: bool) -> None:
    """Train two agents by nested GRPO."""
    reward_parity()
    settings = {name: value for name, value in SEVERAL.items() if name != "kinds"}
    settings |= {"paths": 2, "interpretations": 2, "steps": 10, "save_every": 1, "groups": 2}
    msarl.train(msarl.TrainMSARL(output=folder, resume=resume, **settings))


def train_tmatr(folder: Path, resume: bool) -> None:
    """Train two agents by alternating DPO."""
    reward_parity()
    settings = SEVERAL | {"schedule": ("inferencer", "planner"), "stage_steps": 4, "group_size": 2, "min_pairs": 1}
    tmatr.train(tmatr.TrainTMATR(output=folder, save_every=1, resume=resume, **settings))


def run_study(folder: Path, resume: bool) -> None:
    """Run the study of schedules, whose trainings are processes of their own; those that ended are not made again."""
    sizes = "--sft-steps 4 --stage-steps 1 --group-size 2 --min-pairs 1"
    options = f"{sizes} --threads 1 --max-turn-ids 12 --kinds committee"
    schedules = ("joint", "joint, twice the updates")
    found = tmatr_study.run(2, 1, schedules=schedules, runs=folder / "runs", more=options.split())
    tmatr_study.write(found, folder / "study")


def roll_out(folder: Path, resume: bool) -> None:
    """Record episodes."""
    options = ["--policy", "noisy-oracle", "--split", "all", "--episodes", "400", "--out", str(folder / "run.jsonl")]
    more = ["--resume"] if (folder / "run.jsonl").exists() else []
    if command_line(["rollout", str(ROOT / "tests" / "data" / "mini"), *options, *more]):
        raise SystemExit(1)


def synthesise_domain(folder: Path, resume: bool) -> None:
    """Synthesise a domain by a model, from a recording, and build it."""
    model = RecordedModel(ROOT / "tests" / "data" / "synth" / "library.yaml")
    synthesise(folder / "library", "Village library", model, sizes=Sizes(2, 40, 5, 4, 6, 2))
    build_domain(folder / "library")


def synthesise_tasks(folder: Path, resume: bool) -> None:
    """Generate tasks."""
    folder.mkdir(exist_ok=True)
    options = ["--count", "300", "--workers", "1", "--out", str(folder / "tasks.jsonl")]
    if command_line(["synth", "tasks", str(ROOT / "tests" / "data" / "mini"), *options]) > 1:  # 1: fewer than asked for
        raise SystemExit(1)


DOMAIN = ("domain.yaml", "tools.yaml", "intents.yaml", "synth.json", "domain.db", "tasks.jsonl", "build.json")
KINDS = {
    "sft": Kind(train_sft, weights),
    "grpo": Kind(train_grpo, weights),
    "msarl": Kind(train_msarl, weights),
    "tmatr": Kind(train_tmatr, weights),
    "study": Kind(run_study, lambda folder: [folder / "study" / f"study.{kind}" for kind in ("csv", "md")]),
    "synth": Kind(synthesise_domain, lambda folder: [folder / "library" / name for name in DOMAIN]),
    "synth-tasks": Kind(synthesise_tasks, lambda folder: [folder / "tasks.jsonl"]),
    "rollout": Kind(roll_out, lambda folder: [folder / "run.jsonl"]),
}


# --------------------------------------------------------------------------------------------------------- killing


class RunFailedError(Exception):
    """A run ended by itself with an error."""


@dataclass
class Found:
    """What was found of a kind, and the seconds that a run takes that is left alone."""

    kills: int = 0
    runs: int = 0
    differing: int = 0
    stuck: int = 0
    seconds: float = 0.0


def attempt(kind: Kind, folder: Path, log: Path, after: float | None) -> bool:
    """Run in a process of its own, killed `after` so many seconds; return whether it came to its end."""
    resume = (folder / "metrics.jsonl").exists()
    child = os.fork()
    if not child:
        os.setsid()
        with log.open("ab") as stream:
            for descriptor in (1, 2):
                os.dup2(stream.fileno(), descriptor)
        try:
            kind.run(folder, resume)
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    until = None if after is None else time.perf_counter() + after
    while True:
        ended, status = os.waitpid(child, os.WNOHANG if until else 0)
        if ended:
            if status:
                raise RunFailedError(log.read_text(encoding="utf-8", errors="replace")[-3_000:])
            return True
        assert until is not None
        if time.perf_counter() >= until:
            try:
                os.killpg(child, signal.SIGKILL)  # with the processes that it has started
            except ProcessLookupError:  # it has not become a group's leader yet
                os.kill(child, signal.SIGKILL)
            return os.waitpid(child, 0)[1] == 0
        time.sleep(0.001)


def digest(kind: Kind, folder: Path) -> str:
    """Return a hash of what a run has left behind."""
    files = kind.made(folder)
    content = hashlib.sha256()
    for file in files:
        content.update(file.name.encode() + b"\0" + file.read_bytes())
    return content.hexdigest() if files else "nothing"


def kill(kind: Kind, kills: int, rng: random.Random, scratch: Path) -> Found:
    """Kill runs of a kind so many times and compare what they end with."""
    found = Found()
    began = time.perf_counter()
    attempt(kind, scratch / "whole", scratch / "whole.log", None)
    found.seconds = time.perf_counter() - began
    expected = digest(kind, scratch / "whole")
    assert expected != "nothing", "the run leaves nothing behind"
    while found.kills < kills:
        folder, log = scratch / str(found.runs), scratch / f"{found.runs}.log"
        found.runs += 1
        for _ in range(MAX_ATTEMPTS):
            alone = found.kills >= kills
            if attempt(kind, folder, log, None if alone else rng.random() * found.seconds):
                break
            found.kills += 1
        else:
            found.stuck += 1
            continue
        if digest(kind, folder) != expected:
            found.differing += 1
            print(f"  {folder} ended otherwise than {scratch / 'whole'}", file=sys.stderr)
    return found


@contextmanager
def folder_of(keep: Path | None, name: str) -> Iterator[Path]:
    """Yield an empty folder for the runs of a kind; it is deleted unless it is to be kept."""
    if keep is not None:
        (keep / name).mkdir(parents=True)
        yield keep / name
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def slice_of(name: str, kills: int, seed: int, keep: Path | None) -> dict[str, Any]:
    """Kill runs of a kind so many times; return what was found, or how a run failed."""
    with folder_of(keep, f"{name}-{seed}") as scratch:
        try:
            found = kill(KINDS[name], kills, random.Random(f"{name}/{seed}"), scratch)
        except RunFailedError as error:
            print(f"{name:12}could not be continued:\n{error}")
            return {"failed": str(error)[-300:]}
    print(
        f"{name:12}{found.kills:>7}{found.runs:>7}{found.differing:>11}{found.stuck:>7}{found.seconds:>9.1f}",
        flush=True,
    )
    return {**vars(found), "seconds": round(found.seconds, 1), "made": provenance()}


@dataclass
class Options:
    """What is killed."""

    kinds: tuple[str, ...] = tuple(KINDS)  # which kinds of runs
    kills: int = 50  # of each kind
    slice: int = 10  # kills of a kind after which what was found is recorded
    keep: Path | None = None  # keep the folders of the runs here
    record: bool = False  # add what was found to the record


def main(given: Options) -> bool:
    record: dict[str, dict[str, Any]] = read("kills", {}) if given.record else {}
    print(f"{'kind':12}{'kills':>7}{'runs':>7}{'differing':>11}{'stuck':>7}{'seconds':>9}")
    for name in given.kinds:
        slices = record.setdefault(name, {})
        for seed in range(given.kills):
            left = given.kills - sum(found.get("kills", 0) for found in slices.values())
            if left < 1 or any("failed" in found for found in slices.values()):
                break
            if str(seed) not in slices:
                slices[str(seed)] = slice_of(name, min(left, given.slice), seed, given.keep)
                if given.record:
                    write("kills", {kind: record[kind] for kind in sorted(record)})
    found = [one for name in given.kinds for one in record[name].values()]
    failed = any("failed" in one or one["differing"] or one["stuck"] for one in found)
    print("Every run ended as one that was never killed." if not failed else "NOT every run ended as it should.")
    return failed


if __name__ == "__main__":
    cli(main)
