from . import trl as trl
