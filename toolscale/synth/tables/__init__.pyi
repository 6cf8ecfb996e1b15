from .sqlite_file import read_sqlite as read_sqlite
