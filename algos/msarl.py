r"""MSARL: two policies trained together by GRPO with nested advantages (MSARL §3.3).

    python algos/msarl.py                                       two embedded models, within minutes
    python algos/msarl.py --env ID --reasoner PATH --helper PATH    any causal language models

For a question the reasoner samples G paths up to and including its last call. For each the helper samples M
interpretations of what came of that call, and the reasoner finishes each to an answer. What is shared is generated
once: branches are forks of a seat, and the training rows of a path and of its branches do not overlap.

    helper     A_ij, normalised within the M of one path, on the tokens of interpretation ij
    reasoner   A_i, from the means of the paths, on all tokens of path i (`reasoner_advantage`)

Departures from the paper, each an option:

- The paper's rule for the reasoner is identically 0 (``--reasoner-advantage paper`` is it); the default is the group
  advantage of the paths' means.
- What the reasoner writes after an interpretation is not trained (``--train-finish`` does, with A_ij).
- A path without a call has nothing to interpret: its one answer stands for all its M.
- With several calls, which one is the last is known only afterwards: the path's own ending is then its first branch.
- Several questions a step (``--questions 1``); the clip is asymmetric, (0.2, 0.28) (``--epsilon-high 0.2``).
- Without models the policies are tiny ones, made and warm-started on the spot on problems that the teacher of
  `toolorchestra.envs.msarl` has programs for, with a simulated Python whose output is noisy.
"""

from __future__ import annotations

import toolorchestra.algos  # noqa: F401 - first, also when run as a script: it makes settings that torch reads once

# isort: split
import json
import math
import random
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from torch import Tensor

from toolorchestra.agents.tiny import TokenPolicy, prepare_torch
from toolorchestra.agents.tiny_text import embedded_text_policy
from toolorchestra.algos import sft
from toolorchestra.algos.advantages import NESTED_RULES, NestedRule, nested_advantages
from toolorchestra.algos.joint import JointEngine, Seat, TrainRow, row_logps
from toolorchestra.algos.losses import clipped_policy_loss
from toolorchestra.algos.report import RunLog, set_aside
from toolorchestra.algos.rollout import ModelWriter, Start, Writer
from toolorchestra.algos.stats import paired_bootstrap
from toolorchestra.envs.episode import write_episodes
from toolorchestra.envs.msarl import MSARLEnv
from toolorchestra.envs.msarl.game import REASONER, MSARLPlay
from toolorchestra.envs.msarl.teacher import program, teach
from toolorchestra.envs.multiagent.registration import make_multiagent
from toolorchestra.toolscale.answers import equal, final_answer
from toolorchestra.toolscale.errors import OptionError, UnknownNameError

_NUMBER = re.compile(r"\d+")
_STAGES = 5  # of the warm start's lesson
_SFT_BATCH = 32


