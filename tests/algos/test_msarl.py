from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close
from transformers import GPT2Config, GPT2LMHeadModel

from toolorchestra.agents.builtin.model import TokenPolicy, build_model
from toolorchestra.agents.builtin.text_model import builtin_text_policy
from toolorchestra.algos import msarl, multi_agent_trainer
from toolorchestra.algos.data.demonstrations import encode
from toolorchestra.algos.data.warm_start import teacher_demonstrations
from toolorchestra.algos.msarl import Branches, judge, play_nested
from toolorchestra.algos.options.several_agents import TrainMSARL, TrainMultiGRPO
from toolorchestra.algos.rollout.multi_agent import MultiAgentEngine, Slot
from toolorchestra.algos.rollout.sampling import Sample
from toolorchestra.algos.rollout.trajectory import TokenTrajectory, TrainRow, row_logps
from toolorchestra.algos.team_learner import ClippedUpdater
from toolorchestra.envs.msarl import MSARLEnv, teacher
from toolorchestra.envs.play import Play
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.envs.tools.simulated_python import SimulatedPython
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError

CODE = "```python\nprint(pow(17, 53, 10))\n```"


@pytest.fixture(scope="module")
def env() -> MSARLEnv:
    return made(TrainMSARL())


def made(config: TrainMSARL) -> MSARLEnv:
    env = config.make_env()
    assert isinstance(env, MSARLEnv)
    return env


@pytest.fixture(scope="module")
def policy(env: MSARLEnv) -> TokenPolicy:
    """An untrained built-in model that knows the words."""
    starts = multi_agent_trainer.known_tasks(TrainMSARL(), env, "all")
    known = teacher_demonstrations(env, teacher, starts, 0.0, random.Random(0))
    return builtin_text_policy([one.messages for one in known])


class Actor:
    """A policy that writes what a function of its last observation returns."""

    def __init__(self, policy: TokenPolicy, say: Callable[[str, int], str]) -> None:
        self.policy, self.say, self.turn = policy, say, 0

    def __call__(self, prompts: Sequence[Sequence[int]], limits: Sequence[int], keys: Sequence[int]) -> list[Sample]:
        samples = []
        for prompt in prompts:
            observation = self.policy.tokenizer.decode(list(prompt)).rsplit("<user>", 1)[1]
            ids = self.policy.renderer.encode_action({"role": "assistant", "content": self.say(observation, self.turn)})
            self.turn += 1
            samples.append(Sample(ids, [-0.5] * len(ids)))
        return samples


def engine_of(env: MSARLEnv, policy: TokenPolicy, **options: Any) -> MultiAgentEngine:
    return MultiAgentEngine(
        env,
        {"reasoner": "reasoner", "helper": "helper"},
        {"reasoner": policy.renderer, "helper": policy.renderer},
        max_turn_ids=64,
        max_ids=512,
        **options,
    )


def coder(observation: str, turn: int) -> str:
    """Codes, and boxes the interpretation."""
    if "<interpretation>" not in observation:
        return CODE
    return rf"\boxed{{{observation.split('<interpretation>')[1].split('</interpretation>')[0].strip()}}}"


def own(trajectory: TokenTrajectory, since: int = 0) -> int:
    return sum(trajectory.mask[since:])


def start_of(env: MSARLEnv) -> EpisodeStart:
    """A problem whose answer is 7."""
    task = next(t for t in env.source.tasks("train") if t.intent == "power_remainder" and t.answer == r"\boxed{7}")
    return EpisodeStart(0, {"task_id": task.id})


def nested(
    env: MSARLEnv, policy: TokenPolicy, reasoner: Actor, helper: Actor, *, paths: int = 3, interpretations: int = 4
) -> tuple[list[Branches], MultiAgentEngine]:
    engine = engine_of(env, policy)
    samplers = {"reasoner": reasoner, "helper": helper}
    (found,) = play_nested(
        engine, samplers, [start_of(env)], paths=paths, interpretations=interpretations, rng=random.Random(0)
    )
    return found, engine


# ------------------------------------------------------------------------------------------------ nested rollouts


