"""Judging answers: what a user must be told, and whether an answer tells it.

    facts        expected.py     what must be stated, kinds of facts, and what would be wrong in their place
                 rivals.py       rivals of facts: what other tasks of an intent have in their place
    answers      statements.py   an answer as statements: sentences, negations, doubts (cues.yaml)
                 judge.py        the judgement
                 unsettled.py    facts of which the rules cannot say whether an answer states them
    attacks      attacks.py      answers that must not be right, and right ones in other words

Rules judge; no model is needed. Not covered: whether prose is pleasant, facts that no kind fits, and typed answers
(`toolorchestra.toolscale.typed_answers`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