@dataclass
class TrainMSARL:
    """Train a reasoner and a helper with nested GRPO; without models, make, warm-start and train embedded ones."""

    env: str = "MSARL-Math-v0"
    """Id of the environment (`toolorchestra.envs.make_multiagent`)."""
    env_options: dict[str, str] = field(default_factory=dict)
    """Further arguments of the environment; values that are JSON are read as such."""
    reasoner: str | None = None
    """Folder or hub name of a causal language model with a chat template; None makes embedded models."""
    helper: str | None = None
    """The same for the helper; None: `reasoner`'s model, with weights of its own."""
    share: bool = False
    """One set of weights for both agents."""
    output: Path = Path("runs/msarl")
    """Folder for models, checkpoints and metrics."""
    seed: int = 0
    """Seed of everything random."""
    difficulty: tuple[int, ...] = (1,)
    """Levels of the tasks to train and evaluate on; empty for all."""
    start: Path | None = None
    """Folder of policies to start from (the ``start`` or ``final`` of another run) instead of making them."""
    sft_steps: int = 600
    """Steps of the warm start (embedded models only); 0 for none."""
    sft_error: float = 0.4
    """Probability that the warm start's teacher slips where it can: a wrong number in a program or interpretation."""
    noise: int = 8
    """Lines of noise in the output of the simulated Python."""
    steps: int = 20
    """Batches of rollouts."""
    questions: int = 8
    """Questions per batch."""
    paths: int = 3
    """Reasoning paths per question (G)."""
    interpretations: int = 3
    """Interpretations per path (M)."""
    reasoner_advantage: NestedRule = "subgroup_mean"
    """Rule for the reasoner's advantage; see `toolorchestra.algos.advantages.nested_advantages`."""
    train_finish: bool = False
    """Train what the reasoner writes after an interpretation too, with the advantage of its branch."""
    max_calls: int = 1
    """Code blocks that are run (C)."""
    updates: int = 1
    """Optimiser steps per batch of rollouts, each on all its rows."""
    learning_rate: float | None = None
    """Constant learning rate; None: 3e-4 for embedded models, 1e-6 for others."""
    epsilon: float = 0.2
    """Clip of the probability ratio below 1."""
    epsilon_high: float = 0.28
    """Clip of the probability ratio above 1."""
    temperature: float = 1.0
    """Sampling temperature of rollouts."""
    max_turn_ids: int | None = None
    """Most tokens of a message; None: 64 for embedded models, 1024 for others."""
    max_ids: int | None = None
    """Most tokens of an agent's stream; None: 512 for embedded models, 16000 for others."""
    rows_at_once: int | None = None
    """Rows in one forward pass of training; None: all for embedded models, 4 for others."""
    seats: int = 128
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
        if not self.env.startswith("MSARL-"):
            raise OptionError(
                f"{self.env!r} is not played by a reasoner and a helper, whom this learner trains. Environments of one "
                f"agent are trained by GRPO: `python algos/grpo.py --env {self.env}`."
            )
        for name in ("steps", "questions", "updates", "seats", "eval_samples", "max_calls"):
            if getattr(self, name) < 1:
                raise OptionError(f"`{name}` must be at least 1, got {getattr(self, name)!r}.")
        for name in ("paths", "interpretations"):
            if getattr(self, name) < 2:
                raise OptionError(
                    f"A group judges its members by one another: `{name}` {getattr(self, name)} is below 2."
                )
        if self.reasoner_advantage not in NESTED_RULES:
            raise UnknownNameError("rule for the reasoner's advantage", self.reasoner_advantage, NESTED_RULES)
        if not 0 <= self.sft_error <= 1 or self.temperature <= 0 or not 0 < self.epsilon < 1 or self.epsilon_high <= 0:
            raise OptionError(
                "`sft_error` must lie in [0, 1], `epsilon` in (0, 1), and `epsilon_high` and `temperature` above 0."
            )
        if self.helper and (self.share or not self.reasoner):
            raise OptionError("`helper` stands beside a `reasoner`, and has weights of its own: not with `share`.")
        if self.start and self.reasoner:
            raise OptionError("`start` holds policies already: give it or a `reasoner`, not both.")
        if self.resume and not self.save_every:
            raise OptionError("`resume` needs checkpoints: leave `save_every` above 0.")

    @property
    def small(self) -> bool:
        """Whether the policies are embedded ones."""
        return self.reasoner is None

    @property
    def rate(self) -> float:
        """The learning rate, its default resolved."""
        return self.learning_rate or (3e-4 if self.small else 1e-6)

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies that are trained."""
        return ("shared",) if self.share else ("reasoner", "helper")

    def policy_of(self, agent: str) -> str:
        """Return the name of the policy of an agent; all helpers have the same."""
        return "shared" if self.share else "reasoner" if agent == REASONER else "helper"

    def make_env(self, noise: int | None = None) -> MSARLEnv:
        """Return the environment, with `noise` lines of noise or as many as configured.

        An episode has the messages that its calls need, and no more.
        """
        options: dict[str, Any] = {"max_calls": self.max_calls, "max_cycles": 2 * self.max_calls + 1}
        if self.small:
            options["python"] = "simulated"
        options |= {name: _meant(value) for name, value in self.env_options.items()}
        if options.get("python") == "simulated":
            options["noise"] = options.get("noise", self.noise) if noise is None else noise
        env = make_multiagent(self.env, **options)
        assert isinstance(env, MSARLEnv)
        return env


def _meant(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


# ------------------------------------------------------------------------------------------------ nested rollouts


@dataclass
class Branches:
    """A reasoning path and how it may end.

    Attributes:
        trunk: The seat at the path's last call, with the helper about to speak; over, if it has no call.
        leaves: M seats that went on from there, each to its end; one, if there is no call.
    """

    trunk: Seat
    leaves: list[Seat]

    @property
    def branched(self) -> bool:
        """Whether there is a call to interpret."""
        return not self.trunk.over

    def rewards(self, count: int) -> list[float]:
        """Return the rewards of the leaves; an only one stands for all."""
        return [leaf.reward for leaf in self.leaves] * (count if len(self.leaves) == 1 else 1)


def play_nested(
    engine: JointEngine,
    writers: Mapping[str, Writer],
    starts: Sequence[Start],
    *,
    paths: int,
    interpretations: int,
    rng: random.Random,
) -> list[list[Branches]]:
    """Play each question as `paths` paths with `interpretations` branches, and return the paths of each."""
    asked: dict[int, Seat] = {}

    def at_last_call(seat: Seat) -> bool:
        if seat.play.mover == REASONER:
            return False
        assert isinstance(seat.play, MSARLPlay)
        if not seat.play.calls_left:
            return True
        asked[id(seat)] = seat.fork()  # where to branch, if it turns out to be the last
        return False

    roots = [engine.sit(start.another(rng)) for start in starts for _ in range(paths)]
    engine.play(writers, roots, at_last_call)
    found = []
    for root in roots:
        if not root.over:
            found.append(Branches(root, [root.fork() for _ in range(interpretations)]))
        elif id(root) in asked:
            trunk = asked[id(root)]
            found.append(Branches(trunk, [root, *(trunk.fork() for _ in range(interpretations - 1))]))
        else:
            found.append(Branches(root, [root]))
    engine.play(writers, [leaf for path in found for leaf in path.leaves])
    return [found[n : n + paths] for n in range(0, len(found), paths)]


@dataclass(frozen=True)
class Batch:
    """What a batch of rollouts gives to learn from.

    Attributes:
        rewards: Shape ``(questions, G, M)``.
        rows: Training rows by agent's role: ``reasoner`` and ``helper``.
    """

    rewards: Tensor
    rows: Mapping[str, list[TrainRow]]


def judge(
    nests: Sequence[Sequence[Branches]], *, interpretations: int, rule: NestedRule, train_finish: bool = False
) -> Batch:
    """Return the training rows of nested rollouts, with their advantages."""
    rewards = torch.tensor([[path.rewards(interpretations) for path in paths] for paths in nests], dtype=torch.float64)
    advantages = nested_advantages(rewards, rule)
    rows: dict[str, list[TrainRow]] = {"reasoner": [], "helper": []}

    def add(role: str, row: TrainRow | None, advantage: Tensor) -> None:
        if row is not None:
            rows[role].append(replace(row, advantage=float(advantage)))

    for q, paths in enumerate(nests):
        for i, path in enumerate(paths):
            reasoning = path.trunk.streams[REASONER]
            add("reasoner", reasoning.row(), advantages.reasoner[q, i])
            if not path.branched:
                continue
            reader = path.trunk.play.mover
            known = len(path.trunk.streams[reader].ids)
            for j, leaf in enumerate(path.leaves):
                worth = advantages.helper[q, i, j]
                add("helper", leaf.streams[reader].row(known, first=True), worth)
                if train_finish:
                    add("reasoner", leaf.streams[REASONER].row(len(reasoning.ids)), worth)
    return Batch(rewards, rows)


# ------------------------------------------------------------------------------------------------------- updating


class Updater:
    """Trains one policy on its own rows.

    Args:
        policy: What is trained.
        config: Rate, clip and sizes.

    Attributes:
        optimizer: Its optimiser.
    """

    def __init__(self, policy: TokenPolicy, config: TrainMSARL) -> None:
        self.policy, self.config = policy, config
        self.optimizer = torch.optim.AdamW(
            policy.model.parameters(), lr=config.rate, betas=(0.9, 0.95), weight_decay=0.0
        )

    def loss(self, rows: Sequence[TrainRow], count: int) -> tuple[Tensor, Tensor]:
        """Return the clipped loss of some of an agent's `count` rows, and the share of ratios clipped."""
        config = self.config
        logps, old, mask = row_logps(self.policy.model, rows, self.policy.codec.pad_id, config.temperature)
        advantages = torch.tensor([row.advantage for row in rows], device=logps.device, dtype=logps.dtype)
        found = clipped_policy_loss(logps, old, advantages, mask, eps_low=config.epsilon, eps_high=config.epsilon_high)
        return found.loss * len(rows) / count, found.clipped

    def step(self, agents: Sequence[Sequence[TrainRow]]) -> dict[str, float]:
        """Make one optimiser step on the rows of each agent that has this policy; each agent's mean counts alike.

        Rows without an advantage have no gradient, and are only counted. Without any other there is no step.
        """
        config = self.config
        self.policy.model.train()
        total, clipped, parts = 0.0, 0.0, 0
        for rows in agents:
            telling = [row for row in rows if row.advantage]
            telling.sort(key=lambda row: len(row.prompt_ids) + len(row.completion_ids))  # alike ones together
            size = config.rows_at_once or (len(telling) or 1 if config.small else 4)
            for first in range(0, len(telling), size):
                loss, cut = self.loss(telling[first : first + size], len(rows))
                loss.backward()  # type: ignore[no-untyped-call]  # torch's
                total, clipped, parts = total + float(loss.detach()), clipped + float(cut), parts + 1
        norm = 0.0
        if parts:
            norm = float(torch.nn.utils.clip_grad_norm_(self.policy.model.parameters(), 1.0))
            self.optimizer.step()
            self.optimizer.zero_grad()
        return {"loss": total, "grad_norm": norm, "clipped": clipped / max(1, parts)}


