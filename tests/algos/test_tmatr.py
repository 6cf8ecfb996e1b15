from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from toolorchestra.agents.builtin.model import TokenPolicy, build_model
from toolorchestra.agents.builtin.text_model import builtin_text_policy
from toolorchestra.algos import multi_agent_trainer, tmatr
from toolorchestra.algos.data.warm_start import teacher_demonstrations
from toolorchestra.algos.options.several_agents import TrainTMATR
from toolorchestra.algos.reporting.evaluation import Scores
from toolorchestra.algos.rollout.multi_agent import Slot
from toolorchestra.algos.rollout.sampling import Sample
from toolorchestra.algos.rollout.trajectory import TrainRow, row_logps
from toolorchestra.algos.tmatr import DPOUpdater, EpisodePair, OnlineDPO, PairRow, report, select, side, stage_table
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.teachers import teacher_of
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError

AGENTS = ("planner", "inferencer")


@pytest.fixture(scope="module")
def env() -> MultiAgentEnv:
    return TrainTMATR(env_options={"max_retries": "0"}).make_env()


@pytest.fixture(scope="module")
def policy(env: MultiAgentEnv) -> TokenPolicy:
    """An untrained built-in model that knows the words."""
    starts = multi_agent_trainer.known_tasks(TrainTMATR(), env, "train")[:40]
    return builtin_text_policy(
        [one.messages for one in teacher_demonstrations(env, teacher_of(env), starts, 0.0, random.Random(0))]
    )


def clone(policy: TokenPolicy) -> TokenPolicy:
    model = build_model(len(policy.tokenizer))
    model.load_state_dict(policy.model.state_dict())
    return TokenPolicy(model, policy.tokenizer, policy.renderer)


def same(model: Any, other: Any) -> bool:
    return all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


# ------------------------------------------------------------------------------------------------------- pairs


def slots(*rewards: float) -> list[Any]:
    return [SimpleNamespace(reward=reward) for reward in rewards]


def test_a_pair_is_the_best_and_the_worst_episode() -> None:
    episodes = slots(0.4, 0.9, 0.2, 0.7)
    assert select(episodes, 0.5) == EpisodePair(episodes[1], episodes[2])


@pytest.mark.parametrize(
    ("rewards", "kept"),
    [
        ((0.9, 0.9, 0.9), False),  # nothing to prefer
        ((0.9, 0.9, 0.89), True),
        ((0.5, 0.1), False),  # the best is no good
        ((0.51, 0.1), True),
        ((float("nan"), 0.9, 0.1), True),
        ((float("nan"), 0.9), False),
        ((float("nan"), float("nan")), False),
    ],
)
def test_uninformative_pairs_are_left_out(rewards: tuple[float, ...], kept: bool) -> None:
    found = select(slots(*rewards), 0.5)
    assert (found is not None) is kept
    if found:
        assert found.better.reward == found.better.reward
        assert found.better.reward > found.worse.reward


def test_an_agents_side_is_what_it_wrote_itself(env: MultiAgentEnv, policy: TokenPolicy) -> None:
    config = TrainTMATR()
    engine = multi_agent_trainer.make_engine(config, env, dict.fromkeys(AGENTS, policy))
    start = multi_agent_trainer.known_tasks(config, env, "train")[0]
    pair = EpisodePair(engine.start(start), engine.start(start))
    written: dict[str, list[int]] = {name: [] for name in AGENTS}
    for slot in pair:
        while not slot.play.over:
            text = teacher_of(env).teach(slot.play)
            ids = policy.renderer.encode_action({"role": "assistant", "content": text})
            if slot is pair.better:
                written[slot.play.current_agent] += ids
            slot.read(policy.renderer)
            slot.trajectories[slot.play.current_agent].write(Sample(ids, [-0.5] * len(ids)))
            slot.play.act(text)
    for agent in AGENTS:
        row = side(pair, agent)
        assert row is not None
        assert [i for i, own in zip(row.chosen.completion_ids, row.chosen.mask, strict=True) if own] == written[agent]


