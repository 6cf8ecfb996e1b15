"""Games of several agents that speak in turns: the general base, as PettingZoo environments.

`play` has the rules of such games with no environment around them, `base` the PettingZoo environment, `record` what is
kept of an episode, `single` the view of one agent as a Gymnasium environment, `registration` the ids. The games
themselves are packages of their own (`toolorchestra.envs.msarl`).
"""
