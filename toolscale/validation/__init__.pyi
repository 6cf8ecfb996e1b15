from .exploiter import try_exploits as try_exploits
from .verifier_attacks import try_attacks as try_attacks
from .verifier_mutations import try_verifier as try_verifier
