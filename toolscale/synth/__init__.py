"""Synthesis: domains written by rule from a SQLite file, or by a language model from a title.

Whatever the way, what comes out is the YAML that a person would write; `toolorchestra.toolscale.domain` builds
it. ``docs/synth.md`` tells how.
"""
