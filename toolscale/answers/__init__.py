"""What an answer says, and whether it is right.

::

    typed_answers, slot_facts        answers as values in slots
    prose_answers, mentions          answers as prose: everything to communicate is mentioned
    numerals, thoughts               numbers and thoughts in texts
    answers, math_verifier           answers to questions
    symbolic, symbolic_reader        what the calculator computes with
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
