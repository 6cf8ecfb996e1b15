from .history import history_for_server as history_for_server
