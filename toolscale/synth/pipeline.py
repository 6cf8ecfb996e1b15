"""Synthesis of a domain's YAML by a model, from a title; `build_domain` then makes the domain of it.

Every answer is stored in ``answers.jsonl`` of the domain's folder at once, and the domain depends on the answers only:
a run that ended early continues where it was, and ends with the same bytes as one that did not.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.writing import make_folder, write_whole
from toolorchestra.toolscale.requests.filters import EXAMPLES, FilterResult, Stage
from toolorchestra.toolscale.synth.answer_store import AnswerStore, Model
from toolorchestra.toolscale.synth.draft import DomainDraft, check_untouched
from toolorchestra.toolscale.synth.model_queries import ModelQueries, QuerySettings, StageCount
from toolorchestra.toolscale.synth.sizes import Sizes
from toolorchestra.toolscale.synth.stages import STAGES, Stages

ANSWERS = "answers.jsonl"
"""The file of a domain's folder that holds the model's answers."""
RECORD = "synth.json"
"""The file that says how a domain was synthesised."""


class StageRecord(msgspec.Struct, frozen=True):
    """What a stage took: the part of its `StageCount` that is the same in every run."""

    matters: int
    answers: int
    repaired: int
    dropped: int
    prompt_tokens: int
    completion_tokens: int
    cost: float

    @classmethod
    def of(cls, count: StageCount) -> StageRecord:
        """Return what a stage took: an answer is one, new or stored."""
        answers, tokens = count.answered + count.cached, (count.prompt_tokens, count.completion_tokens)
        return cls(count.matters, answers, count.repaired, count.dropped, *tokens, round(count.cost, 6))


class SynthesisRecord(msgspec.Struct, frozen=True):
    """What ``synth.json`` says.

    Attributes:
        title: The title given.
        model: The model's name.
        sizes: How much of each part was requested.
        stages: What each stage took.
        remarks: What was dropped and why, and objections that remain, by stage and matter.
    """

    title: str
    model: str
    sizes: Sizes
    stages: dict[str, StageRecord]
    remarks: dict[str, str]


def synthesise(
    folder: Path,
    title: str,
    model: Model,
    *,
    today: str = "2025-07-23",
    sizes: Sizes | None = None,
    settings: QuerySettings | None = None,
    watch: Callable[[Sequence[StageCount]], object] = lambda counts: None,
) -> SynthesisRecord:
    """Write the YAML of a domain into `folder`, asking `model` for its parts.

    Args:
        folder: Where; its answers of earlier runs are used.
        title: What the domain is, e.g. "Public library".
        model: The model that answers.
        today: The date on which its tasks take place.
        sizes: How much of each part.
        settings: Sampling, repairs, budget.
        watch: Called with the counts of the stages whenever they change.

    Raises:
        OutputError: The folder cannot be written, or another run is at work on it.
        OptionError: The folder holds YAML that a person wrote or changed, or an option cannot be used.
        SynthesisError: An endpoint failed, the budget is spent, or a stage without which there is no domain had no
            valid answer. What was got so far is saved.
    """
    try:
        datetime.date.fromisoformat(today)
    except ValueError as error:
        raise OptionError(f"today: expected a date YYYY-MM-DD, found {today!r} ({error}).") from None
    sizes, settings = sizes or Sizes(), settings or QuerySettings()
    make_folder(folder)
    check_untouched(folder)
    draft = DomainDraft(" ".join(title.split()), today, settings.seed)
    with AnswerStore(folder / ANSWERS) as store, ModelQueries(model, store, settings, watch) as queries:
        stages = Stages(draft, queries, sizes)
        try:
            for stage in (stages.subjects, stages.schema, stages.records, stages.tools, stages.intents, stages.evolved):
                stage()
        finally:
            if draft.tables:
                draft.write(folder)
            counts = sorted(queries.counts, key=lambda count: STAGES.index(count.stage))
            records = {count.stage: StageRecord.of(count) for count in counts}
            record = SynthesisRecord(draft.title, model.name, sizes, records, dict(sorted(stages.remarks.items())))
            write_whole(folder / RECORD, msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
    return record


def report_stages(record: SynthesisRecord) -> list[Stage]:
    """Return the stages of a synthesis as a report lists them: what had a valid answer, and what was given up."""
    stages = []
    for name, stage in record.stages.items():
        why = [f"{matter}: {text}" for matter, text in record.remarks.items() if matter.startswith(f"{name}/")]
        kept = stage.matters - stage.dropped
        stages.append(Stage(name, [FilterResult("no valid answer", kept, stage.dropped, why[:EXAMPLES])]))
    return stages
