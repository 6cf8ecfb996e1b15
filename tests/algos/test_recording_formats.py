"""Recordings in the formats of other trainers, read by those trainers' own code."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from examples.exchange import main as exchange
from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.baselines import SelfRefine
from toolorchestra.agents.policies.reference import OraclePolicy
from toolorchestra.algos.data import recording_formats as formats
from toolorchestra.cli.main import main
from toolorchestra.envs.multiagent.views import CurrentAgentEnv
from toolorchestra.envs.records.episode import Episode, read_episodes, write_episodes
from toolorchestra.envs.registration import make_multiagent
from toolorchestra.envs.starts import make_env
from toolorchestra.toolscale.common.errors import OptionError

ENV = "ToolOrchestra-Restaurant-v0"
GARBLED = "<tool_call>{nonsense</tool_call>"
CHATML = """\
{%- if tools %}<|im_start|>tools
{% for tool in tools %}{{ tool.function.name }} {% endfor %}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}[{{ call.function.name }} {{ call.function.arguments }}]
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


class Scripted:
    """A policy that writes these messages."""

    def __init__(self, *texts: Any) -> None:
        self.texts = list(texts)

    def reset(self, env: Any, observation: str, info: Any) -> None:
        pass

    def act(self, observation: str, info: Any) -> Any:
        return self.texts.pop(0)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks: one solved and failed, with a message that cannot be read; one solved, and cut off in another."""
    file = tmp_path_factory.mktemp("recorded") / "run.jsonl"
    env = make_env(ENV, {"max_turns": 3, "answer": "text"})
    first, second = (task.id for task in env.unwrapped.source.tasks("train")[:2])  # type: ignore[attr-defined]
    call = {"id": "x", "type": "function", "function": {"name": "get_hours", "arguments": "{bad"}}
    broken = {"role": "assistant", "content": "Let me see.", "tool_calls": [call]}
    plays: list[tuple[str, Any, Any]] = [
        (first, OraclePolicy(), ENV),
        (first, Scripted(GARBLED, broken, "I cannot."), ENV),
        (second, OraclePolicy(), ENV),
        (second, Scripted(*['<tool_call>{"name": "get_hours", "arguments": {}}</tool_call>'] * 3), ENV),
    ]
    for task, policy, _ in plays:
        long = make_env(ENV, {"answer": "text"}) if isinstance(policy, OraclePolicy) else env
        play_episode(long, policy, seed=3, options={"task_id": task})
        write_episodes(file, [long.unwrapped.episode])  # type: ignore[attr-defined]
    outcomes = [(one.outcome, one.answer is None) for one in read_episodes(file)]
    assert outcomes == [("solved", False), ("failed", False), ("solved", False), ("failed", True)]
    return file


def exported(recording: Path, name: str, *options: str) -> list[dict[str, Any]]:
    out = recording.parent / name
    assert exchange(["export", str(recording), str(out), *options]) == 0
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_openai_takes_the_rows(recording: Path) -> None:
    types = pytest.importorskip("openai.types.chat", reason="needs the openai client")
    pydantic = pytest.importorskip("pydantic")
    message = pydantic.TypeAdapter(types.ChatCompletionMessageParam)
    function = pydantic.TypeAdapter(types.ChatCompletionFunctionToolParam)
    rows = exported(recording, "all.jsonl", "--failed")
    assert len(rows) == 4
    assert len(exported(recording, "solved.jsonl")) == 2
    for row in rows:
        assert set(row) <= {"messages", "tools", "parallel_tool_calls"}
        for one in row["messages"]:
            message.validate_python(one)
        for tool in row["tools"]:
            function.validate_python(tool)
        known = {tool["function"]["name"] for tool in row["tools"]}
        assert row["messages"][-1]["role"] == "assistant"
        waiting: list[str] = []
        ids: list[str] = []
        for one in row["messages"]:
            if one["role"] == "tool":
                assert one["tool_call_id"] == waiting.pop(0)
            else:
                assert not waiting
            for call in one.get("tool_calls", ()):
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
                assert call["function"]["name"] in known
                ids.append(call["id"])
                waiting.append(call["id"])
        assert len(ids) == len(set(ids))
    assert ids  # of the episode that was cut off, which ends with a call


def test_a_log_of_inspect_has_failed_episodes_too_and_is_the_same_each_time(recording: Path) -> None:
    """What inspect_ai itself reads of it is in tests/envs/bridges/test_inspect_log.py."""
    made = []
    for name in ("one.eval", "two.eval"):
        assert exchange(["export", str(recording), str(recording.parent / name), "--env", ENV]) == 0
        made.append((recording.parent / name).read_bytes())
    assert made[0] == made[1]
    with zipfile.ZipFile(recording.parent / "one.eval") as log:
        header = json.loads(log.read("header.json"))
        samples = [json.loads(log.read(name)) for name in log.namelist() if name.startswith("samples/")]
    assert [sample["epoch"] for sample in samples] == [1, 2, 1, 2]
    assert header["results"]["scores"][0]["metrics"]["mean"]["value"] == 0.5
    assert header["results"]["completed_samples"] == 4
    assert GARBLED in [message["content"] for message in samples[1]["messages"]]


def test_what_cannot_be_read_as_a_call_stands_as_it_was_written(recording: Path) -> None:
    messages = exported(recording, "all.jsonl", "--failed")[1]["messages"]
    assert [one["role"] for one in messages] == ["system", *["user", "assistant"] * 3]
    assert messages[2]["content"] == GARBLED
    assert "PARSE_ERR" in messages[3]["content"]
    assert messages[4]["content"] == 'Let me see.\n<tool_call>\n{"name": "get_hours", "arguments": {bad}\n</tool_call>'
    assert messages[6]["content"] == "I cannot."


def test_sharegpt_speakers_alternate_and_calls_are_as_written(recording: Path) -> None:
    (row, _) = exported(recording, "share.jsonl", "--format", "sharegpt")
    first, *turns = row["conversations"]
    assert first["from"] == "system"
    assert first["value"].startswith('<tools>\n{"type":"function"')
    assert {one["from"] for one in turns[::2]} <= {"human", "tool"}
    assert {one["from"] for one in turns[1::2]} == {"gpt"}
    assert turns[1]["value"].count("<tool_call>") == turns[2]["value"].count("<tool_response>") > 0


def tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ["<|pad|>", "<|im_start|>", "<|im_end|>"]
    tokens = special + sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, []))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<|pad|>", eos_token="<|im_end|>")
    fast.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    fast.chat_template = CHATML
    return fast


def tiny(tokens: Any, folder: Path) -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "head_dim": 8}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "pad_token_id": 0, "eos_token_id": 2}
    Qwen3ForCausalLM(Qwen3Config(vocab_size=len(tokens), **sizes, **heads)).save_pretrained(folder)
    return Qwen3ForCausalLM.from_pretrained(folder)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_trl_reads_sft_and_dpo_from_files(recording: Path, tmp_path: Path, ending: str) -> None:
    pytest.importorskip("trl", reason="needs pip install -e '.[train]'")
    from datasets import load_dataset
    from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

    reader = "json" if ending == "jsonl" else "parquet"
    loaded = {}
    for kind in ("sft", "dpo"):
        out = tmp_path / f"{kind}.{ending}"
        assert exchange(["export", str(recording), str(out), "--format", kind]) == 0
        loaded[kind] = load_dataset(reader, data_files=str(out), split="train", cache_dir=str(tmp_path))
    tokens = tokenizer()
    common: dict[str, Any] = {"output_dir": str(tmp_path), "max_length": None, "report_to": [], "use_cpu": True}
    sft = SFTTrainer(
        tiny(tokens, tmp_path / "m"), SFTConfig(**common), train_dataset=loaded["sft"], processing_class=tokens
    )
    text = tokens.decode(sft.train_dataset[0]["input_ids"])
    original = loaded["sft"][0]
    assert text.startswith("<|im_start|>tools\nlook_calendar")
    assert original["messages"][1]["content"] in text
    results = [one["content"] for one in original["messages"] if one["role"] == "tool"]
    assert results
    assert all(result in text for result in results)
    assert original["reward"] == 1.0

    dpo = DPOTrainer(
        tiny(tokens, tmp_path / "m"), None, DPOConfig(**common), train_dataset=loaded["dpo"], processing_class=tokens
    )
    assert len(dpo.train_dataset) == 2
    row, pair = dpo.train_dataset[0], loaded["dpo"][0]
    assert (pair["reward_chosen"], pair["reward_rejected"]) == (1.0, 0.0)
    assert tokens.decode(row["prompt_ids"]).endswith("<|im_start|>assistant\n")
    assert tokens.decode(row["rejected_ids"]).startswith(GARBLED)
    assert pair["chosen"][-1]["content"] in tokens.decode(row["chosen_ids"])


def test_a_row_for_grpo_begins_an_episode_of_its_task_in_trls_environment(recording: Path) -> None:
    from toolorchestra.envs.bridges.trl import environment

    rows = exported(recording, "grpo.jsonl", "--format", "grpo")
    assert [(row["success"], row["episodes"]) for row in rows] == [(0.5, 2)] * 2
    game = environment(rows[0]["env"])()
    for row, episode in zip(rows, list(read_episodes(recording))[::2], strict=True):
        request = game.reset(**row)
        assert game.episode.task_id == episode.task_id
        assert episode.instruction in request


def test_a_table_of_parquet_holds_the_whole_record(recording: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pip install -e '.[train]'")
    out = recording.with_name("table.parquet")
    assert exchange(["export", str(recording), str(out), "--split", "train"]) == 0
    rows = parquet.read_table(out).to_pylist()
    kept = list(read_episodes(recording))
    assert [row["episode"].encode() for row in rows] == [one.to_json() for one in kept]
    assert [(row["outcome"], row["reward"]) for row in rows] == [(one.outcome, one.reward) for one in kept]
    assert [row["answer"] for row in rows] == [one.answer for one in kept]
    assert [row["calls"] for row in rows] == [len(list(one.calls)) for one in kept]


def test_each_of_several_agents_has_a_conversation_of_its_own(tmp_path: Path) -> None:
    env = CurrentAgentEnv(make_multiagent("MSARL-Math-v0", max_cycles=3))
    env.reset(seed=0)
    while env.episode.outcome is None:
        env.step("```python\nprint(2 ** 10)\n```")
    episode = env.episode
    found = list(formats.conversations([episode], make_env))  # type: ignore[arg-type]  # it needs no environment
    wrote = [agent for agent in episode.agents if any(turn.agent == agent for turn in episode.turns)]
    assert [one.agent for one in found] == wrote == ["reasoner", "helper"]
    for one in found:
        assert one.opening == episode.openings[one.agent]
        assert [m["content"] for m in one.messages] == [
            m["content"] for m in episode.history(one.agent)[: len(one.messages)]
        ]
    write_episodes(tmp_path / "e.jsonl", [episode])
    (row,) = exported(tmp_path / "e.jsonl", "helper.jsonl", "--format", "sft", "--agent", "helper", "--failed")
    assert row["agent"] == "helper"


def test_what_a_protocol_adds_and_a_call_that_ends_an_episode_are_kept() -> None:
    env = make_env("ParaManager-Math-v0", {})
    play_episode(env, SelfRefine(), seed=0)
    episode: Episode = env.unwrapped.episode  # type: ignore[attr-defined]
    (one,) = formats.conversations([episode], lambda _: env)
    assert "Budget left" in one.opening[1]["content"]
    assert one.turns[-1]["tool_calls"][0]["function"]["name"] == "final_answer"


def test_tools_that_messages_list_are_not_exported_again_and_calls_are_text() -> None:
    env = make_env(ENV, {"schemas": "short", "tool_view": 5})
    play_episode(env, OraclePolicy(), seed=0)
    (one,) = formats.conversations([env.unwrapped.episode], lambda _: env)  # type: ignore[attr-defined]
    assert not one.tools
    assert "Tools (" in one.opening[0]["content"]
    assert {message["role"] for message in one.turns} == {"assistant", "user"}
    assert all("<tool_call>" in message["content"] for message in one.turns if message["role"] == "assistant")


def test_options_of_the_recording_are_read_from_the_file_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "noisy.jsonl"
    command = ["rollout", ENV, "--episodes", "3", "--out", str(file), "--env-options", "tools", '["get_hours"]']
    assert main([*command, "--policy", "null"]) == 0
    (row, *_) = exported(file, "rows.jsonl", "--failed")
    assert [tool["function"]["name"] for tool in row["tools"]] == ["get_hours", "submit"]
    assert exchange(["export", str(file), str(tmp_path / "none.jsonl")]) == 2
    assert "nothing to export" in capsys.readouterr().err
    assert not (tmp_path / "none.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["{recording}", "a.txt"], "Give --format"),
        (["{recording}", "a.parquet", "--format", "openai"], "ends in .jsonl"),
        (["{recording}", "a.jsonl", "--format", "tau2"], "one of openai"),
        (["{recording}", "{recording}"], "is the recording itself"),
        (["{recording}", "a.jsonl", "--agent", "reasoner"], "Unknown agent 'reasoner'"),
        (["missing.jsonl", "a.jsonl"], "no recording missing.jsonl"),
        (["restaurant", "a.jsonl", "--format", "sft"], "is for a recording"),
        (["restaurant", "a.jsonl", "--failed"], "are for a recording"),
    ],
)
def test_what_does_not_fit_is_refused(
    recording: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exchange(["export", *(one.format(recording=recording) for one in arguments)]) == 2
    assert expected in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())


def test_pairs_are_made_of_the_best_and_the_worst_of_one_beginning() -> None:
    env = make_env(ENV, {"answer": "text"})
    task = env.unwrapped.source.tasks("train")[0].id  # type: ignore[attr-defined]
    played: list[Episode] = []
    for policy in (Scripted("No."), OraclePolicy(), Scripted("Never."), OraclePolicy(), OraclePolicy()):
        play_episode(env, policy, seed=0, options={"task_id": task})  # type: ignore[arg-type]
        played.append(env.unwrapped.episode)  # type: ignore[attr-defined]
    found = list(formats.conversations(played, lambda _: env))
    pairs = list(formats.dpo_rows(found))
    assert [row["rejected"][0]["content"] for row in pairs] == ["Never.", "No."]
    assert [(row["reward_chosen"], row["reward_rejected"]) for row in pairs] == [(1.0, 0.0)] * 2
    with pytest.raises(OptionError, match="nothing to export"):
        formats.write_rows(Path("never.jsonl"), formats.dpo_rows(found[:1]))
