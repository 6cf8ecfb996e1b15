from .driver_calls import call_in_driver as call_in_driver
from .executors import make_executor as make_executor
from .units import Executor as Executor, InProcess as InProcess, Unit as Unit, WorkerError as WorkerError
