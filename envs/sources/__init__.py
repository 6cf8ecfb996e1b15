"""Sources of questions: where the tasks of an environment come from, beside domains and files.

The interface, domains, files and mixtures are in `toolorchestra.envs.task_source`::

    questions    tasks that are judged by their final answer, and sources of them
    public       public data sets of questions
    math/        generated mathematics        multihop/    questions about a synthetic encyclopaedia
    masbench/    problems whose depth, horizon, breadth, parallelism and robustness are set
"""

from typing import TYPE_CHECKING

from toolorchestra.toolscale.faces import lazy_face

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

__getattr__, __dir__ = lazy_face(__name__, __all__, _MODULES)
