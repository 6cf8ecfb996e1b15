from .domain_card import card as card
from .exchange import export_tasks as export_tasks, import_tasks as import_tasks
