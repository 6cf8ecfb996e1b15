"""The built-in model: a causal language model of about half a million parameters, made from scratch.

It is a laptop-sized stand-in for a real orchestrator that knows one environment's language only: a hybrid of short
convolutions and attention (`Lfm2Config`), which learns within minutes on a CPU to choose a field of a tool's reply and
copy its value (pure attention of this size does not), with the words of demonstrations, tools, parameters and the
database as its vocabulary. Training is in `toolorchestra.algos`.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from toolorchestra.agents.builtin.chat_template_renderer import ChatTemplateRenderer, end_ids_of, saved_options
from toolorchestra.agents.builtin.compact_renderer import CompactRenderer
from toolorchestra.agents.builtin.design_renderer import DesignRenderer
from toolorchestra.agents.builtin.renderer import SPECIAL, Renderer
from toolorchestra.agents.builtin.tool_messages import conclusion, proposed_call, read_result
from toolorchestra.agents.hub import ADAPTER_CONFIG, load_pretrained, split_revision
from toolorchestra.agents.messages.model_message import Message
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tasks.observed import shown_values

if TYPE_CHECKING:  # transformers takes seconds to import, and a learner's --help needs none of it
    from transformers import Lfm2ForCausalLM, PreTrainedTokenizerFast

BuiltinRenderer = CompactRenderer | DesignRenderer
"""The renderers of the built-in model."""
ADAPTER_BASE = "base_model"
"""Folder of a base that is stored nowhere else, in that of its adapter or beside those of several."""
LAYERS = ("conv", "full_attention")
BUILTIN_CONTEXT = 4096
"""Ids that a built-in model can read."""
_OFTEN = 5  # times that a number must stand in texts to be a token of its own


@dataclass(frozen=True)
class TokenPolicy:
    """A model, its tokenizer, and the renderer through which it plays."""

    model: Any
    tokenizer: Any
    renderer: Renderer

    @classmethod
    def built_in(cls, renderer: BuiltinRenderer, *, seed: int = 0) -> TokenPolicy:
        """Return an untrained built-in model for a renderer's vocabulary."""
        return cls(build_model(len(renderer.tokens), seed=seed), build_tokenizer(renderer), renderer)

    @classmethod
    def load(
        cls, path: str | Path, *, template_options: Mapping[str, Any] | None = None, **options: Any
    ) -> TokenPolicy:
        """Return a model from a folder or from the hub (``NAME`` or ``NAME@REVISION``).

        One that `save` wrote comes with its own renderer, or with the options of its chat template, unless other
        `template_options` are given. All end tokens of its generation config end a turn. The folder of an adapter is
        loaded with its base. `options` go to transformers; weights are of 32 bits unless they say otherwise.

        Raises:
            OptionError: There is no such model, or it cannot be loaded.
        """
        if (Path(path) / ADAPTER_CONFIG).is_file():
            from peft import PeftModel

            template_options = template_options or saved_options(Path(path))
            base = cls.load(adapter_base(Path(path)), template_options=template_options, **options)
            return replace(base, model=PeftModel.from_pretrained(base.model, str(path)).eval())
        model = load_pretrained("AutoModelForCausalLM", path, **{"dtype": torch.float32, **options})
        tokenizer = load_pretrained("AutoTokenizer", path)
        folder = Path(split_revision(path)[0])
        if (folder / "renderer.json").exists():
            return cls(model, tokenizer, load_renderer(folder))
        template_options = template_options or saved_options(folder)
        return cls(model, tokenizer, chat_renderer(tokenizer, template_options, end_ids_of(model)))

    def save(self, folder: Path, weights: Mapping[str, torch.Tensor] | None = None) -> None:
        """Write model, tokenizer and the built-in model's renderer into a folder that `load` reads.

        `weights` are those of a model that does not have them all itself, by name.
        """
        self.model.save_pretrained(folder, state_dict=weights)
        self.tokenizer.save_pretrained(folder)
        if isinstance(self.renderer, BuiltinRenderer):
            self.renderer.save(folder)
        elif isinstance(self.renderer, ChatTemplateRenderer):
            self.renderer.save_options(folder)


def adapter_base(folder: Path) -> str:
    """Return the base of an adapter: a folder beside it or in it, if it is saved there, else what its file names."""
    for place in (folder / ADAPTER_BASE, folder.parent / ADAPTER_BASE):
        if place.is_dir():
            return str(place)
    config = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    name, revision = config["base_model_name_or_path"], config.get("revision")
    return f"{name}@{revision}" if revision else str(name)


def load_renderer(folder: Path) -> BuiltinRenderer:
    """Return the built-in model's renderer that was saved in a folder."""
    kinds = json.loads((folder / "renderer.json").read_text(encoding="utf-8")).get("designs_of")
    return CompactRenderer.load(folder) if kinds is None else DesignRenderer(kinds)


