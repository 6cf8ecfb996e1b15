from .export import write_page as write_page
from .index import EpisodeIndex as EpisodeIndex
from .pages import Answers as Answers
from .places import Places as Places
from .server import make_app as make_app, serve as serve
