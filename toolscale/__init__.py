"""Worlds: domains with a database and tools, tasks in them, and their verification.

It imports nothing else of the library. Its modules, from the ground up:

    format, yaml_reader              the content of a domain's YAML, and reading it
    sql, build, database             the bounds of all SQL; making the initial database; reading it
    tool, sqltool, functions         what can be called: tools in general, made of SQL, made of Python
    tool_compiler                    tools checked against the database's schema
    session                          one episode's copy of the database
    task, intents                    tasks, and making them of a domain's intents
    net_changes, observed            what an episode has changed and seen
    answer_slots, typed_answers      answers as values in slots: which there are, and what is right in them
    prose_answers, mentions          answers as prose: everything to communicate is mentioned
    verify                           verification of an episode: its effects and its answer
    domain, domain_folder            all of this together, and domains in folders
    evolution, adversarial, generate more tasks: harder ones, attacked ones, tens of thousands
    filters                          are the tasks good,
    verifier_mutations,              and is their verification? By mutants,
    verifier_attacks                 and by detours and changed slots (slot_attacks)
    exploiter                        what pays without understanding, of what may be answered (answer_fillers)
    exchange, preferences            other formats; preferences between tools, in words and as a vector
    domain_statistics, domain_card   what a domain holds, as figures and as Markdown
    answers, math_verifier           what is the answer to a question, and is it right?
    symbolic, symbolic_reader        what the calculator computes with
    workers/                         units of work in several processes or on a Ray cluster
    synth/                           domains written by a model, or made of a SQLite file
    domains/                         the domains that come with the library
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
