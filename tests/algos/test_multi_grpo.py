from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.algos import multi_agent_trainer, multi_grpo
from toolorchestra.algos.hardware import memory
from toolorchestra.algos.loss.advantages import group_advantages
from toolorchestra.algos.multi_grpo import IndependentGRPO, judge, play_groups
from toolorchestra.algos.options.several_agents import TrainMultiGRPO
from toolorchestra.algos.rollout.multi_agent import MultiAgentEngine, Slot, unjudged_share
from toolorchestra.algos.rollout.sampling import Sample
from toolorchestra.algos.rollout.trajectory import TrainRow
from toolorchestra.algos.team_learner import ClippedUpdater
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.play import Play
from toolorchestra.envs.records.unjudged import EvaluationError
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError

EXAMPLES = Path(__file__).parents[2] / "examples"
ENV = "courier:make"
AGENTS = ["lookout", "courier"]


@pytest.fixture(autouse=True)
def _in_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))


@pytest.fixture(scope="module")
def untaught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with policies that know the words and nothing else, for both agents and to be shared."""
    folder = tmp_path_factory.mktemp("untaught")
    sys.path.insert(0, str(EXAMPLES))
    config = TrainMultiGRPO(env=ENV, output=folder / "run", sft_steps=0, threads=1)
    policies = multi_agent_trainer.warm_up(config, config.make_env(), lambda *_: None)
    multi_agent_trainer.save_policies({**policies, "shared": policies["lookout"]}, folder / "start")
    sys.path.remove(str(EXAMPLES))
    return folder / "start"


def small(start: Path, output: Path, **options: Any) -> TrainMultiGRPO:
    settings: dict[str, Any] = {
        "env": ENV,
        "start": start,
        "output": output,
        "groups": 2,
        "group_size": 4,
        "steps": 3,
        "eval_samples": 2,
        "save_every": 1,
        "max_turn_ids": 6,
        "threads": 1,
    }
    return TrainMultiGRPO(**settings | options)


class Actor:
    """A policy that writes what a function of its last observation and of its number of turns returns."""

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


def played(untaught: Path, say: dict[str, Callable[[str, int], str]], size: int = 4) -> tuple[list[Slot], TokenPolicy]:
    """A group of rollouts of one task, by agents that say what functions say."""
    config = small(untaught, untaught)
    env = config.make_env()
    policies = multi_agent_trainer.load_policies(AGENTS, untaught)
    engine = multi_agent_trainer.make_engine(config, env, policies)
    task = env.source.tasks("train")[0]
    samplers = {agent: Actor(policies[agent], say[agent]) for agent in AGENTS}
    (group,) = play_groups(engine, samplers, [EpisodeStart(1, {"task_id": task.id})], size)
    return group, policies["lookout"]


def says(text: str) -> Callable[[str, int], str]:
    return lambda observation, turn: text


# ------------------------------------------------------------------------------------------- rollouts and rows


def test_as_many_episodes_are_played_at_once_as_the_budget_of_tokens_has_room_for(untaught: Path) -> None:
    config = small(untaught, untaught)
    env = config.make_env()
    policies = multi_agent_trainer.load_policies(AGENTS, untaught)
    engine = multi_agent_trainer.make_engine(config, env, policies)
    assert engine.token_budget == min(memory.token_budget(policy.model) for policy in policies.values())
    task = EpisodeStart(1, {"task_id": env.source.tasks("train")[0].id})
    sizes: list[int] = []

    def watched(agent: str) -> Any:
        actor = Actor(policies[agent], says("11"))

        def sample(prompts: Any, limits: Any, keys: Any) -> list[Sample]:
            sizes.append(len(prompts))
            return actor(prompts, limits, keys)

        return sample

    for budget, most in ((None, 4), (1, 1), (10**6, 4)):
        engine.token_budget = budget
        sizes.clear()
        (group,) = play_groups(engine, {agent: watched(agent) for agent in AGENTS}, [task], 4)
        assert max(sizes) == most
        assert all(slot.play.over for slot in group)
    engine.token_budget = 2 * (group[0].longest + config.turn_ids)
    sizes.clear()
    play_groups(engine, {agent: watched(agent) for agent in AGENTS}, [task], 4)
    assert 2 <= max(sizes) <= 4


def test_a_batch_that_changes_nothing_is_said(untaught: Path, caplog: pytest.LogCaptureFixture) -> None:
    learner, _ = learner_of(small(untaught, untaught, keep_rollouts=0), untaught)
    learner.update(3, {agent: [TrainRow([5], [6], [1], [0.0], advantage=0.0)] for agent in AGENTS})
    assert "Batch 3 changes nothing: no rollout earned more or less" in caplog.text
    caplog.clear()
    learner.update(4, {agent: [TrainRow([5], [6], [1], [0.0], advantage=1.0)] for agent in AGENTS})
    assert "changes nothing" not in caplog.text


def test_all_rollouts_of_a_group_begin_alike(untaught: Path) -> None:
    group, _ = played(untaught, {"lookout": says("11"), "courier": lambda observation, turn: str(10 + turn)})
    episodes = [slot.play.episode for slot in group]
    assert len({id(episode) for episode in episodes}) == 4
    assert len({(episode.task_id, episode.seed, episode.noise_seed) for episode in episodes}) == 1
    assert len({tuple(slot.trajectories["lookout"].ids) for slot in group}) == 1
    assert [episode.answer for episode in episodes] == [rf"\boxed{{{n}}}" for n in (10, 11, 12, 13)]


def test_an_agent_is_trained_on_its_own_tokens_and_on_no_others(untaught: Path) -> None:
    group, policy = played(untaught, {"lookout": says("11 12"), "courier": lambda observation, turn: str(10 + turn)})
    for slot, reward in zip(group, (1.0, 0.0, 0.0, 1.0), strict=True):
        slot.play.episode.rewards = dict.fromkeys(AGENTS, reward)
    batch = judge([group], AGENTS)
    assert [len(batch.rows[agent]) for agent in AGENTS] == [4, 4]
    for agent, texts in (("lookout", ["11 12"] * 4), ("courier", ["10", "11", "12", "13"])):
        for row, text in zip(batch.rows[agent], texts, strict=True):
            own = [i for i, mask in zip(row.completion_ids, row.mask, strict=True) if mask]
            assert own == policy.renderer.encode_action({"role": "assistant", "content": text})
            observation = policy.tokenizer.decode(row.prompt_ids)
            assert ("Wanted" in observation) is (agent == "lookout")  # its history is its own too


def test_each_agents_advantage_is_from_its_own_rewards(untaught: Path) -> None:
    group, _ = played(untaught, {"lookout": says("11"), "courier": says("12")})
    rewards = {"lookout": [1.0, 0.0, 0.5, 0.5], "courier": [0.0, 0.0, 0.0, 3.0]}
    for g, slot in enumerate(group):
        slot.play.episode.rewards = {agent: rewards[agent][g] for agent in AGENTS}
    batch = judge([group], AGENTS)
    for agent in AGENTS:
        expected = group_advantages(torch.tensor(rewards[agent], dtype=torch.float64))
        assert [row.advantage for row in batch.rows[agent]] == pytest.approx(expected.tolist())
        assert batch.rewards[agent].tolist() == [rewards[agent]]
    # lookout: mean 1/2, variance (1/4 + 1/4)/3; courier: mean 3/4, variance (3·9/16 + 81/16)/3
    assert batch.rows["lookout"][0].advantage == pytest.approx(0.5 / (1 / 6) ** 0.5, rel=1e-3)
    assert batch.rows["courier"][3].advantage == pytest.approx(2.25 / 1.5, rel=1e-3)


def test_the_order_of_agents_changes_no_rows(untaught: Path) -> None:
    group, _ = played(untaught, {"lookout": says("11"), "courier": lambda observation, turn: str(10 + turn)})
    for g, slot in enumerate(group):
        slot.play.episode.rewards = {"lookout": float(g), "courier": float(g == 1)}
    one, other = judge([group], AGENTS), judge([group], AGENTS[::-1])
    assert one.rows == other.rows
    assert list(one.rows) != list(other.rows)


def test_episodes_that_an_infrastructure_error_ended_enter_no_group(untaught: Path) -> None:
    group, _ = played(untaught, {"lookout": says("11"), "courier": says("12")})
    for g, slot in enumerate(group):
        slot.play.episode.rewards = dict.fromkeys(AGENTS, float(g))
    group[0].play.episode.outcome, group[0].play.episode.rewards = "infra_error", {}
    group[1].play.episode.rewards = dict.fromkeys(AGENTS, 0.0)
    batch = judge([group], AGENTS)
    assert math.isnan(batch.rewards["courier"][0, 0])
    assert batch.rewards["courier"][0, 1:].tolist() == [0.0, 2.0, 3.0]
    assert len(batch.rows["courier"]) == len(batch.rows["lookout"]) == 3  # it does not even count
    assert batch.rows["courier"][0].advantage < 0.0


def fail_to_judge(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Let the first `times` verdicts on answers be errors of the judge."""
    verdict_on, left = Play.verdict_on, iter(range(times))
    monkeypatch.setattr(
        Play,
        "verdict_on",
        lambda self, answer: RuntimeError("down") if next(left, None) is not None else verdict_on(self, answer),
    )


