from .console import plain_table as plain_table, progress_bars as progress_bars, show as show
