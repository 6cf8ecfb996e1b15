"""The oracle plays through every chat template that the installed TRL ships.

    python benchmarks/chat_templates.py             what works, by which form of calls
    python benchmarks/chat_templates.py --record    the same into benchmarks/results/chat_templates.json
    python benchmarks/tables.py                     the record into the documents

Each template gets a tokenizer of bytes that has the template's marks as tokens. What the oracle says is rendered, made
ids, decoded and read, and must earn what the oracle earns.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
from harness import cli, provenance, write

import toolorchestra  # noqa: F401 - registers the environments
from toolorchestra.agents.builtin.chat_template_renderer import ChatTemplateRenderer
from toolorchestra.agents.builtin.model import chat_renderer
from toolorchestra.algos.data.round_trip import oracle_reward
from toolorchestra.algos.options.smoke import tiny_tokenizer
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.toolscale.common.errors import OptionError

MARK = re.compile(r"<\|?/?[\w▁｜|]+\|?>|<｜[^<>｜]+｜>|\[/?[A-Z_]+\]|<\|\"\|>")
ENVIRONMENT = "ToolOrchestra-Restaurant-v0"


def templates() -> dict[str, Path]:
    """Return the files of TRL's templates by name."""
    found = importlib.util.find_spec("trl")
    assert found is not None
    assert found.origin is not None
    return {file.stem: file for file in sorted((Path(found.origin).parent / "chat_templates").glob("*.jinja"))}


def renderer_of(file: Path, tokenizer: Any) -> ChatTemplateRenderer:
    """Return the renderer of a template, with its marks as tokens of the tokenizer."""
    tokenizer.chat_template = file.read_text(encoding="utf-8")
    tokenizer.add_tokens(sorted(set(MARK.findall(tokenizer.chat_template))))
    tokenizer.bos_token = "<|endoftext|>"
    return chat_renderer(tokenizer)


def earned(env: Any, seed: int, renderer: ChatTemplateRenderer | None) -> tuple[float, list[Any]]:
    """Return what the oracle earns with its words as they are, or as they come back from a renderer, and its calls."""
    total = oracle_reward(env, EpisodeStart(seed), renderer)
    return total, [(call.name, call.arguments, str(call.status)) for call in env.unwrapped.episode.calls]


def described(file: Path, tokenizer: Any) -> tuple[dict[str, Any], ChatTemplateRenderer | None]:
    """Return what a template can do, as a row of the record, and its renderer if it has one."""
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            renderer = renderer_of(file, tokenizer)
        except OptionError as error:
            return {"works": False, "form": "", "why": str(error).split(":")[0]}, None
    swapped = tokenizer.chat_template != file.read_text(encoding="utf-8")
    row = {"works": not renderer.lost, "form": str(renderer.form), "why": renderer.lost or renderer.note}
    return row | ({"replaced": True} if swapped else {}), renderer


def main(tasks: int = 3, record: bool = False) -> bool:
    env, rows = gym.make(ENVIRONMENT), {}
    wanted = [earned(env, seed, None) for seed in range(tasks)]
    for name, file in templates().items():
        rows[name], renderer = described(file, tiny_tokenizer())
        if renderer and rows[name]["works"]:
            rows[name]["works"] = [earned(env, seed, renderer) for seed in range(tasks)] == wanted
        print(name, rows[name], flush=True)
    print(f"{sum(row['works'] for row in rows.values())} of {len(rows)} work")
    if record:
        write("chat_templates", {"environment": ENVIRONMENT, "tasks": tasks, "templates": rows, **provenance()})
    return not all(row["works"] or row["why"] for row in rows.values())


if __name__ == "__main__":
    cli(main)
