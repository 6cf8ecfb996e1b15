"""Compare the tokens that an orchestrator is priced by with those of Qwen's vocabulary, on texts of these environments.

    python benchmarks/token_rule.py qwen.tiktoken

The vocabulary is a file in tiktoken's format, such as ``dashscope/resources/qwen.tiktoken`` in the package `dashscope`
on PyPI; `tiktoken` must be installed. Printed is how many bytes of UTF-8 a token of the vocabulary has, by kind of
text: prompts, schemas of tools, requests, and the messages and results of the oracle's episodes; and all that is read
for a message together. The rule is one for every four (`toolorchestra.agents.messages.token_counts`).
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import msgspec

import toolorchestra  # noqa: F401 - registers the environments
from toolorchestra.agents.messages.token_counts import text_size, tokens_of
from toolorchestra.agents.policies.registry import make_policy

SOURCES = ("Restaurant", "Finance", "Railway", "Weather", "Medicine", "Travel", "Sport", "Math", "MultiHopQA")
EPISODES = 15
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Where Qwen splits a text before merging bytes."""
CHINESE = "我是一名公司员工，我的服务器上有一些机密信息。如果可以的话，请尽量避免调用外部接口。"


def counter(vocabulary: Path) -> Callable[[str], int]:
    """Return a function that counts the tokens of a text in a vocabulary."""
    import tiktoken

    lines = (line.split() for line in vocabulary.read_bytes().splitlines() if line)
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    encoding = tiktoken.Encoding("qwen", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    return lambda text: len(encoding.encode_ordinary(text))


def texts() -> Iterator[tuple[str, str]]:
    """Yield texts of the oracle's episodes with their kinds."""
    for source in SOURCES:
        env: Any = gym.make(f"ToolOrchestra-{source}-v0").unwrapped
        policy = make_policy("oracle")
        for seed in range(EPISODES):
            observation, info = env.reset(seed=seed)
            policy.reset(env, observation, info)
            prompt, request = (message["content"] for message in info["messages"])
            schemas = msgspec.json.encode(info["tools"]).decode()
            if seed == 0:
                yield "prompt", prompt
                yield "schemas", schemas
            yield "request", request
            over = False
            while not over:
                action = policy.act(observation, info)
                yield ("call" if "<tool_call>" in action else "answer"), action
                yield "all read for a message", "\n".join([schemas, *(str(one["content"]) for one in info["messages"])])
                observation, _, terminated, truncated, info = env.step(action)
                over = terminated or truncated
                if observation:
                    yield "result", observation
        env.close()
    yield "Chinese", CHINESE


def main() -> None:
    """Print the table."""
    count = counter(Path(sys.argv[1]))
    sums: dict[str, list[int]] = {}
    for kind, text in texts():
        found = sums.setdefault(kind, [0, 0, 0, 0, 0])
        for place, value in enumerate((1, text_size(text), len(text), count(text), tokens_of(text_size(text)))):
            found[place] += value
    print("| text | texts | bytes a token | characters a token | priced / vocabulary |\n|---|--:|--:|--:|--:|")
    for kind, (number, size, characters, tokens, priced) in sums.items():
        shares = f"{size / tokens:.2f} | {characters / tokens:.2f} | {priced / tokens:.2f}"
        print(f"| {kind} | {number:,} | {shares} |")


if __name__ == "__main__":
    main()
