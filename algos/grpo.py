"""GRPO on any Gymnasium environment (ToolOrchestra §3.3): many rollouts of one task judge one another.

    python algos/grpo.py                                   the embedded model on the restaurant, within minutes
    python algos/grpo.py --env ID --model PATH             any environment, any causal language model

TRL's `GRPOTrainer` does the optimisation; the rollout engine plays its episodes (`rollout_func`). Between the two
stand the paper's three filters, the preference reward, and a curriculum over difficulty.

Departures from the paper, each an option:

- A group that the homogeneity filter drops is replaced by playing another task (`resample`).
- The clip is asymmetric, (0.2, 0.28); the paper's is symmetric (``--epsilon-high 0.2``).
- Tasks are drawn by difficulty, easy ones first; the paper draws them uniformly (``--open-at 0``).
- Without ``--model`` the policy is a tiny one, made and warm-started on the spot, with settings of its size.
"""

from __future__ import annotations

import toolorchestra.algos  # noqa: F401 - first, also when run as a script: it makes settings that torch reads once

# isort: split
import json
import math
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import torch
import tyro
from numpy.typing import NDArray

from toolorchestra.agents.builtin.model import TokenPolicy, prepare_torch
from toolorchestra.agents.builtin.renderer import Renderer
from toolorchestra.agents.policies.base import Policy, play_episode
from toolorchestra.agents.policies.reference import OraclePolicy, RandomPolicy
from toolorchestra.algos import design_statistics as designs
from toolorchestra.algos import sft
from toolorchestra.algos.advantages import filtered_advantages, group_advantages
from toolorchestra.algos.learner_choice import require_one_agent
from toolorchestra.algos.report import RunLog, run_script, set_aside
from toolorchestra.algos.rollout.engine import (
    INVALID_OUTCOMES,
    ModelSampler,
    RolloutEngine,
    RolloutRequest,
    Row,
    Start,
    make_env,
    starts,
)
from toolorchestra.algos.stats import paired_bootstrap
from toolorchestra.envs.episode import write_episodes
from toolorchestra.envs.rewards import preference_rewards
from toolorchestra.toolscale.errors import OptionError

Filter = Literal["homogeneity", "format", "invalid"]


