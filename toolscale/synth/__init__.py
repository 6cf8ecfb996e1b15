"""Synthesis: domains written by rule from a SQLite file, or by a language model from a title.

In both cases the result is the YAML that a person would write; `toolorchestra.toolscale.domain_folder` builds it.
``docs/synth.md`` and ``docs/from_sqlite.md`` describe how.

Texts are data: ``prompts.yaml``, ``library_tools.yaml``, ``derived_tools.yaml``, ``derived_requests.yaml``.

    pipeline, stages, table_filler     a domain from a title: the whole, its stages, records
    sizes                              how much of each part is asked for
    model_queries, answer_store        asking the model, with repairs; keeping its answers
    answer_checks, draft               checks of answers, the parts of the domain so far
    preference_generation              preferences between tools, written and judged by models
    from_sqlite, name_question         a domain from a SQLite file, and a model's names for it
    tables/                            reading the file; finding keys, references and kinds of columns
    derived/                           the tools and requests derived from tables
    recipes                            recipes for columns
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