def test_what_branches_share_is_generated_once(env: MSARLEnv, policy: TokenPolicy) -> None:
    reasoner = Actor(policy, coder)
    helper = Actor(policy, lambda observation, turn: "7" if turn % 2 else "It is 7 8 9")
    paths, engine = nested(env, policy, reasoner, helper)
    assert (reasoner.turn, helper.turn) == (3 + 3 * 4, 3 * 4)
    least = {"reasoner": 0, "helper": 0}
    apart = {"reasoner": 0, "helper": 0}
    for path in paths:
        trunk = path.trunk.trajectories
        for agent in least:
            least[agent] += own(trunk[agent])
            for leaf in path.leaves:
                trajectory = leaf.trajectories[agent]
                assert trajectory.ids[: len(trunk[agent].ids)] == trunk[agent].ids
                least[agent] += own(trajectory, len(trunk[agent].ids))
                apart[agent] += own(trajectory)
    assert engine.generated == least
    assert apart["reasoner"] > least["reasoner"]  # what independent episodes would cost


def test_branches_differ_in_the_interpretation_and_what_follows(env: MSARLEnv, policy: TokenPolicy) -> None:
    helper = Actor(policy, lambda observation, turn: str(turn % 4))
    paths, _ = nested(env, policy, Actor(policy, coder), helper)
    for path in paths:
        assert [leaf.play.episode.answer for leaf in path.leaves] == [rf"\boxed{{ {n} }}" for n in range(4)]
        assert len(path.trunk.play.episode.turns) == 1  # the branches went on apart from it
        assert len({id(leaf.play.episode) for leaf in path.leaves}) == 4


def test_a_path_without_a_call_has_one_ending_that_stands_for_all(env: MSARLEnv, policy: TokenPolicy) -> None:
    reasoner = Actor(policy, lambda observation, turn: r"\boxed{7}" if turn == 1 else r"\boxed{8}")
    paths, engine = nested(env, policy, reasoner, Actor(policy, coder))
    assert [len(path.leaves) for path in paths] == [1, 1, 1]
    batch = judge([paths], interpretations=4, rule="subgroup_mean")
    assert batch.rewards.tolist() == [[[0.0] * 4, [1.0] * 4, [0.0] * 4]]
    assert batch.rows["helper"] == []
    assert [row.advantage > 0 for row in batch.rows["reasoner"]] == [False, True, False]
    assert reasoner.turn == 3
    assert engine.generated["helper"] == 0


def test_with_several_calls_the_last_one_made_branches(policy: TokenPolicy) -> None:
    env = made(TrainMSARL(max_calls=3))

    def twice(observation: str, turn: int) -> str:
        return r"\boxed{7}" if "second" in observation else CODE

    helper = Actor(policy, lambda observation, turn: "7")
    reasoner = Actor(policy, coder)  # one call of three, and the answer
    paths, engine = nested(env, policy, reasoner, helper)
    assert [len(path.leaves) for path in paths] == [4, 4, 4]
    assert [path.branched for path in paths] == [True] * 3
    assert (reasoner.turn, helper.turn) == (3 + 12, 12)  # the path's own ending is its first branch
    assert engine.generated["helper"] == 12 * 2