@dataclass
class TrainGRPO:
    """Train a policy with GRPO; without `model`, make, warm-start and train the embedded one."""

    env: str = "ToolOrchestra-Restaurant-v0"
    """Gymnasium id of the environment."""
    env_options: dict[str, str] = field(default_factory=dict)
    """Further arguments of `gymnasium.make`, e.g. ``tools full``, or ``domain path/to/folder`` for
    ``ToolOrchestra-Custom-v0``; values that are JSON are read as such."""
    model: str | None = None
    """Folder or hub name of a causal language model with a chat template; None makes the embedded model."""
    output: Path = Path("runs/grpo")
    """Folder for models, checkpoints and metrics."""
    seed: int = 0
    """Seed of everything random."""
    difficulty: tuple[int, ...] = (1, 2)
    """Levels of the tasks to train and evaluate on; empty for all."""
    start: Path | None = None
    """Folder of a policy to start from (the ``start`` or ``final`` of another run) instead of making one."""
    teacher: sft.Teacher | None = None
    """Who plays the episodes that the warm start learns from; None: what suits the tools on offer."""
    sft_steps: int = 1000
    """Steps of the warm start (embedded model only); 0 for none."""
    sft_error: float = 0.4
    """Error probability of the noisy oracle that the warm start learns from."""
    sft_ask: float = 0.4
    """Probability that an ``asking`` teacher asks in a turn."""
    steps: int = 20
    """Batches of rollouts."""
    groups: int = 16
    """Tasks per batch."""
    group_size: int = 8
    """Rollouts per task."""
    updates: int = 1
    """Optimiser steps per batch of rollouts, each on its share of the rows."""
    learning_rate: float | None = None
    """Constant learning rate; None: 3e-4 for the embedded model, 1e-6 for `model`."""
    epsilon: float = 0.2
    """Clip of the probability ratio below 1."""
    epsilon_high: float = 0.28
    """Clip of the probability ratio above 1."""
    beta: float = 0.0
    """Weight of the KL divergence from the starting policy in the loss."""
    aggregation: Literal["grpo", "dapo"] = "grpo"
    """Mean over rollouts of the mean over their tokens (grpo), or mean over all tokens of the batch (dapo). With the
    first a token of a long rollout weighs less: going on and on until it fails is hardly punished."""
    ratio: Literal["token", "sequence"] = "token"
    """Importance ratio per token, or per sequence (length-normalised, over policy tokens only)."""
    temperature: float = 1.0
    """Sampling temperature of rollouts."""
    filters: tuple[Filter, ...] = ("homogeneity", "format", "invalid")
    """Filters before the loss: groups of nearly equal reward, rollouts out of format, rollouts without answer."""
    min_std: float = 0.1
    """Least standard deviation of a group's rewards that the homogeneity filter lets pass."""
    scale: bool = True
    """Divide advantages by the deviation of their group's rewards (Eq. 3). It makes all groups count alike: where all
    are solved, the smallest difference in cost then weighs as much as success does elsewhere."""
    resample: int = 1
    """How often dropped groups are replaced by playing further tasks."""
    open_at: float = 0.7
    """Live success on a level that opens the next; 0 opens all levels at once."""
    preference: dict[str, float] = field(default_factory=dict)
    """Weights in [0, 1] of tools, outcome, compute and latency for the preference reward; empty: outcome alone."""
    preference_text: str = ""
    """The preference in words, appended to each instruction."""
    max_turns: int | None = None
    """Most turns of an episode; None: 12 for the embedded model, 50 for `model`."""
    max_turn_ids: int | None = None
    """Most tokens of a turn; None: 64 for the embedded model, 1024 for `model`."""
    max_ids: int | None = None
    """Most tokens of an episode; None: 1024 for the embedded model, 32000 for `model`."""
    slots: int = 128
    """Environments played at the same time."""
    track_kl: bool = True
    """Keep a copy of the starting policy and report the divergence from it (also with `beta` 0)."""
    eval_split: str = "test"
    """Held-out split for the closing table."""
    eval_samples: int = 4
    """Sampled episodes per held-out task."""
    threads: int | None = None
    """Threads of torch; None: the cores at hand, at most 4."""
    save_every: int = 10
    """Batches of rollouts between checkpoints; 0 for none."""
    resume: bool = False
    """Continue from the last checkpoint in `output`, exactly as if it had not stopped."""

    def __post_init__(self) -> None:
        require_one_agent(self.env)
        for name in ("steps", "groups", "updates", "slots", "eval_samples"):
            if getattr(self, name) < 1:
                raise OptionError(f"`{name}` must be at least 1, got {getattr(self, name)!r}.")
        if self.group_size < 2:
            raise OptionError(f"A group judges its rollouts by one another: `group_size` {self.group_size} is below 2.")
        if self.groups * self.group_size % self.updates:
            raise OptionError(
                f"{self.groups} groups of {self.group_size} rollouts cannot be shared among {self.updates} updates. "
                "Let `updates` divide groups × group_size."
            )
        if self.temperature <= 0:
            raise OptionError("GRPO learns from rollouts that differ: `temperature` must be above 0.")
        if self.beta < 0 or not 0 < self.epsilon < 1 or self.epsilon_high <= 0:
            raise OptionError("`beta` must be at least 0, `epsilon` in (0, 1) and `epsilon_high` above 0.")
        if self.preference_text and not self.preference:
            raise OptionError("`preference_text` puts a `preference` into words; give the weights as well.")
        if self.start and self.model:
            raise OptionError("`start` is a policy already: give it or a `model`, not both.")
        if self.resume and not self.save_every:
            raise OptionError("`resume` needs checkpoints: leave `save_every` above 0.")

    @property
    def rate(self) -> float:
        """The learning rate, its default resolved."""
        return self.learning_rate or (1e-6 if self.model else 3e-4)


# ------------------------------------------------------------------------------------------------- which tasks


