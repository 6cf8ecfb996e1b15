"""Options of trainings: dataclasses that the command line and YAML files fill.

::

    options, one_agent,              of all learners, of those of one agent,
    several_agents                   and of those of several
    config_files                     from the command line and YAML files
    inputs                           whether what they name is there
    smoke, dry_run                   shrunk to seconds; what a run needs
    context                          what a model can read
    precision, optimizers            models and optimisers made of options
    model_card                       the card that a policy is saved with
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