def chat_renderer(
    tokenizer: Any, options: Mapping[str, Any] | None = None, end_ids: Iterable[int] = ()
) -> ChatTemplateRenderer:
    """Return the renderer of a tokenizer with a chat template; a template known to TRL is replaced where necessary.

    Templates such as Qwen3's drop earlier thoughts as a conversation grows; TRL has versions of them that do not. Any
    other template that is not prefix-preserving raises `OptionError`. What is not as the template has it is printed.
    """
    try:
        renderer = ChatTemplateRenderer(tokenizer, template_options=options, end_ids=end_ids)
    except OptionError as error:
        from trl.chat_template_utils import get_training_chat_template

        try:
            template = get_training_chat_template(tokenizer) if "prefix-preserving" in str(error) else None
        except ValueError:  # a template that it does not know
            template = None
        if template is None:
            raise
        tokenizer.chat_template = template
        renderer = ChatTemplateRenderer(tokenizer, template_options=options, end_ids=end_ids)
        _note("The chat template rewrites earlier turns: TRL's training template takes its place.")
    if renderer.note:
        _note(f"The chat template does not carry calls ({renderer.note}): they are text in <tool_call> blocks.")
    return renderer


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr, flush=True)


def build_model(
    vocabulary: int, *, seed: int = 0, hidden: int = 128, layers: Sequence[str] = LAYERS, heads: int = 4
) -> Lfm2ForCausalLM:
    """Return a freshly initialised model for a vocabulary of this size, `hidden` wide, with `heads` attention heads.

    Each of the `layers` is ``conv`` or ``full_attention``. The global random generator is left as it was.
    """
    from transformers import Lfm2Config, Lfm2ForCausalLM

    config = Lfm2Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        block_auto_adjust_ff_dim=False,
        num_hidden_layers=len(layers),
        layer_types=list(layers),
        num_attention_heads=heads,
        num_key_value_heads=heads,
        conv_L_cache=3,
        max_position_embeddings=BUILTIN_CONTEXT,
        pad_token_id=SPECIAL.index("<pad>"),
        bos_token_id=SPECIAL.index("<user>"),
        eos_token_id=SPECIAL.index("<end>"),
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Lfm2ForCausalLM(config)


def build_tokenizer(renderer: BuiltinRenderer) -> PreTrainedTokenizerFast:
    """Return the renderer's vocabulary as a Hugging Face tokenizer, which trainers need for padding and decoding."""
    from tokenizers import pre_tokenizers

    return word_level_tokenizer(renderer.index, pre_tokenizers.WhitespaceSplit())


def word_level_tokenizer(index: Mapping[str, int], cutter: Any, **options: Any) -> PreTrainedTokenizerFast:
    """Return a tokenizer with a token for each piece that `cutter` makes of a text, in a vocabulary with `SPECIAL`."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordLevel(dict(index), unk_token="<unk>"))
    core.pre_tokenizer = cutter
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "<end>", "bos_token": "<user>"}
    return PreTrainedTokenizerFast(tokenizer_object=core, **special, **options)


def build_renderer(
    tools: Iterable[Mapping[str, Any]], conversations: Iterable[Sequence[Message]], worlds: Iterable[Any] = ()
) -> CompactRenderer:
    """Return a vocabulary that covers conversations, tools (OpenAI function schemas) and the worlds' databases.

    Without a database, rare numbers and the answers of experts are spelt.
    """
    values: dict[str, set[Any]] = {}
    for world in worlds:
        for kind, members in database_values(world):
            values.setdefault(kind, set()).update(members)
    texts: list[str] = []
    shown: dict[str, set[Any]] = {}
    proposing = False
    for message in itertools.chain.from_iterable(conversations):
        if message["role"] == "tool":
            record = read_result(message)
            texts.append(str(record.get("error", "")))
            result = record.get("result")
            proposes = proposed_call(result) is not None
            proposing |= proposes
            if proposes or conclusion(result) is not result or (isinstance(result, str) and not values):
                continue  # from an expert
            for key, value in shown_values(result, "result"):
                texts.append(key.replace("_", " "))
                shown.setdefault(f"result.{key}", set()).add(value)
        elif message["role"] != "system":
            texts.append(message.get("content") or "")
    kinds = {**values, **{kind: shown[kind] for kind in sorted(shown)}}
    return CompactRenderer.build(tools, texts, kinds, min_number=1 if values else _OFTEN, follow=proposing)


def database_values(world: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yield ``(kind, values)`` for each column of a domain's database; a reference is of the kind it refers to."""
    database = getattr(world, "database", None)
    if database is None:
        return
    for table, definition in database.tables.items():
        for column, details in definition.columns.items():
            query = f'SELECT DISTINCT "{column}" FROM "{table}" WHERE "{column}" IS NOT NULL'
            rows = database.base.execute(query).fetchall()
            yield details.references or f"{table}.{column}", [row[0] for row in rows]


def prepare_torch(threads: int | None = None) -> None:
    """Set the threads of torch, by default the available cores up to 4, and silence progress bars and GPU advice."""
    from transformers.utils.logging import disable_progress_bar

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    torch.set_num_threads(threads or min(4, cores))
    disable_progress_bar()
    if not torch.cuda.is_available():  # the kernels that it recommends exist for GPUs only
        logging.getLogger("transformers.integrations.hub_kernels").addFilter(_no_gpu_advice)


def _no_gpu_advice(record: logging.LogRecord) -> bool:
    return "is falling back to its reference PyTorch implementation" not in record.getMessage()
