"""Whether a domain's tasks are verified as they should be: mutants, detours, attacks on slots, exploits.

::

    verifier_mutations               changed effects must be rejected
    other_lookups, detours           other ways to the same end must be accepted
    verifier_attacks, slot_attacks   wrong answers must be rejected
    exploiter                        what pays without understanding
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
