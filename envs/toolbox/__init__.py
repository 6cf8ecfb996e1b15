"""What every protocol can hand out to an orchestrator: at present, sandboxes for Python written by a model."""