class Curriculum:
    """Easy tasks first: a level opens once the live success on the level before it is good enough.

    Args:
        tasks: Starts by level; levels open in ascending order.
        open_at: Success on the hardest open level that opens the next.
        memory: Weight of the past in the live success (moving average over groups).

    Attributes:
        success: Live success by level, None before the level's first group.
        open: Number of levels open.
    """

    def __init__(self, tasks: Mapping[int, Sequence[Start]], *, open_at: float = 0.7, memory: float = 0.95) -> None:
        self.tasks = {level: list(plays) for level, plays in sorted(tasks.items()) if plays}
        self.open_at, self.memory = open_at, memory
        self.success: dict[int, float | None] = dict.fromkeys(self.tasks)
        self.open = 1 if open_at > 0 else len(self.tasks)

    def draw(self, count: int, rng: random.Random) -> list[tuple[int, Start]]:
        """Return tasks to play with their levels; levels neither mastered nor hopeless come oftener."""
        levels = list(self.tasks)[: self.open]
        weights = [1.0 if (p := self.success[level]) is None else 0.1 + 4 * p * (1 - p) for level in levels]
        return [(level, rng.choice(self.tasks[level])) for level in rng.choices(levels, weights, k=count)]

    def record(self, level: int, success: float) -> None:
        """Take note of a group's mean success."""
        before = self.success[level]
        self.success[level] = success if before is None else self.memory * before + (1 - self.memory) * success
        hardest = list(self.tasks)[self.open - 1]
        if self.open < len(self.tasks) and (self.success[hardest] or 0.0) >= self.open_at:
            self.open += 1

    def state(self) -> dict[str, Any]:
        """Return what `restore` needs to go on as if nothing had happened."""
        return {"success": list(self.success.items()), "open": self.open}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        self.success = {int(level): value for level, value in state["success"]}
        self.open = int(state["open"])


# ----------------------------------------------------------------------------------------- rollouts for the trainer


@dataclass
class RolloutGroup:
    """The rollouts of one task and what they are worth.

    Attributes:
        level: Difficulty of the task.
        rows: The rollouts.
        advantages: Eq. 3 over all of them; their sum is 0.
        kept: Which of them the filters leave for the backward pass.
    """

    level: int
    rows: list[Row]
    advantages: list[float]
    kept: list[bool]

    @classmethod
    def judge(
        cls, level: int, rows: list[Row], filters: Sequence[Filter], min_std: float, *, scale: bool = True
    ) -> RolloutGroup:
        """Compare a task's rollouts with one another, and filter them."""
        rewards = torch.tensor(group_rewards(rows))
        _, kept = filtered_advantages(
            rewards,
            torch.tensor([row.well_formed for row in rows]) if "format" in filters else None,
            torch.tensor([row.answered for row in rows]) if "invalid" in filters else None,
            threshold=min_std if "homogeneity" in filters else 0.0,
        )
        return cls(level, rows, group_advantages(rewards, scale=scale).tolist(), kept.tolist())


def group_rewards(rows: Sequence[Row]) -> NDArray[np.float64]:
    """Return a task's rewards: those of the environment, or with a preference Eq. 2 over its rollouts."""
    preference = rows[0].preference
    rewards = np.array([row.reward for row in rows])
    vectors = [row.M for row in rows if row.M is not None]
    if preference is not None and vectors:
        measured = [n for n, row in enumerate(rows) if row.M is not None]  # an episode broken off has no M: it earns 0
        rewards[measured] = preference_rewards(np.stack(vectors), preference)
    return rewards