def test_an_agent_that_was_silent_in_one_of_the_two_has_nothing_to_prefer(
    env: MultiAgentEnv, policy: TokenPolicy
) -> None:
    engine = multi_agent_trainer.make_engine(TrainTMATR(), env, dict.fromkeys(AGENTS, policy))
    start = multi_agent_trainer.known_tasks(TrainTMATR(), env, "train")[0]
    assert side(EpisodePair(engine.start(start), engine.start(start)), "inferencer") is None


# ---------------------------------------------------------------------------------------------------- updating


def random_pairs(policy: TokenPolicy, count: int = 3) -> list[PairRow]:
    """Pairs of rows with ids of others in between, of different lengths."""
    generator = torch.Generator().manual_seed(0)

    def row(longer: int) -> TrainRow:
        ids = torch.randint(20, len(policy.tokenizer), (8 + longer,), generator=generator).tolist()
        mask = [1, 1, 0, 0, 1, *([1] * longer)]
        return TrainRow(ids[:3], ids[3:], mask, [-6.0 * m for m in mask])

    return [PairRow(row(n), row((n + 1) % 3)) for n in range(count)]


def updater_of(policy: TokenPolicy, reference: TokenPolicy | None = None, **options: Any) -> DPOUpdater:
    updater = DPOUpdater(policy, TrainTMATR(**options))
    updater.refresh()
    if reference is not None:
        assert updater.reference is not None
        updater.reference.load_state_dict(reference.model.state_dict())
    return updater


def test_the_loss_by_hand(policy: TokenPolicy) -> None:
    other = TokenPolicy(build_model(len(policy.tokenizer), seed=1), policy.tokenizer, policy.renderer)
    (row,) = random_pairs(policy, 1)
    loss, metrics = updater_of(policy, other, beta=0.3, sft_weight=0.7).loss([row], 1, sum(row.chosen.mask))
    sums = []
    for model in (policy.model, other.model):
        for one in row:
            logps, _, mask = row_logps(model, [one], 0)
            sums.append(float((logps.detach() * mask).sum()))
    chosen, rejected, ref_chosen, ref_rejected = sums
    margin = 0.3 * ((chosen - ref_chosen) - (rejected - ref_rejected))
    dpo = float(torch.nn.functional.softplus(torch.tensor(-margin)))
    assert metrics["margin"] == pytest.approx(margin, rel=1e-3)
    assert metrics["dpo"] == pytest.approx(dpo, rel=1e-3)
    assert metrics["sft"] == pytest.approx(-chosen / 3, rel=1e-4)
    assert float(loss.detach()) == pytest.approx(dpo + 0.7 * -chosen / 3, rel=1e-3)


def test_the_loss_and_its_gradient_are_those_of_trl(policy: TokenPolicy, tmp_path: Path) -> None:
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer

    ours, theirs, other = clone(policy), clone(policy), clone(policy)
    with torch.no_grad():
        for parameter in other.model.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    rows = random_pairs(policy)
    loss, _ = updater_of(ours, other, beta=0.2, sft_weight=0.5).loss(
        rows, len(rows), sum(sum(r.chosen.mask) for r in rows)
    )
    loss.backward()  # type: ignore[no-untyped-call]  # torch's
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the trainer's set-up, which is not what is tested
        trainer = DPOTrainer(
            model=theirs.model,
            ref_model=other.model,
            args=DPOConfig(
                output_dir=str(tmp_path),
                loss_type=["sigmoid", "sft"],
                loss_weights=[1.0, 0.5],
                beta=0.2,
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                report_to=[],
            ),
            train_dataset=Dataset.from_dict({"prompt": ["1"], "chosen": ["2"], "rejected": ["3"]}),
            processing_class=policy.tokenizer,
        )
    both = [row.chosen for row in rows] + [row.rejected for row in rows]
    width = max(len(row.prompt_ids) + len(row.completion_ids) for row in both)

    def padded(lists: Sequence[Sequence[int]]) -> torch.Tensor:
        return torch.tensor([[*one, *[0] * (width - len(one))] for one in lists])

    expected = trainer._compute_loss(
        theirs.model,
        {
            "input_ids": padded([row.prompt_ids + row.completion_ids for row in both]),
            "attention_mask": padded([[1] * len(row.prompt_ids + row.completion_ids) for row in both]),
            "completion_mask": padded([[0] * len(row.prompt_ids) + row.mask for row in both]),
        },
        return_outputs=False,
    )
    expected.backward()
    assert_close(loss, expected, atol=1e-5, rtol=1e-5)
    for a, b in zip(ours.model.parameters(), theirs.model.parameters(), strict=True):
        assert_close(a.grad, b.grad, atol=1e-5, rtol=1e-3)


