"""Environment ids: ``{Protocol}-{Source}-v0``, registered with Gymnasium when `toolorchestra` is imported.

Registering imports neither the environments nor their tasks: an entry point is a string until `gymnasium.make`
follows it.
"""

from __future__ import annotations

from pathlib import Path

import gymnasium

_DOMAINS = Path(__file__).parent.parent / "toolscale" / "domains"
_ENTRY_POINT = "toolorchestra.envs.toolorchestra:ToolOrchestraEnv"


def register_all() -> None:
    """Register every environment of the library (again is harmless)."""
    sources = [path.parent.name.title().replace("_", "") for path in sorted(_DOMAINS.glob("*/domain.yaml"))]
    for source in [*sources, "All", "Math", "MultiHopQA"]:
        _register(f"ToolOrchestra-{source}-v0", {"source": source})
    _register("ToolOrchestra-Custom-v0", {})


def _register(env_id: str, kwargs: dict[str, str]) -> None:
    if env_id not in gymnasium.registry:
        # `check_environment` is the thorough checker, and the environment itself demands a reset before a step
        gymnasium.register(
            env_id, entry_point=_ENTRY_POINT, kwargs=kwargs, disable_env_checker=True, order_enforce=False
        )


def environment_ids() -> list[str]:
    """Return the ids of all environments of the library that come with tasks."""
    return sorted(
        env_id
        for env_id, spec in gymnasium.registry.items()
        if str(spec.entry_point).startswith("toolorchestra.") and "-Custom-" not in env_id
    )