def learn(
    engine: JointEngine,
    policies: Mapping[str, TokenPolicy],
    updaters: Mapping[str, Updater],
    config: TrainMSARL,
    tasks: Sequence[Start],
    step: int,
) -> dict[str, float]:
    """Play one batch of rollouts, update every policy on it, and return the metrics.

    Tasks and samples depend on the seed, the step and the policies only.
    """
    rng = random.Random(f"{config.seed}/{step}")
    starts = [rng.choice(tasks) for _ in range(config.questions)]
    writers = make_writers(policies, config.temperature, rng)
    engine.generated.clear()
    nests = play_nested(engine, writers, starts, paths=config.paths, interpretations=config.interpretations, rng=rng)
    batch = judge(
        nests, interpretations=config.interpretations, rule=config.reasoner_advantage, train_finish=config.train_finish
    )
    metrics = measure(nests, batch, engine)
    for _ in range(config.updates):
        for name, updater in updaters.items():
            found = updater.step([rows for role, rows in batch.rows.items() if config.policy_of(role) == name])
            metrics |= {f"{name}_{what}": value for what, value in found.items()}
    return metrics


def make_writers(policies: Mapping[str, TokenPolicy], temperature: float, rng: random.Random) -> dict[str, Writer]:
    """Return a sampler for each policy."""
    return {
        name: ModelWriter(policy.model, policy.codec, temperature=temperature, seed=rng.getrandbits(48))
        for name, policy in policies.items()
    }


