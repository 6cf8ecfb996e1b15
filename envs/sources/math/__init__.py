"""Generated mathematics: families of problems whose answers are computed.

source      draws problems of all families    sketch      what a family draws
algebra, counting, geometry, numbers          the families
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolorchestra.envs.sources.math.source import MathSource, make_problems

__all__ = [
    "MathSource",
    "make_problems",
]
_MODULES = {
    "source": ("MathSource", "make_problems"),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
