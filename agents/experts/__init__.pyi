from .catalog import SUBJECTS as SUBJECTS, Catalog as Catalog
from .catalog_files import CatalogError as CatalogError
from .configurations import PriceSchedule as PriceSchedule, ToolConfiguration as ToolConfiguration
from .descriptions import (
    describe_by_model as describe_by_model,
    describe_by_rule as describe_by_rule,
    sample_tasks as sample_tasks,
)
from .evaluation import (
    AnswerRow as AnswerRow,
    ExpertEvaluation as ExpertEvaluation,
    ExpertTask as ExpertTask,
    ask as ask,
    graded_tasks as graded_tasks,
    read_answers as read_answers,
    read_tasks as read_tasks,
    simulate as simulate,
)
from .fit import Fit as Fit, plot_fit as plot_fit
from .fitting import fit_expert as fit_expert
from .simulated_chat import SimulatedChat as SimulatedChat
from .simulated_expert import SimulatedExpert as SimulatedExpert, Solution as Solution
from .specification import (
    BasicToolSpec as BasicToolSpec,
    Endpoint as Endpoint,
    ExpertSpec as ExpertSpec,
    Latency as Latency,
    Role as Role,
    Tokens as Tokens,
)