def measure(nests: Sequence[Sequence[Branches]], batch: Batch, engine: JointEngine) -> dict[str, float]:
    """Return what a batch of rollouts looks like."""
    paths = [path for several in nests for path in several]
    rewards = batch.rewards
    valid = ~rewards.isnan()
    means = rewards.nanmean(-1)

    def telling(values: Tensor) -> float:
        """Share of groups in which rewards differ: only those teach anything."""
        low, high = values.nan_to_num(torch.inf).amin(-1), values.nan_to_num(-torch.inf).amax(-1)
        return float((high > low).double().mean())

    return {
        "success": float(rewards.nanmean()) if valid.any() else math.nan,
        "called": float(np.mean([path.branched for path in paths])),
        "reasoner_signal": telling(means),
        "helper_signal": telling(rewards),
        "rows": float(sum(map(len, batch.rows.values()))),
        **{f"{name}_tokens": float(engine.generated[name]) for name in engine.codecs},
    }


# ----------------------------------------------------------------------------------------------------- warm start


def known_tasks(config: TrainMSARL, env: MSARLEnv, split: str) -> list[Start]:
    """Return where episodes of a split can begin: for embedded models, with tasks that the teacher can teach."""
    tasks = [task for task in env.source.tasks(split) if not config.difficulty or task.difficulty in config.difficulty]
    if config.small:
        tasks = [task for task in tasks if program(task)]
    if not tasks:
        there = sorted({task.difficulty for task in env.source.tasks(split)})
        raise OptionError(
            f"{env.source.name} has no task of split {split!r} with difficulty {list(config.difficulty)}"
            f"{' that an embedded model can be taught' if config.small else ''}; it has difficulties {there}."
        )
    return [Start(0, (("task_id", task.id),)) for task in tasks]


