"""The command `toolorchestra synth`, with a module for each of its subcommands.

commands       puts them together
domain         a domain, from YAML, from SQLite or with a language model
tasks          verified tasks of domains
preferences    preference pairs
adversarial    a robustness set
masbench       problems with controlled structure
select         training data from recorded episodes
model_options  the options of those that may query a language model
solvers        who plays tasks that are filtered
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
