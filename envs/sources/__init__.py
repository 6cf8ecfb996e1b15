"""Sources of questions: where the tasks of an environment come from, beside domains and files.

The interface, domains, files and mixtures are in `toolorchestra.envs.task_source`::

    questions    tasks that are judged by their final answer, and sources of them
    public       public data sets of questions
    math/        generated mathematics        multihop/    questions about a synthetic encyclopaedia
    masbench/    problems whose depth, horizon, breadth, parallelism and robustness are set
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolorchestra.envs.sources.public import load_public
    from toolorchestra.envs.sources.questions import QuestionSource, QuestionWorld, make_question, try_answers

__all__ = [
    "QuestionSource",
    "QuestionWorld",
    "load_public",
    "make_question",
    "try_answers",
]
_MODULES = {
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
