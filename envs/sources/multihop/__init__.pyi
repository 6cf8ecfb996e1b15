from .encyclopaedia import Encyclopaedia as Encyclopaedia
from .source import MultiHopQASource as MultiHopQASource, make_questions as make_questions
