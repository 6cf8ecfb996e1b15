from __future__ import annotations

import gc
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import Lfm2ForCausalLM, PreTrainedTokenizerFast

from toolorchestra.agents.builtin.model import TokenPolicy, build_model
from toolorchestra.algos import grpo
from toolorchestra.algos.group_rollouts import Curriculum, GroupRollouts, divergence
from toolorchestra.algos.options.one_agent import TrainGRPO
from toolorchestra.algos.rollout.engine import RolloutEngine, RolloutRequest, Row
from toolorchestra.algos.rollout.generation import Generation
from toolorchestra.algos.rollout.sampling import ModelSampler, Sample
from toolorchestra.algos.trl_trainers import MicroBatchGRPOTrainer
from toolorchestra.envs.records.episode import read_episodes
from toolorchestra.envs.starts import make_env, starts
from toolorchestra.toolscale.common.errors import OptionError

MINI = str(Path(__file__).parents[1] / "data" / "mini")

# ------------------------------------------------------------------------------------------------------- training


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy after a few steps of warm start: it knows the format, and little else."""
    folder: Path = tmp_path_factory.mktemp("start")
    config = grpo.sft.TrainSFT(
        env=MINI, output=folder, difficulty=(1,), steps=10, batch=4, replays=1, threads=1, save_every=0
    )
    grpo.sft.teach(config).save(folder / "start")
    return folder / "start"


def small(output: Path, **changes: Any) -> TrainGRPO:
    settings: dict[str, Any] = {
        "env": MINI,
        "output": output,
        "difficulty": (1,),
        "steps": 4,
        "groups": 2,
        "group_size": 4,
        "resample": 0,
        "threads": 1,
        "max_turns": 2,
        "max_turn_ids": 6,
        "filters": (),
    }
    return TrainGRPO(**(settings | changes))


class ByLength:
    """Rewards short rollouts, so that an untrained policy's groups differ."""

    @staticmethod
    def engine(config: TrainGRPO, policy: TokenPolicy) -> RolloutEngine:
        engine = grpo.make_engine(config, policy.renderer)
        play = engine.play

        def judged(*arguments: Any) -> list[Row]:
            rows = play(*arguments)
            for one in rows:
                one.reward = 1.0 / len(one.completion_ids)
            return rows

        engine.play = judged  # type: ignore[method-assign]
        return engine


def run(start: Path, config: TrainGRPO, seen: list[dict[str, float]] | None = None) -> TokenPolicy:
    policy = TokenPolicy.load(start)
    tasks = Curriculum(starts(make_env(config.env, {}), "train", config.difficulty))
    rollouts = GroupRollouts(ByLength.engine(config, policy), tasks, config, TokenPolicy.load(start).model)
    grpo.fit(policy, rollouts, config, lambda step, metrics: seen.append(metrics) if seen is not None else None)
    return policy


def equal(a: TokenPolicy, b: TokenPolicy) -> bool:
    pairs = zip(a.model.parameters(), b.model.parameters(), strict=True)
    return all(torch.equal(x.cpu(), y.cpu()) for x, y in pairs)


@pytest.mark.parametrize("updates", [1, 2])
def test_resuming_gives_the_weights_of_an_unbroken_run(start: Path, tmp_path: Path, updates: int) -> None:
    config = small(tmp_path / "a", updates=updates, save_every=0, steps=2)
    whole = run(start, config)
    assert not equal(whole, TokenPolicy.load(start))
    broken = replace(config, output=tmp_path / "b", steps=1, save_every=1, keep_rollouts=1)
    run(start, broken)
    resumed = run(start, replace(broken, steps=2, resume=True))
    assert equal(whole, resumed)
    kept = [json.loads(line) for line in (broken.output / "rollouts.jsonl").read_text().splitlines()]
    assert [row["step"] for row in kept] == [step for step in (1, 2) for _ in range(config.rollouts_per_task)]
    for row in kept:
        assert len(row["completion_ids"]) == len(row["mask"]) == len(row["logprobs"])
        assert all(logprob == 0 for logprob, own in zip(row["logprobs"], row["mask"], strict=True) if not own)
    assert sum(row["advantage"] for row in kept) == pytest.approx(0, abs=1e-4)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(start: Path, tmp_path: Path) -> None:
    first = run(start, small(tmp_path / "a", steps=1, save_every=0))
    assert equal(first, run(start, small(tmp_path / "b", steps=1, save_every=0)))
    assert not equal(first, run(start, small(tmp_path / "c", steps=1, save_every=0, seed=1)))


