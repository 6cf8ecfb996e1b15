"""GRPO on any Gymnasium environment (ToolOrchestra §3.3): the rollouts of a task are compared with one another.

    python algos/grpo.py                                   the built-in model on the restaurant, within minutes
    python algos/grpo.py --env ID --model PATH             any environment, any causal language model

TRL's `GRPOTrainer` does the optimisation; the rollout engine plays its episodes (`rollout_func`). In between come the
paper's three filters, the preference reward, and a curriculum over difficulty (`toolorchestra.algos.group_rollouts`).

Departures from the paper, each an option:

- A group that the homogeneity filter drops is replaced by playing another task (``--resample 0``).
- The importance ratio is per token; the paper's is of whole sequences (``--ratio product``).
- The clip is asymmetric, (0.2, 0.28); the paper's is symmetric (``--epsilon-high 0.2``).
- Tasks are drawn by difficulty, easy ones first; the paper draws them uniformly (``--open-at 0``).
- Without ``--model`` a tiny built-in model is made and warm-started, with settings of its size: its loss is a mean over
  tokens, and the filter of homogeneity is the only one (``--filters homogeneity format invalid``).
"""

from __future__ import annotations

import toolorchestra.algos  # noqa: F401 - first, also when run as a script: it makes settings that torch reads once

# isort: split
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from toolorchestra.agents.builtin.adapters import AdapterReference
from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.agents.builtin.renderer import Renderer
from toolorchestra.agents.hub import ADAPTER_CONFIG
from toolorchestra.agents.messages.tool_lines import tools_beside
from toolorchestra.agents.policies.reference import OraclePolicy, RandomPolicy
from toolorchestra.algos import sft
from toolorchestra.algos.activity import Watch, unwatched
from toolorchestra.algos.data.round_trip import require_round_trip
from toolorchestra.algos.group_rollouts import Curriculum, GroupRollouts, advantages_as_rewards
from toolorchestra.algos.hardware import distributed
from toolorchestra.algos.hardware.batching import spread
from toolorchestra.algos.options.context import PROMPTS, context_of, longest_row, require_room
from toolorchestra.algos.options.model_card import card
from toolorchestra.algos.options.one_agent import TrainGRPO, TrainSFT
from toolorchestra.algos.options.options import LearnerOptions
from toolorchestra.algos.options.precision import load_policy, save_policy, start_policy
from toolorchestra.algos.reporting import call_statistics, design_statistics
from toolorchestra.algos.reporting.evaluation import PolicyScores, evaluate, outcomes_of, reference, rewards_of
from toolorchestra.algos.reporting.stats import Interval, known_mean, paired_bootstrap
from toolorchestra.algos.rollout.engine import RolloutEngine, Row
from toolorchestra.algos.rollout.generation import Generation, make_generation
from toolorchestra.algos.rollout_worker import AsyncGroupRollouts
from toolorchestra.algos.trainer import Report, Trainer, checkpoint_to_resume, run_script
from toolorchestra.envs.starts import EpisodeStart, make_env, starts
from toolorchestra.toolscale.common.errors import OptionError

if TYPE_CHECKING:
    from trl import GRPOConfig


def warm_up(config: TrainGRPO, report: Report = lambda step, metrics: None, watch: Watch = unwatched) -> TokenPolicy:
    """Return the policy that GRPO starts from: a given model or the built-in one, taught first if need be."""
    if config.start and (config.start / ADAPTER_CONFIG).is_file() is not bool(config.lora_rank):
        raise OptionError(
            f"Expected {'an adapter' if config.lora_rank else 'a whole model'} in {config.start}, found the opposite: "
            f"{'leave `lora_rank` at 0' if config.lora_rank else 'give `lora_rank`'}, or start from elsewhere."
        )
    if config.start:
        return load_policy(config, config.start)
    if config.model and not config.warm_steps:
        return start_policy(config, config.model)
    options = {field.name: getattr(config, field.name) for field in fields(LearnerOptions)}
    options |= {
        "output": config.output / "sft",
        "difficulty": config.levels,
        "save_every": 0,
        "learning_rate": config.sft_learning_rate,
        "lr_scheduler_type": None,
        "warmup_steps": None,
        "dry_run": False,
        "resume": False,
    }
    if config.small:  # an adapter is made over what was taught
        options |= {"lora_rank": 0, "lora_alpha": None, "lora_targets": ()}
    teaching = TrainSFT(
        **options,
        model=config.model,
        teacher=config.teacher,
        error=config.sft_error,
        ask=config.sft_ask,
        steps=config.warm_steps,
        batch=config.sft_batch,
    )
    taught = sft.teach(teaching, report, watch)
    if config.model or not config.lora_rank:
        return taught
    folder = teaching.output / "taught"
    with distributed.written(folder) as draft:
        if draft:
            taught.save(draft)
    return start_policy(config, folder)


