"""Training of several agents: the tasks and policies that it starts from, and the run in which a learner updates them.

`train` does all but the update, which is a `TeamLearner`'s. Not here: rollouts
(`toolorchestra.algos.rollout.multi_agent`), evaluation (`toolorchestra.algos.reporting.evaluation`) and the
demonstrations of the warm start (`toolorchestra.algos.data.warm_start`).
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from toolorchestra.agents.builtin.adapters import AdapterPolicy, holds_adapters, load_adapters
from toolorchestra.agents.builtin.model import TokenPolicy, prepare_torch
from toolorchestra.agents.builtin.text_model import builtin_text_policy, unknown_pieces
from toolorchestra.algos import sft
from toolorchestra.algos.data.drawn_rows import DemonstrationPool, DrawnRows
from toolorchestra.algos.data.round_trip import require_team_round_trip
from toolorchestra.algos.data.warm_start import staged_rows, taught_sides, teacher_demonstrations
from toolorchestra.algos.hardware import distributed, memory, sharding
from toolorchestra.algos.hardware.autocast import autocast
from toolorchestra.algos.hardware.batching import spread
from toolorchestra.algos.hardware.sharding import whole_weights
from toolorchestra.algos.options.context import PROMPTS, context_of, longest_row, require_room
from toolorchestra.algos.options.model_card import write_cards
from toolorchestra.algos.options.one_agent import TrainSFT
from toolorchestra.algos.options.options import ADAPTER_RATE
from toolorchestra.algos.options.precision import load_options, new_adapters
from toolorchestra.algos.options.several_agents import TrainTeam
from toolorchestra.algos.reporting.evaluation import Scores, evaluate_agents
from toolorchestra.algos.reporting.stats import crossed_bootstrap, paired_bootstrap
from toolorchestra.algos.rollout.multi_agent import MultiAgentEngine
from toolorchestra.algos.rollout.team_generation import make_team_generation
from toolorchestra.algos.team_learner import TeamLearner
from toolorchestra.algos.trainer import Report, Trainer, open_run, remove_checkpoints
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.records.episode import Episode, read_episodes
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.envs.teachers import teacher_of
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.common.writing import write_whole

SFT_BATCH = 32
"""Rows of a step of the warm start."""
SFT_RATE = 2e-3
"""Its learning rate."""
_MAX_NAMED = 12  # of the words that the built-in model does not know


def known_tasks(config: TrainTeam, env: MultiAgentEnv, split: str) -> list[EpisodeStart]:
    """Return the starts of a split's episodes; for built-in models, only of tasks that the teacher can teach."""
    all_tasks = env.source.tasks(split)
    tasks = [task for task in all_tasks if not config.levels or task.difficulty in config.levels]
    if config.kinds:
        known = sorted({task.intent for task in env.source.tasks("all")})
        if unknown := [kind for kind in config.kinds if kind not in known]:
            raise UnknownNameError("kind of task", unknown[0], known)
        tasks = [task for task in tasks if task.intent in config.kinds]
    if config.small:
        tasks = list(filter(teacher_of(env).knows, tasks))
    if not tasks:
        levels = sorted({task.difficulty for task in all_tasks})
        raise OptionError(
            f"{env.source.name} has no task of split {split!r} with difficulty {list(config.levels)}"
            f"{f' of the kinds {list(config.kinds)}' if config.kinds else ''}"
            f"{' that a built-in model can be taught' if config.small else ''}; it has difficulties {levels}."
        )
    return [EpisodeStart(0, {"task_id": task.id}) for task in tasks]


def warm_up(config: TrainTeam, env: MultiAgentEnv, report: Report) -> dict[str, TokenPolicy]:
    """Return the policies that training starts from: given models, or built-in ones, taught if need be."""
    names = config.policies(env)
    if config.start:
        policies = load_policies(names, config.start, **load_options(config))
        if holds_adapters(config.start, names) is not bool(config.lora_rank):
            raise OptionError(
                f"Expected {'adapters' if config.lora_rank else 'whole models'} in {config.start}, found the opposite: "
                f"{'leave `lora_rank` at 0' if config.lora_rank else 'give `lora_rank`'}, or start from elsewhere."
            )
        return policies
    if config.small:
        models = dict.fromkeys(names, str(teach_team(config, env, report)))
    else:
        models = {name: config.model_of(name) for name in names}
    if not config.lora_rank:
        policies = {name: TokenPolicy.load(model, **load_options(config)) for name, model in models.items()}
    elif len(set(models.values())) > 1:
        raise OptionError(f"Adapters share one base, got several: {', '.join(models.values())}. Give one model.")
    else:
        policies = {**new_adapters(config, names, models[names[0]])}
    if config.warm_steps and not config.small:
        teach_policies(config, env, policies, report)
    return policies