def test_training_moves_the_policy_towards_what_is_rewarded(start: Path, tmp_path: Path) -> None:
    seen: list[dict[str, float]] = []
    prose = {"answer": "text"}  # so that a rollout is as short as one message
    options: dict[str, Any] = {"learning_rate": 3e-3, "aggregation": "grpo", "env_options": prose}
    config = small(tmp_path, steps=6, groups=4, group_size=8, save_every=0, **options)
    run(start, config, seen)
    assert seen[-1]["reward"] > 1.2 * seen[0]["reward"]
    assert seen[0]["kl"] == pytest.approx(0.0, abs=1e-6)
    assert seen[-1]["kl"] > 0.0


@pytest.mark.parametrize(
    "options",
    [
        {"beta": 0.1},
        {"ratio": "sequence"},
        {"ratio": "product", "updates": 2, "aggregation": "dapo", "beta": 0.01, "epsilon_high": 0.2},
        {"preference": {"outcome": 1.0, "compute": 0.5}, "preference_text": "Keep it cheap."},
    ],
)
def test_the_objectives_options_train(start: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    seen: list[dict[str, float]] = []
    run(start, small(tmp_path, steps=2, save_every=0, **options), seen)
    assert all(np.isfinite(metrics["loss"]) for metrics in seen)


@pytest.mark.parametrize(
    "options", [{"beta": 0.1, "track_kl": True}, {"beta": 0.1, "track_kl": False}, {"track_kl": True}]
)
def test_the_starting_model_is_held_once_whoever_needs_it(start: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    def models() -> int:
        gc.collect()
        return sum(issubclass(type(one), Lfm2ForCausalLM) for one in gc.get_objects())

    before, held = models(), []
    config = small(tmp_path, start=start, steps=2, save_every=0, learning_rate=1e-2, **options)
    trainer = grpo.SingleAgentTrainer(config)
    trainer.load(start)
    tasks = Curriculum(starts(trainer.env, "train", config.difficulty))
    engine = ByLength.engine(config, trainer.policy)
    rollouts = GroupRollouts(engine, tasks, config, trainer.start_model, trainer.generation)
    seen: list[dict[str, float]] = []

    def report(step: int, metrics: dict[str, float]) -> None:
        seen.append(metrics)
        held.append(models())

    grpo.fit(trainer.policy, rollouts, config, report)
    trainer.finish()
    assert held == [before + 2] * 2  # the policy, and its start
    if config.tracks_kl:
        assert seen[0]["kl"] == pytest.approx(0.0, abs=1e-6)
        assert seen[1]["kl"] > 1e-6
    else:
        assert "kl" not in seen[0]


@pytest.mark.parametrize("aggregation", ["grpo", "dapo"])
def test_a_token_of_a_long_rollout_weighs_less_or_as_much_as_any(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aggregation: Any
) -> None:
    played: list[dict[str, Any]] = []
    play = GroupRollouts.__call__
    monkeypatch.setattr(GroupRollouts, "__call__", lambda *given: played.append(play(*given)) or played[-1])
    seen: list[dict[str, float]] = []
    run(start, small(tmp_path, steps=1, save_every=0, aggregation=aggregation), seen)
    advantages, lengths = np.array(played[0]["advantage"]), np.array([sum(mask) for mask in played[0]["env_mask"]])
    assert len(set(lengths)) > 1
    weights = lengths if aggregation == "dapo" else np.ones(len(lengths))  # all ratios are 1 in a first step
    assert seen[0]["loss"] == pytest.approx(-np.average(advantages, weights=weights), abs=1e-5)
    assert (seen[0]["loss"] > 0.01) is (aggregation == "dapo")  # long rollouts have the lowest rewards


def test_a_learning_rate_of_0_leaves_the_weights_alone(start: Path, tmp_path: Path) -> None:
    config = small(tmp_path, steps=1, save_every=0, learning_rate=0.0)
    seen: list[dict[str, float]] = []
    assert equal(run(start, config, seen), TokenPolicy.load(start))
    assert seen[0]["grad_norm"] > 0


def test_gradient_checkpointing_changes_nothing_of_a_step(start: Path) -> None:
    ids = torch.tensor([[5, 6, 7, 8, 9, 5, 6]])
    gradients = []
    for config in (TrainGRPO(), TrainGRPO(gradient_checkpointing=True)):
        model = TokenPolicy.load(start).model
        config.set_up(model)
        assert model.is_gradient_checkpointing is config.gradient_checkpointing
        model.train()
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-7)


@pytest.mark.parametrize("options", [{}, {"aggregation": "dapo"}, {"beta": 0.1, "updates": 2}])
def test_any_number_of_rows_at_once_gives_the_same_step(start: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    found: dict[int | None, dict[str, float]] = {}
    weights: dict[int | None, TokenPolicy] = {}
    for rows in (None, 3):  # two groups of four: the last rows are fewer
        seen: list[dict[str, float]] = []
        config = small(tmp_path / str(rows), steps=1, save_every=0, micro_batch=rows, **options)
        weights[rows], found[rows] = run(start, config, seen), seen[0]
    for name in ("loss", "grad_norm", "entropy", "clipped"):
        assert found[3][name] == pytest.approx(found[None][name], rel=1e-5, abs=1e-5), name
    pairs = zip(weights[3].model.parameters(), weights[None].model.parameters(), strict=True)
    assert max(float((a - b).detach().abs().max()) for a, b in pairs) < 1e-4  # of Adam's first steps of 3e-4


def test_dropped_rollouts_leave_the_weights_alone_and_that_is_said(
    start: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = small(tmp_path, steps=1, save_every=0, filters=("homogeneity",), min_std=9.0)
    assert equal(run(start, config), TokenPolicy.load(start))
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line.startswith("No group of 2 survived the filters, so this step changes nothing: 2 have nearly equal")


def test_the_trainer_is_given_what_the_engine_played(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[dict[str, list[Any]]] = []
    given: list[dict[str, Any]] = []
    call, loss = GroupRollouts.__call__, MicroBatchGRPOTrainer.compute_loss

    def play(self: GroupRollouts, prompts: Any, trainer: Any) -> dict[str, list[Any]]:
        played.append(call(self, prompts, trainer))
        return played[-1]

    def compute(self: Any, model: Any, inputs: dict[str, Any], *_: Any, **__: Any) -> Any:
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
        attention = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1)
        length = inputs["completion_ids"].shape[1]
        with torch.no_grad():
            logps = self._get_per_token_logps_and_entropies(model, ids, attention, length)[0]
        given.append(inputs | {"logps": logps})
        return loss(self, model, inputs)

    monkeypatch.setattr(GroupRollouts, "__call__", play)
    monkeypatch.setattr(MicroBatchGRPOTrainer, "compute_loss", compute)
    run(start, small(tmp_path, steps=1, save_every=0, filters=("format",), max_turns=3))
    (rows,), (batch,) = played, given

    def by_ids(completions: Any, *columns: Any) -> list[Any]:
        return sorted(zip(completions, *columns, strict=True))

    mask = batch["completion_mask"].bool()
    found = by_ids(
        [ids[m].tolist() for ids, m in zip(batch["completion_ids"], mask, strict=True)],
        [t[m].tolist() for t, m in zip(batch["tool_mask"], mask, strict=True)],
        batch["advantages"].tolist(),
        [lp[m].tolist() for lp, m in zip(batch["logps"], mask, strict=True)],
    )
    expected = by_ids(rows["completion_ids"], rows["env_mask"], rows["advantage"], rows["logprobs"])
    for ours, theirs in zip(expected, found, strict=True):
        assert ours[:2] == theirs[:2]
        assert ours[2] == pytest.approx(theirs[2], abs=1e-5)
        drawn = [(a, b) for a, b, m in zip(ours[3], theirs[3], ours[1], strict=True) if m]
        assert [a for a, _ in drawn] == pytest.approx([b for _, b in drawn], abs=1e-4)


def test_an_estimate_of_the_divergence_is_zero_for_equals_and_never_negative(start: Path) -> None:
    policy, other = TokenPolicy.load(start), TokenPolicy.load(start)
    engine = grpo.make_engine(small(start.parent), policy.renderer)
    plays = starts(make_env(MINI, {}), "train", (1,))[1][:4]
    sampler = ModelSampler(policy.model, policy.renderer)
    rows = engine.play(sampler, [RolloutRequest(n, play) for n, play in enumerate(plays)])
    assert divergence(policy.model, other.model, rows, policy.renderer.pad_id) == pytest.approx(0.0, abs=1e-6)
    with torch.no_grad():
        next(other.model.parameters()).add_(0.1)
    assert divergence(policy.model, other.model, rows, policy.renderer.pad_id) > 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"group_size": 1}, "are compared"),
        ({"updates": 3}, "cannot be shared"),
        ({"temperature": 0.0}, "must be above 0"),
        ({"beta": -1.0}, "`beta`"),
        ({"preference_text": "cheap"}, "give the weights"),
        ({"resume": True, "save_every": 0}, "needs checkpoints"),
        ({"steps": 0}, "at least 1"),
        ({"memory": 0.0}, "`memory` must be above 0"),
        ({"micro_batch": 0}, "`micro_batch` must be at least 1"),
        ({"eval_tasks": 0}, "`eval_tasks` must be at least 1"),
        ({"learning_rate": -1.0}, "`learning_rate` must be at least 0"),
    ],
)
def test_impossible_settings_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        small(tmp_path, **change)


