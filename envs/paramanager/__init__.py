"""Parallel orchestration of sub-agents and tools (ParaManager): rounds of up to four calls, a budget, four rewards."""
