"""Worlds: domains with a database and tools, tasks in them, and their verification.

It imports nothing else of the library. Its folders, from the ground up:

    common/          errors, files, texts, numbers
    database/        the YAML and the database of a domain, and the bounds of all SQL
    tools/           what can be called: tools in general, made of SQL, made of Python
    answers/         what an answer says, and whether it is right
    tasks/           tasks, one episode's copy of the database, and its verification
    domain           all of this together
    requests/        making tasks of a domain's intents, and wording them
    validation/      are the tasks verified as they should be? By mutants, detours, attacks, exploits
    evolution/       harder tasks, and tasks under attack
    domain_folder    domains in folders, built and loaded
    generate         tens of thousands of tasks
    preferences      preferences between tools, in words and as a vector
    export/          figures, cards, and the formats of other libraries
    synth/           domains written by a model, or made of a SQLite file
    workers/         units of work in several processes or on a Ray cluster
    domains/         the domains that come with the library
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