def test_gradients_touch_the_agents_own_tokens_alone(policy: TokenPolicy) -> None:
    mine = clone(policy)
    rows = random_pairs(policy)
    seen: list[torch.Tensor] = []

    def watch(module: Any, arguments: Any, logits: torch.Tensor) -> None:
        logits.retain_grad()
        seen.append(logits)

    updater = updater_of(mine)
    hook = mine.model.lm_head.register_forward_hook(watch)
    loss, _ = updater.loss(rows, len(rows), 9)
    loss.backward()  # type: ignore[no-untyped-call]  # torch's
    hook.remove()
    (logits,) = seen
    assert logits.grad is not None
    touched = logits.grad.abs().sum(-1) > 0
    both = [*(r.chosen for r in rows), *(r.rejected for r in rows)]
    assert touched.tolist() == [bool(own) for row in both for own in row.mask]


def test_a_step_prefers_what_was_better(policy: TokenPolicy) -> None:
    updater = updater_of(clone(policy), sft_weight=0.0)
    rows = random_pairs(policy)
    first = updater.step([rows])
    assert first["margin"] == pytest.approx(0.0, abs=1e-5)
    second = updater.step([rows])
    assert second["margin"] > 0
    assert second["dpo"] < first["dpo"]
    assert second["accuracy"] > 0.5


def test_rows_at_once_do_not_change_the_step(policy: TokenPolicy) -> None:
    rows = random_pairs(policy)
    found = [updater_of(clone(policy), micro_batch=size).step([rows]) for size in (None, 1, 4)]
    for other in found[1:]:
        assert other == pytest.approx(found[0], rel=1e-3, abs=1e-5)


# ---------------------------------------------------------------------------------------------------- schedule


def test_stages_name_who_learns() -> None:
    config = TrainTMATR(schedule=("inferencer", "planner", "both", "system"), stage_steps=2)
    assert config.total == 8
    learners = [config.learners(step, AGENTS) for step in range(1, 9)]
    assert learners == [*[("inferencer",)] * 2, *[("planner",)] * 2, *[AGENTS] * 2, ("inferencer",), ("planner",)]


def test_a_schedule_is_repeated() -> None:
    config = TrainTMATR(schedule=("inferencer", "planner"), rounds=3, stage_steps=1)
    assert config.stages == ("inferencer", "planner") * 3
    assert config.total == 6


def test_a_stage_of_an_unknown_agent_is_refused_with_those_there_are(env: MultiAgentEnv, policy: TokenPolicy) -> None:
    with pytest.raises(UnknownNameError, match="inferencer"):
        learner_of(env, policy, schedule=("inferencr",))


def learner_of(env: MultiAgentEnv, policy: TokenPolicy, **options: Any) -> OnlineDPO:
    sizes = {"stage_steps": 2, "groups": 3, "group_size": 3, "epochs": 1, "max_turn_ids": 12}
    settings: dict[str, Any] = {**sizes, "threshold": 0.2, "min_pairs": 1}
    config = TrainTMATR(**{**settings, **options})
    policies = {name: clone(policy) for name in config.policies(env)}
    engine = multi_agent_trainer.make_engine(config, env, policies)
    return OnlineDPO(config, engine, policies, multi_agent_trainer.known_tasks(config, env, "train"))


def parity(slot: Slot) -> float:
    """A reward by the parity of ids, so that an untrained team's episodes differ."""
    return float(sum(sum(trajectory.ids) for trajectory in slot.trajectories.values()) % 2)


def side_or_silence(pair: EpisodePair, agent: str) -> PairRow:
    """An agent's side; one that an untrained planner never asks has something to say all the same."""
    silent = PairRow(TrainRow([1], [2, 3], [1, 1], [0.0, 0.0]), TrainRow([1], [3, 2], [1, 1], [0.0, 0.0]))
    return side(pair, agent) or silent


@pytest.fixture
def by_parity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slot, "reward", property(parity))
    monkeypatch.setattr(tmatr, "side", side_or_silence)


