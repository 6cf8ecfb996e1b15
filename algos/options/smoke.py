"""Toy sizes: any training run within seconds, without a hub or a GPU, by a model that knows nothing (`--smoke`).

What decides how a run is made stays as it is (its learner, protocol, loss, rates and settings); what decides how long
it takes is bounded, and data sets, real experts and sandboxes, which may not be there, are replaced by built-in ones.
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from toolorchestra.envs.registration import is_multiagent
from toolorchestra.envs.task_source import EXERCISES
from toolorchestra.toolscale.common.writing import whole_folder

if TYPE_CHECKING:
    from toolorchestra.algos.options.options import LearnerOptions

MAXIMA = {
    "steps": 2, "sft_steps": 20, "sft_batch": 4, "updates": 2, "groups": 2, "group_size": 2, "paths": 2,
    "interpretations": 2, "rounds": 1, "stage_steps": 1, "epochs": 1, "batch": 2, "minibatch": 2,
    "replays": 1, "max_turns": 2, "max_turn_ids": 16, "max_calls": 2, "general_limit": 20, "in_flight": 4,
    "eval_samples": 1, "eval_tasks": 1, "save_every": 1, "threads": 1,
}  # fmt: skip
"""The most that these options may be."""
FIXED: dict[str, Any] = {
    "filters": (), "resample": 0, "threshold": 0.0, "min_pairs": 1,  # or nothing of a random model's would be learnt
    "sampler": "hf", "weight_sync": "disk", "servers": {},  # there may be no server
}  # fmt: skip
"""Options that have these values."""
_FILES = ("preference", "tasks", "catalog")  # options of environments that may name a file

Options = TypeVar("Options", bound="LearnerOptions")


def shrink(config: Options) -> Options:
    """Return options at toy size, with a model made for them; see the module."""
    names = {field.name for field in fields(config)}
    output = config.output.with_name(f"{config.output.name}-smoke")
    changes: dict[str, Any] = {"output": output, **builtin_environment(config)}
    changes |= {name: value for name, value in FIXED.items() if name in names}
    for name in names & set(MAXIMA):
        given = getattr(config, "warm_steps" if name == "sft_steps" else name)
        changes[name] = MAXIMA[name] if given is None else min(given, MAXIMA[name])
    if "importance_cap" in names:
        changes["importance_cap"] = config.importance_limit  # type: ignore[attr-defined]  # of clipped ones
    if "episodes" in names and not is_multiagent(config.env):
        changes |= {"episodes": (), "difficulty": (1,)}  # oracles play all tasks of these levels
    if "general" in names:
        changes["general"] = tuple(filter(lambda file: Path(file).exists(), getattr(config, "general", ())))
    if given_models := [name for name in (*config.model_options, "helper") if getattr(config, name, None)]:
        model = str(make_tiny_model(output.with_name(f"{output.name}-model")))
        for name in given_models:
            value = getattr(config, name)
            changes[name] = dict.fromkeys(value, model) if isinstance(value, dict) else model
    return replace(config, **changes)


def builtin_environment(config: LearnerOptions) -> dict[str, Any]:
    """Return the environment and its options, with what may not be there replaced."""
    absent = {name for name in _FILES if name in config.env_options and not Path(config.env_options[name]).exists()}
    options = {name: text for name, text in config.env_options.items() if name not in {"experts", *absent}}
    options |= {name: "simulated" for name in ("python", "sandbox") if name in options}
    if config.env.startswith(("MSARL-", "TMATR-")):
        options["python"] = "simulated"
    if "preference" in absent:
        options["preference"] = '{"weights": {"outcome": 1.0, "compute": 0.5, "latency": 0.5}, "instruction": ""}'
    changes: dict[str, Any] = {"env_options": options}
    if config.source not in (None, *EXERCISES) or "tasks" in absent:
        from toolorchestra.envs.sources.public import DATASETS

        subject = DATASETS[config.source].subject if config.source in DATASETS else ""
        source = "MultiHopQA" if subject == "search" else "Math"
        changes |= {"env": config.env.replace("-Custom-", f"-{source}-"), "source": None, "source_options": {}}
    return changes


_TEMPLATE = """\
{%- if tools %}<|im_start|>system
# Tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
SIZES = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 16,
}  # fmt: skip


def make_tiny_model(folder: Path, *, seed: int = 0, **sizes: Any) -> Path:
    """Write a random model of Qwen3's kind, with a tokenizer and a chat template, into a folder and return it.

    `sizes` are those of `transformers.Qwen3Config`; by default it has about 150,000 parameters.
    """
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    tokenizer = tiny_tokenizer()
    settings = {"vocab_size": len(tokenizer), "max_position_embeddings": 65_536, **SIZES, **sizes}
    ends = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(Qwen3Config(**settings, **ends))
    with whole_folder(folder) as draft:
        tokenizer.save_pretrained(draft)
        model.save_pretrained(draft)
    return folder


def tiny_tokenizer() -> Any:
    """Return a tokenizer of 2,048 tokens: bytes, merged as in the library's prompts; and with a chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=2048, special_tokens=special, initial_alphabet=letters, show_progress=False
    )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    root = Path(__file__).parents[2]
    texts = sorted([*root.glob("envs/*/prompts.yaml"), *root.glob("toolscale/domains/*/tools.yaml")])
    tokenizer.train([str(file) for file in texts], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=special[0], eos_token=special[2])
    fast.chat_template = _TEMPLATE
    return fast