class Rollouts:
    """TRL's `rollout_func`: plays groups and hands them over, as many rows as it was asked for.

    A dropped rollout keeps its place with an empty loss mask, and of its ids only the first, so that one that rambled
    on does not make the whole batch as wide as itself. The advantage of each row is passed on as its
    "reward": the trainer only subtracts their mean over the group, which is 0.
    Stateless but for the curriculum: the tasks and samples of a step depend on the seed and the step only.
    """

    def __init__(self, engine: RolloutEngine, curriculum: Curriculum, config: TrainGRPO, start: Any = None) -> None:
        self.engine, self.curriculum, self.config, self.start = engine, curriculum, config, start
        self.metrics: dict[str, float] = {}

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, list[Any]]:
        """Return rows for `prompts` (which only say how many)."""
        config = self.config
        rng = random.Random(f"{config.seed}/{trainer.state.global_step}")
        model = trainer.accelerator.unwrap_model(trainer.model)
        sampler = ModelSampler(model, self.engine.renderer, temperature=config.temperature, seed=rng.getrandbits(48))
        wanted = len(prompts) // config.group_size
        useful: list[RolloutGroup] = []
        spare: list[RolloutGroup] = []
        for _ in range(config.resample + 1):
            for group in self.play(sampler, wanted - len(useful), rng):
                (useful if any(group.kept) else spare).append(group)
            if len(useful) == wanted:
                break
        chosen = (useful + spare)[:wanted]
        if len(chosen) < wanted:
            raise OptionError(
                f"Only {len(chosen)} of {wanted} groups could be played without infrastructure errors. "
                "Look at the environment's log, or raise `resample`."
            )
        self._measure(useful, spare, model)
        rows = [item for g in chosen for item in zip(g.rows, g.kept, g.advantages, strict=True)]
        return {
            "prompt_ids": [row.prompt_ids for row, _, _ in rows],
            "completion_ids": [row.completion_ids if kept else row.completion_ids[:1] for row, kept, _ in rows],
            "logprobs": [row.logprobs if kept else row.logprobs[:1] for row, kept, _ in rows],
            "env_mask": [row.mask if kept else [0] for row, kept, _ in rows],
            "advantage": [advantage for _, _, advantage in rows],
        }

    def play(self, sampler: ModelSampler, count: int, rng: random.Random) -> Iterator[RolloutGroup]:
        """Play and judge `count` tasks of the curriculum; a group with an infrastructure error is left out."""
        config = self.config
        tasks = self.curriculum.draw(count, rng)
        size = config.group_size
        lots = [RolloutRequest(n, start.another(rng)) for n, (_, start) in enumerate(tasks) for _ in range(size)]
        rows = self.engine.play(sampler, lots)
        for n, (level, _) in enumerate(tasks):
            group = rows[n * size : (n + 1) * size]
            if all(row.valid for row in group):
                self.curriculum.record(level, float(np.mean([row.outcome == "solved" for row in group])))
                yield RolloutGroup.judge(level, group, config.filters, config.min_std, scale=config.scale)

    def _measure(self, useful: Sequence[RolloutGroup], spare: Sequence[RolloutGroup], model: Any) -> None:
        rows = [row for group in (*useful, *spare) for row in group.rows]
        self.metrics = {
            "success": float(np.mean([row.outcome == "solved" for row in rows])),
            "reward": float(np.mean([row.reward for row in rows])),
            "cost": float(np.mean([row.cost for row in rows])),
            "seconds": float(np.mean([row.seconds for row in rows])),
            "turns": float(np.mean([row.turns for row in rows])),
            "well_formed": float(np.mean([row.well_formed for row in rows])),
            "groups_kept": len(useful),
            "groups_played": len(useful) + len(spare),
            "levels_open": self.curriculum.open,
            "tokens_per_second": self.engine.speed(),
        }
        self.metrics |= mean_parts(rows) | designs.statistics(rows)
        answered = [row for row in rows if row.answered]  # of bounded length, unlike one that was broken off
        if self.start is not None and answered:
            spread = answered[:: math.ceil(len(answered) / 32)]
            self.metrics["kl"] = divergence(model, self.start, spread, self.engine.renderer.pad_id)


def mean_parts(rows: Sequence[Row]) -> dict[str, float]:
    """Return the mean of each part of the reward, where there are parts; an episode broken off earned none."""
    names = next((row.parts for row in rows if row.parts), {})
    return {f"reward_{name}": float(np.mean([row.parts.get(name, 0.0) for row in rows])) for name in names}


