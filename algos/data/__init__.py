"""What is learnt from: demonstrations, their augmentation and selection, and recordings of others.

::

    demonstrations, augmentation     episodes to learn from, as ids, and variants of them
    general_reasoning                reasoning that is no orchestration
    warm_start                       what a team learns from its teacher
    round_trip                       what comes back of a teacher's words through a chat template
    selection                        which episodes and tasks to learn from
    recording_formats, inspect_log   recordings as data sets of others, and logs of others as recordings
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
