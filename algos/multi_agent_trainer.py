"""Training of several agents: the tasks and policies that it starts from, and the run in which a learner updates them.

`train` does all but the update, which is a `TeamLearner`'s. Not here: rollouts
(`toolorchestra.algos.rollout.multi_agent`), evaluation (`toolorchestra.algos.evaluation`) and the demonstrations of the
warm start (`toolorchestra.algos.warm_start`).
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

from toolorchestra.agents.builtin.adapters import holds_adapters, load_adapters
from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.agents.builtin.text_model import builtin_text_policy, unknown_pieces
from toolorchestra.algos import ranks, sft
from toolorchestra.algos.evaluation import Scores, evaluate_agents
from toolorchestra.algos.model_card import write_cards
from toolorchestra.algos.options_several_agents import TrainTeam
from toolorchestra.algos.precision import load_options, new_adapters
from toolorchestra.algos.rollout.multi_agent import MultiAgentEngine
from toolorchestra.algos.rollout.starts import Start
from toolorchestra.algos.team_learner import TeamLearner
from toolorchestra.algos.trainer import Report, Trainer, remove_checkpoints
from toolorchestra.algos.warm_start import staged_rows, teacher_demonstrations, teacher_of
from toolorchestra.envs.episode import Episode, read_episodes
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.toolscale.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.writing import write_whole

_SFT_BATCH = 32
_MAX_NAMED = 12  # of the words that the built-in model does not know


def known_tasks(config: TrainTeam, env: MultiAgentEnv, split: str) -> list[Start]:
    """Return the starts of a split's episodes; for built-in models, only of tasks that the teacher can teach."""
    all_tasks = env.source.tasks(split)
    tasks = [task for task in all_tasks if not config.difficulty or task.difficulty in config.difficulty]
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
            f"{env.source.name} has no task of split {split!r} with difficulty {list(config.difficulty)}"
            f"{f' of the kinds {list(config.kinds)}' if config.kinds else ''}"
            f"{' that a built-in model can be taught' if config.small else ''}; it has difficulties {levels}."
        )
    return [Start(0, (("task_id", task.id),)) for task in tasks]


def warm_up(config: TrainTeam, env: MultiAgentEnv, report: Report) -> dict[str, TokenPolicy]:
    """Return the policies that training starts from: models as they are, or built-in ones, taught together."""
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
        return {name: TokenPolicy.load(model, **load_options(config)) for name, model in models.items()}
    if len(set(models.values())) > 1:
        raise OptionError(f"Adapters share one base, got several: {', '.join(models.values())}. Give one model.")
    return {**new_adapters(config, names, models[names[0]])}


def teach_team(config: TrainTeam, env: MultiAgentEnv, report: Report) -> Path:
    """Make a built-in model, teach it the roles of all agents, and return the folder where it is."""
    rng = random.Random(config.seed)
    starts = known_tasks(config, env, "train")
    texts = teacher_demonstrations(env, teacher_of(env), known_tasks(config, env, "all"), 0.0, rng)
    policy = builtin_text_policy([demonstration.messages for demonstration in texts], seed=config.seed)
    folder = config.output / "sft"
    if config.sft_steps:
        make = partial(staged_rows, config.make_env, starts, policy, error=config.sft_error, rng=rng)
        rows = ranks.from_main(lambda: make(rows=config.sft_steps * _SFT_BATCH))
        own = replace(config, rate_schedule=None, warmup=None)  # those are of the rollouts
        sft.fit(policy, rows, own, output=folder, batch=_SFT_BATCH, learning_rate=2e-3, report=report)
    with ranks.written(folder / "taught") as draft:
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
        in_flight=config.in_flight,
        max_turn_ids=config.max_turn_ids or (64 if config.small else 1024),
        max_ids=config.longest,
    )


def _read_by_agents(episode: Episode) -> Iterator[str]:
    """Yield what agents read in an episode, system messages aside."""
    for agent in episode.agents:
        yield from (str(message["content"]) for message in episode.opening(agent) if message["role"] != "system")
    for turn in episode.turns:
        yield from turn.observations.values()


