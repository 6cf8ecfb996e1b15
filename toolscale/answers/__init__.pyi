from .answers import is_right as is_right
