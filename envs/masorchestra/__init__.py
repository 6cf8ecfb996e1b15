"""Holistic orchestration (MAS-Orchestra): one decision designs a whole multi-agent system, which is then run."""
