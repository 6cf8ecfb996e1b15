"""How many ids a model can read, its context, and so how long the rows of a run may be.

Without `max_ids` a row is as long as the learner's default says, and never longer than the context of any of the run's
models: positions beyond it were not learnt, or are not there at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from toolorchestra.agents.builtin.model import BUILTIN_CONTEXT, adapter_base
from toolorchestra.agents.hub import ADAPTER_CONFIG, load_pretrained
from toolorchestra.algos.options.options import LearnerOptions, TrainOptions
from toolorchestra.toolscale.common.errors import OptionError

PROMPTS = 8
"""Prompts that are looked at before a training."""


def context_of(config: Any) -> int | None:
    """Return how many ids a model reads, by its configuration of transformers; None if nothing bounds them there.

    Where positions are stretched (YaRN), it is what they are stretched to.
    """
    text = config.get_text_config()
    found = getattr(text, "max_position_embeddings", None) or getattr(text, "n_positions", None)
    if not isinstance(found, int) or found < 1:
        return None
    scaling = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    if "original_max_position_embeddings" in scaling and isinstance(scaling.get("factor"), int | float):
        return max(found, int(scaling["original_max_position_embeddings"] * scaling["factor"]))
    return found


def longest_row(options: LearnerOptions, contexts: Iterable[int | None]) -> int:
    """Return the maximum of ids of a row of a run, given the contexts of its models.

    Raises:
        OptionError: The option `max_ids` is above one of them.
    """
    context = min((one for one in contexts if one is not None), default=None)
    if context is None:
        return options.longest
    asked: int | None = getattr(options, "max_ids", None)
    if asked is not None and asked > context:
        raise OptionError(
            f"`max_ids` must be at most {context:,}, which is all that the model can read, got {asked:,}. Lower it, "
            "leave it out, or take a model with a longer context."
        )
    return min(options.longest, context)


def model_sources(config: LearnerOptions) -> list[str | None]:
    """Return the folder or hub name of each policy's model; None for a built-in one."""
    start = getattr(config, "start", None)
    if config.several_agents:
        team: Any = config
        env = team.make_env()
        names = team.policies(env)
        env.close()
        if start:
            return [_base(start / name) for name in names]
        return [None if config.small else team.model_of(name) for name in names]
    given = [*(getattr(config, "models", None) or {}).values(), getattr(config, "model", None)]
    return [_base(start)] if start else [name for name in given if name] or [None]


def _base(folder: Path) -> str:
    return adapter_base(folder) if (folder / ADAPTER_CONFIG).is_file() else str(folder)


def require_context(config: TrainOptions) -> None:
    """Check before anything is made that the models of a run can read rows as long as it asks for.

    Raises:
        OptionError: They cannot.
    """
    if config.max_ids is not None:
        configs = (None if one is None else load_pretrained("AutoConfig", one) for one in model_sources(config))
        longest_row(config, [BUILTIN_CONTEXT if one is None else context_of(one) for one in configs])


def require_room(lengths: Iterable[tuple[str, int]], max_ids: int) -> None:
    """Check that prompts, given as pairs of a task and its length in ids, leave room for an answer.

    Raises:
        OptionError: One of them does not.
    """
    for task, length in lengths:
        if length >= max_ids:
            raise OptionError(
                f"The prompt of {task} has {length:,} ids, and an episode may have {max_ids:,}, so that there is no "
                "room for an answer. Give a larger `max_ids`, if the model can read more, fewer tools, or a model with "
                "a longer context."
            )


def require_readable(rows: Iterable[Sequence[int]], model: Any) -> None:
    """Check that a model can read rows of ids.

    Raises:
        OptionError: One of them is longer than its context.
    """
    context, longest = context_of(model.config), max(map(len, rows), default=0)
    if context is not None and longest > context:
        raise OptionError(
            f"The longest demonstration has {longest:,} ids, and the model can read {context:,}. Leave long ones out, "
            "or take a model with a longer context."
        )
