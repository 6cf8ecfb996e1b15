"""How ``--help`` shows a learner's options: in groups, those that are rarely needed with ``--help-all`` only."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Annotated, Any

import tyro

GROUPS: Mapping[str, str] = {
    "model": "model models reasoner helper share sharing start lora_rank lora_alpha lora_targets template_options "
    "call_format",
    "environment and task": "env env_options source source_options difficulty kinds max_turns max_calls episodes "
    "general general_share general_min_score general_limit preference preference_text",
    "training": "seed steps",
    "rollout": "groups group_size paths interpretations temperature max_turn_ids max_ids filters "
    "min_std resample max_staleness open_at sampler server servers weight_sync",
    "evaluation": "eval_split eval_samples eval_tasks eval_every evaluate_only track_kl",
    "memory and hardware": "threads memory micro_batch gradient_checkpointing precision quantize shard in_flight "
    "vllm_gpu_memory_utilization dry_run",
    "output": "output save_every save_total_limit keep_rollouts resume",
    "command line": "config smoke help_all",
}
"""The options of each group, those of all learners together. Any other is of the training."""
_OTHERS = "training"


def group_of(option: str) -> str:
    """Return the group of an option.

    >>> group_of("max_ids"), group_of("learning_rate")
    ('rollout', 'training')
    """
    return next((group for group, names in GROUPS.items() if option in names.split()), _OTHERS)


def grouped(kind: type, hidden: set[str]) -> Any:
    """Return a class of which tyro prints the options of `kind`, which all have defaults, in groups, but `hidden` ones.

    Tyro makes a group of a class. Each of ours is the whole class, which has the texts, with other options suppressed.
    """
    fields, hints = dataclasses.fields(kind), typing.get_type_hints(kind, include_extras=True)
    body: dict[str, Any] = {"__module__": kind.__module__, "__post_init__": lambda _: None}
    for one in fields:
        if one.default_factory is not dataclasses.MISSING:
            body[one.name] = dataclasses.field(default_factory=one.default_factory)
    parts: list[tuple[str, Any]] = []
    for number, (group, listed) in enumerate(GROUPS.items()):
        shown = {one.name for one in fields if group_of(one.name) == group} - hidden
        if not shown:
            continue
        unprefixed, suppress = tyro.conf.arg(prefix_name=False), tyro.conf.Suppress
        types: dict[str, Any] = {
            one.name: Annotated[hints[one.name], unprefixed] if one.name in shown else suppress[hints[one.name]]
            for one in fields
        }
        part: Any = dataclasses.dataclass(type(kind.__name__, (kind,), {**body, "__annotations__": types}))
        order = [name for name in listed.split() if name in types]
        part.__dataclass_fields__ = {name: part.__dataclass_fields__[name] for name in dict.fromkeys([*order, *types])}
        parts.append((f"group_{number}", Annotated[part, tyro.conf.arg(name=group, help="")]))
    return dataclasses.make_dataclass(kind.__name__, parts)