def slip(said: str, play: MSARLPlay) -> str:
    """Return what a teacher says by mistake: the last number of the output, or a program with two numbers exchanged.

    A mistake is always of the same kind, so that a small model learns two ways of deciding, and not to spell badly.
    """
    if play.mover != REASONER:
        return str(play.news(play.mover)[-1]["content"]).split()[-1]
    numbers = list(dict.fromkeys(_NUMBER.findall(said)))
    exchange = dict(zip(numbers[:2], reversed(numbers[:2]), strict=True))
    return _NUMBER.sub(lambda found: exchange.get(found[0], found[0]), said)


def demonstrate(env: MSARLEnv, starts: Sequence[Start], error: float, rng: random.Random) -> list[sft.Demonstration]:
    """Return what the teacher says in these episodes, each agent's side as a demonstration of its own."""
    found = []
    for start in starts:
        env.reset(seed=rng.getrandbits(31), options=start.reset_options())
        play = env.play
        assert isinstance(play, MSARLPlay)
        while not play.over:
            said = teach(play)
            play.act(slip(said, play) if rng.random() < error else said)
        solved = play.episode.outcome == "solved"
        for history in play.histories.values():
            messages = history[: 1 + max((n for n, m in enumerate(history) if m["role"] == "assistant"), default=-1)]
            if messages:
                found.append(sft.Demonstration(tuple(messages), (), play.task.difficulty, solved))
    return found


def exchange_numbers(ids: Sequence[int], mask: Sequence[int], numbers: Sequence[int], rng: random.Random) -> list[int]:
    """Return a row with the numbers that the policy copies exchanged for others, so that any number is copied as well.

    Args:
        ids: Ids of the row.
        mask: 1 on those that the policy writes.
        numbers: Ids that are numbers.
        rng: Source of chance.
    """
    first: dict[int, bool] = {}
    for i, own in zip(ids, mask, strict=True):
        first.setdefault(i, bool(own))
    written = {i for i, own in zip(ids, mask, strict=True) if own}
    known = set(numbers)
    copied = [i for i, own in first.items() if not own and i in written and i in known]
    others = [i for i in numbers if i not in first]
    copied = copied[: len(others)]  # where noise has used up the numbers, the rest stay
    exchange = dict(zip(copied, rng.sample(others, len(copied)), strict=True))
    return [exchange.get(i, i) for i in ids]