def teach_policies(config: TrainTeam, env: MultiAgentEnv, policies: Mapping[str, TokenPolicy], report: Report) -> None:
    """Teach each policy of a given model the sides of its agents, one policy after the other."""
    sides = taught_sides(env, config.levels, config.policy_of, seed=config.seed)
    own = replace(config, lr_scheduler_type=None, warmup_steps=None)  # those are of the rollouts
    rate = TrainSFT.model_rate * (ADAPTER_RATE if config.lora_rank else 1)
    for number, (name, policy) in enumerate(policies.items()):
        config.set_up(policy.model)
        rows = DrawnRows(config.warm_steps * SFT_BATCH, config.seed, [DemonstrationPool(sides[name], policy)])
        before = number * config.warm_steps
        sft.fit(
            policy,
            rows,
            own,
            output=config.output / "sft" / name,
            batch=SFT_BATCH,
            learning_rate=rate,
            report=lambda step, metrics, before=before: report(before + step, metrics),  # type: ignore[misc]  # mypy #15459
        )


def teach_team(config: TrainTeam, env: MultiAgentEnv, report: Report) -> Path:
    """Make a built-in model, teach it the roles of all agents, and return the folder where it is."""
    rng = random.Random(config.seed)
    starts = known_tasks(config, env, "train")
    texts = teacher_demonstrations(env, teacher_of(env), known_tasks(config, env, "all"), 0.0, rng)
    policy = builtin_text_policy([demonstration.messages for demonstration in texts], seed=config.seed)
    folder = config.output / "sft"
    if config.warm_steps:
        make = partial(staged_rows, config.make_env, starts, policy, error=config.error_rate, rng=rng)
        count, erring = config.warm_steps * SFT_BATCH, config.erring_stages
        rows = distributed.from_main(lambda: make(rows=count, erring=erring))
        own = replace(config, lr_scheduler_type=None, warmup_steps=None)  # those are of the rollouts
        sft.fit(policy, rows, own, output=folder, batch=SFT_BATCH, learning_rate=SFT_RATE, report=report)
    with distributed.written(folder / "taught") as draft:
        if draft:
            policy.save(draft)
    return folder / "taught"


def load_policies(
    names: Iterable[str], folder: Path, device: torch.device | str = "cpu", **options: Any
) -> dict[str, TokenPolicy]:
    """Return the policies that `save_policies` wrote; see `TokenPolicy.load` for `options`."""
    names = list(names)
    if missing := [name for name in names if not (folder / name).is_dir()]:
        raise OptionError(f"{folder} holds no policy of the name {missing[0]!r}: give the `start` or `final` of a run.")
    if holds_adapters(folder, names):
        policies: dict[str, TokenPolicy] = {**load_adapters(names, folder, **options)}
    else:
        policies = {name: TokenPolicy.load(folder / name, **options) for name in names}
    for policy in policies.values():
        policy.model.to(device)
    return policies


def save_policies(policies: Mapping[str, TokenPolicy], folder: Path | None) -> None:
    """Write every policy into a folder of its name; processes do so together, and one of them has a folder."""
    for name, policy in policies.items():
        weights = whole_weights(policy.model)
        if folder and isinstance(policy, AdapterPolicy):
            policy.save(folder / name)
        elif folder:
            policy.save(folder / name, weights)


def make_engine(config: TrainTeam, env: MultiAgentEnv, policies: Mapping[str, TokenPolicy]) -> MultiAgentEngine:
    """Return the engine that plays `env`, with bounds that suit the policies' size."""
    return MultiAgentEngine(
        env,
        {agent: config.policy_of(agent) for agent in env.possible_agents},
        {name: policy.renderer for name, policy in policies.items()},
        in_flight=config.in_flight,
        max_turn_ids=config.turn_ids,
        max_ids=longest_row(config, (context_of(policy.model.config) for policy in policies.values())),
        token_budget=min(_token_budget(config, policy.model) for policy in policies.values()),
    )


def _token_budget(config: TrainTeam, model: Any) -> int:
    with autocast(model):
        return memory.token_budget(model, config.memory)


def _read_by_agents(episode: Episode) -> Iterator[str]:
    """Yield what agents read in an episode, system messages aside."""
    for agent in episode.agents:
        yield from (str(message["content"]) for message in episode.opening(agent) if message["role"] != "system")
    for turn in episode.turns:
        yield from turn.observations.values()


MakeLearner = Callable[[MultiAgentEngine, dict[str, TokenPolicy], list[EpisodeStart]], TeamLearner[Any, Any]]
"""Makes a learner from an engine, the policies that it updates in place, and the starts to train on."""


