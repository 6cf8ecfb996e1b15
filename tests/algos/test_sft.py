from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch

from toolorchestra.agents.builtin.compact_renderer import CompactRenderer
from toolorchestra.agents.builtin.model import TokenPolicy, build_renderer
from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.baselines import SelfRefine
from toolorchestra.agents.policies.reference import NoisyOraclePolicy, OraclePolicy
from toolorchestra.algos import sft
from toolorchestra.algos.augmentation import ValueShuffler, sft_rows, thin
from toolorchestra.algos.demonstrations import Demonstration, encode, play_policy, recorded, structured
from toolorchestra.algos.rollout.engine import RolloutEngine, RolloutRequest
from toolorchestra.algos.rollout.sampling import Sample
from toolorchestra.algos.rollout.starts import Start, make_env, starts
from toolorchestra.algos.trainer import last_checkpoint
from toolorchestra.envs.episode import write_episodes
from toolorchestra.envs.task_source import DomainSource, MixtureSource
from toolorchestra.toolscale.errors import OptionError

ENV = "ToolOrchestra-Restaurant-v0"


@pytest.fixture(scope="module")
def plays() -> list[Start]:
    return [level[n] for level in starts(make_env(ENV, {}), "train", ()).values() for n in (0, 5, 9)]


@pytest.fixture(scope="module")
def good(plays: list[Start]) -> list[Demonstration]:
    return list(play_policy(make_env(ENV, {}), OraclePolicy(), plays))


@pytest.fixture(scope="module")
def renderer(good: list[Demonstration]) -> CompactRenderer:
    env = make_env(ENV, {}).unwrapped
    world = env.source.world(env.source.tasks("train")[0])  # type: ignore[attr-defined]
    return build_renderer(good[0].tools, [d.messages for d in good], [world])


def test_the_oracle_demonstrates_solved_episodes(good: list[Demonstration]) -> None:
    assert all(d.solved for d in good)
    assert {d.difficulty for d in good} == {1, 2, 3, 4, 5}


def test_the_noisy_oracle_also_fails(plays: list[Start]) -> None:
    noisy = list(play_policy(make_env(ENV, {}), NoisyOraclePolicy(0, 0.8), plays * 3))
    assert 0.0 < sum(d.solved for d in noisy) / len(noisy) < 0.9


def test_all_calls_of_the_oracle_can_be_said_in_the_compact_language(
    good: list[Demonstration], renderer: CompactRenderer
) -> None:
    for demonstration in good:
        for message in demonstration.messages:
            if message["role"] == "assistant" and message.get("tool_calls"):
                functions = [call["function"] for call in message["tool_calls"]]
                calls = [{"name": f["name"], "arguments": json.loads(f["arguments"])} for f in functions]
                decoded = renderer.decode_action(renderer.encode_action(message), demonstration.tools)
                assert isinstance(decoded.action, str) or decoded.action == calls


def test_demonstrations_are_laid_out_as_rollouts_are(renderer: CompactRenderer) -> None:
    start = starts(make_env(ENV, {}), "train", (2,))[2][0]
    (demonstration,) = play_policy(make_env(ENV, {}), OraclePolicy(), [start])
    ids, mask = encode(renderer, demonstration)

    def recite(prompts, limits):  # type: ignore[no-untyped-def]
        """Write what the demonstration writes at this point."""
        samples = []
        for prompt in prompts:
            assert ids[: len(prompt)] == list(prompt)
            end = next(n for n in range(len(prompt), len(ids)) if ids[n] in renderer.stop_ids)
            samples.append(Sample(ids[len(prompt) : end + 1], [0.0] * (end + 1 - len(prompt))))
        return samples

    (row,) = RolloutEngine(lambda: make_env(ENV, {}), renderer).play(recite, [RolloutRequest(0, start)])
    assert row.outcome == "solved"
    assert row.prompt_ids + row.completion_ids == ids
    assert [0] * len(row.prompt_ids) + row.mask == mask