def make_engine(config: TrainGRPO, renderer: Renderer, model: Any = None) -> RolloutEngine:
    """Return the engine that plays `config`'s environment, with bounds that suit the policy's size.

    An episode is never longer than what the `model` can read, if it is given.
    """
    options: dict[str, Any] = config.environment_options
    if config.preference:
        options["preference"] = {"weights": config.preference, "instruction": config.preference_text}
    return RolloutEngine(
        lambda: make_env(config.env, options),
        renderer,
        in_flight=config.in_flight,
        max_turns=config.max_turns or (12 if config.small else 50),
        max_turn_ids=config.turn_ids,
        max_ids=config.longest if model is None else longest_row(config, [context_of(model.config)]),
    )


def fit(
    policy: TokenPolicy,
    rollouts: GroupRollouts,
    config: TrainGRPO,
    report: Report = lambda step, metrics: None,
    go_on: Callable[[int], bool] = lambda step: True,
    watch: Watch = unwatched,
) -> None:
    """Train a policy's model in place with TRL's GRPO on the engine's rollouts, rows of like length together.

    After each batch of rollouts `go_on` is called with the number of them, and says whether there is time for another.
    `watch` shows how far an update is.
    """
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"  # rollout_func is announced as experimental; TRL's version is pinned
    with watch("Loading TRL", 0):
        from datasets import Dataset

        from toolorchestra.algos.trl_trainers import MetricsCallback, MicroBatchGRPOTrainer, run_trainer, trained

    generation = rollouts.generation
    checkpoint = checkpoint_to_resume(config)
    if checkpoint:
        rollouts.curriculum.restore(json.loads((checkpoint / "curriculum.json").read_text(encoding="utf-8")))
    bookkeeper = MetricsCallback(rollouts, report, go_on)
    trainer = MicroBatchGRPOTrainer(
        model=trained(policy.model),
        reward_funcs=advantages_as_rewards,
        args=_arguments(config, generation),
        train_dataset=Dataset.from_dict({"prompt": [str(n) for n in range(config.tasks_per_batch)]}),
        processing_class=policy.tokenizer,
        rollout_func=rollouts,
        callbacks=[bookkeeper],
        product_ratio=config.ratio == "product",
    )
    trainer.model_card = card(config, "grpo", "Checkpoints")
    trainer.watch = watch
    trainer.gib, trainer.micro_batch = config.memory, config.micro_batch
    if isinstance(rollouts.start, AdapterReference) and rollouts.start.key is None and config.beta:
        # TRL's copy of an untrained adapter: it switches the adapter off instead
        policy.model.host.delete_adapter("ref")
    if config.beta and config.tracks_kl and rollouts.start is None:
        rollouts.start = trainer.ref_model  # TRL's copy of the starting model serves both
    bookkeeper.mismatch = trainer.mismatch
    generation.attach(trainer, policy)
    if config.importance_limit and not trainer.use_vllm:
        trainer.correct_importance()
    try:
        run_trainer(trainer, policy.model, checkpoint, lambda: bookkeeper.stopped)
    finally:
        rollouts.close()