def test_a_path_that_was_not_judged_is_played_again_and_its_calls_are_forgotten(
    policy: TokenPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = made(TrainMSARL(max_calls=3))
    verdict_on, errors = Play.verdict_on, iter([RuntimeError("down")])
    monkeypatch.setattr(Play, "verdict_on", lambda self, answer: next(errors, None) or verdict_on(self, answer))
    called: set[int] = set()

    def calls_once(observation: str, turn: int) -> str:
        if turn == 0:
            called.add(turn)
            return CODE
        return r"\boxed{7}"

    (path,), _ = nested(env, policy, Actor(policy, calls_once), Actor(policy, lambda observation, turn: "7"), paths=1)
    assert called
    assert not path.branched  # the second attempt made no call
    assert len(path.leaves) == 1
    assert path.leaves[0].valid


def test_branches_that_were_not_judged_are_no_rows(env: MSARLEnv, policy: TokenPolicy) -> None:
    helper = Actor(policy, lambda observation, turn: str(turn % 4))
    paths, _ = nested(env, policy, Actor(policy, coder), helper)
    for leaf in (*paths[0].leaves, paths[1].leaves[0]):
        leaf.play.episode.outcome, leaf.play.episode.reward = "judge_error", None
    rows = judge([paths], interpretations=4, rule="subgroup_mean", train_finish=False).rows
    assert (len(rows["reasoner"]), len(rows["helper"])) == (2, 3 + 4)


def test_a_slot_that_runs_out_of_ids_has_failed(env: MSARLEnv, policy: TokenPolicy) -> None:
    engine = engine_of(env, policy)
    engine.max_ids = 10
    slot = engine.start(start_of(env))
    engine.play({"reasoner": Actor(policy, coder), "helper": Actor(policy, coder)}, [slot])
    episode = slot.play.episode
    assert (episode.outcome, episode.why, slot.unjudged) == ("failed", "no answer within 10 ids", None)
    assert (slot.reward, slot.success) == (0.0, 0.0)
    assert episode.rewards == {"reasoner": 0.0, "helper": 0.0}


# ----------------------------------------------------------------------------------------------------- what to train


def test_each_agent_is_trained_on_its_own_tokens_with_its_own_advantage(env: MSARLEnv, policy: TokenPolicy) -> None:
    helper = Actor(policy, lambda observation, turn: "7" if turn in (0, 1, 4) else "8")  # right: 2 of 4, 1 of 4, 0 of 4
    paths, _ = nested(env, policy, Actor(policy, coder), helper)
    batch = judge([paths], interpretations=4, rule="pooled", train_finish=False)
    assert batch.rewards[0].sum(-1).tolist() == [2.0, 1.0, 0.0]
    written = policy.renderer.encode_action({"role": "assistant", "content": CODE})
    assert [row.completion_ids for row in batch.rows["reasoner"]] == [written] * 3
    written = [policy.renderer.decode_action(row.completion_ids, ()).action for row in batch.rows["helper"]]
    assert written == ["7", "7", "8", "8", "7", "8", "8", "8", "8", "8", "8", "8"]
    for row in (*batch.rows["reasoner"], *batch.rows["helper"]):
        assert row.mask == [1] * len(row.completion_ids)
        assert row.logprobs == [-0.5] * len(row.completion_ids)
    # subgroup 2: mean 1/4, deviation 1/2
    assert [row.advantage for row in batch.rows["helper"][4:8]] == pytest.approx([1.5, -0.5, -0.5, -0.5], rel=1e-3)
    assert [row.advantage for row in batch.rows["helper"][8:]] == [0.0] * 4
    # pooled: mean 1/4, variance (3·(3/4)² + 9·(1/4)²)/11 = 2.25/11
    expected = torch.tensor([1 / 4, 0, -1 / 4]) / (2.25 / 11) ** 0.5
    assert [row.advantage for row in batch.rows["reasoner"]] == pytest.approx(expected.tolist(), abs=1e-3)


def test_the_papers_rule_leaves_the_reasoner_as_it_is(env: MSARLEnv, policy: TokenPolicy) -> None:
    helper = Actor(policy, lambda observation, turn: "7" if turn in (0, 1, 4) else "8")
    paths, _ = nested(env, policy, Actor(policy, coder), helper)
    batch = judge([paths], interpretations=4, rule="paper", train_finish=False)
    assert [row.advantage for row in batch.rows["reasoner"]] == pytest.approx([0.0] * 3, abs=1e-12)
    assert any(row.advantage for row in batch.rows["helper"])


def test_finishing_segments_are_trained_by_default(env: MSARLEnv, policy: TokenPolicy) -> None:
    helper = Actor(policy, lambda observation, turn: "7" if turn == 0 else "8")
    paths, _ = nested(env, policy, Actor(policy, coder), helper)
    batch = judge([paths], interpretations=4, rule="subgroup_mean")
    rows = batch.rows["reasoner"]
    assert TrainMSARL().train_finish
    assert len(rows) == 3 + 12
    written = [policy.renderer.decode_action(row.completion_ids, ()).action for row in rows]
    assert written.count(r"\boxed{ 8 }") == 11
    for row, helped in zip(rows[1:5], batch.rows["helper"][:4], strict=True):
        assert row.advantage == helped.advantage


def random_rows(policy: TokenPolicy, count: int = 3) -> list[TrainRow]:
    """Rows with ids of others in between, of different lengths."""
    generator = torch.Generator().manual_seed(0)
    rows = []
    for n in range(count):
        ids = torch.randint(20, len(policy.tokenizer), (8 + n,), generator=generator).tolist()
        mask = [1, 1, 0, 0, 1, *([1] * n)]
        logprobs = [-6.3 * m for m in mask]  # about those of an untrained model
        rows.append(TrainRow(ids[:3], ids[3:], mask, logprobs, (-1.0) ** n * (n + 1)))
    return rows


def test_rows_of_any_lengths_are_what_they_are_alone(policy: TokenPolicy) -> None:
    rows = random_rows(policy, 30)[::-1] + random_rows(policy, 9)  # more than one bundle, none in order
    logps, old, mask = row_logps(policy.model, rows, 0, 0.7)
    assert logps.shape == old.shape == mask.shape == (39, max(len(row.completion_ids) for row in rows))
    for n, row in enumerate(rows):
        (alone,), _, (own,) = row_logps(policy.model, [row], 0, 0.7)
        length = len(row.completion_ids)
        assert mask[n].sum() == own.sum() == sum(row.mask)
        assert torch.allclose(logps[n, :length] * own, alone * own, atol=1e-4)


def test_the_loss_is_that_of_trl(policy: TokenPolicy, tmp_path: Path) -> None:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    rows = random_rows(policy)
    with torch.no_grad():
        logps, _, _ = row_logps(policy.model, rows, 0)
    rows = [
        replace(row, logprobs=[float(p) + 0.2 * (-1) ** t for t, p in enumerate(own[: len(row.mask)])])
        for row, own in zip(rows, logps, strict=True)
    ]
    ours, _ = ClippedUpdater(policy, TrainMSARL()).loss(rows, len(rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the trainer's set-up, which is not what is tested
        trainer = GRPOTrainer(
            model=policy.model,
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            args=GRPOConfig(
                output_dir=str(tmp_path),
                per_device_train_batch_size=2,
                num_generations=2,
                loss_type="grpo",
                epsilon=0.2,
                epsilon_high=0.28,
                beta=0.0,
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                report_to=[],
            ),
            train_dataset=Dataset.from_dict({"prompt": ["a"]}),
            processing_class=policy.tokenizer,
        )
    trainer.current_gradient_accumulation_steps = 1
    policy.model.train()
    longest = max(len(row.completion_ids) for row in rows)

    def padded(values: Callable[[TrainRow], Sequence[float]]) -> torch.Tensor:
        return torch.tensor([[*values(row), *[0] * (longest - len(row.mask))] for row in rows])

    theirs = trainer._compute_loss(
        policy.model,
        {
            "prompt_ids": torch.tensor([row.prompt_ids for row in rows]),
            "prompt_mask": torch.ones(3, 3, dtype=torch.long),
            "completion_ids": padded(lambda row: row.completion_ids),
            "completion_mask": padded(lambda row: [1] * len(row.mask)),
            "tool_mask": padded(lambda row: row.mask),
            "old_per_token_logps": padded(lambda row: row.logprobs),
            "advantages": torch.tensor([row.advantage for row in rows]),
            "num_items_in_batch": torch.tensor(9.0),
        },
    )
    policy.model.__dict__.pop("forward", None)
    assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_gradients_are_those_of_finite_differences(policy: TokenPolicy) -> None:
    # GPT-2, for its norms keep to double precision
    settings = {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 32, "initializer_range": 0.5}
    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = GPT2LMHeadModel(GPT2Config(vocab_size=len(policy.tokenizer), **settings, **dropout)).double()
    small = TokenPolicy(model, policy.tokenizer, policy.renderer)
    updater = ClippedUpdater(small, TrainMSARL(epsilon=0.9, epsilon_high=9e9))
    rows = random_rows(policy)
    loss, _ = updater.loss(rows, len(rows))
    loss.backward()  # type: ignore[no-untyped-call]  # torch's
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            direction = torch.randn(parameter.shape, generator=generator, dtype=torch.double)
            values = []
            for sign in (1, -1):
                parameter += sign * 1e-6 * direction
                values.append(float(updater.loss(rows, len(rows))[0]))
                parameter -= sign * 1e-6 * direction
            assert parameter.grad is not None
            slope = float((parameter.grad * direction).sum())
            assert (values[0] - values[1]) / 2e-6 == pytest.approx(slope, rel=1e-4, abs=1e-6)


def test_gradients_touch_the_trained_tokens_alone(policy: TokenPolicy) -> None:
    rows = random_rows(policy)
    seen: list[torch.Tensor] = []

    def watch(module: Any, arguments: Any, logits: torch.Tensor) -> None:
        logits.retain_grad()
        seen.append(logits)

    hook = policy.model.lm_head.register_forward_hook(watch)
    loss, _ = ClippedUpdater(policy, TrainMSARL(epsilon=0.9, epsilon_high=9.0)).loss(
        rows, len(rows)
    )  # nothing is clipped
    loss.backward()  # type: ignore[no-untyped-call]  # torch's
    hook.remove()
    policy.model.zero_grad()
    (logits,) = seen
    assert logits.grad is not None
    touched = logits.grad.abs().sum(-1) > 0  # of what predicts the ids of the completions, one after another
    assert touched.tolist() == [bool(own) for row in rows for own in row.mask]


def copies(policy: TokenPolicy, config: TrainMSARL) -> dict[str, TokenPolicy]:
    found = {}
    for name in ("shared",) if config.share else ("reasoner", "helper"):
        model = build_model(len(policy.tokenizer))
        model.load_state_dict(policy.model.state_dict())
        found[name] = TokenPolicy(model, policy.tokenizer, policy.renderer)
    return found


def moved(policy: TokenPolicy, start: TokenPolicy) -> bool:
    return any(not torch.equal(a, b) for a, b in zip(policy.model.parameters(), start.model.parameters(), strict=True))


@pytest.mark.parametrize("trained", ["reasoner", "helper"])
def test_a_policy_learns_from_the_rows_of_its_agent_only(policy: TokenPolicy, trained: str) -> None:
    config = TrainMSARL()
    policies = copies(policy, config)
    updaters = {name: ClippedUpdater(one, config) for name, one in policies.items()}
    rows = {name: random_rows(policy) if name == trained else [] for name in policies}
    for name, updater in updaters.items():
        updater.step([rows[name]])
    assert {name: moved(one, policy) for name, one in policies.items()} == {name: name == trained for name in policies}


def test_rows_at_once_do_not_change_the_step(policy: TokenPolicy) -> None:
    rows = [*random_rows(policy), TrainRow([1], [2, 3], [1, 1], [-1.0, -1.0], 0.0)]
    norms = [
        ClippedUpdater(copies(policy, c)["reasoner"], c).step([rows])["grad_norm"] for c in map(sized, (None, 1, 2))
    ]
    assert norms[1:] == pytest.approx(norms[:1] * 2, rel=1e-4)


def sized(micro_batch: int | None) -> TrainMSARL:
    return TrainMSARL(micro_batch=micro_batch)


def test_shared_weights_learn_from_both_agents(env: MSARLEnv, policy: TokenPolicy) -> None:
    config = TrainMSARL(share=True)
    assert config.policies(env) == ("shared",)
    assert {config.policy_of(agent) for agent in env.possible_agents} == {"shared"}
    one, both = (ClippedUpdater(copies(policy, config)["shared"], config) for _ in range(2))
    rows = random_rows(policy)
    assert both.step([rows, rows[:1]])["loss"] == pytest.approx(
        one.step([rows])["loss"] + one.loss(rows[:1], 1)[0].item(), abs=0.2
    )


# --------------------------------------------------------------------------------------------------- options, start


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"env": "ToolOrchestra-Math-v0"}, "algos/grpo.py --env ToolOrchestra-Math-v0"),
        ({"env": "TMATR-Math-v0"}, "algos/tmatr.py --env TMATR-Math-v0"),
        ({"paths": 1}, "`paths` 1"),
        ({"interpretations": 1}, "`interpretations` 1"),
        ({"steps": 0}, "`steps`"),
        ({"helper": "x"}, "`helper`"),
    ],
)
def test_options_that_cannot_be_are_refused_with_the_way_out(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError) as caught:
        TrainMSARL(**options)
    assert words in str(caught.value)