class MultiAgentTrainer(Trainer[TrainTeam, Scores]):
    """A run of a learner of several agents, whose name in metrics and tables is `phase`.

    The policies are evaluated at the start, at the end, and after the steps `evaluate_at`.
    """

    def __init__(
        self, config: TrainTeam, make_learner: MakeLearner, phase: str, evaluate_at: Iterable[int] = ()
    ) -> None:
        super().__init__(config, phase)
        self.make_learner = make_learner
        if config.samples:
            self.milestones |= set(evaluate_at)
        self.env = config.make_env()
        names = config.policies(self.env)
        self.generation = make_team_generation(config, names)
        if not config.small:
            self.warm_steps *= len(names)

    def run(self) -> None:
        """Warm-start if need be, train, and evaluate on held-out tasks before and after; or evaluate the start only."""
        try:
            if self.config.evaluate_only:
                self._evaluate_start()
            else:
                super().run()
        finally:
            self.generation.close()

    def warm_up(self, folder: Path | None, report: Report) -> None:
        """Make or load the policies, teach them, and write them to a folder, if one is given."""
        save_policies(warm_up(self.config, self.env, report), folder)

    def _prompt(self, start: EpisodeStart) -> tuple[str, int]:
        """Return a task, and the ids that the agent who moves first reads of it."""
        slot = self.engine.start(start)
        renderer = self.policies[self.engine.policies[slot.play.current_agent]].renderer
        return slot.play.task.id, 0 if slot.over else len(slot.read(renderer).ids)

    def load(self, folder: Path) -> None:
        """Load the policies, the engine and the learner, from the checkpoint if there is one."""
        config = self.config
        names = config.policies(self.env)
        device = "cpu" if config.shard else self.device  # its parts are moved then
        self.policies = load_policies(names, self.checkpoint or folder, device, **load_options(config))
        for policy in self.policies.values():
            config.set_up(policy.model)
        self.engine = make_engine(config, self.env, self.policies)
        self.engine.watch = self.log.watch
        self.held_out = config.evaluated(known_tasks(config, self.env, config.eval_split))
        require_room(map(self._prompt, spread(self.held_out, PROMPTS)), self.engine.max_ids)
        if not config.small:
            renderers = {agent: self.engine.renderers[policy] for agent, policy in self.engine.policies.items()}
            require_team_round_trip(self.env, renderers)
        self.generation.check(self.policies, self.engine.max_ids)
        self.learner = self.make_learner(self.engine, self.policies, known_tasks(config, self.env, "train"))
        self.learner.generation = self.generation
        if self.checkpoint:
            state = torch.load(self.checkpoint / "learner.pt", map_location=self.device, weights_only=True)
            self.learner.load_state_dict(state)
            for step in sorted(self.milestones):
                if step <= self.done:
                    self.judge(step)

    def evaluate(self, step: int) -> Scores:
        """Play held-out tasks, and write the scores to ``heldout`` for a run that is resumed."""
        names = {0: "episodes-start.jsonl", self.total: "episodes.jsonl"}
        record = self.config.output / names.get(step, f"episodes-{step}.jsonl")
        samples = self.config.samples
        self.learner.sync()
        total = len(self.held_out) * (samples + 1)
        self.log.say(self.config.announcement(len(self.held_out), self.engine.max_ids))
        with self.log.watch("Held-out episodes", total) as count:
            scores = evaluate_agents(
                self.engine,
                self.policies,
                self.held_out,
                samples=samples,
                record=record,
                generation=self.generation,
                progress=count,
            )
        if not distributed.is_main():
            return scores
        if self.config.small and step == 0:
            self._report_unknown(read_episodes(record))
        file = self.config.output / "heldout" / f"{step}.json"
        write_whole(file, json.dumps(asdict(scores)))  # with NaN, which msgspec would write as null
        return scores

    def _report_unknown(self, episodes: Iterable[Episode]) -> None:
        """Say which words and signs of the held-out episodes the built-in model does not know."""
        shown = Counter(text for episode in episodes for text in _read_by_agents(episode))
        tokenizer = next(iter(self.policies.values())).tokenizer
        if unknown := unknown_pieces(tokenizer, shown.elements()):
            named = ", ".join(repr(piece) for piece, _ in unknown.most_common(_MAX_NAMED))
            self.log.console.print(
                f"The built-in model does not know {len(unknown):,} words and signs of held-out episodes, since no "
                f"demonstration has them, and reads <unk> for each: {named}{', …' * (len(unknown) > _MAX_NAMED)}.",
                highlight=False,
                markup=False,
            )

    def recall(self, step: int) -> Scores:
        """Read the scores after a step that was made before the run was resumed."""
        file = self.config.output / "heldout" / f"{step}.json"
        if not file.exists():
            raise OptionError(
                f"The run was not evaluated after step {step}: {file} is not there. Resume with the same steps."
            )
        return Scores(**json.loads(file.read_bytes()))

    def _evaluate_start(self) -> None:
        config = self.config
        prepare_torch(config.torch_threads)
        with open_run(config, self.phase) as (self.log, self.checkpoint, self.done):
            with distributed.written(config.output / "start") as draft:
                self.warm_up(draft, self.reporter("sft"))
                if draft:
                    write_cards(draft, config, self.phase, "The start")
            self.load(config.output / "start")
            self.judge(0)
            if distributed.is_main():
                scores = self.scores[0]
                summary = {"tasks": len(scores.by_task), "samples": config.samples, "start": _described(scores)}
                write_whole(config.output / "heldout.json", json.dumps(summary, indent=2) + "\n")
                self.log.say(
                    f"Untrained on {len(scores.by_task)} tasks: sampled {_percent(scores.by_task)}, greedy "
                    f"{_percent(scores.greedy_by_task)}. Policies and episodes: {config.output}"
                )
            distributed.wait()
            self.finish()

    def fit(self) -> None:
        """Let the learner make its steps; evaluate and write checkpoints on the way."""
        report = self.reporter(self.phase)
        for step in range(self.done + 1, self.total + 1):
            rate = self.learner.set_rate(step)
            report(step, {**self.learner.learn(step), **self.learner.sampling_metrics(), "learning_rate": rate})
            going = self.go_on(step)
            if self.config.save_every and step % self.config.save_every == 0:
                self.save_checkpoint(step)
            if not going:
                return

    def save_checkpoint(self, step: int) -> None:
        """Write a checkpoint."""
        with distributed.written(self.config.output / "checkpoints" / f"checkpoint-{step}") as draft:
            self.save(draft)
            state = sharding.whole(self.learner.state_dict())
            if draft is None:
                return
            write_cards(draft, self.config, self.phase, f"The checkpoint after {step} of {self.config.total} batches")
            torch.save(state, draft / "learner.pt")
        remove_checkpoints(self.config.output / "checkpoints", self.config.save_total_limit)

    def save(self, folder: Path | None) -> None:
        """Write the policies."""
        save_policies(self.policies, folder)

    def finish(self) -> None:
        """Close the environment."""
        self.env.close()

    def conclude(self) -> None:
        """Compare with the start."""
        before, after, name = self.scores[0], self.scores[self.total], self.phase.upper()
        samples = self.config.samples
        greedy = paired_bootstrap(after.greedy_by_task, before.greedy_by_task)
        summary: dict[str, Any] = {"tasks": len(before.by_task), "samples": samples, "gain": self.gain._asdict()}
        summary |= {"greedy_gain": greedy._asdict(), "start": _described(before), name: _described(after)}
        several = f" ({greedy.points()}), pass@{samples} {before.pass_at:.1%} → {after.pass_at:.1%}"
        if before.maj_at is not None and after.maj_at is not None:
            several += f", maj@{samples} {before.maj_at:.1%} → {after.maj_at:.1%}"
        if len(set(after.rewards.values())) > 1 or len(set(before.rewards.values())) > 1:
            paid = (f"{agent} {before.rewards[agent]:+.3f} → {reward:+.3f}" for agent, reward in after.rewards.items())
            several += f"; mean reward of {', '.join(paid)}"
        self.close(summary, {"start": before.outcomes, name: after.outcomes}, "start", over="its start", more=several)


def _described(scores: Scores) -> dict[str, Any]:
    """Return what ``heldout.json`` says of policies, with 95 % intervals over tasks."""
    intervals = {"success_interval": crossed_bootstrap(scores.by_task)[1:]}
    intervals["greedy_interval"] = crossed_bootstrap(scores.greedy_by_task)[1:]
    return {"success": scores.success, **scores.means(), **intervals}


def _percent(by_task: list[float]) -> str:
    found = crossed_bootstrap(by_task)
    return f"{found.estimate:.1%} [{found.low:.1%}, {found.high:.1%}]"


def train(
    config: TrainTeam, make_learner: MakeLearner, *, phase: str, evaluate_at: Iterable[int] = ()
) -> MultiAgentTrainer:
    """Warm-start if need be, train, evaluate on held-out tasks before and after, and return the run with its scores."""
    run = MultiAgentTrainer(config, make_learner, phase, evaluate_at)
    run.run()
    return run