@torch.no_grad()
def divergence(model: Any, start: Any, rows: Sequence[Row], pad_id: int) -> float:
    """Return KL(model ‖ start) per policy token, exact over the vocabulary, averaged over rows that `model` sampled."""
    width = max(len(row.prompt_ids) + len(row.completion_ids) for row in rows)
    device = next(model.parameters()).device
    ids = torch.full((len(rows), width), pad_id, device=device)
    attention = torch.zeros_like(ids)
    mask = torch.zeros(ids.shape, dtype=torch.bool, device=device)
    for n, row in enumerate(rows):
        sequence = row.prompt_ids + row.completion_ids
        ids[n, : len(sequence)], attention[n, : len(sequence)] = torch.tensor(sequence, device=device), 1
        mask[n, len(row.prompt_ids) : len(sequence)] = torch.tensor(row.mask, device=device).bool()

    def logprobs(of: Any) -> torch.Tensor:
        logits: torch.Tensor = of(input_ids=ids, attention_mask=attention).logits
        return torch.log_softmax(logits[:, :-1][mask[:, 1:]].float(), -1)  # (policy tokens, V)

    ours, theirs = logprobs(model), logprobs(start.to(device))
    return float((ours.exp() * (ours - theirs)).sum(-1).mean())


def advantages_as_rewards(advantage: list[float | None], **_: Any) -> list[float | None]:
    """Pass the advantages that `Rollouts` computed through TRL's reward hook."""
    return advantage


# ------------------------------------------------------------------------------------------------------ training


def fit(
    policy: TokenPolicy,
    rollouts: Rollouts,
    config: TrainGRPO,
    report: sft.Report = lambda step, metrics: None,
) -> None:
    """Train a policy's model in place with TRL's GRPO on the engine's rollouts, rows of like length together."""
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"  # rollout_func is announced as experimental; TRL's version is pinned
    from datasets import Dataset
    from transformers import PrinterCallback
    from trl import GRPOConfig

    from toolorchestra.algos.length_batched_grpo import BundlingGRPOTrainer
    from toolorchestra.algos.trl_callbacks import Bookkeeper

    folder = config.output / "checkpoints"
    checkpoint = sft.last_checkpoint(folder) if config.resume else None
    if checkpoint:
        state = json.loads((Path(checkpoint) / "curriculum.json").read_text(encoding="utf-8"))
        rollouts.curriculum.restore(state)
    arguments = GRPOConfig(
        output_dir=str(folder),
        per_device_train_batch_size=config.groups * config.group_size // config.updates,
        steps_per_generation=config.updates,
        gradient_accumulation_steps=1,
        num_generations=config.group_size,
        max_steps=config.steps * config.updates,
        learning_rate=config.rate,
        lr_scheduler_type="constant",
        adam_beta2=0.95,
        max_grad_norm=1.0,
        loss_type=config.aggregation,
        scale_rewards="none",
        beta=config.beta,
        epsilon=config.epsilon,
        epsilon_high=config.epsilon_high,
        importance_sampling_level=config.ratio,
        temperature=config.temperature,
        max_completion_length=None,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=not torch.cuda.is_available(),
        shuffle_dataset=False,
        ignore_data_skip=True,
        logging_steps=config.updates,
        report_to=[],
        disable_tqdm=True,
        save_strategy="steps" if config.save_every else "no",
        save_steps=config.save_every * config.updates or 500,
        seed=config.seed,
    )
    trainer = BundlingGRPOTrainer(
        model=policy.model,
        reward_funcs=advantages_as_rewards,
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": [str(n) for n in range(config.groups)]}),
        processing_class=policy.tokenizer,
        rollout_func=rollouts,
        callbacks=[Bookkeeper(rollouts, report)],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=checkpoint)
    policy.model.__dict__.pop("forward", None)  # the trainer's fused head; another trainer would wrap it once more


