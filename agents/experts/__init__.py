"""Experts: models that cost money, take time and err.

::

    Catalog ─ spec ──▶ ExpertSpec ──▶ SimulatedExpert ──▶ SimulatedChat
       │                                    ▲ fit_expert
       ├ configure, draw ──▶ ToolConfiguration      AnswerRow ◀── simulate, ask: ExpertEvaluation
       └ chat ──▶ the real model behind an entry                         └▶ describe_by_rule, describe_by_model

- `Catalog` lists experts and configurations; `SimulatedExpert` errs as an `ExpertSpec` says, and `SimulatedChat` puts
  it behind the chat protocol.
- `simulate` and `ask` evaluate experts on `ExpertTask`s, `fit_expert` fits a specification to the answers, and
  `describe_by_rule` and `describe_by_model` write descriptions.
"""

from toolorchestra.agents.experts.answer_rows import AnswerRow, read_answers
from toolorchestra.agents.experts.catalog import SUBJECTS, Catalog
from toolorchestra.agents.experts.catalog_files import CatalogError
from toolorchestra.agents.experts.configurations import PriceSchedule, ToolConfiguration
from toolorchestra.agents.experts.descriptions import describe_by_model, describe_by_rule, sample_tasks
from toolorchestra.agents.experts.evaluation import (
    ExpertEvaluation,
    ExpertTask,
    ask,
    graded_tasks,
    read_tasks,
    simulate,
)
from toolorchestra.agents.experts.fit import Fit
from toolorchestra.agents.experts.fit_plots import plot_fit
from toolorchestra.agents.experts.fitting import fit_expert
from toolorchestra.agents.experts.simulated_chat import SimulatedChat
from toolorchestra.agents.experts.simulated_expert import SimulatedExpert, Solution
from toolorchestra.agents.experts.specification import Endpoint, ExpertSpec, Latency, Role, Tokens

__all__ = [
    "SUBJECTS",
    "AnswerRow",
    "Catalog",
    "CatalogError",
    "Endpoint",
    "ExpertEvaluation",
    "ExpertSpec",
    "ExpertTask",
    "Fit",
    "Latency",
    "PriceSchedule",
    "Role",
    "SimulatedChat",
    "SimulatedExpert",
    "Solution",
    "Tokens",
    "ToolConfiguration",
    "ask",
    "describe_by_model",
    "describe_by_rule",
    "fit_expert",
    "graded_tasks",
    "plot_fit",
    "read_answers",
    "read_tasks",
    "sample_tasks",
    "simulate",
]


def __dir__() -> list[str]:
    return __all__
