from .session import Session as Session, Snapshot as Snapshot
from .task import Call as Call, Task as Task, read_tasks as read_tasks, write_tasks as write_tasks
from .verify import Verdict as Verdict, Verifier as Verifier