def test_an_episode_that_was_not_judged_is_played_again_from_its_start(
    untaught: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_to_judge(monkeypatch, 3)
    group, _ = played(untaught, {"lookout": says("11"), "courier": lambda observation, turn: str(10 + turn)})
    assert [slot.play.episode.outcome == "judge_error" for slot in group] == [False] * 4
    given = [rf"\boxed{{{n}}}" for n in (13, 14, 15, 16)]
    assert sorted(slot.play.episode.answer for slot in group) == given  # three were asked twice
    for slot in group:
        assert [turn.agent for turn in slot.play.episode.turns] == AGENTS
        assert slot.turns == 2
        assert all(sum(slot.trajectories[agent].mask) for agent in AGENTS)
    assert unjudged_share(group) == 0.0


def test_an_episode_is_played_again_no_more_than_twice(untaught: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_to_judge(monkeypatch, 9)  # three attempts of three of the four
    group, _ = played(untaught, {"lookout": says("11"), "courier": says("12")})
    assert sorted(slot.play.episode.outcome for slot in group).count("judge_error") >= 1
    assert unjudged_share(group) > 0.0
    assert sum(map(len, judge([group], AGENTS).rows.values())) == 2 * sum(slot.valid for slot in group)


def test_training_stops_where_no_episode_is_judged(untaught: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_to_judge(monkeypatch, 1_000)
    group, _ = played(untaught, {"lookout": says("11"), "courier": says("12")})
    with pytest.raises(EvaluationError, match=r"4 of 4 episodes were not judged.*RuntimeError.*--resume"):
        unjudged_share(group)


# ------------------------------------------------------------------------------------------------------ updates


def learner_of(config: TrainMultiGRPO, start: Path) -> tuple[IndependentGRPO, dict[str, TokenPolicy]]:
    env = config.make_env()
    policies = multi_agent_trainer.load_policies(config.policies(env), start)
    engine = multi_agent_trainer.make_engine(config, env, policies)
    return IndependentGRPO(config, engine, policies, multi_agent_trainer.known_tasks(config, env, "train")), policies


def weights(policy: TokenPolicy) -> list[torch.Tensor]:
    return [part.detach().clone() for part in policy.model.parameters()]


def same(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def rows_of(untaught: Path, rewards: dict[str, list[float]]) -> dict[str, Any]:
    group, _ = played(untaught, {"lookout": lambda observation, turn: str(10 + turn), "courier": says("12")})
    for g, slot in enumerate(group):
        slot.play.episode.rewards = {agent: rewards[agent][g] for agent in AGENTS}
    return judge([group], AGENTS).rows


def test_an_agent_whose_rewards_agree_learns_nothing_from_the_others(untaught: Path, tmp_path: Path) -> None:
    learner, policies = learner_of(small(untaught, tmp_path), untaught)
    before = {name: weights(policy) for name, policy in policies.items()}
    learner.update(1, rows_of(untaught, {"lookout": [1, 0, 0, 1], "courier": [1, 1, 1, 1]}))
    assert not same(weights(policies["lookout"]), before["lookout"])
    assert same(weights(policies["courier"]), before["courier"])


def test_shared_weights_get_the_gradients_of_all_their_agents(untaught: Path, tmp_path: Path) -> None:
    config = small(untaught, tmp_path, share=True)
    rows = rows_of(untaught, {"lookout": [1, 0, 0, 1], "courier": [0, 1, 0, 1]})
    parts = []
    for agents in (["lookout"], ["courier"], AGENTS, AGENTS[::-1]):
        policy = multi_agent_trainer.load_policies(["shared"], untaught)["shared"]
        updater = ClippedUpdater(policy, config)
        for agent in agents:
            loss, _ = updater.loss([row for row in rows[agent] if row.advantage], len(rows[agent]))
            loss.backward()
        parts.append([part.grad for part in policy.model.parameters()])
    for one, other, both, swapped in zip(*parts, strict=True):
        torch.testing.assert_close(one + other, both, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(swapped, both, rtol=1e-4, atol=1e-6)
    learner, policies = learner_of(config, untaught)
    before = weights(policies["shared"])
    assert list(learner.updaters) == ["shared"]
    metrics = learner.update(1, rows)
    assert metrics["shared_grad_norm"] > 0
    assert not same(weights(policies["shared"]), before)


def test_some_agents_may_share_a_policy(tmp_path: Path) -> None:
    config = TrainMultiGRPO(
        env="MSARL-Math-v0",
        env_options={"helpers": "per_tool"},
        sharing={"python_helper": "helper", "calculator_helper": "helper"},
    )
    assert config.policies(config.make_env()) == ("reasoner", "helper")


def parity(slot: Slot, agent: str) -> float:
    """Rewards that differ within most groups, whatever an untrained policy writes."""
    return float(sum(slot.trajectories[agent].ids) % 2)


@pytest.mark.parametrize("lora_rank", [0, 4])
def test_a_step_is_the_same_whenever_it_is_made(
    untaught: Path, tmp_path: Path, lora_rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from toolorchestra.agents.builtin.adapters import make_adapters

    start = untaught
    if lora_rank:
        start = tmp_path / "adapters"
        multi_agent_trainer.save_policies(make_adapters(AGENTS, untaught / "lookout", rank=lora_rank), start)
    monkeypatch.setattr(Slot, "agent_reward", parity)
    config = small(start, tmp_path, lora_rank=lora_rank, learning_rate=3e-3)
    found = []
    for _ in range(2):
        learner, policies = learner_of(config, start)
        found.append(([learner.learn(step) for step in (1, 2)], [weights(policy) for policy in policies.values()]))
    assert found[0][0] == found[1][0]
    assert found[0][0][1]["lookout_grad_norm"] > 0
    assert all(same(one, other) for one, other in zip(found[0][1], found[1][1], strict=True))


# --------------------------------------------------------------------------------------------------- whole runs


@pytest.mark.long
def test_a_team_learns_an_environment_of_ones_own(tmp_path: Path) -> None:
    """From a warm start that errs as its teacher does, both agents learn to decide."""
    config = TrainMultiGRPO(
        env=ENV, output=tmp_path, sft_steps=250, sft_error=0.5, steps=12, group_size=8, eval_samples=4, threads=1
    )
    trained = multi_grpo.train(config)
    assert trained.gain.low > 0.1
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["phase"] == "multi-grpo" and line["kind"] == "train"]
    assert [line["step"] for line in steps] == list(range(1, 13))
    kept = [json.loads(line) for line in (tmp_path / "rollouts.jsonl").read_text().splitlines()]
    assert {(row["step"], row["agent"]) for row in kept} == {(step, agent) for step in (1, 11) for agent in AGENTS}
    for agent in AGENTS:
        assert any(line[f"{agent}_grad_norm"] > 0 for line in steps)
        assert (tmp_path / "final" / agent / "model.safetensors").is_file()
        for folder, stage in (
            ("start", "The start"),
            ("final", "The result"),
            ("checkpoints/checkpoint-10", "10 of 12"),
        ):
            assert stage in (tmp_path / folder / agent / "README.md").read_text(encoding="utf-8")
    found = json.loads((tmp_path / "heldout.json").read_text())
    assert found["MULTI-GRPO"]["success"] > found["start"]["success"]
    assert set(found["gain"]) == {"estimate", "low", "high"}


@pytest.mark.parametrize("lora_rank", [0, pytest.param(4, marks=pytest.mark.long)])
def test_a_run_that_is_killed_goes_on_exactly(
    untaught: Path, tmp_path: Path, lora_rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from toolorchestra.agents.builtin.adapters import make_adapters

    killed, whole = tmp_path / "killed", tmp_path / "whole"

    def rewarded(slot: Slot, agent: str) -> float:
        if (whole / "checkpoints" / "checkpoint-2").exists() and not killed.exists():
            shutil.copytree(whole, killed)  # what a kill in the third step would leave behind
        return parity(slot, agent)

    monkeypatch.setattr(Slot, "agent_reward", rewarded)
    start = untaught
    if lora_rank:
        start = tmp_path / "adapters"
        multi_agent_trainer.save_policies(make_adapters(AGENTS, untaught / "lookout", rank=lora_rank), start)
    settings: dict[str, Any] = {
        "env": ENV,
        "lora_rank": lora_rank,
        "groups": 2,
        "group_size": 4,
        "eval_samples": 1,
        "learning_rate": 1e-3,
        "max_turn_ids": 6,
        "save_every": 1,
        "steps": 4,
        "threads": 1,
    }
    multi_grpo.train(TrainMultiGRPO(start=start, output=whole, **settings))
    multi_grpo.train(TrainMultiGRPO(start=start, output=tmp_path / "over", minutes=1e-9, **settings))
    steps = [json.loads(line)["step"] for line in (tmp_path / "over" / "metrics.jsonl").read_text().splitlines()]
    assert steps == [0, 1, 1]  # the time is over before the first batch has ended
    assert not (killed / "final").exists()
    multi_grpo.train(TrainMultiGRPO(start=start, output=killed, resume=True, **settings))
    lines = [list(map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())) for folder in (killed, whole)]
    for line in (*lines[0], *lines[1]):
        line.pop("memory", None)  # the peak of a process
    assert lines[0] == lines[1]
    assert any(line.get("lookout_grad_norm") for line in lines[0])
    finals = [multi_agent_trainer.load_policies(AGENTS, folder / "final") for folder in (killed, whole)]
    for agent in AGENTS:
        assert same(weights(finals[0][agent]), weights(finals[1][agent]))
    assert not same(weights(finals[1]["lookout"]), weights(multi_agent_trainer.load_policies(AGENTS, start)["lookout"]))


# ---------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"env": "ToolOrchestra-Math-v0"}, r"algos/grpo\.py --env ToolOrchestra-Math-v0"),
        ({"group_size": 1}, "`group_size`"),
        ({"steps": 0}, "`steps`"),
        ({"epsilon": 1.0}, "`epsilon`"),
        ({"lora_rank": -1}, "`lora_rank`"),
        ({"share": True, "sharing": {"helper": "one"}}, "`sharing`"),
        ({"start": Path("x"), "model": "y"}, "`start`"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        TrainMultiGRPO(**options)


def test_names_that_the_environment_does_not_have_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'courier'"):
        TrainMultiGRPO(env=ENV, sharing={"couriers": "one"}).make_env()
    with pytest.raises(UnknownNameError, match="Did you mean 'lookout'"):
        TrainMultiGRPO(env=ENV, models={"lockout": "x"}).make_env()
    with pytest.raises(OptionError, match="no model for the policy 'courier'"):
        TrainMultiGRPO(env=ENV, models={"lookout": "x"}).model_of("courier")


def test_adapters_and_whole_models_are_not_mistaken_for_each_other(untaught: Path, tmp_path: Path) -> None:
    config = small(untaught, tmp_path, lora_rank=4)
    with pytest.raises(OptionError, match="Expected adapters"):
        multi_agent_trainer.warm_up(config, config.make_env(), lambda *_: None)


def test_adapters_want_one_base(tmp_path: Path) -> None:
    config = TrainMultiGRPO(env=ENV, output=tmp_path, models={"lookout": "one", "courier": "other"}, lora_rank=4)
    with pytest.raises(OptionError, match="share one base, got several: one, other"):
        multi_agent_trainer.warm_up(config, config.make_env(), lambda *_: None)


def test_an_environment_without_a_teacher_needs_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mute.py").write_text("from courier import CourierEnv\n\ndef game():\n    return CourierEnv()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    config = TrainMultiGRPO(env="mute:game", output=tmp_path / "run", threads=1)
    with pytest.raises(OptionError, match=r"no teacher.*--model PATH"):
        multi_grpo.train(config)


@pytest.fixture
def env() -> MultiAgentEnv:
    return TrainMultiGRPO(env=ENV).make_env()


def test_an_engine_knows_which_policy_is_whose(env: MultiAgentEnv) -> None:
    config = TrainMultiGRPO(env=ENV, share=True)
    assert config.policies(env) == ("shared",)
    engine = MultiAgentEngine(env, {agent: config.policy_of(agent) for agent in env.possible_agents}, {})
    assert engine.policies == {"lookout": "shared", "courier": "shared"}


@pytest.mark.parametrize(("hardness", "lines"), [(0.0, 1), (0.5, 11), (1.0, 21)])
def test_a_number_given_for_what_grows_with_the_stages_is_that_of_the_last_one(hardness: float, lines: int) -> None:
    env = TrainMultiGRPO(env_options={"helpers": "none", "noise": "20", "max_cycles": "3"}).make_env(hardness)
    assert env.max_cycles == 3
    env.reset(seed=0)
    env.step("```python\nprint(6 * 7)\n```")
    assert len(env.observe("reasoner").splitlines()) == 2 + lines