def test_a_reasoner_without_helpers_is_refused_with_its_learner() -> None:
    with pytest.raises(OptionError, match=r"algos/multi_grpo\.py"):
        TrainMSARL(env_options={"helpers": "none"}).make_env()


def test_an_unknown_rule_is_met_with_those_that_there_are() -> None:
    with pytest.raises(UnknownNameError, match="subgroup_mean"):
        TrainMSARL(reasoner_advantage="mean")  # type: ignore[arg-type]  # that is the point


def test_the_environment_has_what_an_episode_needs() -> None:
    env = made(TrainMSARL(max_calls=2, env_options={"noise": "5"}))
    assert (env.max_calls, env.max_cycles) == (2, 5)
    env.reset(seed=0)
    env.step(CODE)
    assert len(env.observe("helper").split("Output:\n")[1].splitlines()) == 1 + 5
    assert TrainMSARL(env_options={"python": "none", "max_cycles": "9"}).make_env().max_cycles == 9


def test_an_easier_environment_has_less_noise() -> None:
    for hardness, lines in ((0.0, 0), (0.5, 4), (1.0, 8)):
        env = TrainMSARL().make_env(hardness)
        env.reset(seed=0)
        env.step(CODE)
        assert len(env.observe("helper").split("Output:\n")[1].splitlines()) == 1 + lines