def _arguments(config: TrainGRPO, generation: Generation) -> GRPOConfig:
    """Return TRL's configuration of a run with these options."""
    from trl import GRPOConfig

    from toolorchestra.algos.trl_trainers import settings

    distributed.require_divisible(config.tasks_per_batch, "groups", "Choose `groups` accordingly.")
    batch = distributed.require_divisible(
        config.tasks_per_batch * config.rollouts_per_task // config.updates, "rollouts", "Choose `updates` accordingly."
    )
    return GRPOConfig(
        **settings(
            config.output / "checkpoints",
            config,
            save_every=config.save_every * config.updates,
            schedule="constant",
            warmup=(config.warmup_steps or 0) * config.updates,
        ),
        per_device_train_batch_size=batch,
        steps_per_generation=config.updates,
        gradient_accumulation_steps=1,
        num_generations=config.rollouts_per_task,
        max_steps=config.steps * config.updates,
        learning_rate=config.rate,
        loss_type=config.loss_aggregation,
        scale_rewards="none",
        beta=config.beta,
        epsilon=config.epsilon,
        epsilon_high=config.epsilon_high,
        importance_sampling_level="token" if config.ratio == "token" else "sequence",
        vllm_importance_sampling_correction=config.importance_limit > 0,
        vllm_importance_sampling_mode="token_truncate",
        vllm_importance_sampling_clip_max=config.importance_limit or None,
        **generation.arguments(),
        temperature=config.temperature,
        max_completion_length=None,
        shuffle_dataset=False,
        ignore_data_skip=True,
        logging_steps=config.updates,
    )