MakeLearner = Callable[[MultiAgentEngine, dict[str, TokenPolicy], list[Start]], TeamLearner[Any, Any]]
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
        if config.eval_samples:
            self.milestones |= set(evaluate_at)
        self.env = config.make_env()

    def warm_up(self, folder: Path | None, report: Report) -> None:
        """Make or load the policies, teach them, and write them to a folder, if one is given."""
        policies = warm_up(self.config, self.env, report)
        if folder:
            save_policies(policies, folder)

    def load(self, folder: Path) -> None:
        """Load the policies, the engine and the learner, from the checkpoint if there is one."""
        config = self.config
        names = config.policies(self.env)
        self.policies = load_policies(names, self.checkpoint or folder, self.device, **load_options(config))
        for policy in self.policies.values():
            config.set_up(policy.model)
        self.engine = make_engine(config, self.env, self.policies)
        self.held_out = config.evaluated(known_tasks(config, self.env, config.eval_split))
        self.learner = self.make_learner(self.engine, self.policies, known_tasks(config, self.env, "train"))
        if self.checkpoint:
            state = torch.load(self.checkpoint / "learner.pt", map_location=self.device, weights_only=True)
            self.learner.load_state_dict(state)
            for step in sorted(self.milestones):
                if step <= self.done:
                    self.judge(step)

    def evaluate(self, step: int) -> Scores:
        """Play held-out tasks, and write the scores to ``heldout`` for a run that is resumed."""
        names = {0: "episodes-start.jsonl", self.config.total: "episodes.jsonl"}
        record = self.config.output / names.get(step, f"episodes-{step}.jsonl")
        samples = self.config.eval_samples
        scores = evaluate_agents(
            self.engine,
            self.policies,
            self.held_out,
            samples=samples,
            record=record,
            gib=self.config.memory,
            progress=self.log.counter("Held-out episodes", len(self.held_out) * (samples + 1)),
        )
        if not ranks.main():
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

    def fit(self) -> None:
        """Let the learner make its steps; evaluate and write checkpoints on the way."""
        report = self.reporter(self.phase)
        for step in range(self.done + 1, self.config.total + 1):
            rate = self.learner.set_rate(step)
            report(step, {**self.learner.learn(step), "learning_rate": rate})
            self.judge(step)
            if self.config.save_every and step % self.config.save_every == 0:
                self.save_checkpoint(step)

    def save_checkpoint(self, step: int) -> None:
        """Write a checkpoint."""
        with ranks.written(self.config.output / "checkpoints" / f"checkpoint-{step}") as draft:
            if draft is None:
                return
            self.save(draft)
            write_cards(draft, self.config, self.phase, f"The checkpoint after {step} of {self.config.total} batches")
            torch.save(self.learner.state_dict(), draft / "learner.pt")
        remove_checkpoints(self.config.output / "checkpoints", self.config.keep_checkpoints)

    def save(self, folder: Path) -> None:
        """Write the policies."""
        save_policies(self.policies, folder)

    def finish(self) -> None:
        """Close the environment."""
        self.env.close()

    def conclude(self) -> None:
        """Compare with the start."""
        before, after, name = self.scores[0], self.scores[self.config.total], self.phase.upper()
        samples = self.config.eval_samples
        summary: dict[str, Any] = {"tasks": len(before.by_task), "samples": samples, "gain": self.gain._asdict()}
        summary |= {who: {"success": it.success, **it.means()} for who, it in (("start", before), (name, after))}
        several = f", pass@{samples} {before.pass_at:.1%} → {after.pass_at:.1%}"
        if before.maj_at is not None and after.maj_at is not None:
            several += f", maj@{samples} {before.maj_at:.1%} → {after.maj_at:.1%}"
        if len(set(after.rewards.values())) > 1 or len(set(before.rewards.values())) > 1:
            paid = (f"{agent} {before.rewards[agent]:+.3f} → {reward:+.3f}" for agent, reward in after.rewards.items())
            several += f"; mean reward of {', '.join(paid)}"
        self.close(summary, {"start": before.outcomes, name: after.outcomes}, "start", over="its start", more=several)


def train(
    config: TrainTeam, make_learner: MakeLearner, *, phase: str, evaluate_at: Iterable[int] = ()
) -> MultiAgentTrainer:
    """Warm-start if need be, train, evaluate on held-out tasks before and after, and return the run with its scores."""
    run = MultiAgentTrainer(config, make_learner, phase, evaluate_at)
    run.run()
    return run
