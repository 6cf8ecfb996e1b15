"""Task sources: where an environment's tasks come from."""

from toolorchestra.envs.sources.base import (
    QUESTIONS,
    DomainSource,
    FileSource,
    MixtureSource,
    TaskSource,
    make_source,
    question_source,
)

__all__ = [
    "QUESTIONS",
    "DomainSource",
    "FileSource",
    "MixtureSource",
    "TaskSource",
    "make_source",
    "question_source",
]
