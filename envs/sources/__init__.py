"""Task sources: where an environment's tasks come from.

base         the interface; domains, files of tasks, mixtures, and sources by name
questions    tasks that are judged by their final answer, and sources of them
public       public data sets of questions
math/        generated mathematics        multihop/    questions about a synthetic encyclopaedia
masbench/    problems whose depth, horizon, breadth, parallelism and robustness are set
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolorchestra.envs.sources.base import (
        QUESTIONS,
        DomainSource,
        FileSource,
        MixtureSource,
        TaskSource,
        make_source,
        question_source,
    )
    from toolorchestra.envs.sources.public import load_public
    from toolorchestra.envs.sources.questions import QuestionSource, QuestionWorld, make_question, try_answers

__all__ = [
    "QUESTIONS",
    "DomainSource",
    "FileSource",
    "MixtureSource",
    "QuestionSource",
    "QuestionWorld",
    "TaskSource",
    "load_public",
    "make_question",
    "make_source",
    "question_source",
    "try_answers",
]
_MODULES = {
    "base": (
        "QUESTIONS",
        "DomainSource",
        "FileSource",
        "MixtureSource",
        "TaskSource",
        "make_source",
        "question_source",
    ),
    "public": ("load_public",),
    "questions": ("QuestionSource", "QuestionWorld", "make_question", "try_answers"),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
