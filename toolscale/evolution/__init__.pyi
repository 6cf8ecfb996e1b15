from .evolution import evolve as evolve