def test_labels_cover_the_policys_own_tokens_only(good: list[Demonstration], renderer: CompactRenderer) -> None:
    rows = sft_rows(renderer, good, rows=8, rng=random.Random(0), curriculum=False)
    for ids, labels in rows:
        kept = [renderer.tokens[label] for label in labels if label != -100]
        assert kept[0] in ("<call>", "<answer>")
        assert kept[-1] == "<end>"
        assert "<result>" not in kept
        assert all(label in (-100, i) for i, label in zip(ids, labels, strict=True))


def test_thinning_leaves_out_only_what_nobody_mentions(good: list[Demonstration], renderer: CompactRenderer) -> None:
    for demonstration in good:
        bare = thin(demonstration, 0.0, random.Random(0))
        whole = thin(demonstration, 1.0, random.Random(0))
        said = [m for m in bare.messages if m["role"] == "assistant"]
        assert said == [m for m in demonstration.messages if m["role"] == "assistant"]
        assert len(encode(renderer, bare)[0]) <= len(encode(renderer, whole)[0])
        assert encode(renderer, whole) == encode(renderer, demonstration)


def test_values_are_exchanged_consistently_and_only_for_their_kind(
    good: list[Demonstration], renderer: CompactRenderer
) -> None:
    shuffle = ValueShuffler(renderer)
    changed = 0
    for demonstration in good:
        ids, mask = encode(renderer, demonstration)
        other = shuffle(ids, mask, random.Random(1))
        mapping = dict(zip(ids, other, strict=True))
        assert [mapping[i] for i in ids] == other  # one replacement for each value
        assert len(set(mapping.values())) == len(mapping)  # two values stay two
        for a, b in mapping.items():
            assert renderer.kinds.get(renderer.tokens[a]) == renderer.kinds.get(renderer.tokens[b])
        changed += other != ids
    assert changed > len(good) / 2


def test_what_the_policy_works_out_itself_is_not_exchanged(renderer: CompactRenderer) -> None:
    day, dish = renderer.index["2025-07-30"], renderer.index["D07"]
    ids = [dish, day, dish, day]
    assert ValueShuffler(renderer)(ids, [0, 1, 1, 0], random.Random(0))[1] == day


def test_recorded_episodes_teach_what_was_played(tmp_path: Path, plays: list[Start]) -> None:
    env = make_env(ENV, {})
    for start in plays[:4]:
        play_episode(env, OraclePolicy(), seed=start.seed, options=start.reset_options())
        write_episodes(tmp_path / "e.jsonl", [env.unwrapped.episode])  # type: ignore[attr-defined]
    _, info = env.reset(seed=0)
    again = list(recorded(tmp_path / "e.jsonl", env))
    live = list(play_policy(env, OraclePolicy(), plays[:4]))
    renderer = build_renderer(info["tools"], [d.messages for d in live])
    assert [encode(renderer, d) for d in again] == [encode(renderer, d) for d in live]


def test_a_protocol_that_ends_by_a_call_and_adds_to_what_is_shown_is_learnt_as_it_was_played(tmp_path: Path) -> None:
    env = make_env("ParaManager-Math-v0", {})
    plays = [level[0] for level in starts(env, "train", ()).values()]
    live = list(play_policy(env, SelfRefine(), plays))
    for start in plays:
        play_episode(env, SelfRefine(), seed=start.seed, options=start.reset_options())
        write_episodes(tmp_path / "e.jsonl", [env.unwrapped.episode])  # type: ignore[attr-defined]
    again = list(recorded(tmp_path / "e.jsonl", env))
    assert [d.solved for d in again] == [d.solved for d in live]
    assert {d.solved for d in live} == {True, False}  # although a failed episode earns a reward for its form, too
    assert all(d.messages[-1]["tool_calls"][0]["function"]["name"] == "final_answer" for d in again)
    assert "Budget left" in again[0].messages[1]["content"]
    renderer = build_renderer(live[0].tools, [d.messages for d in live])
    assert [encode(renderer, d) for d in again] == [encode(renderer, d) for d in live]


