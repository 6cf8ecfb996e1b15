"""What learners of several agents share: options, the team's policies, evaluation, checkpoints, and the loop.

A learner is a `TrainTeam` of options and a `Learner`, which turns a batch of rollouts into an update; `train` does the
rest. Not here: rollouts (`toolorchestra.algos.rollout.multi_agent`) and what is taught before
(`toolorchestra.algos.warm_start`).
"""

from __future__ import annotations

import json
import math
import random
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol

import msgspec
import numpy as np
import torch

from toolorchestra.agents.builtin.adapters import holds_adapters, load_adapters, make_adapters
from toolorchestra.agents.builtin.model import TokenPolicy, prepare_torch
from toolorchestra.agents.builtin.text_model import builtin_text_policy
from toolorchestra.algos import sft
from toolorchestra.algos.learner_choice import require_several_agents
from toolorchestra.algos.report import RunLog, set_aside
from toolorchestra.algos.rollout.engine import ModelSampler, Sampler, Start
from toolorchestra.algos.rollout.multi_agent import MultiAgentEngine, Slot
from toolorchestra.algos.stats import Interval, paired_bootstrap
from toolorchestra.algos.warm_start import demonstrate, lesson, teacher_of
from toolorchestra.envs.episode import write_episodes
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.registration import make_multiagent
from toolorchestra.toolscale.answers import equal, final_answer
from toolorchestra.toolscale.errors import OptionError, UnknownNameError

SHARED = "shared"
"""Name of the one policy of a team that shares its weights."""
_SFT_BATCH = 32


@dataclass
class TrainTeam(ABC):
    """Options that all learners of several agents have. Subclasses say whose models they are, and for how long.

    Attributes:
        embedded_rate: The learning rate of embedded models unless told otherwise.
    """

    builtin_rate: ClassVar[float] = 3e-4

    env: str
    """Id of the environment (`toolorchestra.envs.make_multiagent`)."""
    output: Path
    """Folder for models, checkpoints and metrics."""
    env_options: dict[str, str] = field(default_factory=dict)
    """Further arguments of the environment; values that are JSON are read as such."""
    share: bool = False
    """One set of weights for all agents."""
    lora_rank: int = 0
    """Rank of a LoRA adapter for each policy, over one frozen model that all share; 0: a whole model each."""
    seed: int = 0
    """Seed of everything random."""
    difficulty: tuple[int, ...] = (1,)
    """Levels of the tasks to train and evaluate on; empty for all."""
    kinds: tuple[str, ...] = ()
    """Kinds of these tasks (what a task calls its `intent`); empty for all."""
    start: Path | None = None
    """Folder of policies to start from (the ``start`` or ``final`` of another run) instead of making them."""
    sft_steps: int = 600
    """Steps of the warm start (embedded models only); 0 for none."""
    sft_error: float = 0.4
    """Probability that the warm start's teacher slips in a message, at the end of the lesson."""
    learning_rate: float | None = None
    """Constant learning rate; None: the learner's own for embedded models, 1e-6 for others; tenfold for adapters."""
    temperature: float = 1.0
    """Sampling temperature of rollouts."""
    max_turn_ids: int | None = None
    """Most tokens of a message; None: 64 for embedded models, 1024 for others."""
    max_ids: int | None = None
    """Most tokens of an agent's stream; None: 512 for embedded models, 16000 for others."""
    rows_at_once: int | None = None
    """Rows in one forward pass of training; None: all for embedded models, 4 for others."""
    slots: int = 128
    """Episodes continued in one batch."""
    eval_split: str = "test"
    """Held-out split."""
    eval_samples: int = 8
    """Sampled episodes per held-out task (k of pass@k and maj@k)."""
    threads: int | None = None
    """Threads of torch; None: the cores at hand, at most 4."""
    save_every: int = 10
    """Batches of rollouts between checkpoints; 0 for none."""
    resume: bool = False
    """Continue from the last checkpoint in `output`, exactly as if it had not stopped."""

    def __post_init__(self) -> None:
        require_several_agents(self.env)
        for name in ("slots", "eval_samples"):
            if getattr(self, name) < 1:
                raise OptionError(f"`{name}` must be at least 1, got {getattr(self, name)!r}.")
        if self.lora_rank < 0:
            raise OptionError(f"`lora_rank` must be at least 0, got {self.lora_rank}.")
        if not 0 <= self.sft_error <= 1 or self.temperature <= 0:
            raise OptionError("`sft_error` must lie in [0, 1], and `temperature` above 0.")
        if self.start and not self.small:
            raise OptionError("`start` holds policies already: give it or models, not both.")
        if self.resume and not self.save_every:
            raise OptionError("`resume` needs checkpoints: leave `save_every` above 0.")

    @abstractmethod
    def model_of(self, name: str) -> str:
        """Return the folder or hub name of a policy's model, where they are no embedded ones."""

    @property
    @abstractmethod
    def small(self) -> bool:
        """Whether the policies are embedded ones."""

    @property
    @abstractmethod
    def total(self) -> int:
        """Batches of rollouts of the whole training."""

    @property
    def rate(self) -> float:
        """The learning rate, its default resolved."""
        return self.learning_rate or (self.builtin_rate if self.small else 1e-6) * (10 if self.lora_rank else 1)

    def policy_of(self, agent: str) -> str:
        """Return the name of the policy of an agent."""
        return SHARED if self.share else agent

    def policies(self, env: MultiAgentEnv) -> tuple[str, ...]:
        """Return the names of the policies that play a game, in the order of the agents."""
        return tuple(dict.fromkeys(map(self.policy_of, env.possible_agents)))

    def given_options(self) -> dict[str, Any]:
        """Return `env_options` as the environment takes them."""
        return {name: _meant(value) for name, value in self.env_options.items()}

    def make_env(self, hardness: float = 1.0) -> MultiAgentEnv:
        """Return the environment; for the warm start's first lessons, an easier one (`hardness` below 1)."""
        return make_multiagent(self.env, **self.given_options())


