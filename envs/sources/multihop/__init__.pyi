from .source import MultiHopQASource as MultiHopQASource, make_questions as make_questions
