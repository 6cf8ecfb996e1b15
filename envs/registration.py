"""Environment ids: ``{Protocol}-{Source}-v0``, registered with Gymnasium when `toolorchestra` is imported.

Every protocol is registered with every source, and once as ``{Protocol}-Custom-v0`` for tasks or domains of your own.
Registering imports neither the environments nor their tasks: an entry point is a string until `gymnasium.make`
follows it.
"""

from __future__ import annotations

from pathlib import Path

import gymnasium

PROTOCOLS = {
    "ToolOrchestra": "toolorchestra.envs.toolorchestra.env:ToolOrchestraEnv",
    "ParaManager": "toolorchestra.envs.paramanager.env:ParaManagerEnv",
}
"""Environment class of each protocol."""
_AXES = ("Depth", "Horizon", "Breadth", "Parallel", "Robustness")
QUESTION_PROTOCOLS = {
    "MASOrchestra-Low": ("toolorchestra.envs.masorchestra.env:MASOrchestraEnv", {"dom": "low"}),
    "MASOrchestra-High": ("toolorchestra.envs.masorchestra.env:MASOrchestraEnv", {"dom": "high"}),
}
"""Environment class and arguments of each protocol that is about questions only."""
BEYOND_DOMAINS = ("All", "Math", "MultiHopQA", *(f"MASBench{axis}" for axis in _AXES))
"""Sources that are not one shipped domain."""
_DOMAINS = Path(__file__).parent.parent / "toolscale" / "domains"


def register_all() -> None:
    """Register every environment of the library (again is harmless)."""
    for protocol, entry_point in PROTOCOLS.items():
        for source in (*domain_sources(), *BEYOND_DOMAINS):
            _register(f"{protocol}-{source}-v0", entry_point, {"source": source})
        _register(f"{protocol}-Custom-v0", entry_point, {})
    for protocol, (entry_point, arguments) in QUESTION_PROTOCOLS.items():
        for source in BEYOND_DOMAINS[1:]:
            _register(f"{protocol}-{source}-v0", entry_point, {"source": source, **arguments})
        _register(f"{protocol}-Custom-v0", entry_point, arguments)


def domain_sources() -> list[str]:
    """Return the sources that are a shipped domain, by name."""
    return [path.parent.name.title().replace("_", "") for path in sorted(_DOMAINS.glob("*/domain.yaml"))]


def _register(env_id: str, entry_point: str, kwargs: dict[str, str]) -> None:
    if env_id not in gymnasium.registry:
        # `check_environment` is the thorough checker, and the environment itself demands a reset before a step
        gymnasium.register(
            env_id, entry_point=entry_point, kwargs=kwargs, disable_env_checker=True, order_enforce=False
        )


def environment_ids() -> list[str]:
    """Return the ids of all environments of the library that come with tasks."""
    return sorted(
        env_id
        for env_id, spec in gymnasium.registry.items()
        if str(spec.entry_point).startswith("toolorchestra.") and "-Custom-" not in env_id
    )