def _meant(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


# --------------------------------------------------------------------------------------------- tasks, policies


def known_tasks(config: TrainTeam, env: MultiAgentEnv, split: str) -> list[Start]:
    """Return where episodes of a split can begin: for embedded models, with tasks that the teacher can teach."""
    tasks = [task for task in env.source.tasks(split) if not config.difficulty or task.difficulty in config.difficulty]
    if config.kinds:
        there = {task.intent for task in env.source.tasks("all")}
        if unknown := [kind for kind in config.kinds if kind not in there]:
            raise UnknownNameError("kind of task", unknown[0], sorted(there))
        tasks = [task for task in tasks if task.intent in config.kinds]
    if config.small:
        tasks = list(filter(teacher_of(env).knows, tasks))
    if not tasks:
        levels = sorted({task.difficulty for task in env.source.tasks(split)})
        raise OptionError(
            f"{env.source.name} has no task of split {split!r} with difficulty {list(config.difficulty)}"
            f"{f' of the kinds {list(config.kinds)}' if config.kinds else ''}"
            f"{' that an embedded model can be taught' if config.small else ''}; it has difficulties {levels}."
        )
    return [Start(0, (("task_id", task.id),)) for task in tasks]


def warm_up(config: TrainTeam, env: MultiAgentEnv, report: sft.Report) -> dict[str, TokenPolicy]:
    """Return the policies that training starts from: models as they are, or embedded ones, taught together."""
    names = config.policies(env)
    if config.start:
        policies = load_policies(names, config.start)
        if holds_adapters(config.start, names) is not bool(config.lora_rank):
            raise OptionError(
                f"Expected {'adapters' if config.lora_rank else 'whole models'} in {config.start}, found the opposite: "
                f"{'leave `lora_rank` at 0' if config.lora_rank else 'give `lora_rank`'}, or start from elsewhere."
            )
        return policies
    if not config.small:
        models = {name: config.model_of(name) for name in names}
        if not config.lora_rank:
            return {name: TokenPolicy.load(model) for name, model in models.items()}
        if len(set(models.values())) > 1:
            raise OptionError(f"Adapters share one base, got several: {', '.join(models.values())}. Give one model.")
        return {**make_adapters(names, models[names[0]], rank=config.lora_rank, seed=config.seed)}
    rng = random.Random(config.seed)
    starts = known_tasks(config, env, "train")
    words = demonstrate(env, teacher_of(env), known_tasks(config, env, "all"), 0.0, rng)
    policy = builtin_text_policy([demonstration.messages for demonstration in words], seed=config.seed)
    if config.sft_steps:
        rows = lesson(
            config.make_env, starts, policy, rows=config.sft_steps * _SFT_BATCH, error=config.sft_error, rng=rng
        )
        folder = config.output / "sft"
        sft.fit(policy, rows, output=folder, batch=_SFT_BATCH, learning_rate=2e-3, seed=config.seed, report=report)
    taught = config.output / "sft" / "taught"  # all agents begin with what one model has learnt of their roles
    policy.save(taught)
    if config.lora_rank:
        return {**make_adapters(names, taught, rank=config.lora_rank, seed=config.seed, carried=True)}
    return {name: TokenPolicy.load(taught) for name in names}


def load_policies(names: Iterable[str], folder: Path, device: torch.device | None = None) -> dict[str, TokenPolicy]:
    """Return the policies that `save_policies` wrote."""
    names = list(names)
    if missing := [name for name in names if not (folder / name).is_dir()]:
        raise OptionError(f"{folder} holds no policy of the name {missing[0]!r}: give the `start` or `final` of a run.")
    policies: dict[str, TokenPolicy] = (
        {**load_adapters(names, folder)}
        if holds_adapters(folder, names)
        else {name: TokenPolicy.load(folder / name) for name in names}
    )
    if device is not None:
        for policy in policies.values():
            policy.model.to(device)
    return policies


def save_policies(policies: Mapping[str, TokenPolicy], folder: Path) -> None:
    """Write every policy into a folder of its name."""
    for name, policy in policies.items():
        policy.save(folder / name)


def make_engine(config: TrainTeam, env: MultiAgentEnv, policies: Mapping[str, TokenPolicy]) -> MultiAgentEngine:
    """Return the engine that plays `env`, with bounds that suit the policies' size."""
    return MultiAgentEngine(
        env,
        {agent: config.policy_of(agent) for agent in env.possible_agents},
        {name: policy.renderer for name, policy in policies.items()},
        slots=config.slots,
        max_turn_ids=config.max_turn_ids or (64 if config.small else 1024),
        max_ids=config.max_ids or (512 if config.small else 16_000),
    )


def make_samplers(policies: Mapping[str, TokenPolicy], temperature: float, rng: random.Random) -> dict[str, Sampler]:
    """Return a sampler for each policy."""
    return {
        name: ModelSampler(policy.model, policy.renderer, temperature=temperature, seed=rng.getrandbits(48))
        for name, policy in policies.items()
    }


# -------------------------------------------------------------------------------------------------- evaluation


@dataclass(frozen=True)
class Scores:
    """How policies do on held-out tasks; shares of the tasks, or means over them.

    Attributes:
        by_task: Mean success of the sampled episodes of each task.
        outcomes: Success of every sampled episode, task by task; None after an error of ours.
        greedy: Success of the greedy episode.
        pass_at: Share of tasks with a right answer among the samples.
        maj_at: Share of tasks whose commonest answer is right.
        reward: Mean reward of the sampled episodes.
        calls: Mean number of tool calls of a sampled episode.
    """

    by_task: list[float]
    outcomes: list[float | None]
    greedy: float
    pass_at: float
    maj_at: float
    reward: float
    calls: float

    @property
    def success(self) -> float:
        """Mean success of the sampled episodes (pass@1)."""
        return float(np.mean(self.by_task))

    def shares(self) -> dict[str, float]:
        """Return what is told of them beside the success."""
        return {name: getattr(self, name) for name in ("greedy", "pass_at", "maj_at", "reward", "calls")}


def evaluate(
    engine: MultiAgentEngine,
    policies: Mapping[str, TokenPolicy],
    starts: Sequence[Start],
    *,
    samples: int,
    temperature: float = 1.0,
    record: Path | None = None,
) -> Scores:
    """Play held-out tasks greedily and `samples` times each; `record` keeps the greedy episodes as JSONL."""
    rng = random.Random(samples)
    greedy = [engine.sit(start) for start in starts]
    engine.play(make_samplers(policies, 0.0, rng), greedy)
    slots = [engine.sit(start.another(rng)) for start in starts for _ in range(samples)]
    engine.play(make_samplers(policies, temperature, rng), slots)
    if record is not None:
        record.unlink(missing_ok=True)
        write_episodes(record, (slot.play.episode for slot in greedy))
    tasks = [slots[n : n + samples] for n in range(0, len(slots), samples)]
    successes = [[slot.success for slot in task] for task in tasks]
    return Scores(
        by_task=[float(np.nanmean(task)) if not np.isnan(task).all() else 0.0 for task in successes],
        outcomes=[None if math.isnan(success) else success for task in successes for success in task],
        greedy=float(np.nanmean([slot.success for slot in greedy])),
        pass_at=float(np.mean([max(task) > 0 for task in successes])),
        maj_at=float(np.mean([_majority(task) for task in tasks])),
        reward=float(np.nanmean([slot.reward for slot in slots])),
        calls=float(np.mean([slot.calls for slot in slots])),
    )


def _majority(slots: Sequence[Slot]) -> float:
    """Return the success of the commonest answer; 0 if nobody has answered."""
    clusters: list[list[Slot]] = []
    for slot in slots:
        if slot.play.episode.answer is None:
            continue
        said = final_answer(slot.play.episode.answer)
        for cluster in clusters:
            if equal(said, final_answer(str(cluster[0].play.episode.answer))):
                cluster.append(slot)
                break
        else:
            clusters.append([slot])
    return max(clusters, key=len)[0].success if clusters else 0.0


# ---------------------------------------------------------------------------------------------------- training


class Learner(Protocol):
    """What a step of training does, and what it keeps from one to the next."""

    def learn(self, step: int) -> dict[str, float]:
        """Play a batch of rollouts, update the policies on it, and return the metrics.

        What it does depends on the seed, the step, the policies and the state only.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return the state beside the policies: of optimisers, and the like."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up a state."""


MakeLearner = Callable[[MultiAgentEngine, dict[str, TokenPolicy], list[Start]], Learner]
"""Makes a learner of an engine, the policies that it updates in place, and the tasks to train on."""


@dataclass(frozen=True)
class Trained:
    """What a run came to.

    Attributes:
        scores: On held-out tasks, by the number of steps made; 0 is the start.
        gain: Success of the trained team over its start, as mean over tasks with its 95 % interval (bootstrap over
            tasks).
    """

    scores: dict[int, Scores]
    gain: Interval


def train(config: TrainTeam, make_learner: MakeLearner, *, phase: str, evaluate_at: Iterable[int] = ()) -> Trained:
    """Warm-start if need be, train, and evaluate on held-out tasks before and after (also in ``heldout.json``).

    Args:
        config: The options.
        make_learner: Makes the learner.
        phase: Its name in metrics and tables.
        evaluate_at: Steps after which the team is evaluated too.
    """
    prepare_torch(config.threads)
    begin, folder, heldout = (config.output / name for name in ("start", "checkpoints", "heldout"))
    checkpoint = Path(sft.last_checkpoint(folder)) if config.resume else None
    done = int(checkpoint.name.rsplit("-", 1)[1]) if checkpoint else 0
    earlier = None if config.resume else set_aside(config.output)
    with RunLog(config.output, resume=(phase, done) if config.resume else None) as log:
        if earlier:
            log.console.print(f"The earlier run is now in {earlier}.", highlight=False)
        env = config.make_env()
        if not config.resume:
            with log.progress("sft", config.sft_steps):
                save_policies(warm_up(config, env, partial(_log, log, "sft")), begin)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        policies = load_policies(config.policies(env), checkpoint or begin, device)
        engine = make_engine(config, env, policies)
        held_out = known_tasks(config, env, config.eval_split)
        learner = make_learner(engine, policies, known_tasks(config, env, "train"))
        if checkpoint:
            learner.load_state_dict(torch.load(checkpoint / "learner.pt", map_location=device, weights_only=True))
        milestones = sorted({0, *evaluate_at, config.total})
        scores = {step: _read_scores(heldout, step) for step in milestones if checkpoint and step <= done}

        def judge(step: int) -> None:
            names = {0: "episodes-start.jsonl", config.total: "episodes.jsonl"}
            record = config.output / names.get(step, f"episodes-{step}.jsonl")
            found = evaluate(engine, policies, held_out, samples=config.eval_samples, record=record)
            log.heldout(phase, step, found.outcomes, **found.shares())
            heldout.mkdir(exist_ok=True)
            (heldout / f"{step}.json").write_bytes(msgspec.json.encode(found))
            scores[step] = found

        if 0 not in scores:
            judge(0)
        with log.progress(phase, config.total, done):
            for step in range(done + 1, config.total + 1):
                log.log(phase, step, **learner.learn(step))
                if step in milestones:
                    judge(step)
                if config.save_every and step % config.save_every == 0:
                    save_checkpoint(folder, step, policies, learner)
        save_policies(policies, config.output / "final")
        env.close()
        gain = paired_bootstrap(scores[config.total].by_task, scores[0].by_task)
        _conclude(config, log, phase, scores, gain)
    return Trained(scores, gain)


def _log(log: RunLog, phase: str, step: int, metrics: dict[str, float]) -> None:
    log.log(phase, step, **metrics)


def save_checkpoint(folder: Path, step: int, policies: Mapping[str, TokenPolicy], learner: Learner) -> None:
    """Write a checkpoint, which appears whole or not at all."""
    draft, final = folder / "draft", folder / f"checkpoint-{step}"
    for stale in (draft, final):
        shutil.rmtree(stale, ignore_errors=True)
    save_policies(policies, draft)
    torch.save(learner.state_dict(), draft / "learner.pt")
    draft.rename(final)


def _read_scores(folder: Path, step: int) -> Scores:
    """Return what the team scored after a step of a run that is resumed."""
    file = folder / f"{step}.json"
    if not file.exists():
        raise OptionError(
            f"The run was not evaluated after step {step}: {file} is not there. Resume with the steps it began with."
        )
    return msgspec.json.decode(file.read_bytes(), type=Scores)


def _conclude(config: TrainTeam, log: RunLog, phase: str, scores: Mapping[int, Scores], gain: Interval) -> None:
    """Write ``heldout.json``, the closing table, the curves and a sentence."""
    before, after, name = scores[0], scores[config.total], phase.upper()
    summary = {"tasks": len(before.by_task), "samples": config.eval_samples, "gain": gain._asdict()}
    for who, found in (("start", before), (name, after)):
        summary[who] = {"success": found.success, **found.shares()}
    (config.output / "heldout.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    log.closing({"start": before.outcomes, name: after.outcomes}, baseline="start")
    log.curves(title=f"{name} on {config.env}")
    log.console.print(
        f"{name} over its start, mean of {len(before.by_task)} tasks: {100 * gain.estimate:+.1f} points "
        f"[{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]; greedy {before.greedy:.1%} → {after.greedy:.1%}, "
        f"pass@{config.eval_samples} {before.pass_at:.1%} → {after.pass_at:.1%}, "
        f"maj@{config.eval_samples} {before.maj_at:.1%} → {after.maj_at:.1%}. "
        f"Policies, metrics and curves: {config.output}",
        highlight=False,
        markup=False,
    )
