"""What every protocol can hand out to an orchestrator: experts, search, Python, and the sandboxes that it runs in."""
