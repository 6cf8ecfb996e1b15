"""A model too small to be right, with a tokenizer and a chat template: what local chat models are tested on."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

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


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a random two-layer Qwen3 that reads and writes bytes."""
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'toolorchestra[train]'")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    special = ["<|pad|>", "<|im_start|>", "<|im_end|>"]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(special + letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<|pad|>", eos_token="<|im_end|>")
    fast.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    fast.chat_template = TEMPLATE
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(fast),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=16,
            max_position_embeddings=512,
            initializer_range=0.3,  # peaked enough that greedy choices do not hang on rounding
            pad_token_id=fast.pad_token_id,
            eos_token_id=fast.eos_token_id,
        )
    )
    folder = tmp_path_factory.mktemp("tiny-model")
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def served(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `transformers serve` with the tiny model, offline."""
    if not importlib.util.find_spec("fastapi") or not importlib.util.find_spec("uvicorn"):
        pytest.skip("needs a server: pip install 'transformers[serving]'")
    home = tmp_path_factory.mktemp("hub")
    (home / "hub").mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # `transformers serve` itself imports its other commands too, and so more than the extra `serving` installs
    code = "import sys; from transformers.cli.serve import Serve; "
    code += "Serve(sys.argv[1], host='127.0.0.1', port=int(sys.argv[2]), device='cpu')"
    command = [sys.executable, "-c", code, str(tiny_model), str(port)]
    offline = {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    log = home / "server.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(command, env=os.environ | offline, stdout=output, stderr=output) as process,
    ):
        try:
            for _ in range(600):
                if process.poll() is not None:
                    pytest.fail(f"the server ended: {log.read_text()[-2000:]}")
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
