from .report import RunLog as RunLog
