from .answer_store import (
    AnswerStore as AnswerStore,
    ModelAnswer as ModelAnswer,
    ModelQuestion as ModelQuestion,
    RecordedModel as RecordedModel,
)
from .from_sqlite import domain_from_sqlite as domain_from_sqlite
from .model_queries import QuerySettings as QuerySettings
from .pipeline import SynthesisRecord as SynthesisRecord, synthesise as synthesise
from .sizes import Sizes as Sizes
