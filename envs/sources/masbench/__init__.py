"""MASBench: problems whose depth, horizon, breadth, parallelism and robustness are set one by one.

graph                       a problem: the dependency graph of its sub-tasks, from which everything else follows
drafts, naming, components  which sub-task needs which, what they are called, and their numbers
generate, mistakes          a whole instance, its adversarial notes and likely mistakes
text, vocabulary            the sentences, and the words in them
solver, dataset_check       answers from the text alone, and a check of many instances by them
tasks, world, source, sets  instances as tasks, their verdict, task sources and named sets
rows, figure                the public data set; a graph as a picture
"""

from typing import TYPE_CHECKING

from toolorchestra.toolscale.faces import lazy_face

if TYPE_CHECKING:
    from toolorchestra.envs.sources.masbench.dataset_check import DatasetCheck, check_dataset
    from toolorchestra.envs.sources.masbench.generate import Instance, InstanceSettings, make_instance
    from toolorchestra.envs.sources.masbench.graph import Axes, Graph
    from toolorchestra.envs.sources.masbench.rows import load_masbench
    from toolorchestra.envs.sources.masbench.sets import named_set
    from toolorchestra.envs.sources.masbench.solver import solve
    from toolorchestra.envs.sources.masbench.source import MASBenchSource
    from toolorchestra.envs.sources.masbench.tasks import make_task
    from toolorchestra.envs.sources.masbench.world import MASBenchWorld

__all__ = [
    "Axes",
    "DatasetCheck",
    "Graph",
    "Instance",
    "InstanceSettings",
    "MASBenchSource",
    "MASBenchWorld",
    "check_dataset",
    "load_masbench",
    "make_instance",
    "make_task",
    "named_set",
    "solve",
]
_MODULES = {
    "dataset_check": ("DatasetCheck", "check_dataset"),
    "generate": ("Instance", "InstanceSettings", "make_instance"),
    "graph": ("Axes", "Graph"),
    "rows": ("load_masbench",),
    "sets": ("named_set",),
    "solver": ("solve",),
    "source": ("MASBenchSource",),
    "tasks": ("make_task",),
    "world": ("MASBenchWorld",),
}

__getattr__, __dir__ = lazy_face(__name__, __all__, _MODULES)
