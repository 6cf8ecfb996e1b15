from .database.database import Database as Database
from .domain import SPLITS as SPLITS, Domain as Domain
from .domain_folder import (
    build_domain as build_domain,
    builtin_domains as builtin_domains,
    load_domain as load_domain,
    make_domain as make_domain,
)
from .tasks.session import Session as Session, Snapshot as Snapshot
from .tasks.task import Call as Call, Task as Task, read_tasks as read_tasks, write_tasks as write_tasks
from .tasks.verify import Verdict as Verdict, Verifier as Verifier
from .tools.guess import Guesser as Guesser
from .tools.tool import Status as Status, Tool as Tool, ToolContext as ToolContext, ToolResult as ToolResult
