"""The page of `toolorchestra view`: recordings and training runs in a browser, served locally or as one file.

places       which recordings and runs there are at the given paths
index        where each episode is in its file, and what the list shows of it, in SQLite
facts        what an index keeps of an episode
filters      filters and orders of the list, as SQL
details      one episode with what is derived from it: criteria, design, decision tree, tokens
reference    what the task's reference trajectory does to the database, beside what the episode did
runs         metrics and recorded rollouts of training runs
server       the local server
export       the same page as one file
bundle       its modules as one script
static/      the page: ES modules and CSS, without a build step
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
