"""Train the built-in model to design systems of agents for MASBench, from three seeds.

    python benchmarks/grpo_masorchestra.py          writes benchmarks/results/grpo_masorchestra.json

First one policy for each axis, parallel and robustness, by the command that a user would give. Then, if asked for by
``--mixed``, what MAS-Orchestra asks of combined training (§4.4, Figures E.2 and E.3): one warm start on both axes, from
which policies are trained on one axis, on both (with twice the steps, as in the paper), and on both without notes; each
is held to the held-out problems of either axis, notes included. Each training is a process of its own with one thread,
so its time, of the clock and of the processor, includes everything a user waits for.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import RESULTS, cli, folder_for, held_out, learn, lines, provenance, read, write

from toolorchestra.algos.reporting import design_statistics

AXES = ("parallel", "robustness")
STEPS = 40
SETTINGS = (
    *("--sft-steps", "300", "--sft-batch", "32", "--open-at", "0"),
    *("--filters", "homogeneity", "format", "invalid", "--aggregation", "grpo"),
    *("--eval-every", "0", "--save-every", "0", "--threads", "1"),
)
MIXED = {"combined": 2, "parallel": 1, "robustness": 1, "without notes": 2}
"""What the policies of the comparison are trained on, and how many times the steps."""
IN_FLIGHT = 32
"""Environments at a time where each reads the problems from a file."""
SIZES = tuple(f"{measure}_" for measure in design_statistics.MEASURES)
HeldOut = dict[str, tuple[list[float], dict[str, float]]]
"""By axis: success by task, and statistics of designs."""


@dataclass
class Benchmark:
    """Train on MASOrchestra-High-MASBench{Parallel,Robustness}-v0 from several seeds."""

    seeds: tuple[int, ...] = (0, 1, 2)  # one run of each axis each
    mixed: tuple[int, ...] = ()  # seeds of the comparison of separate and combined training
    output: Path = RESULTS / "grpo_masorchestra.json"  # what other runs have left there is kept
    runs: Path | None = None


def main(benchmark: Benchmark) -> None:
    """Run the benchmark."""
    folder = folder_for(benchmark.runs)
    options = f"{' '.join(SETTINGS)} --steps {STEPS} --seed SEED"
    record: dict[str, Any] = read(benchmark.output, {"axes": {}, "mixed": {}}) | provenance()
    record |= {"training": f"toolorchestra train grpo --env MASOrchestra-High-MASBench…-v0 {options}"}

    def keep(part: str, name: str, seed: int, found: dict[str, Any]) -> None:
        record[part].setdefault(name, {})[str(seed)] = found
        write(benchmark.output, record)

    for seed in benchmark.seeds:
        for axis in AXES:
            run = folder / f"{axis}-{seed}"
            env_id = f"MASOrchestra-High-MASBench{axis.title()}-v0"
            steps = ("--steps", str(STEPS), "--eval-samples", "2", "--seed", str(seed))
            spent = learn("grpo", run, *SETTINGS, "--env", env_id, *steps)
            curves = {"curves": curves_of(run)} if seed == 0 else {}
            keep("axes", axis, seed, spent | held_out(run) | curves)
    for seed in benchmark.mixed:
        start: tuple[str, ...] = ()
        before: HeldOut = {}
        for name, times in MIXED.items():
            run = folder / f"mixed-{name.replace(' ', '-')}-{seed}"
            file = write_mixed(folder / f"{name.replace(' ', '_')}.jsonl", name)
            env = ("--env", "MASOrchestra-High-Custom-v0", "--env-options", "tasks", str(file))
            sizes = f"--steps {STEPS * times} --in-flight {IN_FLIGHT} --eval-samples 1 --seed {seed}"
            spent = learn("grpo", run, *SETTINGS, *env, *sizes.split(), *start)
            if not start:
                start = ("--start", str(run / "start"))
                before = by_axis(run / "start", file)
                keep("mixed", "start", seed, compared(before))
            keep("mixed", name, seed, spent | compared(by_axis(run / "final", file), before))


def curves_of(run: Path) -> list[dict[str, float]]:
    """Return what is drawn of the training steps: statistics of designs, success and cost."""
    drawn = ("step", "valid", "success", "warned", "cost", *design_statistics.MEASURES)
    return [
        {name: value for name, value in line.items() if name in drawn or name.startswith(("kind_", *SIZES))}
        for line in lines(run / "metrics.jsonl")
        if line["kind"] == "train" and "valid" in line
    ]


def write_mixed(file: Path, name: str) -> Path:
    """Write problems to train on, as `MIXED` names them, and the held-out ones of both axes, into a file."""
    from toolorchestra.envs.sources.masbench.generate import InstanceSettings
    from toolorchestra.envs.sources.masbench.source import MASBenchSource
    from toolorchestra.toolscale.tasks.task import write_tasks

    plain = InstanceSettings(notes=name != "without notes")
    tasks = [task for axis in AXES for task in MASBenchSource(axis).tasks("test")]
    for axis in AXES if name in ("combined", "without notes") else (name,):
        tasks += MASBenchSource(axis, settings=plain).tasks("train")
    write_tasks(file, tasks)
    return file


def by_axis(folder: Path, file: Path, samples: int = 2) -> HeldOut:
    """Return a policy's success on each task of each axis, and what its designs are like."""
    from toolorchestra.agents.builtin.model import TokenPolicy, prepare_torch
    from toolorchestra.algos import grpo
    from toolorchestra.algos.options.one_agent import TrainGRPO
    from toolorchestra.algos.reporting.evaluation import PolicyScores, evaluate
    from toolorchestra.envs.starts import make_env, starts

    prepare_torch(1)
    config = TrainGRPO(env="MASOrchestra-High-Custom-v0", env_options={"tasks": str(file)}, in_flight=IN_FLIGHT)
    policy = TokenPolicy.load(folder)
    env = make_env(config.env, config.env_options)
    plays = [play for level in starts(env, "test", config.difficulty).values() for play in level]
    engine = grpo.make_engine(config, policy.renderer)
    rows = evaluate(engine, policy, plays, samples=samples)
    engine.close()
    env.close()

    found = {}
    for axis in AXES:
        part = [row for row in rows if f"/{axis}" in row.task_id]
        found[axis] = PolicyScores(part, samples, 0.0).by_task, design_statistics.statistics(part)
    return found


def compared(now: HeldOut, before: HeldOut | None = None) -> dict[str, Any]:
    """Return success by axis, and the gain over an earlier policy, with 95 % intervals (bootstrap over tasks)."""
    from toolorchestra.algos.reporting.stats import paired_bootstrap

    record: dict[str, Any] = {}
    for axis, (success, statistics) in now.items():
        found = {"tasks": len(success), "success": paired_bootstrap(success, [0.0] * len(success))._asdict()}
        if before is not None:
            found["gain"] = paired_bootstrap(success, before[axis][0])._asdict()
        record[axis] = found | statistics
    return record


if __name__ == "__main__":
    cli(main)