class Ascii(gym.Env[str, Any]):
    """An external environment without tasks, tools or messages: rewards answers in ASCII."""

    observation_space = gym.spaces.Text(100)
    action_space = gym.spaces.Text(100)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        return "Speak.", {}

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "", float(action.isascii()), True, False, {}


def byte_model(folder: Path) -> Path:
    """Save an untrained model with a tokenizer of bytes and a ChatML template."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|pad|>")
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m.role + ':' + m.content + '<|im_end|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
    )
    tokenizer.save_pretrained(folder)
    build_model(len(tokenizer), hidden=32, heads=2).save_pretrained(folder)
    return folder


def test_any_environment_and_any_model_can_be_trained(tmp_path: Path) -> None:
    gym.register("Ascii-v0", entry_point=Ascii)
    try:
        config = TrainGRPO(
            env="Ascii-v0",
            model=str(byte_model(tmp_path / "model")),
            output=tmp_path / "run",
            steps=16,
            groups=2,
            group_size=8,
            learning_rate=1e-2,
            max_turn_ids=1,
            filters=("homogeneity",),
            eval_samples=1,
            save_every=0,
            threads=1,
        )
        found = grpo.train(config)["results"]
    finally:
        gym.registry.pop("Ascii-v0")
    assert np.mean(found["GRPO"]) > np.mean(found["start"]) + 0.1


@pytest.mark.parametrize(
    ("cap", "loss"),
    [
        (None, 0.0),  # advantages 1 and -1 of rows of equal length
        (2.0, ((-2 - 1 / 2) / 2 + (1 + 1 / 4) / 2) / 2),  # 3 is cut to 2
        (10.0, ((-3 - 1 / 2) / 2 + (1 + 1 / 4) / 2) / 2),
    ],
)
@pytest.mark.parametrize("updates", [1, 2])
def test_the_loss_of_each_token_is_multiplied_by_its_importance_up_to_a_cap(
    tmp_path: Path, cap: float | None, loss: float, updates: int
) -> None:
    policy = TokenPolicy.load(byte_model(tmp_path / "model"))
    ratios = {1: [3.0, 1 / 2], -1: [1.0, 1 / 4]}  # π(trainer) / π(sampler) of the ids that the policy wrote
    reported: list[dict[str, float]] = []

    class Replay:
        """Rows with given importance ratios; between the policy's two ids is one of the environment's."""

        def __init__(self, config: TrainGRPO) -> None:
            self.config, self.metrics, self.start = config, dict[str, float](), None
            self.generation = Generation()

        @torch.no_grad()
        def __call__(self, prompts: Any, trainer: Any) -> dict[str, list[Any]]:
            logps = policy.model(torch.tensor([[5, 6, 7, 8, 9]])).logits[0, 1:-1].log_softmax(-1)
            first, last = float(logps[0, 7]), float(logps[2, 9])
            signs = [1, -1] * (len(prompts) // 2)
            sampled = [[first - math.log(ratios[s][0]), -99.0, last - math.log(ratios[s][1])] for s in signs]
            return {
                "prompt_ids": [[5, 6]] * len(signs),
                "completion_ids": [[7, 8, 9]] * len(signs),
                "logprobs": sampled,
                "env_mask": [[1, 0, 1]] * len(signs),
                "advantage": [float(sign) for sign in signs],
            }

        def close(self) -> None:
            pass

    config = TrainGRPO(
        env=MINI,
        model="m",
        output=tmp_path / "run",
        steps=1,
        groups=updates,
        group_size=2,
        updates=updates,
        learning_rate=0.0,
        save_every=0,
        threads=1,
        importance_cap=cap,
    )
    rollouts: Any = Replay(config)
    grpo.fit(policy, rollouts, config, lambda step, metrics: reported.append(metrics))
    (metrics,) = reported
    assert metrics["loss"] == pytest.approx(loss, abs=1e-4)
    assert metrics["mismatch"] == pytest.approx((math.log(3) + math.log(2) + math.log(4)) / 4, abs=1e-5)
    assert metrics["mismatch_max"] == pytest.approx(math.log(4), abs=1e-5)
    assert metrics["importance_ratio"] == pytest.approx((3 + 1 / 2 + 1 + 1 / 4) / 4, abs=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("curves")
def test_the_whole_command_runs_resumes_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = small(tmp_path, steps=1, sft_steps=2, sft_batch=2, save_every=1, eval_samples=1, eval_tasks=2)
    found = grpo.train(config)
    assert np.mean([outcome or 0.0 for outcome in found["results"]["oracle"]]) == 1.0
    shown = capsys.readouterr().out
    for name in ("random", "SFT", "GRPO", "oracle", "interval"):
        assert name in shown
    for name in ("metrics.jsonl", "curves.png", "summary.json", "final/model.safetensors", "final/renderer.json"):
        assert (tmp_path / name).exists(), name
    episodes = list(read_episodes(tmp_path / "episodes.jsonl"))
    assert len(episodes) == len(found["results"]["oracle"]) == 2
    for turn in (turn for episode in episodes for turn in episode.turns):
        assert turn.logprobs is not None
        assert len(turn.logprobs) == len(turn.token_ids or ()) > 0
    grpo.train(replace(config, steps=2, resume=True))
    records = map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
    trained = [record["step"] for record in records if (record["phase"], record["kind"]) == ("grpo", "train")]
    assert trained == [1, 2]


@pytest.mark.usefixtures("curves")
def test_a_run_whose_time_is_over_ends_with_what_was_learnt_until_then(tmp_path: Path, start: Path) -> None:
    over = 1e-9  # minutes: before the first batch has ended
    config = small(tmp_path, start=start, steps=5, minutes=over, save_every=0, eval_samples=1, eval_tasks=2)
    found = grpo.train(config)
    assert set(found["results"]) >= {"start", "GRPO"}
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    made = {(record["kind"], record["step"]) for record in records}
    assert made == {("heldout", 0), ("train", 1), ("heldout", 1)}
    assert (tmp_path / "episodes.jsonl").exists()
    assert (tmp_path / "final" / "model.safetensors").exists()


# ------------------------------------------------------------------------------------------ where tools are experts


def test_training_where_tools_are_experts_reports_the_parts_of_the_reward_and_draws_the_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def recite(self: ModelSampler, prompts: Any, limits: Any, keys: Any) -> list[Sample]:
        """Ask an expert before the answer, or half of the time nobody."""
        ask, end = (
            self.renderer.encode_action(
                {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": name, "arguments": "{}"}}]}
            )
            for name in ("standard_reasoner", "final_answer")
        )
        asked = [str(ask)[1:-1] in str(prompt) for prompt in prompts]
        written = [end if key % 2 or over else ask for key, over in zip(keys, asked, strict=True)]
        return [Sample(ids, [-0.5] * len(ids)) for ids in written]

    monkeypatch.setattr(ModelSampler, "__call__", recite)
    config = TrainGRPO(
        env="ParaManager-Custom-v0",
        source="MathParity",
        output=tmp_path / "run",
        difficulty=(1,),
        sft_steps=1,
        sft_batch=2,
        steps=1,
        groups=2,
        group_size=4,
        filters=(),
        eval_samples=2,
        eval_tasks=2,
        save_every=0,
        threads=1,
        max_turns=3,
        max_turn_ids=24,
    )
    grpo.train(config)
    found = json.loads((tmp_path / "run" / "heldout.json").read_text(encoding="utf-8"))
    assert {"reward", "cost", "seconds", "reward_task", "reward_format", "reward_efficiency"} <= set(
        found["means"]["SFT"]
    )
    assert {"unique_tools", "tool_standard_reasoner"} <= set(found["means"]["GRPO"])
    assert (tmp_path / "run" / "calls.svg").is_file()


def test_a_start_and_a_model_exclude_each_other() -> None:
    with pytest.raises(OptionError, match="not both"):
        TrainGRPO(start=Path("a"), model="b")
