"""Worlds: tools, databases, domains, tasks and their verification. Imports nothing else of the library."""