def lesson(
    config: TrainMSARL, starts: Sequence[Start], policy: TokenPolicy, rng: random.Random, rows: int
) -> list[tuple[list[int], list[int]]]:
    """Return rows of (ids, labels) in the order in which they are to be learnt: noise grows, and slips come last."""
    numbers = [i for token, i in policy.tokenizer.get_vocab().items() if token.isdigit()]
    numbers.sort()
    made: list[tuple[list[int], list[int]]] = []
    for stage in range(_STAGES):
        env = config.make_env(noise=round(config.noise * min(1.0, stage / (_STAGES - 2))))
        error = config.sft_error if stage == _STAGES - 1 else 0.0  # a model that cannot spell learns from good ones
        count = rows * (stage + 1) // _STAGES - len(made)
        plays = [rng.choice(starts) for _ in range(count // 3 + 1)]  # an episode has three messages: two rows or three
        demonstrations = demonstrate(env, plays, error, rng)
        for _ in range(count):
            ids, mask = sft.encode(policy.codec, rng.choice(demonstrations))
            ids = exchange_numbers(ids, mask, numbers, rng)
            made.append((ids, [i if own else -100 for i, own in zip(ids, mask, strict=True)]))
    return made


def warm_up(config: TrainMSARL, env: MSARLEnv, report: sft.Report) -> dict[str, TokenPolicy]:
    """Return the policies that training starts from: models as they are, or embedded ones, taught together."""
    if config.start:
        return load_policies(config, config.start)
    if config.reasoner:
        models = {"shared": config.reasoner, "reasoner": config.reasoner, "helper": config.helper or config.reasoner}
        return {name: TokenPolicy.load(models[name]) for name in config.policies}
    rng = random.Random(config.seed)
    starts = known_tasks(config, env, "train")
    words = demonstrate(env, known_tasks(config, env, "all"), 0.0, rng)
    policy = embedded_text_policy([demonstration.messages for demonstration in words], seed=config.seed)
    if config.sft_steps:
        rows = lesson(config, starts, policy, rng, config.sft_steps * _SFT_BATCH)
        folder = config.output / "sft"
        sft.fit(policy, rows, output=folder, batch=_SFT_BATCH, learning_rate=2e-3, seed=config.seed, report=report)
    taught = config.output / "sft" / "taught"  # both agents begin with what one model has learnt of both roles
    policy.save(taught)
    return {name: TokenPolicy.load(taught) for name in config.policies}


def load_policies(config: TrainMSARL, folder: Path) -> dict[str, TokenPolicy]:
    """Return the policies that `save_policies` wrote."""
    if missing := [name for name in config.policies if not (folder / name).is_dir()]:
        raise OptionError(f"{folder} holds no policy of the name {missing[0]!r}: give the `start` or `final` of a run.")
    return {name: TokenPolicy.load(folder / name) for name in config.policies}


def save_policies(policies: Mapping[str, TokenPolicy], folder: Path) -> None:
    """Write every policy into a folder of its name."""
    for name, policy in policies.items():
        policy.save(folder / name)


# ----------------------------------------------------------------------------------------------------- evaluation


@dataclass(frozen=True)
class Scores:
    """How policies do on held-out tasks; shares of the tasks, or means over them.

    Attributes:
        by_task: Mean success of the sampled episodes of each task.
        outcomes: Success of every sampled episode, task by task; None after an error of ours.
        greedy: Success of the greedy episode (pass@1 in the paper).
        pass_at: Share of tasks with a right answer among the samples.
        maj_at: Share of tasks whose commonest answer is right.
    """

    by_task: list[float]
    outcomes: list[float | None]
    greedy: float
    pass_at: float
    maj_at: float


def evaluate(
    engine: JointEngine,
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
    engine.play(make_writers(policies, 0.0, rng), greedy)
    seats = [engine.sit(start.another(rng)) for start in starts for _ in range(samples)]
    engine.play(make_writers(policies, temperature, rng), seats)
    if record is not None:
        record.unlink(missing_ok=True)
        write_episodes(record, (seat.play.episode for seat in greedy))
    tasks = [seats[n : n + samples] for n in range(0, len(seats), samples)]
    rewards = [[seat.reward for seat in task] for task in tasks]
    return Scores(
        by_task=[float(np.nanmean(task)) if not np.isnan(task).all() else 0.0 for task in rewards],
        outcomes=[None if math.isnan(reward) else reward for task in rewards for reward in task],
        greedy=float(np.nanmean([seat.reward for seat in greedy])),
        pass_at=float(np.mean([max(task) > 0 for task in rewards])),
        maj_at=float(np.mean([_majority(task) for task in tasks])),
    )


def _majority(seats: Sequence[Seat]) -> float:
    """Return the reward of the commonest answer; 0 if nobody has answered."""
    clusters: list[list[Seat]] = []
    for seat in seats:
        if seat.play.episode.answer is None:
            continue
        said = final_answer(seat.play.episode.answer)
        for cluster in clusters:
            if equal(said, final_answer(str(cluster[0].play.episode.answer))):
                cluster.append(seat)
                break
        else:
            clusters.append([seat])
    return max(clusters, key=len)[0].reward if clusters else 0.0


# -------------------------------------------------------------------------------------------------------- training


def save_checkpoint(
    folder: Path, step: int, policies: Mapping[str, TokenPolicy], updaters: Mapping[str, Updater]
) -> None:
    """Write a checkpoint, which appears whole or not at all."""
    draft, final = folder / "draft", folder / f"checkpoint-{step}"
    for stale in (draft, final):
        shutil.rmtree(stale, ignore_errors=True)
    save_policies(policies, draft)
    for name, updater in updaters.items():
        torch.save(updater.optimizer.state_dict(), draft / name / "optimizer.pt")
    draft.rename(final)


def train(config: TrainMSARL) -> dict[str, Any]:
    """Warm-start if need be, train, and evaluate on held-out tasks before and after (also in ``heldout.json``).

    Returns:
        ``before`` and ``after`` (`Scores`), and ``gain``: success of the trained pair over its start, as mean over
        tasks with its 95 % interval (bootstrap over tasks).
    """
    prepare_torch(config.threads)
    begin, folder = config.output / "start", config.output / "checkpoints"
    checkpoint = Path(sft.last_checkpoint(folder)) if config.resume else None
    done = int(checkpoint.name.rsplit("-", 1)[1]) if checkpoint else 0
    earlier = None if config.resume else set_aside(config.output)
    with RunLog(config.output, resume=("msarl", done) if config.resume else None) as log:
        if earlier:
            log.console.print(f"The earlier run is now in {earlier}.", highlight=False)
        env = config.make_env()
        if not config.resume:
            with log.progress("sft", config.sft_steps):
                save_policies(warm_up(config, env, partial(_log, log, "sft")), begin)
        policies = load_policies(config, begin)
        engine = make_engine(config, env, policies)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        held_out = known_tasks(config, env, config.eval_split)

        def scores(step: int) -> Scores:
            record = config.output / ("episodes.jsonl" if step else "episodes-start.jsonl")
            for policy in policies.values():
                policy.model.to(device)
            found = evaluate(engine, policies, held_out, samples=config.eval_samples, record=record)
            if step or not config.resume:  # a resumed run's metrics begin with the start's already
                shares = {"greedy": found.greedy, "pass_at": found.pass_at, "maj_at": found.maj_at}
                log.heldout("msarl", step, found.outcomes, **shares)
            return found

        before = scores(0)
        if checkpoint:
            policies = load_policies(config, checkpoint)
            for policy in policies.values():
                policy.model.to(device)
        updaters = {name: Updater(policy, config) for name, policy in policies.items()}
        if checkpoint:
            for name, updater in updaters.items():
                state = torch.load(checkpoint / name / "optimizer.pt", map_location=device, weights_only=True)
                updater.optimizer.load_state_dict(state)
        tasks = known_tasks(config, env, "train")
        with log.progress("msarl", config.steps, done):
            for step in range(done + 1, config.steps + 1):
                log.log("msarl", step, **learn(engine, policies, updaters, config, tasks, step))
                if config.save_every and step % config.save_every == 0:
                    save_checkpoint(folder, step, policies, updaters)
        save_policies(policies, config.output / "final")
        after = scores(config.steps)
        env.close()
        gain = paired_bootstrap(after.by_task, before.by_task)
        summary = {"tasks": len(held_out), "samples": config.eval_samples, "gain": gain._asdict()}
        for name, found in (("start", before), ("MSARL", after)):
            mean = float(np.mean(found.by_task))
            summary[name] = {"success": mean, "greedy": found.greedy, "pass_at": found.pass_at, "maj_at": found.maj_at}
        (config.output / "heldout.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
        log.closing({"start": before.outcomes, "MSARL": after.outcomes}, baseline="start")
        log.curves(title=f"MSARL on {config.env}")
        log.console.print(
            f"MSARL over its start, mean of {len(held_out)} tasks: {100 * gain.estimate:+.1f} points "
            f"[{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]; greedy {before.greedy:.1%} → {after.greedy:.1%}, "
            f"pass@{config.eval_samples} {before.pass_at:.1%} → {after.pass_at:.1%}, "
            f"maj@{config.eval_samples} {before.maj_at:.1%} → {after.maj_at:.1%}. "
            f"Policies, metrics and curves: {config.output}",
            highlight=False,
            markup=False,
        )
    return {"before": before, "after": after, "gain": gain}


def _log(log: RunLog, phase: str, step: int, metrics: dict[str, float]) -> None:
    log.log(phase, step, **metrics)


def make_engine(config: TrainMSARL, env: MSARLEnv, policies: Mapping[str, TokenPolicy]) -> JointEngine:
    """Return the engine that plays `env`, with bounds that suit the policies' size."""
    return JointEngine(
        env,
        {agent: config.policy_of(agent) for agent in env.possible_agents},
        {name: policy.codec for name, policy in policies.items()},
        seats=config.seats,
        max_turn_ids=config.max_turn_ids or (64 if config.small else 1024),
        max_ids=config.max_ids or (512 if config.small else 16_000),
    )


def main(config: TrainMSARL | None = None) -> None:
    """Run the command."""
    train(config or tyro.cli(TrainMSARL))


if __name__ == "__main__":
    main()
