"""ParaManager's prompt and the descriptions of its tools; the texts are in `prompts.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolorchestra.toolscale.common.yaml_reader import read_yaml

TEXTS: dict[str, Any] = read_yaml(Path(__file__).with_suffix(".yaml"))
"""What the orchestrator and the sub-agents are shown, by name; ``descriptions`` are those of the sub-agents."""


def orchestrator_prompt(
    *,
    max_calls: int,
    rounds: int,
    models: Mapping[str, str],
    rules: str,
    strategies: bool = True,
    own_answer: bool = False,
) -> str:
    """Return the system prompt.

    `rounds` are the messages allowed, `max_calls` the calls in each. `models` are descriptions by name; the first is
    the default. `rules` is what must be known of the place. `strategies` are the paper's, with its hint on escaping;
    `own_answer` says that the orchestrator's own conclusion is the answer.
    """
    several = max_calls > 1
    listed = TEXTS["strategies"].format(at_once=" in one round" if several else "") if strategies else ""
    prompt = TEXTS["orchestrator"].format(
        calls=f"one to {max_calls} calls, which run at the same time" if several else "one call",
        form="\n".join([TEXTS["call"]] * min(2, max_calls)),
        rounds=rounds,
        conclusion=TEXTS["own_answer" if own_answer else "one_vote"],
        strategies=listed,
        together=", and independent ones belong into one round" if several else "",
        default=next(iter(models)),
        models="\n".join(f"- {name}: {text}" if text else f"- {name}" for name, text in models.items()),
    )
    return f"{prompt}\n{rules}".strip()
