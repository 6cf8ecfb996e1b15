"""Models too small to be right, with a tokenizer and a chat template, and the real servers that they are tested in."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import json
import os
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import until

from toolorchestra.agents import http_client

TEMPLATE = """\
{%- for tool in tools or [] %}<|im_start|>tool
{{ tool.function.name }}({{ tool.function.parameters.properties | join(', ') }})<|im_end|>
{% endfor %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}[{{ call.function.name }} {{ call.function.arguments | tojson }}]
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


CALLS = (
    ("<tool_call>", '\n{"name": "get_dish", ', '"arguments": {"dish": ', '"Soup"}}', "\n</tool_call>"),
    ("\n<tool_call>", '\n{"name":', ' "get_dish", "arguments": ', '{"dish": "Crème brûlée"}}\n', "</tool_call>"),
)
"""What the caller writes when it is given tools, a token each."""

PARSING = {
    "start_anchor": ["assistant\n", "assistant:\n"],
    "fields": {
        "tool_calls": {
            "open_pattern": r"\s*<tool_call>",
            "close": "</tool_call>",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close": "<|im_end|>", "content": "text"},
    },
}
"""How `transformers serve` finds calls in what it writes."""


def tokenizer(*texts: str, ascii_only: bool = False) -> Any:
    """A tokenizer of bytes and, whole, of the texts given."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ["<|pad|>", "<|im_start|>", "<|im_end|>"]
    letters = [letter for letter in sorted(pre_tokenizers.ByteLevel.alphabet()) if not ascii_only or letter < "\x7f"]
    letters += ["Ġ", "Ċ"] * ascii_only  # space and newline
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(special + letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<|pad|>", eos_token="<|im_end|>")
    fast.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    fast.add_tokens([AddedToken(text, normalized=False, special=False) for text in texts])
    fast.chat_template = TEMPLATE
    return fast


def random_model(tokenizer: Any, **config: Any) -> Any:
    """A random two-layer Qwen3."""
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'toolorchestra[train]'")
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "max_position_embeddings": 512,
    }
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            initializer_range=0.3,  # peaked enough that greedy choices do not hang on rounding
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            **(sizes | config),
        )
    )


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a random two-layer Qwen3 that reads and writes bytes."""
    pytest.importorskip("torch", reason="needs torch: pip install 'toolorchestra[train]'")
    folder = tmp_path_factory.mktemp("tiny-model")
    fast = tokenizer()
    fast.save_pretrained(folder)
    random_model(fast).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def caller_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model that makes two calls of get_dish when it is given tools.

    Without tools it writes at random, and goes on until it has reached its limit. Its tool calls are a chain of
    tokens, each of which makes the next one certain, in dimensions of the hidden state that nothing else uses.
    """
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'toolorchestra[train]'")
    folder = tmp_path_factory.mktemp("caller-model")
    chain = ["assistant\n", *CALLS[0], *CALLS[1]]
    fast = tokenizer(*chain, ascii_only=True)  # what it writes at random is valid UTF-8
    fast.chat_template = TEMPLATE.replace("assistant\n", "assistant{{ '' if tools else ':' }}\n")
    fast.response_template = PARSING
    ids = [*fast.convert_tokens_to_ids(chain), fast.eos_token_id]
    model = random_model(fast, hidden_size=64, head_dim=32, max_position_embeddings=32_768)
    free = slice(64 - len(chain), 64)
    with torch.no_grad():
        embeddings, head = model.model.embed_tokens.weight, model.lm_head.weight
        embeddings[:, free] = head[:, free] = 0
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight[free] = layer.mlp.down_proj.weight[free] = 0
        embeddings[ids[:-1]] = head[ids] = 0
        for place, (token, following) in enumerate(itertools.pairwise(ids), free.start):
            embeddings[token, place] = 1000
            head[following, place] = 10
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def require_serving() -> None:
    """Skip the test where `transformers serve` cannot run."""
    if not importlib.util.find_spec("fastapi") or not importlib.util.find_spec("uvicorn"):
        pytest.skip("needs a server: pip install 'transformers[serving]'")


@pytest.fixture(scope="session")
def serve(start: Callable[..., Any]) -> Callable[[Path], Any]:
    """Start `transformers serve` with the model of a folder, in a process of its own."""
    require_serving()
    # `transformers serve` itself imports its other commands too, and so more than the extra `serving` installs
    code = "import sys; from transformers.cli.serve import Serve; "
    code += "Serve(sys.argv[1], host='127.0.0.1', port=int(sys.argv[2]), device='cpu')"
    return lambda folder: start([sys.executable, "-c", code, str(folder), "{port}"])


@pytest.fixture(scope="session")
def served(caller_model: Path) -> Iterator[str]:
    """The address of `transformers serve` with the model that calls tools, in a thread of this process."""
    require_serving()
    from transformers.cli.serve import Serve

    running = Serve(str(caller_model), host="127.0.0.1", port=0, device="cpu", non_blocking=True)
    try:
        until(lambda: running.server.started, "the server to listen")
        address = f"http://127.0.0.1:{running.server.servers[0].sockets[0].getsockname()[1]}/v1"
        body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}
        asked = urllib.request.Request(f"{address}/chat/completions", json.dumps(body).encode())
        asked.add_header("Content-Type", "application/json")
        urllib.request.urlopen(asked).close()  # which starts its thread, which never ends
        yield address
    finally:
        running.kill_server()


@pytest.fixture
def put_forward(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let seconds pass for all requests, after they have read what they were sent until now."""
    loop = http_client._loop(os.getpid())
    clock, passed = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: clock() + passed)

    def put(seconds: float) -> None:
        nonlocal passed
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()
        passed += seconds
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()

    return put
