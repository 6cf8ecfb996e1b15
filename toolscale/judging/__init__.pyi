from .attacks import Context as Context, attacks as attacks, rephrasings as rephrasings
from .expected import ExpectedAnswer as ExpectedAnswer, ExpectedFact as ExpectedFact, expected_answer as expected_answer
from .judge import judge_answer as judge_answer
from .rivals import RivalTable as RivalTable, with_rivals as with_rivals
from .unsettled import unsettled_facts as unsettled_facts
