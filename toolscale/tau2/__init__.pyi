from .world import Tau2Domain as Tau2Domain, load_tau2 as load_tau2