class SingleAgentTrainer(Trainer[TrainGRPO, PolicyScores]):
    """A run of GRPO; `results`, `greedy`, `gain` and `reward_gain` compare it with its start (see `train`)."""

    results: dict[str, list[float | None]]
    greedy: dict[str, float]
    reward_gain: Interval

    def __init__(self, config: TrainGRPO) -> None:
        super().__init__(config, "grpo", updates=config.updates)
        self.generation = make_generation(config)
        self.env = make_env(config.env, config.environment_options)  # wrong options are refused before a folder is made

    def warm_up(self, folder: Path | None, report: Report) -> None:
        """Make or load the policy, teach it, and write it to a folder."""
        save_policy(warm_up(self.config, report, self.log.watch), folder)

    def load(self, folder: Path) -> None:
        """Load the policy, and prepare its environments and tasks; TRL's trainer loads the checkpoint."""
        config = self.config
        self.policy = load_policy(config, folder)
        model = self.policy.model
        if not config.quantize and not config.shard:  # parts of a model are moved by themselves
            model.to(self.device)
        config.set_up(model)
        self.start_model: Any = None
        if config.lora_rank and (config.tracks_kl or config.beta):
            self.start_model = model.reference()
        elif config.tracks_kl and not config.beta:
            self.start_model = TokenPolicy.load(folder).model
        self.engine = make_engine(config, self.policy.renderer, model)
        self.engine.token_budget = self.generation.token_budget(model)
        self.generation.check(self.engine.max_ids, self.policy.renderer.stop_ids[0])
        if config.without_gpu and None in (config.groups, config.group_size, config.max_turn_ids):
            self.log.say(
                f"Without a GPU a batch has {config.tasks_per_batch} tasks with {config.rollouts_per_task} rollouts "
                f"each, and a turn at most {config.turn_ids} tokens (--groups, --group-size, --max-turn-ids)."
            )
        levels = starts(self.env, config.eval_split, config.levels)
        self.held_out = config.evaluated([start for level in levels.values() for start in level])
        require_room(map(self._prompt, spread(self.held_out, PROMPTS)), self.engine.max_ids)
        require_round_trip(self.env, self.policy.renderer, self.held_out[0])

    def _prompt(self, start: EpisodeStart) -> tuple[str, int]:
        """Return a task and the ids of its prompt."""
        observation, info = self.env.reset(**start.arguments)
        messages = info.get("messages") or [{"role": "user", "content": str(observation)}]
        ids = self.policy.renderer.encode_prompt(list(messages), tools_beside(info))
        return str(info.get("task_id", start.seed)), len(ids)

    def evaluate(self, step: int) -> PolicyScores:
        """Play held-out tasks, sampled and greedily."""
        samples, tasks = self.config.samples, len(self.held_out)
        names = {0: "episodes-start.jsonl", self.total: "episodes.jsonl"}
        record = self.config.output / names.get(step, f"episodes-{step}.jsonl")
        self.log.say(self.config.announcement(tasks, self.engine.max_ids))
        self.generation.sync(self.policy)
        play = partial(evaluate, self.engine, self.policy, self.held_out, generation=self.generation)
        with self.log.watch("Held-out episodes", tasks * (samples + 1)) as count:
            rows = play(samples=samples, progress=count)
            best = play(samples=1, greedy=True, record=record, progress=lambda done: count(tasks * samples + done))
        known = known_mean([math.nan if outcome is None else outcome for outcome in outcomes_of(best)])
        return PolicyScores(rows, samples, known)

    def fit(self) -> None:
        """Train the policy by TRL's trainer."""
        curriculum = Curriculum(starts(self.env, "train", self.config.levels), open_at=self.config.open_at)
        engine, kind = self.engine, GroupRollouts
        engine.watch = self.log.watch
        if self.config.max_staleness:  # tasks are evaluated on meanwhile, by the engine that there is
            engine, kind = make_engine(self.config, self.policy.renderer, self.policy.model), AsyncGroupRollouts
            engine.token_budget = self.engine.token_budget
        rollouts = kind(engine, curriculum, self.config, self.start_model, self.generation)
        fit(self.policy, rollouts, self.config, self.reporter("grpo"), self.go_on, self.log.watch)

    def save(self, folder: Path | None) -> None:
        """Write the policy."""
        save_policy(self.policy, folder)

    def conclude(self) -> None:
        """Compare with the start, a random policy and the oracle; write ``heldout.json``, tables and figures."""
        config, before, after = self.config, self.scores[0], self.scores[self.total]
        first = "SFT" if config.warm_steps else "start"
        references = self._references()
        self.results = {first: before.outcomes, "GRPO": after.outcomes}
        if references:
            self.results = {"random": references["random"], **self.results, "oracle": references["oracle"]}
        self.greedy = {first: before.greedy, "GRPO": after.greedy}
        self.reward_gain = self._gain(rewards_of)
        summary: dict[str, Any] = {
            "tasks": len(self.held_out),
            "samples": config.samples,
            "gain": self.gain._asdict(),
            "reward_gain": self.reward_gain._asdict(),
            "greedy": self.greedy,
            "means": {first: before.episode_means(), "GRPO": after.episode_means()},
        }
        if "valid" in summary["means"]["GRPO"]:
            summary["valid_gain"] = self._gain(design_statistics.valid_of)._asdict()
            design_statistics.draw(self.log.records, config.output / "designs.svg", f"Designs for {config.env}")
        shown = config.output / "calls.svg"
        call_statistics.draw(self.log.records, summary["means"], shown, f"Calls for {config.env}")
        lines = {name: float(np.mean([o or 0.0 for o in outcomes])) for name, outcomes in references.items()}
        self.close(summary, self.results, first, over=first, references=lines)

    def finish(self) -> None:
        """Close the environments."""
        self.engine.close()
        self.env.close()

    def _gain(self, values_of: Callable[[Sequence[Row]], list[float | None]]) -> Interval:
        """Return by how much values of the episodes exceed those of the start, as mean over tasks."""
        before, after = (self.scores[step] for step in (0, self.total))
        now, then = (scores.task_means(values_of(scores.rows)) for scores in (after, before))
        return paired_bootstrap(now, then)

    def _references(self) -> Mapping[str, list[float | None]]:
        """Return the outcomes of a random policy and of the oracle, where the environment has tasks for them."""
        if not hasattr(type(self.env.unwrapped), "task"):
            return {}
        samples = self.config.samples
        repeated = [start for start in self.held_out for _ in range(samples)]
        config = self.config
        play = partial(
            reference,
            lambda: make_env(config.env, config.environment_options),
            in_flight=1 if getattr(self.env.unwrapped, "may_block", None) is False else config.in_flight,
        )
        random = play(lambda: RandomPolicy(config.seed), repeated)
        oracle = [o for o in play(OraclePolicy, self.held_out) for _ in range(samples)]
        return {"random": random, "oracle": oracle}


def train(config: TrainGRPO) -> dict[str, Any]:
    """Warm-start if need be, train, and evaluate on held-out tasks before and after (also in ``heldout.json``).

    Returns:
        ``results`` (outcomes by policy), ``greedy`` (success by policy), and ``gain`` and ``reward_gain``: success and
        reward of GRPO over its start, as mean over tasks with its 95 % interval (bootstrap over tasks). Nothing, if
        nothing was evaluated, and in processes other than that of rank 0.
    """
    run = SingleAgentTrainer(config)
    try:
        run.run()
    finally:
        run.generation.close()
    if not run.scores or not distributed.is_main():
        return {}
    return {"results": run.results, "greedy": run.greedy, "gain": run.gain, "reward_gain": run.reward_gain}


if __name__ == "__main__":
    run_script(TrainGRPO, train)
