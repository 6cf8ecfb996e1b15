from .public import load_public as load_public
from .questions import (
    QuestionSource as QuestionSource,
    QuestionWorld as QuestionWorld,
    make_question as make_question,
    try_answers as try_answers,
)
