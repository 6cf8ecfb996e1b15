from .central import call_centrally as call_centrally
from .executors import make_executor as make_executor
from .units import Executor as Executor, InProcess as InProcess, Unit as Unit, WorkerError as WorkerError