@pytest.mark.usefixtures("by_parity")
def test_only_the_agent_of_the_stage_learns_and_from_the_team_as_it_is(env: MultiAgentEnv, policy: TokenPolicy) -> None:
    learner = learner_of(env, policy, schedule=("inferencer", "planner"), groups=6)
    inferencer, planner = (learner.policies[name].model for name in ("inferencer", "planner"))
    for step in (1, 2):
        metrics = learner.learn(step)
        assert metrics["stage"] == 1
        assert metrics["updates"] == 1
        assert "inferencer_dpo" in metrics
        assert "planner_dpo" not in metrics
    assert not same(inferencer, policy.model)
    assert same(planner, policy.model)
    trained = clone(learner.policies["inferencer"])
    assert learner.learn(3)["stage"] == 2
    assert same(inferencer, trained.model)
    assert not same(planner, policy.model)


@pytest.mark.usefixtures("by_parity")
def test_the_reference_is_the_policy_at_the_start_of_its_stage(env: MultiAgentEnv, policy: TokenPolicy) -> None:
    learner = learner_of(env, policy, schedule=("inferencer", "planner", "inferencer"))
    updater = learner.updaters["inferencer"]
    for step in (1, 2):
        learner.learn(step)
        assert same(updater.reference, policy.model)
    after = clone(learner.policies["inferencer"])
    learner.learn(3)
    assert updater.reference is None  # it does not learn now
    learner.learn(4)
    metrics = learner.learn(5)
    assert metrics["inferencer_margin"] == pytest.approx(0.0, abs=1e-5)  # a fresh reference
    assert same(updater.reference, after.model)
    assert not same(updater.reference, policy.model)


@pytest.mark.usefixtures("by_parity")
def test_both_learn_at_once_and_system_lets_them_take_turns(env: MultiAgentEnv, policy: TokenPolicy) -> None:
    both = learner_of(env, policy, schedule=("both",))
    assert both.learn(1)["updates"] == 2
    turns = learner_of(env, policy, schedule=("system",))
    for step, name in ((1, "inferencer"), (2, "planner")):
        metrics = turns.learn(step)
        assert metrics["updates"] == 1
        assert f"{name}_dpo" in metrics


@pytest.mark.usefixtures("by_parity")
def test_shared_weights_learn_in_every_stage(env: MultiAgentEnv, policy: TokenPolicy) -> None:
    learner = learner_of(env, policy, schedule=("inferencer", "both"), stage_steps=1, groups=8, share=True)
    assert list(learner.policies) == ["shared"]
    for step in (1, 2):
        assert learner.learn(step)["updates"] == 1


@pytest.mark.usefixtures("by_parity")
def test_too_few_pairs_are_not_learnt_from(
    env: MultiAgentEnv, policy: TokenPolicy, caplog: pytest.LogCaptureFixture
) -> None:
    learner = learner_of(env, policy, schedule=("inferencer",), min_pairs=4)
    metrics = learner.learn(1)
    assert 0 < metrics["pairs"] < 4
    assert "Batch 1 changes nothing: of " in caplog.text
    assert metrics["updates"] == 0
    assert same(learner.policies["inferencer"].model, policy.model)


@pytest.mark.usefixtures("by_parity")
def test_minibatches_and_epochs_make_the_updates(env: MultiAgentEnv, policy: TokenPolicy) -> None:
    learner = learner_of(env, policy, schedule=("inferencer",), minibatch=1, epochs=2)
    metrics = learner.learn(1)
    assert metrics["updates"] == 2 * metrics["pairs"]


# ----------------------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"env": "ToolOrchestra-Math-v0"}, "algos/grpo.py --env ToolOrchestra-Math-v0"),
        ({"env": "ParaManager-Math-v0"}, "algos/grpo.py --env ParaManager-Math-v0"),
        ({"group_size": 1}, "`group_size` 1"),
        ({"stage_steps": 0}, "`stage_steps`"),
        ({"schedule": ()}, "`schedule`"),
        ({"beta": 0.0}, "`beta`"),
        ({"sft_weight": -1.0}, "`sft_weight`"),
    ],
)
def test_options_that_cannot_be_are_refused_with_the_way_out(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError) as caught:
        TrainTMATR(**options)
    assert words in str(caught.value)


