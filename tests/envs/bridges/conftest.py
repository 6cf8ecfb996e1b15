from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from toolorchestra.agents.policies.reference import OraclePolicy

ENV = "ToolOrchestra-Restaurant-v0"


@pytest.fixture(scope="package")
def reference() -> Any:
    """Return the messages of a reference trajectory, as text, and the reward that `gymnasium.make` gives for them."""
    made: dict[str, gym.Env[Any, Any]] = {}

    def played(seed: int, env_id: str = ENV, **options: Any) -> tuple[list[str], float]:
        env = made.setdefault(f"{env_id}{options}", gym.make(env_id, **options))
        policy = OraclePolicy()
        observation, info = env.reset(seed=seed)
        policy.reset(env, observation, info)
        messages: list[str] = []
        total, over = 0.0, False
        while not over:
            messages.append(str(policy.act(observation, info)))
            observation, reward, terminated, truncated, info = env.step(messages[-1])
            total, over = total + float(reward), terminated or truncated
        return messages, total

    return played


@pytest.fixture(scope="package")
def whole_words() -> Callable[..., Any]:
    """Make a tokenizer of a model of Qwen3's kind in which each of some texts is one token."""

    def make(texts: list[str], chat_template: str | None = None) -> Any:
        tokenizers = pytest.importorskip("tokenizers")
        from transformers import PreTrainedTokenizerFast

        words = ["<unk>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "assistant\n", *texts]
        model = tokenizers.models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>")
        inner = tokenizers.Tokenizer(model)
        inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
        inner.decoder = tokenizers.decoders.Fuse()
        inner.add_tokens([tokenizers.AddedToken(word, normalized=False) for word in words[1:]])
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=inner, eos_token="<|im_end|>", pad_token="<|endoftext|>", unk_token="<unk>"
        )
        if chat_template is None:
            folder = Path(str(pytest.importorskip("trl").__file__)).parent / "chat_templates"
            chat_template = (folder / "qwen3.jinja").read_text(encoding="utf-8")
        tokenizer.chat_template = chat_template
        return tokenizer

    return make
