"""Model cards: what a folder of a policy, or of checkpoints, holds, and how it is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from toolorchestra import __version__
from toolorchestra.toolscale.common.yaml_reader import dump_yaml

if TYPE_CHECKING:
    from toolorchestra.algos.options.options import LearnerOptions

_BUILT_IN = (
    "It is toolorchestra's built-in model, a stand-in of about half a million parameters that was made from scratch. "
    "Its vocabulary is that of this environment: it knows no other language."
)


def card(config: LearnerOptions, phase: str, stage: str) -> str:
    """Return the model card of what a run made; `phase` is the learner's name, `stage` says which state this is."""
    options = ", ".join(f"`{name}={value}`" for name, value in config.env_options.items())
    levels = ", ".join(map(str, config.levels)) or "all"
    bases, origin = config.given_models(), _BUILT_IN
    if start := getattr(config, "start", None):
        origin = f"The run started from the policies in `{start}`."
    elif bases:
        origin = f"The run started from {' and '.join(f'`{base}`' for base in bases)}."
    head = {"library_name": "transformers", "pipeline_tag": "text-generation", "tags": ["toolorchestra", phase]}
    if hub := [base for base in bases if not Path(base).exists()]:
        head["base_model"] = hub
    return f"""---
{dump_yaml(head)}---

# {phase.upper()} on {config.env}

{stage} of `toolorchestra train {phase} --env {config.env}`, seed {config.seed}: a policy that orchestrates tools in
this environment{options and f" ({options})"}, trained on tasks of difficulty {levels}.

{origin}

```python
from toolorchestra.agents.builtin.model import TokenPolicy

policy = TokenPolicy.load(FOLDER)  # model, tokenizer and the renderer through which it plays
```

Made with toolorchestra {__version__}.
"""


def write_cards(folder: Path, config: LearnerOptions, phase: str, stage: str) -> None:
    """Write a model card beside every model and adapter in a folder."""
    for file in (*folder.rglob("config.json"), *folder.rglob("adapter_config.json")):
        (file.parent / "README.md").write_text(card(config, phase, stage), encoding="utf-8")