def test_each_recorded_episode_has_the_tools_of_its_own_task(tmp_path: Path) -> None:
    sources = [DomainSource(name) for name in ("restaurant", "weather")]
    env = make_env("ToolOrchestra-Custom-v0", {"source": MixtureSource(sources)})
    for source in sources:
        play_episode(env, OraclePolicy(), options={"task_id": source.tasks("train")[0].id})
        write_episodes(tmp_path / "e.jsonl", [env.unwrapped.episode])  # type: ignore[attr-defined]
    one, other = recorded(tmp_path / "e.jsonl", env)
    for demonstration, source in zip((one, other), sources, strict=True):
        assert [tool["function"]["name"] for tool in demonstration.tools] == list(source.domain.tools)


def test_episodes_of_another_environment_are_refused(tmp_path: Path) -> None:
    env = make_env(ENV, {})
    play_episode(env, OraclePolicy(), seed=0)
    write_episodes(tmp_path / "e.jsonl", [env.unwrapped.episode])  # type: ignore[attr-defined]
    with pytest.raises(OptionError, match="does not have"):
        list(recorded(tmp_path / "e.jsonl", make_env(ENV, {"tools": ["get_bill"]})))


def test_what_cannot_be_read_as_a_call_is_learnt_as_it_was_written() -> None:
    garbled = {"role": "assistant", "content": "<tool_call>{nonsense</tool_call>"}
    assert structured(garbled) is garbled


def small(tmp_path: Path, **changes: object) -> sft.TrainSFT:
    settings = {"output": tmp_path, "difficulty": (1,), "steps": 4, "batch": 4, "replays": 1, "threads": 1}
    return sft.TrainSFT(**(settings | changes))  # type: ignore[arg-type]


def test_the_loss_is_trls_on_the_same_rows(
    good: list[Demonstration], renderer: CompactRenderer, tmp_path: Path
) -> None:
    rows = sft_rows(renderer, good, rows=4, rng=random.Random(0), curriculum=False)
    policy = TokenPolicy.built_in(renderer, seed=0)
    width = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([row + [renderer.pad_id] * (width - len(row)) for row, _ in rows])
    labels = torch.tensor([label + [-100] * (width - len(label)) for _, label in rows])
    with torch.no_grad():
        logits = policy.model(ids, attention_mask=(ids != renderer.pad_id).long()).logits
    expected = float(torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()))
    seen: list[float] = []
    sft.fit(
        policy,
        rows * 10,
        output=tmp_path,
        batch=4,
        learning_rate=0.0,
        report=lambda step, metrics: seen.append(metrics["loss"]),
    )
    assert seen[0] == pytest.approx(expected, abs=2e-3)


@pytest.mark.slow
def test_resuming_gives_the_weights_of_an_unbroken_run(tmp_path: Path) -> None:
    whole = sft.teach(small(tmp_path / "a", steps=4, save_every=0))
    sft.teach(small(tmp_path / "b", steps=4, save_every=2))
    (tmp_path / "b" / "checkpoints" / "checkpoint-4").rename(tmp_path / "lost")
    resumed = sft.teach(small(tmp_path / "b", steps=4, save_every=2, resume=True))
    pairs = zip(whole.model.parameters(), resumed.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_the_command_leaves_a_policy_metrics_and_curves(tmp_path: Path) -> None:
    sft.train(small(tmp_path, steps=20, save_every=0))
    for name in ("metrics.jsonl", "curves.png", "final/renderer.json"):
        assert (tmp_path / name).exists(), name
    assert isinstance(TokenPolicy.load(tmp_path / "final").renderer, CompactRenderer)


def test_resuming_from_nothing_says_so(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="No checkpoint"):
        last_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"error": 1.5}, "must lie in"), ({"batch": 0}, "at least 1"), ({"resume": True, "save_every": 0}, "checkpoints")],
)
def test_impossible_settings_are_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        small(tmp_path, **change)
