"""toolorchestra: the Gymnasium for LLM orchestration."""

__version__ = "0.1.0"
