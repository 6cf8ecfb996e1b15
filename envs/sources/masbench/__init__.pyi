from .dataset_check import DatasetCheck as DatasetCheck, check_dataset as check_dataset
from .generate import Instance as Instance, InstanceSettings as InstanceSettings, make_instance as make_instance
from .graph import Axes as Axes, Graph as Graph
from .rows import load_masbench as load_masbench
from .sets import named_set as named_set
from .solver import solve as solve
from .source import MASBenchSource as MASBenchSource
from .tasks import make_task as make_task
from .world import MASBenchWorld as MASBenchWorld