def test_every_agent_needs_a_model_if_one_has() -> None:
    config = TrainTMATR(models={"planner": "x"})
    assert config.model_of("planner") == "x"
    with pytest.raises(OptionError, match="'inferencer'"):
        config.model_of("inferencer")


def test_any_environment_of_several_agents_can_be_learnt() -> None:
    config = TrainTMATR(env="MSARL-Math-v0", schedule=("helper", "reasoner"))
    env = config.make_env()
    assert config.policies(env) == ("reasoner", "helper")


# ----------------------------------------------------------------------------------------------------- reports


def scores(success: float, calls: float) -> Scores:
    return Scores([success, success], [], success, success, success, 0.9 * success, calls)


def test_stages_are_reported_beside_the_start() -> None:
    config = TrainTMATR(schedule=("inferencer", "planner"), stage_steps=3)
    found = {0: scores(0.25, 1.0), 3: scores(0.5, 1.5), 6: scores(0.75, 0.5)}
    stages = report(config, found)
    assert [row["learner"] for row in stages] == ["", "inferencer", "planner"]
    assert [row["step"] for row in stages] == [0, 3, 6]
    assert [row["gain"] for row in stages] == [0.0, 0.25, 0.5]
    assert [row["more_calls"] for row in stages] == [0.0, 0.5, -0.5]
    assert stage_table(stages).row_count == 3


# ---------------------------------------------------------------------------------------------------- training

PATCH = """
import os, signal, sys
from pathlib import Path
import toolorchestra.algos
from toolorchestra.algos import tmatr
from toolorchestra.algos.rollout.multi_agent import Slot
from toolorchestra.algos.rollout.trajectory import TrainRow
def parity(slot):
    if Path(sys.argv[2], "checkpoints", "checkpoint-2").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return float(sum(sum(s.ids) for s in slot.trajectories.values()) % 2)
Slot.reward = property(parity)
side, row = tmatr.side, TrainRow
silent = tmatr.PairRow(row([1], [2, 3], [1, 1], [0.0, 0.0]), row([1], [3, 2], [1, 1], [0.0, 0.0]))
tmatr.side = lambda pair, agent: side(pair, agent) or silent
tmatr.train(tmatr.TrainTMATR(start=Path(sys.argv[1]), output=Path(sys.argv[2]), **eval(sys.argv[3])))
"""
"""Trains with rewards by the parity of ids, so that an untrained team's episodes differ (see `side_or_silence`).

It dies in the third step."""

SMALL: dict[str, Any] = {
    "schedule": ("inferencer", "planner"),
    "stage_steps": 3,
    "groups": 3,
    "group_size": 2,
    "min_pairs": 1,
    "eval_samples": 1,
    "save_every": 2,
    "threads": 1,
    "max_turn_ids": 12,
    "kinds": ("committee",),
    "env_options": {"max_retries": "0"},
}


@pytest.mark.slow
@pytest.mark.long
def test_a_run_that_is_killed_goes_on_exactly(
    policy: TokenPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = tmp_path / "begin"
    multi_agent_trainer.save_policies(dict.fromkeys(AGENTS, policy), start)
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    command = [sys.executable, "-c", PATCH, str(start), str(killed), repr(SMALL)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr[-3_000:]
    assert not (killed / "final").exists()
    monkeypatch.setattr(Slot, "reward", property(parity))
    monkeypatch.setattr(tmatr, "side", side_or_silence)
    tmatr.train(TrainTMATR(start=start, output=killed, resume=True, **SMALL))
    tmatr.train(TrainTMATR(start=start, output=whole, **SMALL))
    lines = [list(map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())) for folder in (killed, whole)]
    assert all(line.pop("memory") > 0 for line in (*lines[0], *lines[1]) if line["kind"] == "train")
    assert lines[0] == lines[1]
    assert (killed / "stages.json").read_text() == (whole / "stages.json").read_text()
    for name in AGENTS:
        assert any(line.get(f"{name}_grad_norm") for line in lines[0])
        assert same(*(TokenPolicy.load(folder / "final" / name).model for folder in (killed, whole)))
        assert not same(TokenPolicy.load(whole / "final" / name).model, policy.model)