def test_stale_values_grow_with_the_stages_and_failures_do_not() -> None:
    given: dict[str, Any] = {"env": "MSARL-Custom-v0", "source": "Chains"}
    game = {"stale": "9", "failures": "0.2"}
    alone = game | {"noise": "0", "helpers": "none"}
    for config in (TrainMSARL(**given, env_options=game), TrainMultiGRPO(**given, env_options=alone)):
        for hardness, lines in ((0.0, 0), (0.34, 3), (1.0, 9)):
            env = config.make_env(hardness)
            assert isinstance(env, MSARLEnv)
            python = env._python
            assert isinstance(python, SimulatedPython)
            assert (python.stale, python.failures, python.noise) == (lines, 0.2, 0)


# -------------------------------------------------------------------------------------------------------- training

PATCH = """
import os, signal, sys
from pathlib import Path
import toolorchestra.algos
from toolorchestra.algos import msarl
from toolorchestra.algos.rollout.multi_agent import Slot
def parity(slot):
    if Path(sys.argv[2], "checkpoints", "checkpoint-2").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return float(sum(sum(s.ids) for s in slot.trajectories.values()) % 2)
Slot.reward = property(parity)
msarl.train(msarl.TrainMSARL(start=Path(sys.argv[1]), output=Path(sys.argv[2]), **eval(sys.argv[3])))
"""
"""Trains with rewards by the parity of ids, so that an untrained policy's groups differ, and dies in the third step."""

