"""Synthesis: domains written by rule from a SQLite file, or by a language model from a title.

Whatever the way, what comes out is the YAML that a person would write; `toolorchestra.toolscale.domain_folder` builds
it. ``docs/synth.md`` and ``docs/from_sqlite.md`` tell how.

    pipeline, stages, table_filler     a domain from a title: the whole, its stages, records
    model_queries, answer_store        asking the model, with repairs; keeping its answers
    prompts, answer_checks, draft      what is asked, what may be answered, what is settled so far
    preference_generation              preferences between tools, written and judged by models
    from_sqlite                        a domain from a SQLite file
    sqlite_file, schema_analysis       reading the file; finding keys, references and kinds of columns
    foreign_keys, values, tables       (their parts)
    derive, *_tools, *_requests        the tools and requests derived from tables
    naming, recipes, sampling          words for names, recipes for columns, records like those found
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolorchestra.toolscale.faces import lazy_face

if TYPE_CHECKING:
    from toolorchestra.toolscale.synth.answer_store import AnswerStore, ModelAnswer, ModelQuestion, RecordedModel
    from toolorchestra.toolscale.synth.from_sqlite import domain_from_sqlite
    from toolorchestra.toolscale.synth.model_queries import QuerySettings
    from toolorchestra.toolscale.synth.pipeline import SynthesisRecord, synthesise
    from toolorchestra.toolscale.synth.stages import Sizes

_MODULES = {
    "answer_store": ("AnswerStore", "ModelAnswer", "ModelQuestion", "RecordedModel"),
    "from_sqlite": ("domain_from_sqlite",),
    "model_queries": ("QuerySettings",),
    "pipeline": ("SynthesisRecord", "synthesise"),
    "stages": ("Sizes",),
}

__all__ = [
    "AnswerStore",
    "ModelAnswer",
    "ModelQuestion",
    "QuerySettings",
    "RecordedModel",
    "Sizes",
    "SynthesisRecord",
    "domain_from_sqlite",
    "synthesise",
]

__getattr__, __dir__ = lazy_face(__name__, __all__, _MODULES)
