from .database import Database as Database
from .domain import SPLITS as SPLITS, Domain as Domain
from .domain_folder import (
    build_domain as build_domain,
    builtin_domains as builtin_domains,
    load_domain as load_domain,
    make_domain as make_domain,
)
from .guess import Guesser as Guesser
from .session import Session as Session, Snapshot as Snapshot
from .task import Call as Call, Task as Task, read_tasks as read_tasks, write_tasks as write_tasks
from .tool import Status as Status, Tool as Tool, ToolContext as ToolContext, ToolResult as ToolResult
from .verify import Verdict as Verdict, Verifier as Verifier
