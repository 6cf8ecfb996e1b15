"""Generated mathematics: families of problems whose answers are computed.

source      draws problems of all families    sketch      what a family draws
algebra, counting, geometry, numbers          the families
"""

from typing import TYPE_CHECKING

from toolorchestra.toolscale.faces import lazy_face

if TYPE_CHECKING:
    from toolorchestra.envs.sources.math.source import MathSource, make_problems

__all__ = [
    "MathSource",
    "make_problems",
]
_MODULES = {
    "source": ("MathSource", "make_problems"),
}

__getattr__, __dir__ = lazy_face(__name__, __all__, _MODULES)
