"""MASBench: problems whose depth, horizon, breadth, parallelism and robustness are set one by one.

graph                       a problem: the dependency graph of its sub-tasks, from which everything else follows
drafts, naming, components  which sub-task needs which, what they are called, and their numbers
generate, mistakes          a whole instance, its adversarial notes and likely mistakes
text, vocabulary            the sentences, and the words in them
solver, dataset_check       answers from the text alone, and a check of many instances by them
tasks, world, source, sets  instances as tasks, their verdict, task sources and named sets
rows, figure                the public data set; a graph as a picture
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
