"""TRL alone, on the bike hire of `examples/bike_hire`: a tiny model learns from demonstrations, then from rewards.

    python -m examples.trl_grpo curve.json          # about ten minutes on one core

The demonstrations, for `SFTTrainer`, are half of them right; in the others the tools are not used, and nothing is
answered. `GRPOTrainer`, with no option but those of a tiny model, then has to find out which half is worth something.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import msgspec
import tyro
from tyro.conf import Positional, arg

import toolorchestra
from toolorchestra.agents.messages.reading import read_message
from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.registry import make_policy
from toolorchestra.envs.bridges.trl import ToolMethods

DOMAIN = str(Path(__file__).with_name("bike_hire"))
WORDS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")


def demonstrations(one: ToolMethods) -> list[list[dict[str, Any]]]:
    """Return conversations as TRL has them: for each task of train the reference calls, and an answer of nothing."""
    env: Any = gym.make("ToolOrchestra-Custom-v0", domain=DOMAIN).unwrapped
    found = []
    for task in env.source.tasks("train"):
        play_episode(env, make_policy("oracle"), options={"task_id": task.id})
        calls = [call for turn in env.episode.turns for call in read_message(turn.message).calls]
        right = [(call.name, msgspec.json.decode(call.arguments)) for call in calls]
        for said in (right, [("submit", {"answer": {}, "message": "I cannot help."})]):
            messages: list[dict[str, Any]] = [{"role": "user", "content": one.reset(task_id=task.id)}]
            for name, arguments in said:
                call = {"type": "function", "function": {"name": name, "arguments": arguments}}
                messages.append({"role": "assistant", "tool_calls": [call]})
                messages.append({"role": "tool", "name": name, "content": getattr(one, name)(**arguments)})
            found.append([*messages, {"role": "assistant", "content": "Done."}])
    return found


def tokenizer_of(texts: Callable[[Any], list[str]]) -> Any:
    """Return a tokenizer for what `texts` makes of its chat template; what all begin with is one token."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    written = texts(PreTrainedTokenizerFast(tokenizer_object=inner))
    shared = os.path.commonprefix(written)  # noqa: RUF071 - of texts
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1500, special_tokens=list(WORDS), initial_alphabet=alphabet, show_progress=False
    )
    inner.train_from_iterator([text[len(shared) :] for text in written], trainer)
    inner.add_tokens([AddedToken(text, special=False, normalized=False) for text in (*MARKS, shared)])
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=WORDS[2], pad_token=WORDS[0])


def tiny_model(tokenizer: Any) -> Any:
    """Return a random model of Qwen3's kind, of 0.7 million weights."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    shape = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 3, "head_dim": 32}
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4, "tie_word_embeddings": True}
    return Qwen3ForCausalLM(Qwen3Config(vocab_size=len(tokenizer), **shape, **heads, **ends))


def learned(sft_steps: int = 300, grpo_steps: int = 40) -> list[float]:
    """Return the mean reward of each step of GRPO, of 64 episodes."""
    import torch
    import trl
    from datasets import Dataset
    from transformers import set_seed
    from transformers.utils import get_json_schema

    torch.set_num_threads(1)
    set_seed(0)
    template = (Path(str(trl.__file__)).parent / "chat_templates" / "qwen3.jinja").read_text(encoding="utf-8")
    factory = toolorchestra.trl.environment(DOMAIN)
    one = factory()
    names = [name for name, _ in inspect.getmembers(type(one), inspect.isfunction) if not name.startswith("_")]
    tools = [get_json_schema(getattr(one, name)) for name in names if name not in ("reset", "get_reward")]
    shown = demonstrations(one)

    def texts(tokenizer: Any) -> list[str]:
        tokenizer.chat_template = template
        return [tokenizer.apply_chat_template(messages, tools=tools, tokenize=False) for messages in shown]

    tokenizer = tokenizer_of(texts)
    written = [{"text": text} for text in texts(tokenizer)]
    model = tiny_model(tokenizer)
    common: dict[str, Any] = {"report_to": "none", "save_strategy": "no", "use_cpu": True, "disable_tqdm": True}
    sft = trl.SFTConfig(
        output_dir="runs/trl",
        max_steps=sft_steps,
        per_device_train_batch_size=8,
        learning_rate=2e-3,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=10,
        max_length=None,
        **common,
    )
    trl.SFTTrainer(model, args=sft, processing_class=tokenizer, train_dataset=Dataset.from_list(written)).train()
    grpo = trl.GRPOConfig(
        output_dir="runs/trl",
        max_steps=grpo_steps,
        per_device_train_batch_size=64,
        num_generations=8,
        max_completion_length=512,
        max_tool_calling_iterations=8,
        learning_rate=1e-4,
        lr_scheduler_type="constant",
        logging_steps=1,
        **common,
    )
    trainer = trl.GRPOTrainer(
        model,
        reward_funcs=toolorchestra.trl.reward,
        args=grpo,
        processing_class=tokenizer,
        train_dataset=Dataset.from_list(factory.rows(64 * grpo_steps, split="train", difficulty=1)),
        environment_factory=factory,
    )
    trainer.train()
    return [log["reward"] for log in trainer.state.log_history if "reward" in log]


@dataclass
class Command:
    """Let a tiny model learn by TRL's trainers, and write the rewards of GRPO's steps."""

    file: Annotated[Positional[Path], arg(metavar="FILE")]
    """JSON file to write."""


if __name__ == "__main__":
    tyro.cli(Command).file.write_text(json.dumps(learned()), encoding="utf-8")
