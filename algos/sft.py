"""Supervised fine-tuning on episodes, with loss on the policy's own tokens only.

    python algos/sft.py                                   the built-in model on the restaurant
    python algos/sft.py --env ID --model PATH             any environment, any causal language model
    python algos/sft.py --env TMATR-Math-v0               each agent, on its side (`toolorchestra.algos.team_sft`)

The policy's renderer encodes the demonstrations (`toolorchestra.algos.data.demonstrations`) once into ids and labels
(−100 on everything the environment wrote); TRL's `SFTTrainer` trains on these, without template or re-tokenisation. For
the built-in model they are augmented (`toolorchestra.algos.data.augmentation`); for ``--model`` they are not, and are
made as they are needed (`toolorchestra.algos.data.drawn_rows`).
"""

from __future__ import annotations

import toolorchestra.algos  # noqa: F401 - first, also when run as a script: it makes settings that torch reads once

# isort: split
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import gymnasium as gym

from toolorchestra.agents.builtin.design_renderer import DesignRenderer
from toolorchestra.agents.builtin.model import TokenPolicy, build_renderer, prepare_torch
from toolorchestra.agents.builtin.text_model import builtin_text_policy
from toolorchestra.algos import team_sft
from toolorchestra.algos.activity import Watch, unwatched
from toolorchestra.algos.data.augmentation import sft_rows
from toolorchestra.algos.data.demonstrations import Candidates, Demonstration, candidates, demonstrate
from toolorchestra.algos.data.drawn_rows import DemonstrationPool, DrawnRows, Rows
from toolorchestra.algos.data.general_reasoning import general_demonstrations
from toolorchestra.algos.data.round_trip import require_round_trip
from toolorchestra.algos.hardware import distributed
from toolorchestra.algos.options.context import require_readable
from toolorchestra.algos.options.model_card import card, write_cards
from toolorchestra.algos.options.one_agent import TrainSFT
from toolorchestra.algos.options.options import LearnerOptions
from toolorchestra.algos.options.precision import require_hardware, save_policy, start_policy
from toolorchestra.algos.trainer import Report, checkpoint_to_resume, open_run, run_script
from toolorchestra.envs.registration import is_multiagent
from toolorchestra.envs.starts import make_env, starts

T = TypeVar("T")
NOISY_FROM, NOISY_SHARE = 0.75, 0.5
"""Point of the training from which noisy episodes are used, and their share: until then a model learns the format."""


def build_policy(
    env: gym.Env[Any, Any], good: Sequence[Demonstration], noisy: Sequence[Demonstration], *, seed: int
) -> TokenPolicy:
    """Return a built-in model whose vocabulary is that of an environment and of these demonstrations."""
    source = getattr(env.unwrapped, "source", None)
    worlds = {} if source is None else {id(w): w for w in map(source.world, source.tasks("train"))}
    tools = {tool["function"]["name"]: tool for d in good for tool in d.tools}.values()
    if DesignRenderer.speaks(tools):
        return TokenPolicy.built_in(DesignRenderer.build(tools), seed=seed)
    if not tools:
        return builtin_text_policy([d.messages for d in (*good, *noisy)], seed=seed)
    renderer = build_renderer(tools, [d.messages for d in (*good, *noisy)], worlds.values())
    return TokenPolicy.built_in(renderer, seed=seed)


def teach(config: TrainSFT, report: Report = lambda step, metrics: None, watch: Watch = unwatched) -> TokenPolicy:
    """Make or load a policy, teach it as `config` says, and return it; `watch` shows how far things are."""
    prepare_torch(config.torch_threads)
    env = make_env(config.env, config.environment_options)
    try:
        policy, rows = _builtin(env, config, watch) if config.model is None else _given(env, config, config.model)
        require_round_trip(env, policy.renderer, next(iter(starts(env, "train", config.levels).values()))[0])
        if config.steps:
            config.set_up(policy.model)
            fit_rows(policy, rows, config, report, watch)
    finally:
        env.close()
    return policy


def _builtin(env: gym.Env[Any, Any], config: TrainSFT, watch: Watch) -> tuple[TokenPolicy, Rows]:
    """Return a built-in model, and its rows, augmented; all demonstrations are made first, as its words are theirs."""
    good, noisy = distributed.from_main(lambda: demonstrate(env, config, watch))
    policy, rng = build_policy(env, good, noisy, seed=config.seed), random.Random(config.seed)
    pick, count = partial(_pick, good, noisy), config.steps * config.batch
    with watch("Rows", count) as made:
        rows = sft_rows(
            policy.renderer,
            [*good, *noisy],
            rows=count,
            rng=rng,
            curriculum=True,
            pick=lambda at: pick(at, rng),
            count=made,
        )
    return policy, rows