def evaluate(
    engine: RolloutEngine,
    policy: TokenPolicy,
    plays: Sequence[Start],
    *,
    samples: int,
    greedy: bool = False,
    record: Path | None = None,
) -> list[Row]:
    """Return the rows of `samples` episodes per start, in order; those of one start differ in their seed.

    With `record`, the episodes are written to that JSONL file (`toolorchestra show` draws them).
    """
    sampler = ModelSampler(policy.model, policy.renderer, temperature=0.0 if greedy else 1.0)
    rng = random.Random(samples)
    rows = engine.play(
        sampler, [RolloutRequest(n, s.another(rng)) for n, s in enumerate(plays) for _ in range(samples)]
    )
    if record is not None:
        record.unlink(missing_ok=True)
        write_episodes(record, (row.episode for row in rows if row.episode is not None))
    return rows


def outcomes_of(rows: Sequence[Row]) -> list[float | None]:
    """Return 1 for a row that is solved, 0 for one that is not, None where an error of ours ended it."""
    return [float(row.outcome == "solved") if row.valid else None for row in rows]


def rewards_of(rows: Sequence[Row]) -> list[float | None]:
    """Return the environment's reward of each row, None where an error of ours ended it."""
    return [row.reward if row.valid else None for row in rows]


def reference(env: gym.Env[Any, Any], policy: Policy, plays: Sequence[Start]) -> list[float | None]:
    """Return the outcomes of a reference policy, one episode per start."""
    outcomes: list[float | None] = []
    for start in plays:
        outcome = play_episode(env, policy, seed=start.seed, options=start.reset_options())["outcome"]
        outcomes.append(None if outcome in INVALID_OUTCOMES else float(outcome == "solved"))
    return outcomes


def by_task(outcomes: Sequence[float | None], samples: int) -> list[float]:
    """Return the mean of each task."""
    tasks = [outcomes[n : n + samples] for n in range(0, len(outcomes), samples)]
    return [float(np.mean([o for o in task if o is not None] or [0.0])) for task in tasks]


