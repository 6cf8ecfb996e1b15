from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.agents.builtin.chat_template_renderer import ChatTemplateRenderer
from toolorchestra.agents.builtin.compact_renderer import CompactRenderer
from toolorchestra.agents.builtin.model import build_renderer
from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.baselines import SelfRefine
from toolorchestra.agents.policies.reference import NoisyOraclePolicy, OraclePolicy
from toolorchestra.algos.data.demonstrations import Demonstration, demonstrated, encode, recorded, structured
from toolorchestra.algos.options.smoke import tiny_tokenizer
from toolorchestra.algos.rollout.engine import RolloutEngine, RolloutRequest
from toolorchestra.algos.rollout.sampling import Sample
from toolorchestra.envs.records.episode import write_episodes
from toolorchestra.envs.starts import EpisodeStart, make_env, starts
from toolorchestra.envs.task_source import DomainSource, MixtureSource
from toolorchestra.toolscale.common.errors import OptionError

ENV = "ToolOrchestra-Restaurant-v0"


def test_the_oracle_demonstrates_solved_episodes(good: list[Demonstration]) -> None:
    assert all(d.solved for d in good)
    assert {d.difficulty for d in good} == {1, 2, 3, 4, 5}


def test_the_noisy_oracle_also_fails(plays: list[EpisodeStart]) -> None:
    noisy = list(demonstrated(make_env(ENV, {}), NoisyOraclePolicy(0, 0.8), plays * 3))
    assert 0.0 < sum(d.solved for d in noisy) / len(noisy) < 0.9


def texts(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return calls with the values of a typed answer as text: the compact language says nothing of their types."""
    return [
        {**call, "arguments": {"answer": json.loads(json.dumps(call["arguments"]["answer"]), parse_int=str)}}
        if call["name"] == "submit"
        else call
        for call in calls
    ]


def test_all_calls_of_the_oracle_can_be_written_in_the_compact_language(
    good: list[Demonstration], renderer: CompactRenderer
) -> None:
    for demonstration in good:
        for message in demonstration.messages:
            if message["role"] == "assistant" and message.get("tool_calls"):
                functions = [call["function"] for call in message["tool_calls"]]
                calls = [{"name": f["name"], "arguments": json.loads(f["arguments"])} for f in functions]
                decoded = renderer.decode_action(renderer.encode_action(message), demonstration.tools)
                assert isinstance(decoded.action, str) or texts(decoded.action) == texts(calls)


@pytest.mark.parametrize("options", [{}, {"schemas": "short", "tool_view": 6}])
@pytest.mark.parametrize("chat", [False, True])
def test_demonstrations_are_laid_out_as_rollouts_are(
    chat: bool, options: dict[str, Any], renderer: CompactRenderer | ChatTemplateRenderer
) -> None:
    renderer = ChatTemplateRenderer(tiny_tokenizer()) if chat else renderer
    start = starts(make_env(ENV, {}), "train", (2,))[2][0]
    (demonstration,) = demonstrated(make_env(ENV, options), OraclePolicy(), [start])
    ids, mask = encode(renderer, demonstration)

    def recite(prompts, limits, keys):  # type: ignore[no-untyped-def]
        """Write what the demonstration writes at this point."""
        samples = []
        for prompt in prompts:
            assert ids[: len(prompt)] == list(prompt)
            end = next(n for n in range(len(prompt), len(ids)) if ids[n] in renderer.stop_ids)
            samples.append(Sample(ids[len(prompt) : end + 1], [0.0] * (end + 1 - len(prompt))))
        return samples

    (row,) = RolloutEngine(lambda: make_env(ENV, options), renderer).play(recite, [RolloutRequest(0, start)])
    assert row.outcome == "solved"
    assert row.prompt_ids + row.completion_ids == ids
    assert [0] * len(row.prompt_ids) + row.mask == mask


@pytest.mark.parametrize("options", [{}, {"schemas": "short", "tool_view": 6}])
def test_recorded_episodes_teach_what_was_played(
    options: dict[str, Any], tmp_path: Path, plays: list[EpisodeStart]
) -> None:
    env = make_env(ENV, options)
    for start in plays[:4]:
        play_episode(env, OraclePolicy(), **start.arguments)
        write_episodes(tmp_path / "e.jsonl", [env.unwrapped.episode])  # type: ignore[attr-defined]
    _, info = env.reset(seed=0)
    again = list(recorded(tmp_path / "e.jsonl", env))
    live = list(demonstrated(env, OraclePolicy(), plays[:4]))
    for renderer in (build_renderer(info["tools"], [d.messages for d in live]), ChatTemplateRenderer(tiny_tokenizer())):
        assert [encode(renderer, d) for d in again] == [encode(renderer, d) for d in live]


def test_a_protocol_that_ends_by_a_call_and_adds_to_what_is_shown_is_learnt_as_it_was_played(tmp_path: Path) -> None:
    env = make_env("ParaManager-Math-v0", {})
    plays = [level[0] for level in starts(env, "train", ()).values()]
    live = list(demonstrated(env, SelfRefine(), plays))
    for start in plays:
        play_episode(env, SelfRefine(), **start.arguments)
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
        assert [tool["function"]["name"] for tool in demonstration.tools] == [*source.domain.tools, "submit"]


def test_episodes_of_another_environment_are_refused(tmp_path: Path) -> None:
    env = make_env(ENV, {})
    play_episode(env, OraclePolicy(), seed=0)
    write_episodes(tmp_path / "e.jsonl", [env.unwrapped.episode])  # type: ignore[attr-defined]
    with pytest.raises(OptionError, match="does not have"):
        list(recorded(tmp_path / "e.jsonl", make_env(ENV, {"tools": ["get_bill"]})))


def test_what_cannot_be_read_as_a_call_is_learnt_as_it_was_written() -> None:
    garbled = {"role": "assistant", "content": "<tool_call>{nonsense</tool_call>"}
    assert structured(garbled) is garbled