SMALL = {
    "steps": 6,
    "groups": 2,
    "paths": 2,
    "interpretations": 2,
    "eval_samples": 1,
    "save_every": 2,
    "threads": 1,
    "max_turn_ids": 40,
    "updates": 2,
}


@pytest.mark.slow
@pytest.mark.long
def test_a_run_that_is_killed_goes_on_exactly(env: MSARLEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = tmp_path / "begin"
    config = TrainMSARL(output=tmp_path / "sft", sft_steps=40, threads=1)
    taught = multi_agent_trainer.warm_up(config, env, lambda *_: None)
    multi_agent_trainer.save_policies(taught, start)
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    command = [sys.executable, "-c", PATCH, str(start), str(killed), repr(SMALL)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr[-3_000:]
    settings = {**SMALL, "steps": 5}
    parity = property(lambda slot: float(sum(sum(s.ids) for s in slot.trajectories.values()) % 2))
    monkeypatch.setattr(Slot, "reward", parity)
    msarl.train(TrainMSARL(start=start, output=killed, resume=True, **settings))  # type: ignore[arg-type]
    msarl.train(TrainMSARL(start=start, output=whole, **settings))  # type: ignore[arg-type]
    lines = [list(map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())) for folder in (killed, whole)]
    assert all(line.pop("memory") > 0 for line in (*lines[0], *lines[1]) if line["kind"] == "train")
    assert lines[0] == lines[1]
    for name in ("reasoner", "helper"):
        assert any(line.get(f"{name}_grad_norm") for line in lines[0])
    for name in ("reasoner", "helper"):
        ours, theirs = (TokenPolicy.load(folder / "final" / name).model for folder in (killed, whole))
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(a, b)
        assert moved(TokenPolicy.load(whole / "final" / name), taught[name])


# ------------------------------------------------------------------------------------------- several calls, rewriting

CHAIN: dict[str, str] = {"stale": "4"}


def chains(**options: Any) -> MSARLEnv:
    return made(
        TrainMSARL(env="MSARL-Custom-v0", source="Chains", difficulty=(2,), max_calls=2, env_options=CHAIN | options)
    )


def chain_slot(env: MSARLEnv, policy: TokenPolicy, seed: int = 0) -> Slot:
    """An episode that the teacher has played, token by token."""
    engine = engine_of(env, policy) if len(env.possible_agents) > 1 else None
    task = next(task for task in env.source.tasks("train") if task.difficulty == 2)
    start = EpisodeStart(seed, {"task_id": task.id})
    env.reset(seed=seed, options=start.options)
    trajectories = {agent: TokenTrajectory() for agent in env.possible_agents}
    slot = engine.start(start) if engine else Slot(env.play.branch(), trajectories)
    while not slot.over:
        trajectory = slot.read(policy.renderer)
        message = teacher.teach(slot.play)
        ids = policy.renderer.encode_action({"role": "assistant", "content": message})
        trajectory.write(Sample(ids, [-0.5] * len(ids)))
        slot.play.act(message)
    return slot


@pytest.fixture(scope="module")
def chain_policy() -> TokenPolicy:
    known, team = [], chains()
    starts = multi_agent_trainer.known_tasks(TrainMSARL(difficulty=(2,)), team, "train")[:30]
    for env in (team, MSARLEnv("Chains", stale=4, helpers="none", old_outputs="deleted", max_calls=2)):
        known += teacher_demonstrations(env, teacher, starts, 0.0, random.Random(0))
    return builtin_text_policy([one.messages for one in known])


def texts(policy: TokenPolicy, ids: Sequence[int]) -> str:
    return str(policy.tokenizer.decode(list(ids)))


def test_a_helper_that_reads_one_call_at_a_time_has_a_trajectory_for_each(chain_policy: TokenPolicy) -> None:
    slot = chain_slot(chains(), chain_policy)
    assert slot.success == 1.0
    assert [len(slot.written(agent)) for agent in ("reasoner", "helper")] == [1, 2]
    first, second = slot.rows("helper")
    assert "' a '" in texts(chain_policy, first.prompt_ids)
    assert "' a '" not in texts(chain_policy, second.prompt_ids)
    assert "' b '" in texts(chain_policy, second.prompt_ids)
    assert all(row.mask == [1] * len(row.completion_ids) for row in (first, second))
    (whole,) = chain_slot(chains(helper_memory="true"), chain_policy).rows("helper")
    assert texts(chain_policy, whole.prompt_ids) == texts(chain_policy, first.prompt_ids)
    assert sum(whole.mask) == sum(first.mask) + sum(second.mask)


def test_what_is_taught_is_laid_out_as_the_engine_lays_it_out(chain_policy: TokenPolicy) -> None:
    single = {"stale": 4, "helpers": "none", "old_outputs": "deleted", "max_calls": 2, "max_cycles": 4}
    for env in (chains(), MSARLEnv("Chains", **single)):  # type: ignore[arg-type]
        slot = chain_slot(env, chain_policy)
        (start,) = [EpisodeStart(None, {"task_id": slot.play.task.id})]
        rng = random.Random(0)
        taught = teacher_demonstrations(env, teacher, [start], 0.0, rng)
        again = chain_slot(env, chain_policy, random.Random(0).getrandbits(31))
        rows = [(row.prompt_ids, row.completion_ids, row.mask) for a in env.possible_agents for row in again.rows(a)]
        laid = []
        for one in taught:
            ids, mask = encode(chain_policy.renderer, one)
            begin = mask.index(1)
            laid.append((ids[:begin], ids[begin:], mask[begin:]))
        assert sorted(laid) == sorted(rows)


def test_deleted_outputs_are_not_in_the_rows_of_later_messages_and_no_message_is_learnt_twice(
    chain_policy: TokenPolicy,
) -> None:
    env = MSARLEnv("Chains", stale=4, helpers="none", old_outputs="deleted", max_calls=2, max_cycles=4)
    slot = chain_slot(env, chain_policy)
    rows = slot.rows("reasoner")
    assert len(rows) == 2  # the first two messages read the first output; the last one reads the second alone
    assert sum(sum(row.mask) for row in rows) == sum(
        len(chain_policy.renderer.encode_action(turn.message)) for turn in slot.play.episode.turns
    )
    assert "deleted" in texts(chain_policy, rows[1].prompt_ids)
    assert texts(chain_policy, rows[1].prompt_ids).count("<output>") == 2


def test_the_last_call_of_a_stateless_helper_is_branched_and_credited_alone(chain_policy: TokenPolicy) -> None:
    env = chains()
    task = next(task for task in env.source.tasks("train") if task.difficulty == 2)
    values = iter(range(10, 99))

    def reason(observation: str, turn: int) -> str:
        if "What is" in observation:
            return "```python\nprint('a', 40 + 2)\n```"
        told = observation.split("<interpretation>")[1].split("</interpretation>")[0].split()
        return "```python\nprint('b', 42 - 7)\n```" if told[0] == "a" else rf"\boxed{{{told[1]}}}"

    def read(observation: str, turn: int) -> str:
        return "a 42" if "' a '" in observation or "'a'" in observation else f"b {next(values)}"

    engine = engine_of(env, chain_policy)
    samplers = {"reasoner": Actor(chain_policy, reason), "helper": Actor(chain_policy, read)}
    (paths,) = play_nested(
        engine, samplers, [EpisodeStart(0, {"task_id": task.id})], paths=2, interpretations=3, rng=random.Random(0)
    )
    assert [len(path.leaves) for path in paths] == [3, 3]
    batch = judge([paths], interpretations=3, rule="subgroup_mean")
    assert len(batch.rows["helper"]) == 2 * 3
    for row in batch.rows["helper"]:
        assert texts(chain_policy, row.completion_ids).split()[0] == "b"
        assert "' b '" in texts(chain_policy, row.prompt_ids)
    assert len(batch.rows["reasoner"]) == 2 + 2 * 3
    assert engine.generated["helper"] == sum(len(r.completion_ids) for r in batch.rows["helper"]) + 2 * len(
        chain_policy.renderer.encode_action({"role": "assistant", "content": "a 42"})
    )


# -------------------------------------------------------------------------------- environments of one's own, evaluation

OWN = """
from toolorchestra.envs.msarl import MSARLEnv, single_env

def team(**options):
    return MSARLEnv("Chains", max_calls=2, stale=3, **options)

def alone(**options):
    return MSARLEnv("Chains", helpers="none", **options)

def courier(**options):
    from toolorchestra.envs.tmatr import TMATREnv
    return TMATREnv("Math")
"""


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_an_environment_of_ones_own_is_trained_and_evaluated_on_the_way(own_module: str, tmp_path: Path) -> None:
    tiny: dict[str, Any] = {"sft_steps": 1, "groups": 1, "paths": 2, "interpretations": 2, "max_turn_ids": 6}
    tiny |= {"eval_samples": 1, "eval_tasks": 2, "difficulty": (1,), "threads": 1, "save_every": 0}
    config = TrainMSARL(env=f"{own_module}:team", output=tmp_path / "run", steps=2, eval_every=1, **tiny)
    run = msarl.train(config)
    assert isinstance(run.env, MSARLEnv)
    assert run.env.max_calls == 2
    assert sorted(run.scores) == [0, 1, 2]
    for step in (0, 1, 2):
        scores = json.loads((tmp_path / "run" / "heldout" / f"{step}.json").read_text())
        assert len(scores["greedy_by_task"]) == len(scores["by_task"]) == 2
    summary = json.loads((tmp_path / "run" / "heldout.json").read_text())
    assert {"estimate", "low", "high"} == set(summary["greedy_gain"]) == set(summary["gain"])
    assert len(summary["start"]["greedy_interval"]) == len(summary["MSARL"]["success_interval"]) == 2
    untrained = TrainMSARL(
        env=f"{own_module}:team", output=tmp_path / "only", evaluate_only=True, start=tmp_path / "run" / "start", **tiny
    )
    only = msarl.train(untrained)
    assert only.scores[0] == run.scores[0]
    assert not (tmp_path / "only" / "final").exists()
    assert list(json.loads((tmp_path / "only" / "heldout.json").read_text())) == ["tasks", "samples", "start"]


@pytest.mark.parametrize(("name", "words"), [("alone", "leave `helpers`"), ("courier", "TMATREnv")])
def test_an_environment_of_ones_own_that_has_no_helper_is_refused(own_module: str, name: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        TrainMSARL(env=f"{own_module}:{name}").make_env()


def test_evaluation_alone_needs_episodes_and_nothing_to_resume() -> None:
    for options in ({"eval_samples": 0}, {"resume": True}):
        with pytest.raises(OptionError, match="evaluate_only"):
            TrainMSARL(evaluate_only=True, **options)  # type: ignore[arg-type]
