from .advantages import group_advantages as group_advantages