def train(config: TrainGRPO) -> dict[str, Any]:
    """Warm-start if need be, train, and evaluate on held-out tasks before and after (also in ``heldout.json``).

    Returns:
        ``results`` (outcomes by policy), ``greedy`` (success by policy), and ``gain`` and ``reward_gain``: success and
        reward of GRPO over its start, as mean over tasks with its 95 % interval (bootstrap over tasks).
    """
    prepare_torch(config.threads)
    begin, folder = config.output / "start", config.output / "checkpoints"
    done = int(sft.last_checkpoint(folder).rsplit("-", 1)[1]) // config.updates if config.resume else 0
    earlier = None if config.resume else set_aside(config.output)
    with RunLog(config.output, resume=("grpo", done) if config.resume else None) as log:
        if earlier:
            log.console.print(f"The earlier run is now in {earlier}.", highlight=False)
        if not config.resume:
            warm_up(config, log).save(begin)
        policy = TokenPolicy.load(begin)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        policy.model.to(device)
        start = TokenPolicy.load(begin).model if config.track_kl else None
        env = make_env(config.env, config.env_options)
        engine = make_engine(config, policy.renderer)
        tasks = [play for level in starts(env, config.eval_split, config.difficulty).values() for play in level]
        samples = config.eval_samples
        first = "SFT" if config.model is None and config.start is None and config.sft_steps else "start"

        def held_out(step: int) -> tuple[list[Row], float]:
            rows = evaluate(engine, policy, tasks, samples=samples)
            record = config.output / ("episodes.jsonl" if step else "episodes-start.jsonl")
            best = outcomes_of(evaluate(engine, policy, tasks, samples=1, greedy=True, record=record))
            greedy = float(np.mean([o or 0.0 for o in best]))
            if step or not config.resume:  # a resumed run's metrics begin with the start's already
                log.heldout("grpo", step, outcomes_of(rows), greedy=greedy, **_means(rows))
            return rows, greedy

        before, greedy_before = held_out(0)
        curriculum = Curriculum(starts(env, "train", config.difficulty), open_at=config.open_at)
        with log.progress("grpo", config.steps, done):
            fit(policy, Rollouts(engine, curriculum, config, start), config, partial(_log, log))
        policy.save(config.output / "final")
        after, greedy_after = held_out(config.steps)

        results: dict[str, list[float | None]] = {}
        if hasattr(type(env.unwrapped), "task"):
            results["random"] = reference(
                env, RandomPolicy(config.seed), [play for play in tasks for _ in range(samples)]
            )
        results |= {first: outcomes_of(before), "GRPO": outcomes_of(after)}
        if hasattr(type(env.unwrapped), "task"):
            results["oracle"] = [o for o in reference(env, OraclePolicy(), tasks) for _ in range(samples)]
        engine.close()
        env.close()
        gain = paired_bootstrap(by_task(outcomes_of(after), samples), by_task(outcomes_of(before), samples))
        more = paired_bootstrap(by_task(rewards_of(after), samples), by_task(rewards_of(before), samples))
        log.closing(results, baseline=first)
        found: dict[str, Any] = {"tasks": len(tasks), "samples": samples}
        found |= {"gain": gain._asdict(), "reward_gain": more._asdict()}
        found["greedy"] = {first: greedy_before, "GRPO": greedy_after}
        found["means"] = {first: _means(before), "GRPO": _means(after)}
        if "valid" in found["means"]["GRPO"]:
            now, then = (by_task(designs.valid_of(rows), samples) for rows in (after, before))
            found["valid_gain"] = paired_bootstrap(now, then)._asdict()
            designs.draw(log.records, config.output / "designs.svg", f"Designs for {config.env}")
        (config.output / "heldout.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        shares: dict[str, float] = {name: float(np.mean([o or 0.0 for o in row])) for name, row in results.items()}
        lines = {name: share for name, share in shares.items() if name not in (first, "GRPO")}
        log.curves(references=lines, title=f"GRPO on {config.env}")
        log.console.print(
            f"GRPO over {first}, mean of {len(tasks)} tasks: {100 * gain.estimate:+.1f} points "
            f"[{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]; greedy {greedy_before:.1%} → {greedy_after:.1%}. "
            f"Policy, metrics and curves: {config.output}",
            highlight=False,
            markup=False,
        )
    greedy = {first: greedy_before, "GRPO": greedy_after}
    return {"results": results, "greedy": greedy, "gain": gain, "reward_gain": more}


def _means(rows: Sequence[Row]) -> dict[str, float]:
    """Return the means of what episodes earned, cost and took, and of the parts of their reward."""
    valid = [row for row in rows if row.valid]
    found = {name: float(np.mean([getattr(row, name) for row in valid])) for name in ("reward", "cost", "seconds")}
    return found | mean_parts(valid) | designs.statistics(valid)


def _log(log: RunLog, step: int, metrics: dict[str, float]) -> None:
    log.log("grpo", step, **metrics)


def make_engine(config: TrainGRPO, renderer: Renderer) -> RolloutEngine:
    """Return the engine that plays `config`'s environment, with bounds that suit the policy's size."""
    options: dict[str, Any] = dict(config.env_options)
    if config.preference:
        options["preference"] = {"weights": config.preference, "instruction": config.preference_text}
    small = config.model is None
    return RolloutEngine(
        lambda: make_env(config.env, options),
        renderer,
        slots=config.slots,
        max_turns=config.max_turns or (12 if small else 50),
        max_turn_ids=config.max_turn_ids or (64 if small else 1024),
        max_ids=config.max_ids or (1024 if small else 32_000),
    )


def warm_up(config: TrainGRPO, log: RunLog) -> TokenPolicy:
    """Return the policy that GRPO starts from: the model as it is, or the embedded one, taught."""
    if given := config.start or config.model:
        return TokenPolicy.load(given)
    teaching = sft.TrainSFT(
        env=config.env,
        env_options=config.env_options,
        output=config.output / "sft",
        difficulty=config.difficulty,
        teacher=config.teacher,
        error=config.sft_error,
        ask=config.sft_ask,
        steps=config.sft_steps,
        seed=config.seed,
        threads=config.threads,
        save_every=0,
    )
    with log.progress("sft", config.sft_steps):
        return sft.teach(teaching, lambda step, metrics: log.log("sft", step, **metrics))


def main(config: TrainGRPO | None = None) -> None:
    """Run the command."""
    train(config or tyro.cli(TrainGRPO))


if __name__ == "__main__":
    run_script(main)