def _given(env: gym.Env[Any, Any], config: TrainSFT, model: str) -> tuple[TokenPolicy, Rows]:
    """Return a policy of a given model, and its rows, which are made when they are needed."""
    policy = start_policy(config, model)
    good, noisy = candidates(env, config)
    taught = DemonstrationPool(good, policy)
    pools = [taught, DemonstrationPool(noisy, policy, otherwise=taught)]
    if config.general:
        found = general_demonstrations(config.general, min_score=config.general_min_score, limit=config.general_limit)
        pools.append(DemonstrationPool(Candidates.of(found), policy))

    def pick(at: float, rng: random.Random) -> DemonstrationPool:
        if config.general and rng.random() < config.general_share:
            return pools[2]
        return _pick(pools[0], pools[1] if noisy.count else None, at, rng)

    return policy, DrawnRows(config.steps * config.batch, config.seed, pools, pick)


def _pick(good: T, noisy: T | None, at: float, rng: random.Random) -> T:
    """Return what a row is drawn from, at a point from 0 to 1 of the training."""
    return noisy if noisy and at >= NOISY_FROM and rng.random() < NOISY_SHARE else good


def fit_rows(policy: TokenPolicy, rows: Rows, config: TrainSFT, report: Report, watch: Watch) -> None:
    """Train a policy in place on rows, as the options of a run say; see `fit`."""
    fit(
        policy,
        rows,
        config,
        output=config.output / "checkpoints",
        batch=config.batch,
        learning_rate=config.rate,
        report=report,
        watch=watch,
        save_every=config.save_every,
        resume=checkpoint_to_resume(config),
        model_card=card(config, "sft", "Checkpoints"),
    )


def fit(
    policy: TokenPolicy,
    rows: Rows,
    config: LearnerOptions,
    *,
    output: Path,
    batch: int,
    learning_rate: float,
    report: Report = lambda step, metrics: None,
    watch: Watch = unwatched,
    save_every: int = 0,
    resume: Path | None = None,
    model_card: str = "",
) -> None:
    """Train a policy's model in place on rows of (ids, labels), once, in their order; every `batch` rows are a step.

    The learning rate is the peak of a cosine schedule, unless `config` says otherwise; memory, precision, optimiser and
    seed are those of `config`. Checkpoints are written to `output` every `save_every` steps (0: never), with
    `model_card` beside them; `resume` is one to continue from. `watch` shows how far a step is.
    """
    drawn = rows if isinstance(rows, DrawnRows) else None
    if drawn is None:
        require_readable((rows[n][0] for n in range(len(rows))), policy.model)
    from datasets import Dataset
    from trl import SFTConfig

    from toolorchestra.algos.trl_trainers import MicroBatchSFTTrainer, Reporter, run_trainer, settings, trained

    steps = len(rows) // batch
    arguments = SFTConfig(
        **settings(
            output,
            config,
            save_every=save_every,
            schedule="cosine",
            warmup=min(30, steps // 10) if config.warmup_steps is None else config.warmup_steps,
        ),
        per_device_train_batch_size=distributed.require_divisible(
            batch, "rows of a batch", "Choose another size of batch."
        ),
        max_steps=steps,
        learning_rate=learning_rate,
        weight_decay=0.01,
        train_sampling_strategy="sequential",
        dataset_kwargs={"skip_prepare_dataset": True},
        max_length=None,
        logging_steps=1 if drawn else max(1, min(10, steps)),  # a step of a given model takes seconds
    )
    trainer = MicroBatchSFTTrainer(
        model=trained(policy.model),
        args=arguments,
        train_dataset=Dataset.from_dict({name: [[n] for n in range(len(rows))] for name in ("input_ids", "labels")}),
        processing_class=policy.tokenizer,
        callbacks=[Reporter(report)],
    )
    trainer.rows, trainer.model_card = rows, model_card
    trainer.gib, trainer.micro_batch, trainer.watch = config.memory, config.micro_batch, watch
    run_trainer(trainer, policy.model, resume)
    if drawn:
        drawn.warn_of_long()


def train(config: TrainSFT) -> None:
    """Teach a policy, save it into ``final``, and draw the curves; of several agents each (``final/AGENT``)."""
    if is_multiagent(config.env):
        team_sft.train(config, save_run, fit_rows)
        return
    require_hardware(config)
    distributed.start()
    make_env(config.env, config.environment_options).close()  # wrong options are refused before a folder is made
    save_run(config, teach)


def save_run(config: TrainSFT, taught: team_sft.Teach) -> None:
    """Teach a policy by a function of the options and of what reports a step, in the folder of a run, and save it."""
    with open_run(config, "sft") as (log, _, done):
        with log.progress("sft", config.steps, done, counted="steps"):
            policy = taught(config, lambda step, metrics: log.log("sft", step, **metrics), log.watch)
        with distributed.written(config.output / "final") as draft:
            save_policy(policy, draft)
            if draft:
                write_cards(draft, config, "sft", "The result")
        log.curves(title=f"SFT on {config.setting}")
        log.console.print(f"Policy: {config.output / 'final'}", highlight=False)


if __name__ == "__main__":
    run_script(TrainSFT, train)
